"""Learning rates: pure functions of the step. curve.py has their rule and the same in plain numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import keras
from keras import ops

from nlpdata.errors import UsageError
from pretrain.optimizers.configs import ConstantConfig, LinearWarmupConfig, PolynomialConfig, PolynomialWarmupConfig
from pretrain.optimizers.curve import warmup_length
from pretrain.optimizers.formulas import (
    CosineConfig,
    ExponentialConfig,
    Formula,
    InverseSquareRootConfig,
    PowerConfig,
    StepwiseConfig,
    WarmupStableDecayConfig,
)


@keras.saving.register_keras_serializable("pretrain")
class Constant(keras.optimizers.schedules.LearningRateSchedule):
    """The same rate at every step."""

    config_class = ConstantConfig

    def __init__(self, learning_rate: float):
        self.learning_rate = learning_rate

    @classmethod
    def for_run(cls, config: ConstantConfig, train_steps: int) -> "Constant":
        return cls(config.learning_rate)

    def __call__(self, step: Any) -> Any:
        return ops.full_like(ops.cast(step, "float32"), self.learning_rate)

    def get_config(self) -> dict[str, Any]:
        return {"learning_rate": self.learning_rate}


@keras.saving.register_keras_serializable("pretrain")
class Polynomial(keras.optimizers.schedules.LearningRateSchedule):
    """end + (initial - end) * (1 - (step - decay_start) / decay_steps) ** power, between the two ends of the decay."""

    config_class = PolynomialConfig

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        end_learning_rate: float = 0.0,
        power: float = 1.0,
        decay_start: int = 0,
    ):
        if decay_steps < 1:
            raise UsageError(f"decay_steps must be above 0. Received: {decay_steps}")
        self.initial_learning_rate, self.end_learning_rate = initial_learning_rate, end_learning_rate
        self.decay_steps, self.power, self.decay_start = decay_steps, power, decay_start

    @classmethod
    def for_run(cls, config: PolynomialConfig, train_steps: int) -> "Polynomial":
        steps, start = (train_steps if config.decay_steps is None else config.decay_steps), config.decay_start or 0
        return cls(config.initial_learning_rate, steps, config.end_learning_rate, config.power, start)

    def __call__(self, step: Any) -> Any:
        passed = (ops.cast(step, "float32") - self.decay_start) / self.decay_steps
        left = 1.0 - ops.clip(passed, 0.0, 1.0)
        return self.end_learning_rate + (self.initial_learning_rate - self.end_learning_rate) * left**self.power

    def get_config(self) -> dict[str, Any]:
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "decay_steps": self.decay_steps,
            "end_learning_rate": self.end_learning_rate,
            "power": self.power,
            "decay_start": self.decay_start,
        }


class GivenRate(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule whose rate a compiled step is given: so the step is the same for any schedule, and any length of a run."""

    def __init__(self, schedule: keras.optimizers.schedules.LearningRateSchedule):
        self._schedule, self._rate = schedule, None

    @contextmanager
    def given(self, rate: Any) -> Iterator[None]:
        """In it this is the rate, whatever the step."""
        self._rate = rate
        try:
            yield
        finally:
            self._rate = None

    def __call__(self, step: Any) -> Any:
        return self._schedule(step) if self._rate is None else self._rate


class FormulaSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Base of those below: the rate of a Formula, whose fields are the arguments."""

    config_class: type[Formula]

    def __init__(self, **options: Any):
        self.formula = self.config_class(**options)

    @classmethod
    def for_run(cls, config: Formula, train_steps: int) -> "FormulaSchedule":
        return cls(**asdict(config))

    def __call__(self, step: Any) -> Any:
        return self.formula.at(ops.cast(step, "float32"), ops)

    def get_config(self) -> dict[str, Any]:
        return asdict(self.formula)


@keras.saving.register_keras_serializable("pretrain")
class Cosine(FormulaSchedule):
    """See CosineConfig."""

    config_class = CosineConfig


@keras.saving.register_keras_serializable("pretrain")
class Exponential(FormulaSchedule):
    """See ExponentialConfig."""

    config_class = ExponentialConfig


@keras.saving.register_keras_serializable("pretrain")
class InverseSquareRoot(FormulaSchedule):
    """See InverseSquareRootConfig."""

    config_class = InverseSquareRootConfig


@keras.saving.register_keras_serializable("pretrain")
class Power(FormulaSchedule):
    """See PowerConfig."""

    config_class = PowerConfig


@keras.saving.register_keras_serializable("pretrain")
class Stepwise(FormulaSchedule):
    """See StepwiseConfig."""

    config_class = StepwiseConfig


@keras.saving.register_keras_serializable("pretrain")
class WarmupStableDecay(FormulaSchedule):
    """See WarmupStableDecayConfig."""

    config_class = WarmupStableDecayConfig


@keras.saving.register_keras_serializable("pretrain")
class PolynomialWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """From warmup_learning_rate at step 0 to `after` at step `warmup_steps`, as (step / warmup_steps) ** power rises."""

    config_class: type[LinearWarmupConfig] = PolynomialWarmupConfig

    def __init__(self, after: Any, warmup_steps: int, warmup_learning_rate: float = 0.0, power: float = 1.0):
        if warmup_steps < 0:
            raise UsageError(f"warmup_steps must not be negative. Received: {warmup_steps}")
        self.after, self.warmup_steps = after, warmup_steps
        self.warmup_learning_rate, self.power = warmup_learning_rate, power

    @classmethod
    def for_run(cls, config: LinearWarmupConfig, train_steps: int, after: Any) -> "PolynomialWarmup":
        options = asdict(config)
        del options["warmup_proportion"]
        return cls(after, **options | {"warmup_steps": warmup_length(config, train_steps)})

    def __call__(self, step: Any) -> Any:
        if not self.warmup_steps:
            return self.after(step)
        share = ops.cast(step, "float32") / self.warmup_steps
        target = self.after(self.warmup_steps)
        rising = self.warmup_learning_rate + (target - self.warmup_learning_rate) * share**self.power
        return ops.where(share < 1.0, rising, self.after(step))

    def get_config(self) -> dict[str, Any]:
        return {
            "after": keras.optimizers.schedules.serialize(self.after),
            "warmup_steps": self.warmup_steps,
            "warmup_learning_rate": self.warmup_learning_rate,
            "power": self.power,
        }

    @classmethod
    def from_config(cls, config: Any) -> "PolynomialWarmup":
        return cls(**config | {"after": keras.optimizers.schedules.deserialize(config["after"])})


@keras.saving.register_keras_serializable("pretrain")
class LinearWarmup(PolynomialWarmup):
    """The same in a straight line."""

    config_class = LinearWarmupConfig
