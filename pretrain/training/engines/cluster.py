"""The hosts and replicas of a run, by one rule for every backend."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
        hosts = [*chief, *workers]
        if index not in range(len(hosts)):
            raise ValueError
        return Cluster(hosts, index)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            "distribution_strategy multi_worker_mirrored reads the cluster from the environment variable TF_CONFIG, e.g. "
            '{"cluster": {"worker": ["host1:12345", "host2:12345"]}, "task": {"type": "worker", "index": 0}}. '
            f"Received: {text[:200]!r}."
        ) from None


def has_several_hosts(runtime: RuntimeConfig) -> bool:
    """Whether a run is one of several hosts, each with the same command."""
    return runtime.distribution_strategy == "multi_worker_mirrored"


def is_chief(runtime: RuntimeConfig, environment: Mapping[str, str]) -> bool:
    """Whether this process is the one of its run that writes files. UsageError where TF_CONFIG is needed and damaged."""
    return not has_several_hosts(runtime) or read_cluster(environment).index == 0


def refuse_unequal_hosts(counts: Sequence[int]) -> None:
    """UsageError where the hosts of a run have different numbers of devices: batches are cut into equal parts."""
    if len(set(counts)) > 1:
        listed = ", ".join(f"host {host}: {count}" for host, count in enumerate(counts))
        raise UsageError(
            f"the hosts of TF_CONFIG have different numbers of devices ({listed}), and a batch is cut into equal parts. Let each "
            "use as many, e.g. with CUDA_VISIBLE_DEVICES."
        )


def chosen_strategy(runtime: RuntimeConfig, strategies: Mapping[str, Callable[[RuntimeConfig], Any]]) -> Any:
    """What the strategy named by runtime.distribution_strategy makes of the configuration. UsageError for another name."""
    name = runtime.distribution_strategy
    if name not in strategies:
        raise UsageError(f"runtime.distribution_strategy is {name!r}, expected one of {', '.join(sorted(strategies))}.")
    return strategies[name](runtime)


def report_unused_cluster(environment: Mapping[str, str]) -> None:
    """For distribution_strategy auto, which takes the devices of this host alone."""
    if environment.get("TF_CONFIG"):
        _log.info("TF_CONFIG is set, but runtime.distribution_strategy is auto: this process trains alone")


def count_replicas(runtime: RuntimeConfig, accelerators: int, kind: str) -> int:
    """Replicas of distribution_strategy mirrored: runtime.num_replicas, else one for each accelerator, else one.

    Args:
      runtime: section of the configuration.
      accelerators: number of accelerators on this host; 0: the replicas are logical CPU devices.
      kind: plural name of the accelerators, e.g. "GPUs".

    Raises UsageError where there are fewer accelerators than replicas.
    """
    wanted = runtime.num_replicas or accelerators or 1
    if accelerators and wanted > accelerators:
        raise UsageError(
            f"runtime.num_replicas is {wanted}, but there are {accelerators} {kind}. Use {accelerators} or less."
        )
    if accelerators:
        _log.info(f"devices: {wanted} of {accelerators} {kind}, mirrored")
    else:
        _log.info(f"devices: no GPU found; mirrored over {wanted} logical CPU device{'s' if wanted > 1 else ''}")
    return wanted


def too_few_cpus(framework: str, wanted: int, found: int) -> UsageError:
    """The error where a framework has started with fewer logical CPU devices than replicas are wanted."""
    return UsageError(
        f"runtime.num_replicas is {wanted}, but {framework} has already started with {found} logical CPU devices. Set it in a "
        "fresh process."
    )


def declared_replicas(runtime: RuntimeConfig) -> int:
    """Replicas as far as the configuration alone says them; 1 where the devices decide.

    UsageError where a strategy of one device is to have several.
    """
    strategy, replicas = runtime.distribution_strategy, runtime.num_replicas or 1
    if strategy in ("off", "one_device") and replicas > 1:
        raise UsageError(
            f"runtime.num_replicas is {replicas}, but distribution_strategy {strategy} uses one device. Use mirrored."
        )
    return replicas if strategy in ("auto", "mirrored") else 1
