"""A worker process of the local executor: it does the units of work that come through its pipe, one after the other.

It ends with its parent, however that ends. On Linux the kernel kills it, also inside a long call of compiled code;
elsewhere a thread that waits for the parent ends it. A worker that waits for a unit sees its pipe closed.
"""

import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from nlpdata.errors import NlpdataError

READY, PROGRESS, RESULT, ERROR, ENDED = range(5)  # what a worker sends, and what its end is reported as
_PR_SET_PDEATHSIG = 1
_SIGNALS = {signal.SIGINT, signal.SIGTERM}
_JOIN_SECONDS = 5.0


class Worker:
    """The parent's side of a worker process.

    Args:
      function: `function(unit, report) -> result`, of a module.
      initializer, initargs: sets the process up.
    """

    def __init__(self, function: Callable, initializer: Callable, initargs: tuple) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, os.getpid(), function, initializer, initargs)
        self._process = context.Process(target=_work, args=arguments, daemon=True)
        # The worker inherits it: a signal is the parent's to handle, from the first moment, and none leaves a worker half started.
        try:
            with _signals_held():
                self._process.start()
        except BaseException:  # of a signal that was held
            if self._process.ident is not None:
                self._process.kill()
            raise
        theirs.close()  # the worker has the only other end: when it is gone, reading ends
        self.ready = False
        self.unit: Any = None

    def send(self, unit: Any) -> None:
        self.unit = unit
        with suppress(BrokenPipeError, ConnectionResetError):  # `receive` reports its end
            self.pipe.send(unit)

    def receive(self) -> tuple[int, Any]:
        """The next message: READY, PROGRESS and a count, RESULT and it, ERROR and the exception, ENDED and the exit code.

        The exit code of a process that a signal ended is the signal's number, negative.
        """
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(_JOIN_SECONDS)
            return ENDED, self._process.exitcode

    def dismiss(self) -> None:
        """Lets it end: no unit is left."""
        self.pipe.close()

    def end(self, at_once: bool) -> None:
        """Returns when the process has ended.

        Args:
          at_once: kill it, whatever it does; else it has some seconds to end by itself.
        """
        if not at_once:
            self._process.join(_JOIN_SECONDS)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self.pipe.close()
        self._process.close()


def wait_for(workers: Sequence[Worker]) -> list[Worker]:
    """The workers that have sent a message; waits for the first."""
    pipes: dict[Any, Worker] = {worker.pipe: worker for worker in workers}
    return [pipes[pipe] for pipe in connection.wait(list(pipes))]


@contextmanager
def _signals_held() -> Iterator[None]:
    """Holds SIGINT and SIGTERM back, to be delivered at the end.

    The mask is this thread's, and the worker inherits it. The system gives a signal to another thread that does not block it, such
    as those of numpy, and Python runs the handler in the main thread all the same: so the handlers wait, too.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # which the first worker starts otherwise: Python releases the signals there
    held: list[int] = []
    handlers: dict[signal.Signals, Any] = {}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        if threading.current_thread() is threading.main_thread():  # others run no handlers, and cannot set any
            for name in _SIGNALS:
                if signal.getsignal(name) not in (signal.SIG_IGN, None):
                    handlers[name] = signal.signal(name, lambda number, _: held.append(number))
        yield
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if held:
            signal.raise_signal(held[0])


def _work(pipe: Connection, parent: int, function: Callable, initializer: Callable, initargs: tuple) -> None:
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):  # they were held
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    failure = None
    try:
        pipe.send((READY, None))
        try:
            initializer(*initargs)
        except Exception as error:
            failure = _portable(error)
        while True:
            unit = pipe.recv()
            pipe.send((ERROR, failure) if failure else _outcome(function, unit, pipe))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # no more units, or no parent


def _outcome(function: Callable, unit: Any, pipe: Connection) -> tuple[int, Any]:
    try:
        return RESULT, function(unit, lambda count: pipe.send((PROGRESS, count)))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:
        return ERROR, _portable(error)


def _portable(error: Exception) -> Exception:
    """An exception as it passes through the pipe; one that is not for the user has the worker's traceback as a note."""
    if isinstance(error, NlpdataError):
        return error
    place = "".join(traceback.format_exception(error)).rstrip()
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # of a class that does not
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    copy.add_note(f"In a worker process:\n{place}")
    return copy


def _end_with(parent: int) -> None:
    """Makes this process end when its parent does."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a C library without prctl
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if hasattr(os, "getppid") and os.getppid() != parent:  # gone before that
        os._exit(1)

    def end() -> None:
        parent_process = multiprocessing.parent_process()
        assert parent_process  # this is a child
        parent_process.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
