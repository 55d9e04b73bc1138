"""SIGTERM and SIGINT: finish the step, save, leave with 143 or 130; after SIGTERM within a deadline, where there is one."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from nlpdata.errors import NlpdataError


class Interrupted(NlpdataError):
    """A signal ended the run; exit_code is 128 + its number."""

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.exit_code = 128 + number


class SignalWatch:
    """Remembers the first SIGTERM or SIGINT while it is active; the second one acts as it would without.

    with SignalWatch() as watch:
        ...
        if watch.received: ...          # the signal's number

    Args:
      deadline: seconds from SIGTERM to the end of the block; after them the process leaves at once, with 143. None: any time.
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self, deadline: float | None = None):
        self.received: int | None = None
        self._before: dict = {}
        self._deadline = deadline
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "SignalWatch":
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            self._before = {number: signal.signal(number, self._remember) for number in self._SIGNALS}
            if self._deadline is not None:
                self._open.enter_context(_deadline_after_sigterm(self._deadline))
        return self

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __exit__(self, *_: object) -> None:
        self._open.close()
        self._restore()


@contextlib.contextmanager
def _deadline_after_sigterm(seconds: float) -> Iterator[None]:
    """Ends the process if the block still runs that long after a SIGTERM, whatever it is doing.

    Handlers in Python wait for the operation that the main thread is in: a step that is compiled, a disk that does not
    answer. So another thread reads the signal's number from the file that the interpreter writes it to at once.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            if signal.SIGTERM in os.read(reading, 64) and not done.wait(seconds):
                _leave(seconds)

    watching = threading.Thread(target=watch, name="deadline", daemon=True)
    watching.start()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        os.write(writing, b"\0")  # not the end of the file: a child process may hold it, too
        watching.join()
        os.close(writing)
        os.close(reading)


def _leave(seconds: float) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(
            f"terminated: the run could not end within trainer.preemption_deadline, {seconds:g} seconds. Earlier checkpoints are "
            "whole; run the same command again to resume from the newest.\n"
        )
        sys.stderr.flush()
    os._exit(128 + signal.SIGTERM)
