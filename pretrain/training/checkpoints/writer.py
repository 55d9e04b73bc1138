"""Writes the checkpoints of a run: at once, or in a thread while training continues."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import numpy as np

from nlpdata.errors import NlpdataError
from pretrain.training.checkpoints.manager import Checkpoints

_log = logging.getLogger(__name__)


class CheckpointWriter:
    """At most one checkpoint is being written, and so at most one copy of the state waits in memory.

    with CheckpointWriter(checkpoints, in_background=True) as writer:
        writer.save(10, engine.state(), info, started)
        ...
        writer.check()      # raises what went wrong, once it did

    The end of the block waits for the last one.

    Args:
      checkpoints: what writes.
      in_background: whether `save` returns before the checkpoint is on the disk.
      took: called with the seconds of every checkpoint that was written.
    """

    def __init__(self, checkpoints: Checkpoints, in_background: bool, took: Callable[[float], None]):
        self._checkpoints, self._in_background, self._took = checkpoints, in_background, took
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, step: int, arrays: Mapping[str, np.ndarray], info: Mapping, started: float) -> None:
        """Writes a checkpoint, or begins to, once the one before is on the disk. Raises what went wrong with that one.

        Args:
          step: its step.
          arrays: its arrays, which must not change later.
          info: what it says of the run; not changed later either.
          started: time.monotonic() when the work on it began.
        """
        self.wait()
        if not self._in_background:
            self._write(step, arrays, info, started)
            return
        self._thread = threading.Thread(target=self._try, args=(step, arrays, info, started), name="checkpoint")
        self._thread.start()

    def _try(self, *arguments: object) -> None:
        try:
            self._write(*arguments)  # type: ignore[arg-type]
        except BaseException as error:
            self._error = error

    def _write(self, step: int, arrays: Mapping[str, np.ndarray], info: Mapping, started: float) -> None:
        self._checkpoints.save(step, arrays, info)
        self._took(time.monotonic() - started)

    def check(self) -> None:
        """Raises what went wrong with a checkpoint that is no longer being written."""
        if self._thread is not None and not self._thread.is_alive():
            self.wait()

    def wait(self) -> None:
        """Returns when no checkpoint is being written. Raises what went wrong with the last one."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.wait()
        except NlpdataError as own:
            if error is None:
                raise
            _log.error(str(own))  # the block ends with its own error
