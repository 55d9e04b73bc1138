"""Hosts meet before a library connects them. Of a missing one TensorFlow would wait for ever, deaf to signals; JAX would abort."""

import contextlib
import socket
import time
from collections.abc import Iterator

from nlpdata.errors import DataError, UsageError
from nlpdata.execution.executor import duration
from pretrain.training.engines.cluster import Cluster

_ALL_HERE = b"all hosts are here"
_POLL_SECONDS = 0.5
_SILENT_SECONDS = 5.0  # of who has connected, and is not one of the hosts


def meet(cluster: Cluster, limit: float) -> None:
    """Returns when all hosts of a cluster are here: the first one listens at its address, and the others connect to it.

    Args:
      cluster: its addresses; that of the first host is free afterwards.
      limit: seconds (runtime.host_timeout).

    Raises DataError where a host is missing after that, UsageError where the first one cannot listen there.
    """
    end = time.monotonic() + limit
    if cluster.index == 0:
        _receive(cluster, limit, end)
    else:
        _come(cluster, limit, end)


def _receive(cluster: Cluster, limit: float, end: float) -> None:
    missing = set(range(1, len(cluster.hosts)))
    with _listening(cluster.hosts[0]) as server, contextlib.ExitStack() as opened:
        others = []
        while missing:
            if time.monotonic() > end:
                listed = ", ".join(f"{number} ({cluster.hosts[number]})" for number in sorted(missing))
                raise DataError(
                    f"of the hosts 0 to {len(cluster.hosts) - 1} of TF_CONFIG these have not come within {duration(limit)} "
                    f"(runtime.host_timeout): {listed}. Does each run this command, with its own index in TF_CONFIG, and can "
                    f"it reach {cluster.hosts[0]}? Run the command on all hosts again."
                )
            with contextlib.suppress(OSError):  # nobody yet, or somebody who has gone again
                connection = opened.enter_context(server.accept()[0])
                connection.settimeout(_SILENT_SECONDS)
                number = connection.recv(20)
                if number.isdigit() and int(number) in missing:
                    missing.remove(int(number))
                    others.append(connection)
        for connection in others:
            with contextlib.suppress(OSError):
                connection.sendall(_ALL_HERE)
        for connection in others:
            with contextlib.suppress(OSError):
                connection.recv(1)  # the other one closes first, so that the port is free at once


@contextlib.contextmanager
def _listening(address: str) -> Iterator[socket.socket]:
    try:
        port = int(address.rpartition(":")[2])
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        server = socket.create_server(("", port), family=family, dualstack_ipv6=both)
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(
            f"TF_CONFIG: the first host cannot listen at {address} ({error}). Give it a port that no other program uses."
        ) from None
    with server:
        server.settimeout(_POLL_SECONDS)
        yield server


def _come(cluster: Cluster, limit: float, end: float) -> None:
    host, _, port = cluster.hosts[0].rpartition(":")
    fault: Exception | str = "it has not answered"
    while time.monotonic() < end:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_SILENT_SECONDS) as connection:
                connection.sendall(str(cluster.index).encode())
                connection.settimeout(_POLL_SECONDS)
                answer = b""
                while time.monotonic() < end and answer != _ALL_HERE:
                    with contextlib.suppress(TimeoutError):
                        part = connection.recv(len(_ALL_HERE) - len(answer))
                        if not part:
                            break
                        answer += part
                if answer == _ALL_HERE:
                    return
                fault = "it has answered, and then ended"
        except (OSError, ValueError, OverflowError) as error:
            fault = error
        time.sleep(_POLL_SECONDS)
    raise DataError(
        f"host {cluster.index} of TF_CONFIG has not met all others at {cluster.hosts[0]}, the address of the first one, within "
        f"{duration(limit)} (runtime.host_timeout): {fault}. Do all hosts run this command, each with its own index? Run it "
        "on all hosts again."
    )
