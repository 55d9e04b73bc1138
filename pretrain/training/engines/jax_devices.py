"""Devices on JAX: from the runtime's configuration to a mesh, over which batches are cut."""

import atexit
import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from nlpdata.errors import DataError, UsageError
from pretrain.settings.schema import RuntimeConfig
from pretrain.training.engines.cluster import (
    chosen_strategy,
    count_replicas,
    read_cluster,
    refuse_unequal_hosts,
    report_unused_cluster,
    too_few_cpus,
)
from pretrain.training.engines.lost_hosts import leave_if_alone

_log = logging.getLogger(__name__)

AXIS = "data"


@dataclass(frozen=True)
class Devices:
    """A mesh of one axis, over the devices of all hosts, and this process's place: (index, count) of hosts."""

    mesh: Mesh
    host: tuple[int, int] = (0, 1)

    @property
    def count(self) -> int:
        return self.mesh.devices.size

    @property
    def platform(self) -> str:
        """cpu, gpu or tpu."""
        return self.mesh.devices.flat[0].platform

    @property
    def name(self) -> str:
        """For people: CPU, GPU (NVIDIA H200)."""
        return _name(self.mesh.devices.flat[0])

    def cut(self, axis: int = 0) -> NamedSharding:
        """The sharding of arrays that are cut over the devices along `axis`."""
        return NamedSharding(self.mesh, PartitionSpec(*[None] * axis, AXIS))

    def copied(self) -> NamedSharding:
        """The sharding of arrays that every device has whole."""
        return NamedSharding(self.mesh, PartitionSpec())


def find_devices(runtime: RuntimeConfig) -> Devices:
    """The devices that the configuration asks for.

    Must come before JAX does anything else where logical CPU devices or several hosts are asked for. Raises UsageError
    where there are fewer devices than asked for, DataError where no TPU can be reached.
    """
    return chosen_strategy(runtime, _STRATEGIES)


def _auto(runtime: RuntimeConfig) -> Devices:
    report_unused_cluster(os.environ)
    if (runtime.num_replicas or 1) > 1:
        return _mirrored(runtime)
    devices = jax.devices()
    if devices[0].platform != "cpu" and len(devices) > 1 and runtime.num_replicas is None:
        return _mirrored(runtime)
    return _one_device(runtime)


def _one_device(runtime: RuntimeConfig) -> Devices:
    device = jax.devices()[0]
    _log.info(f"devices: {'no GPU found, the CPU' if device.platform == 'cpu' else f'one {_name(device)}'}")
    return Devices(_mesh([device]))


def _mirrored(runtime: RuntimeConfig) -> Devices:
    if runtime.num_replicas:
        make_logical_cpus(runtime.num_replicas)
    devices = jax.devices()
    on_cpu = devices[0].platform == "cpu"
    wanted = count_replicas(
        runtime, 0 if on_cpu else len(devices), f"{devices[0].platform.upper()}s ({devices[0].device_kind})"
    )
    if wanted > len(devices) and _cpus_are_forced():
        raise UsageError(
            f"runtime.num_replicas is {wanted}, but XLA_FLAGS has --xla_force_host_platform_device_count={len(devices)}. Remove it "
            f"there, or use {len(devices)} or less."
        )
    if wanted > len(devices):
        raise too_few_cpus("JAX", wanted, len(devices))
    return Devices(_mesh(devices[:wanted]))


def make_logical_cpus(count: int) -> None:
    """Makes one CPU look like `count` devices, where JAX has not started."""
    try:
        if not _cpus_are_forced() and jax.config.jax_num_cpu_devices < count:
            jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        pass  # it has: the caller counts what is there


def _cpus_are_forced() -> bool:
    return "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")


def _multi_worker(runtime: RuntimeConfig) -> Devices:
    cluster = read_cluster(os.environ)
    if not jax.distributed.is_initialized():
        jax.distributed.initialize(cluster.hosts[0], num_processes=len(cluster.hosts), process_id=cluster.index)
        atexit.register(leave_if_alone)
    return _all_hosts()


def _all_hosts() -> Devices:
    devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    counts = Counter(device.process_index for device in devices)
    refuse_unequal_hosts([counts[host] for host in range(jax.process_count())])
    local = len(jax.local_devices())
    _log.info(f"devices: {len(devices)} {_name(devices[0])} of {jax.process_count()} hosts, {local} here")
    return Devices(_mesh(devices), (jax.process_index(), jax.process_count()))


def _tpu(runtime: RuntimeConfig) -> Devices:
    if jax.default_backend() != "tpu":
        raise DataError(
            f"no TPU can be reached at runtime.tpu = {runtime.tpu!r} (JAX finds {_name(jax.devices()[0])}). Run on the TPU's "
            "own host, with jax[tpu] installed; without a TPU use distribution_strategy mirrored or one_device."
        )
    return _all_hosts()


def _mesh(devices: Sequence[jax.Device]) -> Mesh:
    return Mesh(np.array(devices), (AXIS,))


def _name(device: jax.Device) -> str:
    return "CPU" if device.platform == "cpu" else f"{device.platform.upper()} ({device.device_kind})"


_STRATEGIES = {
    "auto": _auto,
    "off": _one_device,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker_mirrored": _multi_worker,
    "tpu": _tpu,
}
