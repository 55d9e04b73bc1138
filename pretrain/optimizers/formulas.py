"""Learning rates as formulas: the options of each and the rate of every step, without Keras.

`at(step, xp)` computes with the functions of `xp`: numpy where plain numbers are asked for (curve.py), keras.ops in a training
step (schedules.py). Names and meanings of the fields are the TensorFlow Model Garden's, where it has the formula.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from nlpdata.errors import UsageError
from pretrain.settings.config import Config
from pretrain.settings.fields import MOST, at_least

_MOST_VALUES = 1000  # of a stepwise rate: each is an operation of a step


@dataclass
class Formula(Config):
    """Base of the options below."""

    def at(self, step: Any, xp: Any) -> Any:
        """The rate of a step, a float or an array of floats (step 0 is the first), once for_run has filled in the options."""
        raise NotImplementedError

    def for_run(self, warmup_steps: int, train_steps: int) -> "Formula":
        """The options with those filled in that are left to the run."""
        return self

    def turns(self) -> Sequence[int]:
        """Steps between which the rate only rises or only falls; none where it never rises."""
        return ()

    def decay(self) -> tuple[int, int, float] | None:
        """(step at which the decay starts, step at which it ends, rate there); None where it has no end."""
        return None

    def faults(self) -> Iterator[tuple[str, Any, str]]:
        """(field, its value, what is expected) of options that do not fit together."""
        yield from ()

    def given_rate(self) -> float | None:
        """The rate that a run reaches where warm-up ends at the latest; None where it follows from more than that."""
        return getattr(self, "initial_learning_rate", None)

    @property
    def counts_from_step_0(self) -> bool:
        """Whether a decay of a given length starts at step 0, as in the Garden, and not where warm-up ends."""
        return False


def _known(value: int | None) -> int:
    if value is None:
        raise UsageError("a number of steps is left to the run: ask for_run(warmup_steps, train_steps) first.")
    return value


@dataclass
class _Falling(Formula):
    """A decay from the rate that is given: from where warm-up ends to the end of the run, unless decay_steps is set."""

    initial_learning_rate: float = at_least(0, 1e-4)
    """Highest rate: that of the step where warm-up ends and the decay starts. With decay_steps set, that of decay_start."""
    decay_steps: int | None = at_least(1, None)
    """Steps of the decay, counted from decay_start; null: it ends with the run."""
    decay_start: int | None = at_least(0, None)
    """Step at which the decay starts; null: where warm-up ends, or step 0 where decay_steps is set (as in the Garden)."""

    @property
    def counts_from_step_0(self) -> bool:
        return self.decay_steps is not None

    def for_run(self, warmup_steps: int, train_steps: int) -> Formula:
        start = (warmup_steps if self.decay_steps is None else 0) if self.decay_start is None else self.decay_start
        steps = max(1, train_steps - start) if self.decay_steps is None else self.decay_steps
        return replace(self, decay_start=start, decay_steps=steps)

    def passed(self, step: Any) -> Any:
        """Share of the decay that a step has behind it: below 0 before, above 1 after."""
        return (step - _known(self.decay_start)) / _known(self.decay_steps)


@dataclass
class CosineConfig(_Falling):
    """Half a cosine from the initial rate to alpha times that, which then stays (Loshchilov and Hutter, arXiv 1608.03983)."""

    alpha: float = at_least(0, 0.0, 1)
    """The rate at the end of the decay, as a share of the initial one."""

    def at(self, step: Any, xp: Any) -> Any:
        left = 0.5 * (1.0 + xp.cos(math.pi * xp.clip(self.passed(step), 0.0, 1.0)))
        return self.initial_learning_rate * (self.alpha + (1.0 - self.alpha) * left)

    def decay(self) -> tuple[int, int, float] | None:
        start = _known(self.decay_start)
        return start, start + _known(self.decay_steps), self.alpha * self.initial_learning_rate


@dataclass
class ExponentialConfig(_Falling):
    """initial * decay_rate ** (steps since decay_start / decay_steps), without end."""

    decay_rate: float = at_least(1e-9, 0.1, 1)
    """What the rate is multiplied by every decay_steps."""
    staircase: bool = False
    """Only after each whole decay_steps."""

    def at(self, step: Any, xp: Any) -> Any:
        passed = xp.maximum(self.passed(step), 0.0)
        return self.initial_learning_rate * xp.power(self.decay_rate, xp.floor(passed) if self.staircase else passed)


@dataclass
class WarmupStableDecayConfig(Formula):
    """The same rate until a decay at the end of the run (Hu et al., arXiv 2404.06395)."""

    initial_learning_rate: float = at_least(0, 1e-4)
    """Rate from where warm-up ends to where the decay starts."""
    decay_steps: int | None = at_least(1, None)
    """Steps of the decay; null: the share decay_proportion of the run's steps."""
    decay_proportion: float = at_least(0, 0.1, 1)
    """Share of the steps, where decay_steps does not say how many."""
    decay_start: int | None = at_least(0, None)
    """Step at which the decay starts; null: it ends with the run."""
    end_learning_rate: float = at_least(0, 0.0)
    """Rate at the end of the decay, which then stays."""
    decay_form: Literal["linear", "cosine", "sqrt"] = "linear"
    """How it falls: in a line, as half a cosine, or as 1 - sqrt(share passed) (Haegele et al., arXiv 2405.18392)."""

    def for_run(self, warmup_steps: int, train_steps: int) -> Formula:
        steps = max(1, round(train_steps * self.decay_proportion)) if self.decay_steps is None else self.decay_steps
        start = max(0, train_steps - steps) if self.decay_start is None else self.decay_start
        return replace(self, decay_start=start, decay_steps=steps)

    def at(self, step: Any, xp: Any) -> Any:
        passed = xp.clip((step - _known(self.decay_start)) / _known(self.decay_steps), 0.0, 1.0)
        if self.decay_form == "cosine":
            left = 0.5 * (1.0 + xp.cos(math.pi * passed))
        else:
            left = 1.0 - (xp.sqrt(passed) if self.decay_form == "sqrt" else passed)
        return self.end_learning_rate + (self.initial_learning_rate - self.end_learning_rate) * left

    def decay(self) -> tuple[int, int, float] | None:
        start = _known(self.decay_start)
        return start, start + _known(self.decay_steps), self.end_learning_rate

    def faults(self) -> Iterator[tuple[str, Any, str]]:
        if self.end_learning_rate > self.initial_learning_rate:
            most = f"must be at most initial_learning_rate, {self.initial_learning_rate:g}, the highest rate."
            yield "end_learning_rate", self.end_learning_rate, most


