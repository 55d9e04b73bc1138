"""Interrupting a command at any of its operations on the disk: the process ends there, or the operation fails."""

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_CHANGES = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir")
_MAY_FAIL = (*_CHANGES, "fsync")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@contextmanager
def _watched(before: Callable[[], None], operations: tuple[str, ...], modes: str) -> Iterator[None]:
    """Calls `before` ahead of each of these operations of the block, and of each `open` in one of the modes.

    Nothing waits for the disk: what counts is the order.
    """
    originals = [(os, name, getattr(os, name)) for name in (*_MAY_FAIL, "open")]
    originals += [(builtins, "open", builtins.open), (io, "open", io.open)]

    def watched(function, changes=lambda *_, **__: True):
        def call(*arguments, **settings):
            if changes(*arguments, **settings):
                before()
            return function(*arguments, **settings)

        return call

    try:
        os.fsync = lambda descriptor: None
        for name in operations:
            setattr(os, name, watched(getattr(os, name)))
        os.open = watched(os.open, lambda path, flags, *_, **__: flags & _WRITING)
        builtins.open = io.open = watched(io.open, lambda path, mode="r", *_, **__: set(mode) & set(modes))
        yield
    finally:
        for module, name, function in originals:
            setattr(module, name, function)


class _Killed(BaseException):
    """Unwinds the stack of a process that has ended."""


def run_killed(command: Callable[[], int], step: int) -> tuple[int | None, bool]:
    """Runs a command whose process ends before its operation number `step`: nothing that it does from there on counts.

    Operations are those that change which files there are: before any other the disk is as before the next of these.

    Returns the exit code, None where it did not come to one, and whether it came so far.
    """
    done, held, really_close, really_open = 0, set(), os.close, os.open

    def before():
        nonlocal done
        done += 1
        if done > step:
            while held:  # as the system does, which gives their locks free
                really_close(held.pop())
            raise _Killed

    def opened(*arguments, **settings):
        descriptor = watched_open(*arguments, **settings)
        held.add(descriptor)
        return descriptor

    def close(descriptor):
        if descriptor in held:
            held.discard(descriptor)
            really_close(descriptor)
        elif done <= step:
            really_close(descriptor)

    code = None
    try:
        with _watched(before, _CHANGES, "wax"):
            watched_open = os.open
            os.open, os.close = opened, close
            code = command()
    except _Killed:
        pass
    finally:
        os.open, os.close = really_open, really_close
    return (None if done > step else code), done > step


def run_failing(command: Callable[[], int], step: int) -> tuple[int, bool]:
    """Runs a command of which operation number `step` fails; its exit code, and whether it came so far."""
    done = 0

    def before():
        nonlocal done
        done += 1
        if done == step + 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with _watched(before, _MAY_FAIL, "wax+"):
        code = command()
    return code, done > step
