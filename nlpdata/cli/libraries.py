"""Libraries write about themselves on standard error: oneDNN, absl, CUDA. Commands keep that off the screen; --verbose shows it.

Only commands do this: importing the packages leaves the libraries as they are. Errors of a library arrive as exceptions,
and those that end the process (TensorFlow's FATAL) are shown.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from nlpdata.cli.streams import standard_error_to

_LOGGERS = ("absl", "jax", "keras", "matplotlib", "tensorflow")
_FATAL_ONLY, _EVERYTHING = "3", "0"
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# They write on import, before they look at that variable, and are not to be interrupted.
_HELD_BACK = ("jax", "tensorflow")

_quiet = False


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """While it lasts, libraries that are imported write no more than what ends the process. `show_libraries` ends it early.

    A TF_CPP_MIN_LOG_LEVEL of the user's own is kept.
    """
    global _quiet
    before = _quiet, os.environ.get(_LEVEL), [(each, logging.getLogger(each).level) for each in _LOGGERS]
    finder = _QuietImport()
    _quiet = True
    os.environ.setdefault(_LEVEL, _FATAL_ONLY)
    sys.meta_path.insert(0, finder)
    for each in _LOGGERS:
        logging.getLogger(each).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            if not sys.warnoptions and not _are_errors():
                warnings.simplefilter("ignore")
            yield
    finally:
        _quiet, level, loggers = before
        with suppress(ValueError):
            sys.meta_path.remove(finder)
        for name, value in loggers:
            logging.getLogger(name).setLevel(value)
        if level is None:
            os.environ.pop(_LEVEL, None)
        else:
            os.environ[_LEVEL] = level


def show_libraries() -> None:
    """Within quiet_libraries, lets libraries write whatever they write (--verbose)."""
    global _quiet
    _quiet = False
    os.environ[_LEVEL] = _EVERYTHING
    for each in _LOGGERS:
        logging.getLogger(each).setLevel(logging.NOTSET)
    if not sys.warnoptions and not _are_errors():
        warnings.simplefilter("default")


def are_held_back() -> bool:
    """Whether what libraries write is to be kept off the screen: within quiet_libraries, and without --verbose."""
    return _quiet


def _are_errors() -> bool:
    """Whether warnings are errors, as in tests."""
    return any(action == "error" and category is Warning for action, _, category, *_ in warnings.filters)


class _QuietImport(importlib.abc.MetaPathFinder):
    """Finds the libraries whose import is held back."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _HELD_BACK:
            return None
        # The others are asked in their order: one of them may keep a library from being imported.
        others = [finder for finder in sys.meta_path if finder is not self]
        found = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if found is not None and found.loader is not None:
            loader: Any = found.loader
            loader.exec_module = _held_back(loader.exec_module)
        return found


def _held_back(run: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """A module's import during which signals wait and, unless all is to be seen, standard error goes to a file; that is shown where
    the import fails."""

    def held_back(module: ModuleType) -> None:
        with _signals_waiting(), tempfile.TemporaryFile() as written:
            if not _quiet:
                return run(module)
            try:
                with standard_error_to(written):
                    run(module)
            except BaseException:
                written.seek(0)
                with suppress(OSError):
                    os.write(2, written.read())
                raise

    return held_back


@contextmanager
def _signals_waiting() -> Iterator[None]:
    """While it lasts, signals that interrupt wait for its end: raised amid the C++ of a library they would abort the process."""
    # Only the main thread can set handlers.
    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    handlers = [(number, handler) for number in numbers if callable(handler := signal.getsignal(number))]
    waiting = list[int]()
    for number, _ in handlers:
        signal.signal(number, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)
        for came in waiting[:1]:
            signal.raise_signal(came)
