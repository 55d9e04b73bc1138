"""Ctrl-C while a command starts, which takes a second or two: it ends quietly, with 130. Imports next to nothing."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


def end_at_once_if_interrupted() -> None:
    """From now on Ctrl-C ends the process without a traceback: nothing has begun that is to be put in order.

    Where it is ignored, as in the background of a script, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)


@contextlib.contextmanager
def raising_if_interrupted() -> Iterator[None]:
    """While it lasts, Ctrl-C raises KeyboardInterrupt, as it does in Python, so that what has begun is put in order."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not _end_at_once:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _end_at_once)


def _end_at_once(number: int, _: FrameType | None) -> NoReturn:
    os._exit(128 + number)
