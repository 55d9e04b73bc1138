"""Running `nlpdata` commands in this process, and looking at what they leave."""

import itertools
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from nlpdata.cli import commands


@dataclass
class Outcome:
    code: int
    out: str
    err: str


def run_command(capsys, *arguments) -> Outcome:
    """Runs `nlpdata` with these arguments. No run may end in a traceback."""
    capsys.readouterr()
    code = commands.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return Outcome(code, captured.out, captured.err)


def create_arguments(inputs, output, model, *more, length=64, dupe=1, workers=1) -> list[str]:
    """Arguments of a small create-pretraining run."""
    inputs = inputs if isinstance(inputs, list | tuple) else [inputs]
    flags = ["--tokenizer", model, "--output", output, "--max-seq-length", length, "--dupe-factor", dupe]
    flags += ["--workers", workers, *more]
    named = [word for name in inputs for word in ("--input", name)]
    return ["create-pretraining", *map(str, [*named, *flags])]


@contextmanager
def open_files_limited(more: int):
    """Lets this process open `more` files beyond those that it has open now."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    free = (number for number in itertools.count() if number not in used)  # a new file takes the lowest
    last = next(itertools.islice(free, more - 1, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def visible(folder) -> list[str]:
    """Names in a folder that do not begin with a dot."""
    folder = Path(folder)
    return sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.exists() else []


def contents(folder) -> dict[str, bytes]:
    """All visible files of a folder."""
    return {name: (Path(folder) / name).read_bytes() for name in visible(folder)}
