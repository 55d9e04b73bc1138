"""The local executor: hands units of work to worker processes on this machine, with progress. There is no other pool.

The function of a stage is called as `function(unit, report)` in a worker that has been set up once by an initializer;
`report(bytes)` adds to the progress. Results arrive in the order of completion. With one worker everything runs in
this process. Where the parent is interrupted, the workers end; a worker whose parent is gone ends by itself.
"""

import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TextIO

from nlpdata.errors import RESUMES, DataError, UsageError, opt
from nlpdata.execution.worker import ENDED, ERROR, PROGRESS, READY, Worker, wait_for

_GRACE_SECONDS = 0.5
_SHOWN_SECONDS, _LINE_SECONDS = 0.2, 10.0  # between two states of progress: on a terminal, as lines

Report = Callable[[int], None]
"""What a unit's function calls with the bytes that it has done since the last call."""


def default_workers() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_units(
    function: Callable[[Any, Report], Any],
    units: Sequence[Any],
    *,
    workers: int,
    initializer: Callable,
    initargs: tuple,
    on_progress: Callable[[int], None] = lambda done: None,
    describe: Callable[[Any], str] = str,
    stage: str = "",
    advice: str = "",
    apart: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Yields (unit, result) as units finish.

    Args:
      function: a module-level function, `function(unit, report) -> result`.
      units: picklable; started in this order.
      workers: processes; 1 runs here.
      initializer, initargs: sets up each worker (and this process, for one worker).
      on_progress: called now and then with all bytes reported so far.
      describe: names a unit in messages.
      stage: what the units are parts of, for messages.
      advice: what to do after a worker's death, for the message.
      apart: run in a worker even if there is only one unit: this process then reacts to signals.

    Raises DataError where a worker dies, UsageError where none can start; errors of the function come through as they
    are, those that are not for the user with the worker's traceback as a note.
    """
    if not units:
        return
    if workers == 1 or (len(units) == 1 and not apart):
        yield from _run_here(function, units, initializer, initargs, on_progress)
        return
    crew: list[Worker] = []
    at_once = True
    try:
        while len(crew) < min(workers, len(units)):
            crew.append(Worker(function, initializer, initargs))
        yield from _hand_out(iter(units), crew, on_progress, partial(_death, describe, stage, advice))
        at_once = False
    finally:
        for worker in crew:
            worker.end(at_once)


def _hand_out(
    left: Iterator, crew: Sequence[Worker], on_progress: Callable[[int], None], death: Callable
) -> Iterator[tuple[Any, Any]]:
    """Gives units to workers that are ready until all are done; yields (unit, result)."""
    done, at_work = 0, list(crew)
    while at_work:
        for worker in wait_for(at_work):
            unit, (kind, value) = worker.unit, worker.receive()
            if kind == PROGRESS:
                done += value
                on_progress(done)
                continue
            if kind == ERROR:
                raise value
            if kind == ENDED:
                raise death(value, worker, crew)
            worker.ready = True
            try:
                worker.send(next(left))
            except StopIteration:
                worker.dismiss()
                at_work.remove(worker)
            if kind != READY:
                yield unit, value


def run_stage(
    name: str,
    function: Callable[[Any, Report], Any],
    units: Sequence[Any],
    results: Sequence,
    *,
    workers: int,
    initializer: Callable,
    initargs: tuple,
    total: int,
    describe: Callable[[Any], str],
    quiet: bool,
    sizes: Sequence[int] | None = None,
) -> list:
    """Runs those of a stage's units that have no result yet, with progress; all results, in the order of the units.

    Args:
      name: the stage's, for progress and messages.
      function, workers, initializer, initargs: see run_units.
      units: all of the stage's.
      results: of each unit; None where it is to be done.
      total: bytes of the whole stage.
      describe: names a unit in messages.
      quiet: no progress.
      sizes: of the units; the largest start first, so that no worker ends up alone with a large one.
    """
    results = list(results)
    left = [(i, unit) for i, unit in enumerate(units) if results[i] is None]
    if sizes is not None:
        left.sort(key=lambda numbered: -sizes[numbered[0]])
    progress = Progress(name, total, quiet=quiet)
    for (i, _), result in run_units(
        _Numbered(function),
        left,
        workers=workers,
        initializer=initializer,
        initargs=initargs,
        on_progress=progress,
        describe=lambda numbered: describe(numbered[1]),
        stage=name,
        advice=RESUMES,
    ):
        results[i] = result
    progress.close()
    return results


class _Numbered:
    """A function of units as one of (number, unit) pairs; picklable."""

    def __init__(self, function: Callable[[Any, Report], Any]) -> None:
        self._function = function

    def __call__(self, numbered: tuple[int, Any], report: Report) -> Any:
        return self._function(numbered[1], report)


# What an initializer leaves belongs to the process. Several threads may run units here: one at a time, each with its own.
_here = threading.RLock()
_set_up_for: object = None


def _run_here(
    function: Callable[[Any, Report], Any],
    units: Sequence[Any],
    initializer: Callable,
    initargs: tuple,
    on_progress: Callable[[int], None],
) -> Iterator[tuple[Any, Any]]:
    total = 0

    def report(count: int) -> None:
        nonlocal total
        total += count
        on_progress(total)

    global _set_up_for
    run = object()
    for unit in units:
        with _here:
            if _set_up_for is not run:
                initializer(*initargs)
                _set_up_for = run
            result = function(unit, report)
        yield unit, result


def _death(
    describe: Callable[[object], str], stage: str, advice: str, code: int | None, worker: Worker, crew: Sequence[Worker]
) -> Exception:
    """The error for a worker that has ended with an exit code; negative: by a signal."""
    if code in (-signal.SIGTERM, -signal.SIGINT):  # to the whole group of processes, or to the worker alone?
        time.sleep(_GRACE_SECONDS)  # a signal to this process is handled here
    if code is not None and code < 0:
        how = f"was killed by {_signal_name(-code)}"
    elif any(each.ready for each in crew):
        how = f"ended with the exit code {code}"
    else:
        return UsageError(_no_start_message(len(crew)))
    doing = f"it worked on {describe(worker.unit)}" if worker.ready else "it started"
    what = ": ".join(filter(None, [stage, f"a worker process {how} while {doing}"]))
    return DataError(". ".join(filter(None, [what, _cause(code, len(crew)), advice])))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _cause(code: int | None, workers: int) -> str:
    if code == -9:  # SIGKILL, which Windows does not name
        return (
            f"The usual cause is that memory ran out (look for 'Out of memory' in the system log): use fewer {opt('workers')} "
            f"(now {workers}) or more memory"
        )
    if code in (-signal.SIGTERM, -signal.SIGINT):
        return "It was ended by a user, or by the system that runs this job"
    return f"That is a crash of compiled code: {opt('workers', 1)} shows where; look for its own message above"


def _no_start_message(workers: int) -> str:
    return (
        "no worker process could start. Each imports the program that called nlpdata before it works, and that failed "
        'or ran the call again (its own error is above). Put the call under `if __name__ == "__main__":`, in a file '
        f"rather than on standard input; or use one worker (workers=1, now {workers})"
    )


def _megabytes(rate: float) -> str:
    return f"{rate / 1e6:.1f} MB/s"


def progress_is_hidden() -> bool:
    """Whether no progress is wanted: the logger of the package was set to warnings alone, as --quiet does."""
    return logging.getLogger("nlpdata").level > logging.INFO


class Progress:
    """Shows how far a stage is: one line rewritten on a terminal, else a plain line every ten seconds.

    Args:
      stage: what is being done.
      total: bytes to do, or others; None where nobody knows.
      quiet: show nothing.
      rate: how what is done in a second reads.
    """

    def __init__(
        self,
        stage: str,
        total: int | None,
        quiet: bool = False,
        stream: TextIO | None = None,
        rate: Callable[[float], str] = _megabytes,
    ) -> None:
        self._stage, self._quiet, self._rate = stage, quiet, rate
        self._total = None if total is None else max(total, 1)
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._pause = _SHOWN_SECONDS if self._terminal else _LINE_SECONDS
        self._start = time.monotonic()
        self._next = self._start + self._pause
        self._width = self._done = 0
        self.note = ""

    def __call__(self, done: int, counted: int | None = None) -> None:
        """done: of the total; counted: what the rate is of, where that is something else."""
        now = time.monotonic()
        if self._quiet or now < self._next:
            return
        self._next = now + self._pause
        text = self._line(done, done if counted is None else counted, now - self._start)
        if self._terminal:
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def add(self, count: int) -> None:
        """So much more is done."""
        self._done += count
        self(self._done)

    def _line(self, done: int, counted: int, elapsed: float) -> str:
        rate = self._rate(counted / elapsed)
        if self._total is None:
            text = f"{self._stage}: {counted:,}  {rate}"
        else:
            left = (self._total - done) * elapsed / done if done else 0
            text = f"{self._stage}: {min(done / self._total, 1):4.0%}  {rate}  {duration(left)} left"
        return text + (f"  {self.note}" if self.note else "")

    def close(self) -> None:
        if self._terminal and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


def duration(seconds: float) -> str:
    """5s, 3m05s, 2h04m, 3d02h."""
    seconds = math.ceil(max(seconds, 0))
    for unit, size, part, part_size in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // part_size:02d}{part}"
    return f"{seconds}s"
