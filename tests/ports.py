"""Ports for programs that must be told theirs before they start."""

import random
import socket

_BELOW_THE_SYSTEMS_OWN = range(20_000, 32_768)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody holds.

    They are not among those that the system itself hands out, to any program, until the one that is told them listens.
    """
    found: list[int] = []
    for port in random.sample(_BELOW_THE_SYSTEMS_OWN, len(_BELOW_THE_SYSTEMS_OWN)):
        if len(found) == count:
            return found
        try:
            with socket.create_server(("", port)):
                found.append(port)
        except OSError:  # another program holds it
            continue
    raise OSError(f"{count} free ports are not to be found")
