"""The local executor: runs tasks in a pool of processes, on this machine, with progress.

A task function is called as `function(task, report)` in a worker that has been set up once by an initializer;
`report(bytes)` adds to the progress. Results arrive in the order of completion. With one worker everything runs in
this process. Interrupting the parent ends the workers; a worker whose parent is gone ends by itself.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from nlpdata.errors import DataError, NlpdataError, UsageError

_POLL_SECONDS = 0.2
_progress = None  # in a worker: the shared byte counter
_failure: NlpdataError | None = None  # in a worker: why it could not be set up


def default_workers() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_tasks(
    function: Callable,
    tasks: Sequence,
    *,
    workers: int,
    initializer: Callable,
    initargs: tuple,
    on_progress: Callable[[int], None] = lambda done: None,
    describe: Callable[[object], str] = str,
) -> Iterator[tuple[object, object]]:
    """Yields (task, result) as tasks finish.

    Args:
      function: a module-level function, `function(task, report) -> result`.
      tasks: picklable; started in this order.
      workers: processes; 1 runs here.
      initializer, initargs: sets up each worker (and this process, for one worker).
      on_progress: called now and then with all bytes reported so far.
      describe: names a task in messages.

    Raises DataError where a worker dies, UsageError where none can start; errors of the function come through as they
    are.
    """
    if not tasks:
        return
    if workers == 1 or len(tasks) == 1:
        yield from _run_here(function, tasks, initializer, initargs, on_progress)
        return
    context = multiprocessing.get_context("spawn")
    counter, started = context.Value("q", 0), context.Value("b", 0)
    pool = ProcessPoolExecutor(
        min(workers, len(tasks)),
        mp_context=context,
        initializer=_start_worker,
        initargs=(os.getpid(), counter, started, initializer, initargs),
    )
    running = {}
    try:
        with _interrupts_held():  # workers inherit it: an interrupt is the parent's to handle, from their first moment
            running = {pool.submit(_call, function, task): task for task in tasks}
        while running:
            done, _ = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            on_progress(counter.value)
            for future in done:
                task = running.pop(future)
                try:
                    yield task, future.result()
                except BrokenProcessPool:
                    if not started.value:
                        raise UsageError(_no_start_message(workers)) from None
                    raise DataError(_death_message(describe(task), workers)) from None
    except BaseException:
        for future in running:
            future.cancel()
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def run_stage(
    name: str,
    function: Callable,
    tasks: Sequence,
    results: Sequence,
    *,
    workers: int,
    initializer: Callable,
    initargs: tuple,
    total: int,
    describe: Callable[[object], str],
    quiet: bool,
    sizes: Sequence[int] | None = None,
) -> list:
    """Runs those of a stage's tasks that have no result yet, with progress; all results, in the order of the tasks.

    Args:
      name: the stage's, for progress and messages.
      function, workers, initializer, initargs: see run_tasks.
      tasks, results: as many; None for a task that is to be done.
      total: bytes of the whole stage.
      describe: names a task in messages.
      quiet: no progress.
      sizes: of the tasks; the largest start first, so that no worker is left alone with a large one at the end.
    """
    results = list(results)
    left = [(i, task) for i, task in enumerate(tasks) if results[i] is None]
    if sizes is not None:
        left.sort(key=lambda numbered: -sizes[numbered[0]])
    progress = Progress(name, total, quiet=quiet)
    for (i, _), result in run_tasks(
        _OfNumbered(function),
        left,
        workers=workers,
        initializer=initializer,
        initargs=initargs,
        on_progress=progress,
        describe=lambda numbered: f"{describe(numbered[1])} ({name})",
    ):
        results[i] = result
    progress.close()
    return results


class _OfNumbered:
    """A task function over (number, task) pairs; picklable."""

    def __init__(self, function):
        self._function = function

    def __call__(self, numbered, report):
        return self._function(numbered[1], report)


def _run_here(function, tasks, initializer, initargs, on_progress):
    total = 0

    def report(count: int) -> None:
        nonlocal total
        total += count
        on_progress(total)

    initializer(*initargs)
    for task in tasks:
        yield task, function(task, report)


def _death_message(task: str, workers: int) -> str:
    return (
        f"a worker process was killed while it worked on {task} or on a task beside it. The usual cause is that memory "
        f"ran out (look for 'Out of memory' in the system log): use fewer --workers (now {workers}) or more memory. "
        "Finished parts are kept: the same command goes on from there"
    )


def _no_start_message(workers: int) -> str:
    return (
        "no worker process could start. Each imports the program that called nlpdata before it works, and that failed "
        'or ran the call again (its own error is above). Put the call under `if __name__ == "__main__":`, in a file '
        f"rather than on standard input; or use one worker (workers=1, now {workers})"
    )


@contextmanager
def _interrupts_held():
    """Holds SIGINT back, to be delivered at the end."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(parent: int, counter, started, initializer, initargs) -> None:
    global _progress, _failure
    _progress = counter
    started.value = 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        initializer(*initargs)
    except NlpdataError as error:  # raised here, the pool would only say that it is broken
        _failure = error


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _call(function, task):
    if _failure is not None:
        raise _failure
    return function(task, _report)


def _report(count: int) -> None:
    with _progress.get_lock():
        _progress.value += count


class Progress:
    """Says how far a stage is: one line rewritten on a terminal, else a plain line every ten seconds.

    Args:
      stage: what is being done.
      total: bytes to do.
      quiet: say nothing.
    """

    def __init__(self, stage: str, total: int, quiet: bool = False, stream=None):
        self._stage, self._total, self._quiet = stage, max(total, 1), quiet
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._start = time.monotonic()
        self._next = self._start + (0.2 if self._terminal else 10.0)
        self._width = 0
        self.note = ""

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if self._quiet or now < self._next:
            return
        self._next = now + (0.2 if self._terminal else 10.0)
        elapsed = now - self._start
        rate = done / elapsed
        left = (self._total - done) / rate if rate else 0
        text = f"{self._stage}: {min(done / self._total, 1):4.0%}  {rate / 1e6:.1f} MB/s  {_clock(left)} left"
        text += f"  {self.note}" if self.note else ""
        if self._terminal:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        if self._terminal and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
