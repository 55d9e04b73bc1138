"""Where the figures of a run go: metrics.jsonl, TensorBoard's files and the line that shows its progress."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from pretrain.training.logs.metrics import LiveLine, MetricsLog
from pretrain.training.logs.tensorboard import TensorBoardLog


class RunLogs:
    """The logs of a run, open as a context; on a host that is not the chief they write nothing.

    Args:
      model_dir: folder of the run.
      train_steps: length of the run in steps.
      step: the run resumes after this step; lines past it are cut. None keeps all.
      tensorboard: whether TensorBoard's files are written.
      is_chief: whether this host writes.
    """

    def __init__(
        self, model_dir: str | os.PathLike, train_steps: int, step: int | None, tensorboard: bool, is_chief: bool
    ):
        self._model_dir, self._tensorboard = Path(model_dir), tensorboard
        self._lines: MetricsLog | None = None
        self._live = LiveLine(train_steps) if is_chief else None
        self._boards: dict[str, TensorBoardLog] = {}
        if is_chief:
            self._open(step)

    def _open(self, step: int | None) -> None:
        self._lines = MetricsLog(self._model_dir, step)
        if self._tensorboard:
            folder = self._model_dir / "tensorboard"
            self._boards = {split: TensorBoardLog(folder / split, step or 0) for split in ("train", "eval")}

    def cut(self, step: int) -> None:
        """Takes back what was written of later steps."""
        self.end_line()
        if self._lines is not None:
            self._close()
            self._open(step)

    def __enter__(self) -> "RunLogs":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_line()
        self._close()

    def _close(self) -> None:
        if self._lines is not None:
            self._lines.close()
        for board in self._boards.values():
            board.close()

    def write(self, step: int, split: str, values: Mapping, more: Mapping | None = None) -> None:
        """Writes the metrics of a step; `more`: what only metrics.jsonl keeps."""
        is_new = self._lines is not None and self._lines.write(step, split, {**values, **(more or {})})
        if is_new and values and self._boards:
            self._boards[split].write(step, values)

    def show(self, step: int, values: Mapping, seconds_left: float, last_step: int) -> None:
        """Shows a step on the live line, and how long it takes to the last step of the stage or the call."""
        if self._live is not None:
            self._live.show(step, values, seconds_left, last_step)

    def note(self, text: str) -> None:
        """Shows a text in place of the live line (LiveLine.note)."""
        if self._live is not None:
            self._live.note(text)

    def end_line(self) -> None:
        """Leaves the live line, so that what follows is printed below it."""
        if self._live is not None:
            self._live.end()
