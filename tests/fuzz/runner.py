"""Runs targets in a process of their own, and counts what happens: a crash or a hang is a result like any other."""

import logging
import multiprocessing
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nlpdata.cli.program import _for_the_user
from tests.fuzz.cases import TARGETS, Case, Target

SECONDS = 30  # of computing for a case, or four times as long without; more is a fault
_MEMORY = 6 << 30  # bytes for the cases of a process; what wants more is a fault
_LONGEST_MESSAGE = 4000
ACCEPTED, REFUSED, FAULT = "accepted", "refused", "fault"


@dataclass
class Tally:
    """What happened to the cases of a target. faults: name of the case -> what it was, with the end of a traceback."""

    counts: Counter = field(default_factory=Counter)
    faults: dict[str, str] = field(default_factory=dict)


class _TooSlow(BaseException):
    """Raised in a case that takes too long; no `except Exception` catches it."""


def run_case(target: Target, seed: int, number: int, given: Path) -> tuple[str, str]:
    """(outcome, what to say about a fault) of one case, whose folder is the current one: outputs may have relative names."""
    folder, before = Path(tempfile.mkdtemp(prefix="case-", dir=given.parent)), os.getcwd()
    case = Case(random.Random(f"{target.name}:{seed}:{number}"), folder, given)
    os.chdir(folder)
    _limit(SECONDS)
    try:
        target.run(case)
        return ACCEPTED, ""
    except Exception as error:
        message = _for_the_user("fuzz", error)
        if message is None or isinstance(error, MemoryError):
            return FAULT, "\n".join([*case.log, traceback.format_exc()[-3000:]])
        message = str(message)
        if not message.strip() or len(message.splitlines()) > 1 or len(message) > _LONGEST_MESSAGE:
            return FAULT, f"a message that is not one line of text: {message[:500]!r}"
        return REFUSED, message
    except _TooSlow:
        return FAULT, "\n".join([f"more than {SECONDS} seconds", *case.log, traceback.format_exc()[-1500:]])
    except BaseException:
        return FAULT, "\n".join([*case.log, traceback.format_exc()[-3000:]])
    finally:
        _limit(0)
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


def _limit(seconds: int) -> None:
    """Of computing, so that a busy machine is not a fault; of waiting, which may be for ever, four times as many. 0: none."""
    for number, timer, limit in (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, 4 * seconds),
    ):
        signal.signal(number, _alarm)
        signal.setitimer(timer, limit)


def _alarm(*_: object) -> None:
    raise _TooSlow


def _work(names: Sequence[str], first: int, plan: dict, pipe) -> None:
    """In the child: the cases of targets one after the other, each announced before it runs.

    plan: seed, count (cases of each target, by its cost) and seconds (of each).
    """
    most = _memory_at_the_start() + _MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    place = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        for name in names:
            target = TARGETS[name]
            given = place / name.replace("/", "-") / "given"
            given.mkdir(parents=True)
            try:
                if target.give:
                    target.give(given)
            except Exception:
                pipe.send((name, 0, FAULT, f"its intact input cannot be made: {traceback.format_exc()[-3000:]}"))
                continue
            number, count = first, max(1, plan["count"] // target.cost)
            first, stop = 0, time.monotonic() + plan["seconds"]
            while number < count and (number == 0 or time.monotonic() < stop):
                pipe.send((name, number, "", ""))
                pipe.send((name, number, *run_case(target, plan["seed"], number, given)))
                number += 1
        pipe.send(None)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _memory_at_the_start() -> int:
    """Bytes that count as this process's before a case runs: those of libraries that its parent has imported."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except OSError:  # not Linux
        return 0


def run(names: Sequence[str], seed: int, count: int, seconds: float) -> Iterator[tuple[str, Tally]]:
    """Yields (target, what happened so far) after each case; `count` cases and `seconds` seconds of each target at most, and
    one case of each at least."""
    tallies = {name: Tally() for name in names}
    plan, left, first = {"seed": seed, "count": count, "seconds": seconds}, list(names), 0
    while left:
        ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(target=_work, args=(left, first, plan, theirs))
        child.start()
        theirs.close()
        at, ended = (left[0], first), False
        try:
            while ours.poll(3 * SECONDS + 60):
                found = ours.recv()
                if found is None:
                    ended = True
                    break
                name, number, outcome, what = found
                at = (name, number)
                if outcome:
                    tallies[name].counts[outcome] += 1
                    if outcome == FAULT:
                        tallies[name].faults[f"{name}:{seed}:{number}"] = what
                    yield name, tallies[name]
            why = "hangs"
        except EOFError:
            why = "the process died"
        finally:
            child.kill() if child.is_alive() and not ended else None
            child.join()
        if ended:
            return
        name, number = at
        tallies[name].counts[FAULT] += 1
        tallies[name].faults[f"{name}:{seed}:{number}"] = f"{why} (exit code {child.exitcode})"
        yield name, tallies[name]
        left, first = left[left.index(name) :], number + 1
        if first >= count:
            left, first = left[1:], 0


def table(tallies: dict[str, Tally]) -> str:
    """The table: a line for each target, and the sums."""
    rows = [("target", "cases", "refused with a message", "accepted", "uncaught exceptions")]
    total: Counter = Counter()
    for name, tally in tallies.items():
        total.update(tally.counts)
        rows.append(_row(name, tally.counts))
    rows.append(_row("all", total))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _row(name: str, counts: Counter) -> tuple[str, ...]:
    return (
        name,
        *(f"{n:,}" for n in (counts.total(), counts[REFUSED], counts[ACCEPTED])),
        f"{counts[FAULT] or 'none'}",
    )
