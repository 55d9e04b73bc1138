"""The hosts and replicas of a run, for every backend: what the environment variable TF_CONFIG says, and what contradicts it."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from nlpdata.errors import UsageError
from pretrain.settings.schema import RuntimeConfig

_log = logging.getLogger(__name__)


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


def report_unused_cluster(environment: Mapping[str, str]) -> None:
    """For distribution_strategy auto, which takes the devices of this host alone."""
    if environment.get("TF_CONFIG"):
        _log.info("TF_CONFIG is set, but runtime.distribution_strategy is auto: this process trains alone")


def refuse_replicas(runtime: RuntimeConfig) -> None:
    """UsageError where a strategy of one device is to have several replicas."""
    if (runtime.num_replicas or 1) > 1:
        raise UsageError(
            f"runtime.num_replicas is {runtime.num_replicas}, but distribution_strategy {runtime.distribution_strategy} uses "
            "one device. Use mirrored."
        )
