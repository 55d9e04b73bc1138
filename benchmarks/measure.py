"""What the benchmarks share: CPU time of calls and of commands, peak memory, time by stage, tables."""

import contextlib
import glob
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


def own_folder(path: Path) -> Path:
    """A folder that a benchmark may fill and clear: new, empty, or one that an earlier run has marked; ends it for others."""
    path, mark = path.resolve(), path / ".nlpdata-benchmark"
    if path.exists() and not mark.exists() and any(path.iterdir()):
        sys.exit(f"{path} holds other things, which a benchmark would replace. Name a new folder.")
    path.mkdir(parents=True, exist_ok=True)
    mark.touch()
    return path


def cpu_of(function: Callable[[], object]) -> float:
    """CPU seconds (user and system, all threads of this process) that one call takes."""
    start = time.process_time()
    function()
    return time.process_time() - start


def in_turn(functions: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Runs all functions `rounds` times in turn; each returns a measurement. The median of each."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            found[name].append(function())
    return {name: statistics.median(values) for name, values in found.items()}


@dataclass
class CommandCost:
    """What a command took: CPU seconds of its process tree, wall seconds, peak RSS in MB of parent and children.

    open_files: the most that a process of it had open, as far as was seen.
    """

    cpu: float
    wall: float
    peak: float
    children_peak: list[float] = field(default_factory=list)
    open_files: int = 0


def run_command(argv: Sequence[str], cwd: Path) -> CommandCost:
    """Runs a command to its end; RuntimeError, with its output, where it fails."""
    with open(os.devnull, "rb") as nothing:
        process = subprocess.Popen(argv, cwd=cwd, stdin=nothing, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    peaks: dict[int, float] = {}
    files: dict[int, int] = {}
    watcher = threading.Thread(target=_watch_peaks, args=(process.pid, peaks, files), daemon=True)
    start = time.monotonic()
    watcher.start()
    output = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)  # usage covers the descendants that it waited for
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - start
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(argv)}: exit {process.returncode}\n{output.decode(errors='replace')}")
    # Not usage.ru_maxrss: between fork and exec a child counts the memory of this process as its own.
    own = peaks.pop(process.pid, 0.0)
    most = max(files.values(), default=0)
    return CommandCost(usage.ru_utime + usage.ru_stime, wall, own, sorted(peaks.values()), most)


def _watch_peaks(pid: int, peaks: dict[int, float], files: dict[int, int]) -> None:
    """Notes the peak RSS (MB) and open files of `pid` and its children until it is gone, ten times a second."""
    while (state := _status(pid)) and not state.get("State", "Z").startswith("Z"):
        found = {pid: state}
        for name in glob.glob(f"/proc/{pid}/task/*/children"):
            with contextlib.suppress(OSError):
                found |= {child: _status(child) for child in map(int, Path(name).read_text().split())}
        peaks |= {each: int(status["VmHWM"].split()[0]) / 1024 for each, status in found.items() if "VmHWM" in status}
        for each in found:
            with contextlib.suppress(OSError):
                files[each] = max(files.get(each, 0), len(os.listdir(f"/proc/{each}/fd")))
        time.sleep(0.1)


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


class Stages:
    """CPU seconds by stage. Stages nest; the time of an inner one is not counted for the outer one."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._stack: list[str] = []
        self._since = 0.0

    def _switch(self) -> None:
        now = time.process_time()
        if self._stack:
            self.seconds[self._stack[-1]] = self.seconds.get(self._stack[-1], 0.0) + now - self._since
        self._since = now

    @contextlib.contextmanager
    def stage(self, name: str):
        """Counts what happens inside for `name`."""
        self._switch()
        self._stack.append(name)
        try:
            yield
        finally:
            self._switch()
            self._stack.pop()

    def iterate(self, name: str, items):
        """The items; what it takes to make them counts for `name`."""
        iterator = iter(items)
        while True:
            with self.stage(name):
                item = next(iterator, None)
            if item is None:
                return
            yield item

    @contextlib.contextmanager
    def patched(self, targets: Sequence[tuple[object, str, str]]):
        """Counts every call of (owner, attribute) for a stage while the block runs."""
        originals = [(owner, name, getattr(owner, name)) for owner, name, _ in targets]
        try:
            for (owner, name, function), (_, _, stage) in zip(originals, targets, strict=True):
                setattr(owner, name, self._timed(function, stage))
            yield self
        finally:
            for owner, name, function in originals:
                setattr(owner, name, function)

    def _timed(self, function, stage):
        def timed(*args, **kwargs):
            with self.stage(stage):
                return function(*args, **kwargs)

        return timed


class Report:
    """Rows of a table: what, measured, target, met or short. `targets`: name -> "<= limit" or ">= limit"."""

    def __init__(self, targets: Mapping[str, str]):
        self._targets = targets
        self._rows: list[list[str]] = []

    def add(self, what: str, value: str, number: float | None = None, target: str | None = None) -> None:
        """Adds a row, and prints it on standard error at once. `number` is what `target`, a name, is about."""
        limit = self._targets[target] if target else ""
        verdict = ""
        if limit:
            sign, bound = limit.split()
            verdict = "met" if (number >= float(bound) if sign == ">=" else number <= float(bound)) else "short"
        self._rows.append([what, value, limit, verdict])
        print(f"{what}: {value}", file=sys.stderr, flush=True)

    def ratio(self, what: str, cost: float, raw: float, target: str | None) -> None:
        """A cost in CPU seconds as a ratio to that of raw encode."""
        self.add(f"{what} / raw", f"{cost / raw:.2f} ({cost:.2f} s)", cost / raw, target)

    def __str__(self) -> str:
        return table(["what", "measured", "target", ""], self._rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns."""
    cells = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)
