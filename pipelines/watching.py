"""A job runs in a thread of its own, while the thread that called waits: so an interrupt, a SIGTERM and the death of a worker
process end it at once, whatever Beam is doing, and Beam's code never meets an interrupt, which it would take for a worker's fault.
"""

import queue
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any

_END_SECONDS = 3  # for a job that is given up: the time of a block. Beam may wait for a dead worker for ever
_POLL_SECONDS = 0.5

_given_up = threading.Event()
_idle = threading.Condition()
_steps = 0  # at work in this process


class GivenUp(Exception):
    """Raised in a step of a job that nobody waits for any more."""


class WorkerDied(Exception):
    """A worker process has ended while it was at work.

    Attributes:
      code: its exit code; of one that a signal ended the signal's number, negative.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def check() -> None:
    """To be called in steps: raises GivenUp where the job in this process is to end."""
    if _given_up.is_set():
        raise GivenUp


@contextmanager
def step() -> Iterator[None]:
    """Around each step: run_watched waits for its end, so that no thread is in compiled code when the process ends."""
    global _steps
    check()
    with _idle:
        _steps += 1
    try:
        yield
    finally:
        with _idle:
            _steps -= 1
            _idle.notify_all()


def run_watched(work: Callable[[], Any], give_up: Callable[[], None]) -> Any:
    """What `work` returns or raises, done in a thread.

    Args:
      give_up: ends the work, where this thread is interrupted or a worker dies.

    Raises WorkerDied, and what interrupts this thread.
    """
    ended: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put((work(), None))
        except BaseException as error:
            ended.put((None, error))

    thread = threading.Thread(target=copy_context().run, args=(run,), name="job", daemon=True)
    _given_up.clear()
    with _deaths_noticed(lambda death: ended.put((None, death))):
        thread.start()
        try:
            result, error = _next(ended)
            if error is not None:
                raise error
            return result
        except BaseException:
            _given_up.set()  # some steps may be in other threads than the job
            if thread.is_alive():
                give_up()
                thread.join(_END_SECONDS)
            with _idle:
                _idle.wait_for(lambda: not _steps, _END_SECONDS)
            raise


def _next(ended: "queue.SimpleQueue[tuple[Any, BaseException | None]]") -> tuple[Any, BaseException | None]:
    while True:
        with suppress(queue.Empty):
            return ended.get(timeout=_POLL_SECONDS)  # on Windows no signal ends a wait


@contextmanager
def _deaths_noticed(report: Callable[[WorkerDied], None]) -> Iterator[None]:
    """While it lasts, the end of a worker process of Beam's DirectRunner is reported. Beam itself waits for it for ever.

    The thread that waits for the process raises an error then, of which threading.excepthook hears.
    """
    before = threading.excepthook

    def hook(about: Any) -> None:
        code = re.search(r"Worker subprocess exited with return code (-?\d+)", str(about.exc_value))
        if code is None:
            before(about)
        else:
            report(WorkerDied(int(code[1])))

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before
