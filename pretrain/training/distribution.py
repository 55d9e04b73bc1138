"""Devices: from the runtime's configuration to a tf.distribute strategy."""

import logging
import os
from dataclasses import dataclass

import tensorflow as tf

from nlpdata.errors import DataError, UsageError
from pretrain.settings.schema import RuntimeConfig
from pretrain.training.cluster import read_cluster, refuse_replicas, report_unused_cluster

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Distribution:
    """A strategy, and this process's place: (index, count) of hosts."""

    strategy: tf.distribute.Strategy
    host: tuple[int, int] = (0, 1)


def distribute(runtime: RuntimeConfig) -> Distribution:
    """The devices that the configuration asks for.

    Must come before TensorFlow does anything else where logical CPU devices, several hosts or a TPU are asked for.
    Raises UsageError where there are fewer devices than asked for.
    """
    kind = runtime.distribution_strategy
    if kind in _KINDS:
        return _KINDS[kind](runtime)
    raise UsageError(f"runtime.distribution_strategy is {kind!r}, expected one of {', '.join(sorted(_KINDS))}.")


def _auto(runtime) -> Distribution:
    gpus = len(tf.config.list_physical_devices("GPU"))
    report_unused_cluster(os.environ)
    if gpus > 1 or (runtime.num_replicas or 1) > 1:
        return _mirrored(runtime)
    return _one_device(runtime)


def _one_device(runtime) -> Distribution:
    refuse_replicas(runtime)
    _log.info(f"devices: {'one GPU' if tf.config.list_physical_devices('GPU') else 'no GPU found, the CPU'}")
    return Distribution(tf.distribute.get_strategy())


def _mirrored(runtime) -> Distribution:
    gpus = tf.config.list_physical_devices("GPU")
    wanted = runtime.num_replicas or len(gpus) or 1
    if gpus and wanted > len(gpus):
        raise UsageError(f"runtime.num_replicas is {wanted}, but there are {len(gpus)} GPUs. Use {len(gpus)} or less.")
    if gpus:
        _log.info(f"devices: {wanted} of {len(gpus)} GPUs, mirrored")
        return Distribution(tf.distribute.MirroredStrategy([f"/gpu:{i}" for i in range(wanted)]))
    _log.info(f"devices: no GPU found; mirrored over {wanted} logical CPU device{'s' if wanted > 1 else ''}")
    make_logical_cpus(wanted)
    return Distribution(tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(wanted)]))


def make_logical_cpus(count: int) -> None:
    """Makes one CPU look like `count` devices. UsageError where TensorFlow has started with fewer."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        made = tf.config.get_logical_device_configuration(cpu) or []
        if len(made) < count:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:
        there = len(tf.config.list_logical_devices("CPU"))
        if there < count:
            raise UsageError(
                f"runtime.num_replicas is {count}, but TensorFlow has already started with {there} logical CPU devices. "
                "Set it in a fresh process."
            ) from None


def _multi_worker(runtime) -> Distribution:
    cluster = read_cluster(os.environ)
    index, count = cluster.index, len(cluster.hosts)
    gpus = tf.config.list_physical_devices("GPU")
    implementation = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=implementation.NCCL if gpus else implementation.RING
    )
    _log.info(
        f"devices: host {index} of {count}, {len(gpus) or 'no'} GPU{'' if len(gpus) == 1 else 's'} here; waiting for all hosts"
    )
    return Distribution(tf.distribute.MultiWorkerMirroredStrategy(communication_options=options), (index, count))


def _tpu(runtime) -> Distribution:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(runtime.tpu or "")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        raise DataError(
            f"no TPU can be reached at runtime.tpu = {runtime.tpu!r} ({str(error)[:200]}). Run on the TPU's host with "
            "tpu: local, or give its name; without a TPU use distribution_strategy mirrored or one_device."
        ) from None
    _log.info(f"devices: TPU {runtime.tpu or 'of this environment'}")
    return Distribution(tf.distribute.TPUStrategy(resolver))


_KINDS = {
    "auto": _auto,
    "off": _one_device,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker_mirrored": _multi_worker,
    "tpu": _tpu,
}
