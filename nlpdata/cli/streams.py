"""The standard streams of a command, whatever they lead to: nowhere, a full disk, or a terminal that lacks a character."""

import contextlib
import os
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from typing import Any, BinaryIO


class OutputRefused(Exception):  # not an OSError, which could be of anything, and which Click takes for its own
    """Standard output does not take what is printed: a full disk, or nobody reads it any more.

    Attributes:
      error: the system's.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.error = error


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """While it lasts, writing to standard error never fails, and standard output shows any text or raises OutputRefused.

    A stream that was closed (`2>&-`) leads nowhere: else the next file that is opened would take its number, and get what
    libraries write to it.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    _open_closed()
    if isinstance(sys.stdout, TextIOWrapper):  # else it is a stream of the caller's own
        with contextlib.suppress(ValueError):
            # As standard error has it: no name or text is a reason to fail.
            sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = _Output(sys.stdout), _Unfailing(sys.stderr)
    try:
        yield
    finally:
        with contextlib.suppress(OutputRefused):  # while an error is on its way that matters more
            sys.stdout.flush()
        sys.stdin, sys.stdout, sys.stderr = before


def _open_closed() -> None:
    """Leads closed streams nowhere: their numbers, and the objects that Python has none of."""
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest number that is free
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (as long as the process)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


_screen: Any = None


def screen() -> Any:
    """Where messages for the user go: standard error, also while `standard_error_to` leads that elsewhere."""
    return sys.stderr if _screen is None else _screen


@contextlib.contextmanager
def standard_error_to(file: BinaryIO) -> Iterator[None]:
    """While it lasts, what libraries write on standard error goes to a file, as does what processes write that start meanwhile."""
    global _screen
    before, outer, copy = sys.stderr, _screen, os.dup(2)
    before.flush()
    with open(copy, "w", buffering=1, encoding=before.encoding or "utf-8", errors="backslashreplace") as real:
        _screen = outer or (_Unfailing(real) if _has_number(before, 2) else before)
        os.dup2(file.fileno(), 2)
        # Not closed: a library's log handler may keep it, and writes where the number leads.
        sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(copy, 2)
            sys.stderr, _screen = before, outer


def _has_number(stream: Any, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (AttributeError, OSError, ValueError):
        return False


class _Stream:
    """A text stream whose refusals are handled."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._refused(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._refused(error)

    def _refused(self, error: OSError) -> None:
        """Leads the stream nowhere: what is left in it would fail again when the process ends, which is exit code 120."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Output(_Stream):
    """Standard output: what it refuses ends the command."""

    def _refused(self, error: OSError) -> None:
        super()._refused(error)
        raise OutputRefused(error) from None


class _Unfailing(_Stream):
    """Standard error: where it takes nothing (`| head`, a full disk), messages are lost, and the work is not."""