@dataclass
class InverseSquareRootConfig(Formula):
    """initial * sqrt(timescale / (timescale + steps since decay_start)), without end (Vaswani et al., arXiv 1706.03762)."""

    initial_learning_rate: float = at_least(0, 1e-4)
    """Highest rate: that of the step where warm-up ends."""
    timescale: int | None = at_least(1, None)
    """Steps after which the rate is 1 / sqrt(2) of that; null: as many as the warm-up has, so that it falls as 1 / sqrt(step)."""
    decay_start: int | None = at_least(0, None)
    """Step at which it begins to fall; null: where warm-up ends."""

    def for_run(self, warmup_steps: int, train_steps: int) -> Formula:
        start = warmup_steps if self.decay_start is None else self.decay_start
        timescale = max(1, warmup_steps) if self.timescale is None else self.timescale
        return replace(self, decay_start=start, timescale=timescale)

    def at(self, step: Any, xp: Any) -> Any:
        timescale, passed = _known(self.timescale), xp.maximum(step - _known(self.decay_start), 0.0)
        return self.initial_learning_rate * xp.sqrt(timescale / (timescale + passed))


@dataclass
class PowerConfig(Formula):
    """initial * (steps since decay_start, at least 1) ** power: the Garden's power, power_with_offset and power_linear."""

    initial_learning_rate: float = at_least(0, 1e-4)
    """Rate of the first step after decay_start, before it is raised to the power: not the highest rate of a run with warm-up."""
    power: float = at_least(-10, -0.5, 0)
    """To which the number of the step is raised; -0.5: the rate falls as 1 / sqrt(step)."""
    decay_start: int = at_least(0, 0)
    """Step from which steps are counted."""
    pre_offset_learning_rate: float | None = at_least(0, None)
    """Rate up to decay_start, and the highest that there is after it; null: initial_learning_rate."""
    total_decay_steps: int | None = at_least(1, None)
    """Steps since decay_start after which the rate is 0: in the last of them it is multiplied by a line to 0. Null: never."""
    linear_decay_fraction: float = at_least(0, 0.1, 1)
    """Share of total_decay_steps that the line takes."""

    def at(self, step: Any, xp: Any) -> Any:
        passed = step - self.decay_start
        rate = self.initial_learning_rate * xp.power(xp.maximum(passed, 1.0), self.power)
        if self.total_decay_steps is not None and self.linear_decay_fraction:
            left = (self.total_decay_steps - passed) / (self.total_decay_steps * self.linear_decay_fraction)
            rate = rate * xp.clip(left, 0.0, 1.0)
        if self.pre_offset_learning_rate is not None:
            before = self.pre_offset_learning_rate
            rate = xp.where(passed > 0, xp.minimum(rate, before), before)
        return rate

    def turns(self) -> Sequence[int]:
        return self.decay_start, self.decay_start + 1

    def given_rate(self) -> float | None:
        return None


@dataclass
class StepwiseConfig(Formula):
    """values[0] up to and with step boundaries[0], then values[1] up to and with boundaries[1], and so on."""

    boundaries: list[int] = field(default_factory=list, metadata={"bounds": (0, MOST)})
    """Last steps of all values but the last, counted from decay_start."""
    values: list[float] = field(default_factory=list, metadata={"bounds": (0, MOST)})
    """Rates, one more than boundaries."""
    decay_start: int = at_least(0, 0)
    """Step from which steps are counted."""

    def at(self, step: Any, xp: Any) -> Any:
        passed = step - self.decay_start
        rate = xp.full_like(passed, self.values[0])
        for boundary, value in zip(self.boundaries, self.values[1:], strict=True):
            rate = xp.where(passed > boundary, value, rate)
        return rate

    def turns(self) -> Sequence[int]:
        return [self.decay_start + boundary + after for boundary in self.boundaries for after in (0, 1)]

    def faults(self) -> Iterator[tuple[str, Any, str]]:
        if len(self.boundaries) > _MOST_VALUES:
            yield "boundaries", f"{len(self.boundaries)} steps", f"must be at most {_MOST_VALUES}."
        if len(self.values) != len(self.boundaries) + 1:
            yield "values", self.values, f"must be one more than boundaries, {len(self.boundaries)} + 1 rates."
        if self.boundaries != sorted(set(self.boundaries)):
            yield "boundaries", self.boundaries, "must be steps that rise, e.g. [1000, 5000]."
        if not any(self.values):
            yield "values", self.values, "must be rates, one of them above 0."
