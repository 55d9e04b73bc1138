"""Hosts meet before a library connects them. Of a missing one TensorFlow would wait for ever, deaf to signals; JAX would abort.
Hosts that were started differently would wait for each other for ever, or train weights that drift apart."""

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from nlpdata.errors import DataError, UsageError
from nlpdata.execution.executor import duration
from pretrain.settings import tree
from pretrain.settings.schema import RuntimeConfig
from pretrain.training.engines.cluster import Cluster, has_several_hosts, read_cluster

_log = logging.getLogger(__name__)

_ALL_HERE, _DIFFER = "all hosts are here", "hosts differ: "  # how the first host answers
_END = b"\n"  # of what a host says: a line of JSON, or an answer
_MOST_BYTES = 1 << 24
_MOST_DIFFERENCES, _MOST_LETTERS = 4, 200  # in a message
_POLL_SECONDS = 0.5
_SILENT_SECONDS = 5.0  # of who has connected, and is not one of the hosts

_have_met = False


def meet_hosts(runtime: RuntimeConfig, facts: Mapping[str, Any]) -> None:
    """`meet` of the hosts of a run, once in a process, since a library connects them once. Nothing for a run on one host.

    Raises what `meet` raises, and UsageError where TF_CONFIG is damaged.
    """
    global _have_met
    if has_several_hosts(runtime) and not _have_met:
        cluster = read_cluster(os.environ)
        _log.info(f"devices: host {cluster.index} of {len(cluster.hosts)}; waiting for all hosts at {cluster.hosts[0]}")
        meet(cluster, runtime.host_timeout, facts)
        _have_met = True


def meet(cluster: Cluster, limit: float, facts: Mapping[str, Any]) -> None:
    """Returns when all hosts of a cluster are here: the first one listens at its address, and the others connect to it.

    Args:
      cluster: its addresses; that of the first host is free afterwards.
      limit: seconds (runtime.host_timeout).
      facts: what must be equal on all hosts, a tree in values of JSON.

    Raises DataError where a host is missing after that, UsageError where the first one cannot listen there, or facts differ.
    """
    end = time.monotonic() + limit
    if cluster.index == 0:
        _receive(cluster, limit, end, facts)
    else:
        _come(cluster, limit, end, facts)


def _receive(cluster: Cluster, limit: float, end: float, facts: Mapping[str, Any]) -> None:
    missing = set(range(1, len(cluster.hosts)))
    own, differences = json.loads(json.dumps(facts)), list[str]()
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
                number, theirs = _introduction(_line(connection, time.monotonic() + _SILENT_SECONDS))
                if number in missing:
                    missing.remove(number)
                    others.append(connection)
                    differences += [f"{each} (hosts 0, {number})" for each in tree.differences(own, theirs)]
                else:
                    connection.close()  # a host that was slow comes again
        answer = _DIFFER + _in_words(differences) if differences else _ALL_HERE
        for connection in others:
            with contextlib.suppress(OSError):
                connection.sendall(answer.encode() + _END)
        for connection in others:
            with contextlib.suppress(OSError):
                connection.recv(1)  # the other one closes first, so that the port is free at once
    _refuse_differences(answer)


def _line(connection: socket.socket, end: float) -> str:
    """What the other side says up to the end of a line, or until it ends, says too much, or is silent; "" of no line."""
    said = bytearray()
    while _END not in said and len(said) < _MOST_BYTES and (left := end - time.monotonic()) > 0:
        connection.settimeout(min(left, _POLL_SECONDS))
        with contextlib.suppress(TimeoutError):
            part = connection.recv(1 << 16)
            if not part:
                break
            said += part
    line, found, _ = said.partition(_END)
    return line.decode(errors="replace") if found else ""


def _introduction(line: str) -> tuple[int, dict]:
    """(index of a host, its facts) of what it says first; (-1, {}) of another line."""
    try:
        number, facts = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return -1, {}
    is_host = type(number) is int and isinstance(facts, dict)
    return (number, facts) if is_host else (-1, {})


def _in_words(differences: list[str]) -> str:
    more = len(differences) - _MOST_DIFFERENCES
    listed = [each[:_MOST_LETTERS] for each in differences[:_MOST_DIFFERENCES]]
    return "; ".join(listed) + (f"; and {more} more" if more > 0 else "")


def _refuse_differences(answer: str) -> None:
    if answer.startswith(_DIFFER):
        raise UsageError(
            f"the hosts of TF_CONFIG were not started alike: {answer.removeprefix(_DIFFER)}. Run the same command on all hosts, "
            "with the same records, packages, model_dir, devices and XLA_FLAGS."
        )


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


def _come(cluster: Cluster, limit: float, end: float, facts: Mapping[str, Any]) -> None:
    host, _, port = cluster.hosts[0].rpartition(":")
    own = json.dumps([cluster.index, dict(facts)]).encode() + _END
    fault: Exception | str = "it has not answered"
    while time.monotonic() < end:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_SILENT_SECONDS) as connection:
                connection.sendall(own)
                answer = _line(connection, end)
            _refuse_differences(answer)
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
