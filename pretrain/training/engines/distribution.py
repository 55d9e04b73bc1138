"""Devices: from the runtime's configuration to a tf.distribute strategy."""

import functools
import logging
import os
from dataclasses import dataclass

import tensorflow as tf

from nlpdata.errors import DataError
from pretrain.settings.schema import RuntimeConfig
from pretrain.training.engines.cluster import (
    chosen_strategy,
    count_replicas,
    read_cluster,
    report_unused_cluster,
    too_few_cpus,
)

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
    return chosen_strategy(runtime, _STRATEGIES)


def name_of(device: str) -> str:
    """TensorFlow's name of a device, for people: CPU, GPU (NVIDIA H200)."""
    kind = device.rpartition("device:")[2].partition(":")[0]
    gpus = tf.config.list_physical_devices("GPU") if kind == "GPU" else []
    model = tf.config.experimental.get_device_details(gpus[0]).get("device_name") if gpus else None
    return f"{kind} ({model})" if model else kind


def _auto(runtime: RuntimeConfig) -> Distribution:
    gpus = len(tf.config.list_physical_devices("GPU"))
    report_unused_cluster(os.environ)
    if gpus > 1 or (runtime.num_replicas or 1) > 1:
        return _mirrored(runtime)
    return _one_device(runtime)


def _one_device(runtime: RuntimeConfig) -> Distribution:
    _log.info(f"devices: {'one GPU' if tf.config.list_physical_devices('GPU') else 'no GPU found, the CPU'}")
    return Distribution(tf.distribute.get_strategy())


def _mirrored(runtime: RuntimeConfig) -> Distribution:
    gpus = tf.config.list_physical_devices("GPU")
    wanted = count_replicas(runtime, len(gpus), "GPUs")
    if not gpus:
        make_logical_cpus(wanted)
    return _mirror("gpu" if gpus else "cpu", wanted)


@functools.cache  # each strategy numbers its sums from one start: TensorFlow would take those of a deeper stage for these
def _mirror(kind: str, count: int) -> Distribution:
    return Distribution(tf.distribute.MirroredStrategy([f"/{kind}:{i}" for i in range(count)]))


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
            raise too_few_cpus("TensorFlow", count, there) from None


def _multi_worker(runtime: RuntimeConfig) -> Distribution:
    cluster = read_cluster(os.environ)
    return _join(cluster.index, len(cluster.hosts))


@functools.cache  # TensorFlow joins a cluster once in a process; the stages of a run have an engine each
def _join(index: int, count: int) -> Distribution:
    gpus = tf.config.list_physical_devices("GPU")
    implementation = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=implementation.NCCL if gpus else implementation.RING
    )
    _log.info(f"devices: {len(gpus) or 'no'} GPU{'' if len(gpus) == 1 else 's'} here, of {count} hosts")
    return Distribution(tf.distribute.MultiWorkerMirroredStrategy(communication_options=options), (index, count))


def _tpu(runtime: RuntimeConfig) -> Distribution:
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


_STRATEGIES = {
    "auto": _auto,
    "off": _one_device,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker_mirrored": _multi_worker,
    "tpu": _tpu,
}
