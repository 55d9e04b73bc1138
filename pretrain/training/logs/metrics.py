"""metrics.jsonl, and the line that shows a run's progress."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from nlpdata.errors import DataError
from nlpdata.execution.executor import duration, progress_is_hidden
from nlpdata.files.json_files import json_lines
from nlpdata.files.writing import write_whole
from nlpdata.reports.run_facts import METRICS

_NOTE_SECONDS = 10.0  # between notes where they are not on a terminal, as of nlpdata's progress


class MetricsLog:
    """metrics.jsonl in the model_dir: one JSON object a line, with `step` and `split` (train or eval) first.

    Args:
      model_dir: folder of the run.
      step: the run resumes after this step; lines past it are cut, as is half a line of a killed run. None only appends what is
        not there yet: another process may be writing the file, too.
    """

    def __init__(self, model_dir: str | os.PathLike, step: int | None = None):
        self.path = Path(model_dir, METRICS)
        self._only_new = step is None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if step is not None:
                kept = [line for line in read_lines(self.path) if line["step"] <= step]
                write_whole(self.path, "".join(json.dumps(line) + "\n" for line in kept).encode())
            self._file = open(self.path, "a+b")  # noqa: SIM115 (closed in close)
            if self._file.seek(0, os.SEEK_END) and (self._file.seek(-1, os.SEEK_END), self._file.read(1))[1] != b"\n":
                self._append("\n")  # half a line of a killed process
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror or error}") from None

    def write(self, step: int, split: str, values: Mapping) -> bool:
        """Appends a line, all of it at once. False where it was there already: an evaluation that is repeated says nothing new."""
        line = json.dumps({"step": step, "split": split, **values})
        if self._only_new and any(json.dumps(each) == line for each in read_lines(self.path) if each["step"] == step):
            return False
        try:
            self._append(f"{line}\n")
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror or error}") from None
        return True

    def _append(self, text: str) -> None:
        self._file.write(text.encode())
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_lines(path: str | os.PathLike) -> list[dict]:
    """The whole lines of a metrics.jsonl; none where there is no file. DataError where it cannot be read."""
    return [line for _, line in json_lines(Path(path)) if line is not None and isinstance(line.get("step"), int)]


class LiveLine:
    """Step, loss, learning rate, tokens a second, padding and time left, which is that to `last_step` where the run has more steps:
    one line that is rewritten on a terminal, else a line at a time."""

    def __init__(self, train_steps: int, stream: TextIO | None = None):
        self._train_steps, self._stream = train_steps, stream or sys.stderr
        self._open = False
        self._noted: float | None = None  # when the last note was due, since the last line

    def show(self, step: int, values: Mapping, seconds_left: float, last_step: int) -> None:
        if progress_is_hidden():
            return
        parts = [f"step {step}/{self._train_steps}", f"loss {values['loss']:.4f}", f"lr {values['learning_rate']:.3g}"]
        if "tokens_per_second" in values:
            parts += [f"{values['tokens_per_second']:,.0f} tokens/s", f"{values['padding']:.0%} padding"]
        until = "" if last_step == self._train_steps else f" to step {last_step}"
        parts.append(f"{duration(seconds_left)} left{until}")
        text = "  ".join(parts)
        if self._stream.isatty():
            self.note(text)
        else:
            self._write_line(text)

    def note(self, text: str) -> None:
        """Shows a text in place of the line on a terminal; else as a line, where the last one was ten seconds ago."""
        if progress_is_hidden():
            return
        now = time.monotonic()
        if self._stream.isatty():
            self._stream.write(f"\r{text}\033[K")
            self._stream.flush()
            self._open = True
        elif self._noted is None:
            self._noted = now
        elif now - self._noted >= _NOTE_SECONDS:
            self._write_line(text)
            self._noted = now

    def _write_line(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()
        self._noted = None

    def end(self) -> None:
        """Leaves the line, so that what follows is printed below it."""
        self._noted = None
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False
