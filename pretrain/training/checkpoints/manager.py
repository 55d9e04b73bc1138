"""The checkpoints of a run: writing, keeping the newest N, finding the newest whole one, and the best by a metric."""

import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError
from nlpdata.files.temporary import remove_left_in
from nlpdata.files.writing import remove_tree
from nlpdata.reports.run_facts import CHECKPOINTS
from pretrain.converters import native

_log = logging.getLogger(__name__)

Found = tuple[Path, dict, dict[str, np.ndarray]]
"""A checkpoint that was read: its folder, what it says of the run, its arrays."""


class Checkpoints:
    """The checkpoints in `<model_dir>/checkpoints/step-00000010/`.

    Args:
      model_dir: folder of the run.
      max_to_keep: older ones are removed once more are finished.
      step: step after which the run resumes. Later checkpoints, which it skipped, are damaged: they do not count among the newest.
    """

    def __init__(self, model_dir: str | os.PathLike, max_to_keep: int = 5, step: int | None = None):
        self.folder, self.max_to_keep = Path(model_dir, CHECKPOINTS), max_to_keep
        self._damaged: set[int] = set()
        if step is not None:
            later = (native.step_of(folder) for folder in native.finished(self.folder))
            self._damaged = {found for found in later if found is not None and found > step}

    def save(self, step: int, arrays: Mapping[str, np.ndarray], info: Mapping) -> Path:
        """Writes the checkpoint of a step, then removes the oldest ones beyond max_to_keep."""
        remove_left_in(self.folder, "step-")  # also of other steps, where a killed run had another interval
        written = native.step_folder(self.folder, step)
        native.write(written, arrays, {"step": step, **info})
        self._damaged.discard(step)
        kept = [folder for folder in native.finished(self.folder) if native.step_of(folder) not in self._damaged]
        for old in kept[: -self.max_to_keep]:
            remove_tree(old)
        return written

    def newest(self) -> Found | None:
        """The newest whole checkpoint; None where there are none.

        Reports which damaged ones are skipped. DataError where all are damaged.
        """
        folders = native.finished(self.folder)
        if not folders:
            return None
        return native.read_newest(folders, read)

    def before(self, step: int, unusable: int | None = None, first: int = 0) -> Found:
        """As newest, of the checkpoints of earlier steps, from `first` on, that hold no nan, but for that of the step `unusable`.

        DataError where there is none.
        """
        steps = {folder: native.step_of(folder) for folder in native.finished(self.folder)}
        folders = [folder for folder, at in steps.items() if at is not None and first <= at < step and at != unusable]
        if not folders:
            raise DataError(
                f"{self.folder} holds no checkpoint from which the run could recover: each one is damaged, of step {step} or "
                "later, or diverged at once when it was tried. trainer.max_to_keep keeps more of them."
            )
        return native.read_newest(folders, _read_sound)

    def remove_after(self, step: int) -> None:
        """Removes the checkpoints of later steps: the run has returned to this one."""
        for folder in native.finished(self.folder):
            if (native.step_of(folder) or 0) > step:
                remove_tree(folder)


def not_finite(arrays: Mapping[str, np.ndarray]) -> str | None:
    """What is wrong with the first array that holds nan or inf, e.g. "model/a is nan"; None where none does."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"{name} is {'nan' if np.isnan(array).any() else 'inf'}"
    return None


def read(folder: Path) -> Found:
    """Reads a checkpoint of a run. DataError where it is damaged."""
    return folder, native.read_info(folder), native.read_arrays(folder)


def _read_sound(folder: Path) -> Found:
    found = read(folder)
    if fault := not_finite(found[2]):
        raise DataError(f"{folder}: {fault}")
    return found


class BestCheckpoint:
    """The best checkpoint so far by a metric of the evaluation, as `<folder>/step-00000010/`.

    Args:
      folder: where it is kept.
      metric: name of the metric.
      higher: whether higher is better.
    """

    def __init__(self, folder: str | os.PathLike, metric: str, higher: bool):
        self.folder, self.metric, self._higher = Path(folder), metric, higher

    def value(self) -> float | None:
        """The metric of the checkpoint that is kept; None where there is none, or one that was kept for the other side."""
        for folder in reversed(native.finished(self.folder)):
            try:
                info = native.read_info(native.verify(folder))
                if kept_for_higher(info) not in (None, self._higher):
                    return None
                value = float(info["best"][self.metric])
                return None if math.isnan(value) else value
            except DataError as error:
                _log.warning(f"{error}; the next evaluation's is kept in its place")
            except (KeyError, TypeError, ValueError):  # the best by another metric
                continue
        return None

    def offer(self, value: float, step: int, arrays: Callable[[], Mapping[str, np.ndarray]], info: Mapping) -> bool:
        """Keeps the checkpoint if it is better than the one that is kept; returns whether it is."""
        if math.isnan(value):  # of no examples; nothing compares with it
            return False
        best = self.value()
        if best is not None and not (value > best if self._higher else value < best):
            return False
        written = native.step_folder(self.folder, step)
        native.write(written, arrays(), {"step": step, **info, "best": {self.metric: value}})
        for other in native.finished(self.folder):
            if other != written:
                remove_tree(other)
        return True


def kept_for_higher(info: Mapping) -> bool | None:
    """Whether a best checkpoint was kept for a higher metric; None where it does not say."""
    comparison = native.stored_trainer(info).get("best_checkpoint_metric_comp")
    return None if comparison is None else comparison == "higher"
