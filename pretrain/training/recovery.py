"""Recovery from a loss that is not a number or leaves its bound: back to a checkpoint, and past the batches since then.

What is done follows from the checkpoints, the settings and the data alone. So a run that is killed meanwhile decides the same
again: nothing but the checkpoints has to remember a recovery, and those written after it do.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from nlpdata.errors import DataError
from pretrain.settings.schema import RuntimeConfig
from pretrain.settings.trainer_section import TrainerConfig


class Diverged(DataError):
    """Training has diverged.

    Attributes:
      step: the step whose statistics show it, counted from 1; its weights, or those of the step before, are of no use.
    """

    def __init__(self, message: str, step: int):
        super().__init__(message)
        self.step = step


def advice(runtime: RuntimeConfig) -> str:
    """What the user of a run that has diverged can do."""
    return (
        "training has diverged, and nothing since the last checkpoint is saved. Lower the learning rate, lengthen the warm-up, or "
        "check gradient_clip_norm" + (" and the loss scale." if runtime.mixed_precision_dtype == "float16" else ".")
    )


class Recoveries:
    """The recoveries of a run so far, oldest first.

    Args:
      settings: the trainer's settings.
      done: of a resumed run: what its checkpoint stores (see `stored`).
      start: steps of the run before those that are taken now, from which their batches are counted (a stage's start).
    """

    def __init__(self, settings: TrainerConfig, done: Sequence[Mapping[str, int]] = (), start: int = 0):
        self._settings, self._start = settings, start
        self._done = [dict(each) for each in done]

    @property
    def stored(self) -> list[dict[str, int]]:
        """For a checkpoint, one object each: `step` of the checkpoint that the run returned to, and `diverged_at`, a step."""
        return self._done

    @property
    def wanted(self) -> bool:
        """Whether the run recovers at all."""
        return self._settings.recovery_max_trials > 0

    def batch_of(self, step: int) -> int:
        """The number of the batch that a step (counted from 0) takes: its own, and as many later as were skipped in its stage."""
        here = (each for each in self._done if self._start <= each["step"] <= step)
        return step - self._start + sum(each["diverged_at"] - each["step"] for each in here)

    def fault(self, step: int, statistics: dict[str, float], loss: Callable[[dict], float]) -> str | None:
        """What is wrong with the statistics of a step (counted from 1); None: nothing.

        Args:
          statistics: its sums.
          loss: computes the loss from them.
        """
        bad = [name for name, value in statistics.items() if not math.isfinite(value)]
        if bad:
            return f"{bad[0]} is {statistics[bad[0]]} at step {step}"
        bound, begin = self._settings.loss_upper_bound, self._settings.recovery_begin_steps
        if bound is None or self._settings.recovery_max_trials < 0 or step < begin:
            return None
        value = loss(statistics)
        if value <= bound:
            return None
        return (
            f"the loss is {value:.6g} at step {step}, above trainer.loss_upper_bound {bound:g} (raise it where such a loss is "
            "usual)"
        )

    def unusable(self, diverged: Diverged) -> int | None:
        """The step of the checkpoint that was returned to before, where both times its very next step diverged; else None."""
        last = self._done[-1] if self._done else None
        return last["step"] if last and last["step"] + 1 == last["diverged_at"] == diverged.step else None

    def refuse(self, diverged: Diverged) -> None:
        """Raises what ends the run, unless a trial is left."""
        if not self.wanted:
            raise diverged
        if len(self._done) >= self._settings.recovery_max_trials:
            raise DataError(
                f"{diverged} No recovery is left of {self._settings.recovery_max_trials} (trainer.recovery_max_trials)."
            ) from None

    def add(self, step: int, diverged: Diverged) -> str:
        """Counts a recovery from the checkpoint of a step; returns what was done, in words."""
        first = self.batch_of(step)
        self._done.append({"step": step, "diverged_at": diverged.step})
        return (
            f"recovery {len(self._done)} of {self._settings.recovery_max_trials}: back to the checkpoint of step {step}; batches "
            f"{first} to {self.batch_of(step) - 1} are skipped"
        )
