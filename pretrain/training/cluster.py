"""The hosts of a run: what the environment variable TF_CONFIG says, for every backend."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from nlpdata.errors import UsageError


@dataclass(frozen=True)
class Cluster:
    """Addresses host:port of all hosts, the chief first, and this process's place among them."""

    hosts: list[str]
    index: int


def read_cluster(environment: Mapping[str, str]) -> Cluster:
    """The cluster in TF_CONFIG. UsageError where there is none, or it is damaged."""
    text = environment.get("TF_CONFIG", "")
    try:
        described = json.loads(text)
        chief, workers = described["cluster"].get("chief", []), described["cluster"]["worker"]
        task = described["task"]
        index = int(task["index"]) + (len(chief) if task["type"] == "worker" else 0)
        return Cluster([*chief, *workers], index)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            "distribution_strategy multi_worker_mirrored reads the cluster from the environment variable TF_CONFIG, e.g. "
            '{"cluster": {"worker": ["host1:12345", "host2:12345"]}, "task": {"type": "worker", "index": 0}}. '
            f"Received: {text[:200]!r}."
        ) from None
