"""Inputs that would never end: a device such as /dev/zero, a FIFO to which nobody writes. A command refuses them.

Whatever opens a file in this process, a library too, passes the interpreter's audit hook; so this is one place for all
inputs. Pipes that are open already (`<(zcat a.gz)`, standard input) are not asked.
"""

import logging
import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from nlpdata.errors import DataError

_log = logging.getLogger(__name__)

SECONDS = 10.0  # to wait for a writer
_SAYS_AFTER = 1.0
_OPEN_ALREADY = ("/dev/fd/", "/proc/", "/dev/std")
_ENDLESS = {os.makedev(1, minor) for minor in (5, 7, 8, 9)} if sys.platform == "linux" else set()

_guards, _installed = 0, False


@contextmanager
def guarded_inputs() -> Iterator[None]:
    """While it lasts, opening an endless input raises DataError."""
    global _guards, _installed
    if not _installed:
        sys.addaudithook(_hook)  # which cannot be removed
        _installed = True
    _guards += 1
    try:
        yield
    finally:
        _guards -= 1


def _hook(event: str, arguments: tuple) -> None:
    if event == "open" and _guards and isinstance(arguments[0], str | bytes):
        path, mode, flags = arguments
        if mode is None or set("wax+").isdisjoint(mode):
            _check(os.fsdecode(path), flags or 0)


def _check(path: str, flags: int) -> None:
    if path.startswith(_OPEN_ALREADY) or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)):
        return
    try:
        facts = os.stat(path)
    except (OSError, ValueError):  # who opens it reports that
        return
    if stat.S_ISCHR(facts.st_mode) and facts.st_rdev in _ENDLESS:
        raise DataError(f"{path}: is a device that never ends, not a file")
    if stat.S_ISFIFO(facts.st_mode):
        _wait_for_writer(path)


def _wait_for_writer(path: str) -> None:
    """Returns when something has come through a FIFO. DataError where nothing comes."""
    with suppress(OSError):
        # It stays open: closing it would end a writer before the one who asked has opened it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        poll: Any = select.poll()
        poll.register(descriptor, select.POLLIN)
        started, told = time.monotonic(), False
        while not poll.poll(200):
            waited = time.monotonic() - started
            if waited > SECONDS:
                os.close(descriptor)
                break
            if waited > _SAYS_AFTER and not told:
                _log.info(f"{path} is a FIFO; waiting for what is written to it")
                told = True
        else:
            return
    raise DataError(f"{path}: is a FIFO (a named pipe), and nothing was written to it in {SECONDS:.0f} seconds")
