"""Interrupting a command at any of its file operations: the process ends there, or the operation fails."""

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

KILLED = 99  # exit code of a run that ended at the chosen operation

_OPERATIONS = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "fsync")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@contextmanager
def watched(interrupt: Callable[[int], None]) -> Iterator[list[int]]:
    """Calls `interrupt(number)` before each operation of the block that changes the disk: 0, 1, 2, ...

    Yields a list that holds the number of operations so far.
    """
    count = [0]

    def counted(function, changes=lambda *_, **__: True):
        def call(*arguments, **settings):
            if changes(*arguments, **settings):
                count[0] += 1
                interrupt(count[0] - 1)
            return function(*arguments, **settings)

        return call

    def opens_to_write(path, mode="r", *_, **__):
        return any(letter in mode for letter in "wax+")

    def with_writing_flag(path, flags, *_, **__):
        return bool(flags & _WRITING)

    waiting_for_disk = os.fsync
    os.fsync = lambda descriptor: None  # the order of the operations is what counts, and a test need not wait
    originals = [(os, name, getattr(os, name)) for name in (*_OPERATIONS, "open")]
    originals += [(builtins, "open", builtins.open), (io, "open", io.open)]
    try:
        for name in _OPERATIONS:
            setattr(os, name, counted(getattr(os, name)))
        os.open = counted(os.open, with_writing_flag)
        builtins.open = io.open = counted(io.open, opens_to_write)
        yield count
    finally:
        for module, name, function in originals:
            setattr(module, name, function)
        os.fsync = waiting_for_disk


def run_killed(command: Callable[[], int], step: int) -> int:
    """Runs a command in a process of its own that ends before operation `step`; its exit code, or KILLED."""
    child = os.fork()
    if child == 0:
        try:
            with watched(lambda number: number == step and os._exit(KILLED)):
                code = command()
        except BaseException:
            os._exit(98)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_failing(command: Callable[[], int], step: int) -> tuple[int, bool]:
    """Runs a command of which operation `step` fails; its exit code, and whether it came so far."""

    def fail(number):
        if number == step:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with watched(fail) as count:
        code = command()
    return code, count[0] > step
