"""Following the checkpoints of a run that another process trains: each is given once, also across restarts."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

from nlpdata.errors import DataError
from nlpdata.execution.executor import duration
from nlpdata.reports.run_facts import METRICS
from pretrain.converters import native
from pretrain.training.checkpoints.manager import Found, read
from pretrain.training.checkpoints.waiting import POLL_SECONDS
from pretrain.training.checks.agreement import stored_steps
from pretrain.training.logs.metrics import read_lines

_log = logging.getLogger(__name__)


class CheckpointFeed:
    """The checkpoints of a run that have no evaluation in metrics.jsonl yet, as they appear.

    Reports those that were deleted before their turn, and those that are damaged, once.

    Args:
      folder: with the checkpoints, step-...
      results: folder of the metrics.jsonl in which an evaluated checkpoint has a line.
      timeout: seconds without a new checkpoint after which the iteration ends.
      newest_first: whether those that appeared meanwhile are passed over, for the newest.
    """

    def __init__(self, folder: Path, results: Path, timeout: float, newest_first: bool = False):
        self._folder, self._results, self._timeout, self._newest_first = folder, results, timeout, newest_first
        self._settled: set[tuple[int, int]] = set()  # step, and when it was written: a run may write one anew
        self._awaited: set[int] = set()  # steps whose checkpoint has no evaluation yet, as far as is known
        self._newest = 0
        self._interval: object = None  # of the run, between checkpoints
        self._kept: object = None

    def __iter__(self) -> Iterator[Found]:
        waiting = time.monotonic()
        while True:
            present = self._present()
            self._notice(present)
            self._report_missed(present)
            found = self._next(present)
            if found is not None:
                yield found
                waiting = time.monotonic()
            elif self._is_over(present):
                return
            elif time.monotonic() - waiting > self._timeout:
                self._report_timeout(present)
                return
            else:
                time.sleep(POLL_SECONDS)

    def set_aside(self, step: int, why: str) -> None:
        """The checkpoint of a step is of no use, and does not come again."""
        _log.warning(f"{why}; the checkpoint of step {step} is skipped")
        self._settled |= {key for key in self._present() if key[0] == step}

    def _present(self) -> dict[tuple[int, int], Path]:
        """(step, when it was written) -> folder of the checkpoints that are there, oldest first."""
        found = {}
        for folder in native.finished(self._folder):
            try:
                found[native.step_of(folder) or 0, (folder / native.INFO).stat().st_mtime_ns] = folder
            except OSError:  # deleted meanwhile
                continue
        return found

    def _next(self, present: dict[tuple[int, int], Path]) -> Found | None:
        waiting = [key for key in present if key not in self._settled]
        if not waiting:
            return None
        evaluated = evaluated_steps(self._results)
        self._settled |= {key for key in waiting if key[0] in evaluated}
        waiting = [key for key in waiting if key[0] not in evaluated]
        if self._newest_first:
            newest = max([*evaluated, *(step for step, _ in waiting)], default=0)
            for step, written in [key for key in waiting if key[0] < newest]:
                _log.info(f"the checkpoint of step {step} is passed over: there is a newer one")
                self._settled.add((step, written))
                self._awaited.discard(step)
            waiting = [key for key in waiting if key[0] == newest]
        for key in waiting:
            folder = present[key]
            try:
                return read(folder)
            except DataError as error:
                if folder.exists():  # else it was deleted while it was read
                    self.set_aside(key[0], str(error))
        return None

    def _is_over(self, present: dict[tuple[int, int], Path]) -> bool:
        """Whether the last step's checkpoint is there, and settled."""
        for key in reversed(present):
            try:
                steps = stored_steps(native.read_info(present[key]))
            except DataError:
                continue
            return steps is not None and key[0] >= steps and key in self._settled
        return False

    def _notice(self, present: dict[tuple[int, int], Path]) -> None:
        """Adds to the awaited steps those of the checkpoints that are there, and those that the run wrote in between."""
        steps = [step for step, _ in present]
        if steps and steps[-1] > self._newest:
            try:
                stored = native.stored_trainer(native.read_info(present[next(reversed(present))]))
                self._interval, self._kept = stored.get("checkpoint_interval"), stored.get("max_to_keep")
            except DataError:  # deleted meanwhile, or damaged, which is reported when it is read
                pass
            if isinstance(self._interval, int) and self._interval > 0:
                first = self._newest - self._newest % self._interval + self._interval
                self._awaited |= set(range(first, steps[-1], self._interval))
            self._newest = steps[-1]
        self._awaited |= set(steps)

    def _report_missed(self, present: dict[tuple[int, int], Path]) -> None:
        """Reports the awaited steps whose checkpoint is gone and which have no evaluation."""
        gone = self._awaited - {step for step, _ in present}
        if not gone:
            return
        self._awaited -= gone
        if missed := sorted(gone - evaluated_steps(self._results)):
            s = "s" if len(missed) > 1 else ""
            _log.warning(
                f"{len(missed)} checkpoint{s} deleted before the evaluation came to it, of step{s} "
                f"{', '.join(map(str, missed[:10]))}{', ...' if len(missed) > 10 else ''}. The run keeps {self._kept}: raise its "
                "trainer.max_to_keep, or its trainer.checkpoint_interval."
            )

    def _report_timeout(self, present: dict) -> None:
        if not present:
            raise DataError(
                f"no checkpoint appeared in {self._folder} within {duration(self._timeout)} (trainer.continuous_eval_timeout). Is "
                "it the model_dir of the run, and is the run training?"
            )
        _log.warning(
            f"no new checkpoint in {self._folder} for {duration(self._timeout)} (trainer.continuous_eval_timeout), and the run has "
            "not reached its last step. Run the same command again to wait for more."
        )


def evaluated_steps(results: Path) -> set[int]:
    """The steps that have an evaluation in the metrics.jsonl of a folder."""
    return {line["step"] for line in read_lines(results / METRICS) if line.get("split") == "eval"}
