"""SIGINT (Ctrl-C) and SIGTERM while a command starts, which takes a second or two, and while it works. Imports next to nothing."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_name = ""


def end_at_once_if_signalled(name: str) -> None:
    """From now on a signal ends the process with 130 or 143 and a line that begins with `name`: nothing has begun that is to be
    put in order.

    A signal that is ignored, as Ctrl-C in the background of a script, or that has a handler stays as it is.
    """
    global _name
    _name = name
    for number in _WORDS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _end_at_once)


def end_at_once_if_run(package: str) -> None:
    """The same where Python was told to run a module of a package (`python -m PACKAGE.MODULE`), while it imports the package.

    Ends the process with 2 and the right command where Python was told to run a file of the package: it then looks for modules next
    to that file, and takes pretrain/data for `data`.
    """
    _refuse_file(package)
    arguments = getattr(sys, "argv", [])
    if arguments[:1] == ["-m"]:  # as long as Python looks for the module
        module = sys.orig_argv[-len(arguments)].rpartition("-m")[2]
        if module.partition(".")[0] == package:
            end_at_once_if_signalled(module)


def _refuse_file(package: str) -> None:
    main = sys.modules.get("__main__")
    path, spec = getattr(main, "__file__", None) or "", getattr(main, "__spec__", None)
    folder = os.path.dirname(os.path.abspath(path))
    if (spec is None or spec.name == "__main__") and os.path.realpath(folder) in map(
        os.path.realpath, sys.modules[package].__path__
    ):
        name = os.path.basename(path).removesuffix(".py")
        command = f"python -m {package}" + ("" if name == "__main__" else f".{name}")
        sys.stderr.write(
            f"{package}: error: {os.path.normpath(path)} is a part of a package, not a program. Run `{command}`.\n"
        )
        raise SystemExit(2)


@contextlib.contextmanager
def raising_if_signalled() -> Iterator[None]:
    """While it lasts, Ctrl-C raises KeyboardInterrupt and SIGTERM SystemExit(143), so that what has begun is put in order."""
    if threading.current_thread() is not threading.main_thread():  # others cannot set handlers
        yield
        return
    before = {number: signal.getsignal(number) for number in _WORDS}
    try:
        signal.signal(signal.SIGTERM, _terminate)
        if before[signal.SIGINT] is _end_at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(number: int, _: FrameType | None) -> NoReturn:
    with contextlib.suppress(OSError):  # nobody reads it
        os.write(2, f"{_name}: {_WORDS[signal.Signals(number)]}.\n".encode())
    os._exit(128 + number)


def _terminate(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
