"""SIGTERM and SIGINT: finish the step, save, leave with 143 or 130."""

import signal
import threading
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
    """

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.received: int | None = None
        self._before: dict = {}

    def __enter__(self) -> "SignalWatch":
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            self._before = {number: signal.signal(number, self._remember) for number in self._SIGNALS}
        return self

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __exit__(self, *_: object) -> None:
        self._restore()
