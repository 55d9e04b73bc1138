"""Ends a run whose evaluations no longer improve."""

import math
from pathlib import Path

from nlpdata.reports.run_facts import METRICS
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.training.logs.metrics import read_lines


class EarlyStopping:
    """Counts evaluations since the best one, those of metrics.jsonl up to `step` first: a resumed run continues the count.

    Args:
      settings: the trainer's settings. Without early_stopping_patience nothing ever stops.
      model_dir: folder of the run.
      step: the last step before the run resumes.
    """

    def __init__(self, settings: TrainerConfig, model_dir: Path, step: int):
        self._patience, self._metric = settings.early_stopping_patience, settings.best_checkpoint_eval_metric
        self._sign = 1 if settings.best_checkpoint_metric_comp == "higher" else -1
        self._values: dict[int, float] = {}
        for line in read_lines(model_dir / METRICS):
            value = line.get(self._metric)
            if line.get("split") == "eval" and line["step"] <= step and isinstance(value, int | float):
                self.add(line["step"], value)

    def add(self, step: int, value: float) -> None:
        """Counts the evaluation at a step, whose metric has this value; a step counts once. nan is worse than any number."""
        self._values[step] = -self._sign * math.inf if math.isnan(value) else value

    def reason(self) -> str | None:
        """Why the run should stop now; None where it should continue."""
        if self._patience is None or not self._values:
            return None
        steps = sorted(self._values)
        best = max(steps, key=lambda step: (self._sign * self._values[step], -step))  # the first of equals
        barren = len(steps) - 1 - steps.index(best)
        if barren < self._patience:
            return None
        return (
            f"{barren} evaluations brought no better {self._metric} than {self._values[best]:.6g} at step {best} "
            f"(trainer.early_stopping_patience {self._patience})"
        )
