"""Learning rates and warm-ups that no run could have, or not one of that length: refused, or warned of."""

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from nlpdata.errors import UsageError, opt
from pretrain.optimizers.configs import ConstantConfig, LinearWarmupConfig, PolynomialConfig
from pretrain.optimizers.curve import curve_of, warmup_length
from pretrain.optimizers.formulas import Formula, WarmupStableDecayConfig
from pretrain.settings.trainer_section import OptimizationConfig

OPTIMIZATION = "trainer.optimizer_config"
_LEARNS = f"must be a number above 0; at 0 no step changes a weight. Give one, e.g. {opt('learning_rate', 1e-4)}."


def require(holds: bool, path: str, value: Any, expected: str) -> None:
    """UsageError, with the dotted path and what is expected, unless `holds`."""
    if not holds:
        raise UsageError(f"{path} is {value!r}: {expected}")


def refuse_rate(optimization: OptimizationConfig) -> None:
    """UsageError, with the dotted path, for a learning rate or a warm-up that no run could have."""
    options, path = optimization.learning_rate.options, f"{OPTIMIZATION}.learning_rate"
    if isinstance(options, Formula):
        _formula(options, path)
    else:
        _built_in(options, path)
    if optimization.warmup is not None:
        _warmup(optimization, optimization.warmup.options)


def _formula(options: Formula, path: str) -> None:
    for each in fields(options):
        if value := getattr(options, each.name):
            _within(value, each.metadata.get("bounds"), f"{path}.{each.name}")
    if hasattr(options, "initial_learning_rate"):
        require(
            options.initial_learning_rate > 0, f"{path}.initial_learning_rate", options.initial_learning_rate, _LEARNS
        )
    for name, value, expected in options.faults():
        raise UsageError(f"{path}.{name} is {value!r}: {expected}")


def _within(value: Any, bounds: tuple[float, float] | None, path: str) -> None:
    """UsageError for a number, or one of a list, that is not within its bounds: Python does not check them."""
    if bounds is not None:
        numbers = value if isinstance(value, list) else [value]
        least, most = bounds
        require(
            all(least <= number <= most for number in numbers),
            path,
            value,
            f"must be at least {least:g} and at most {most:g}.",
        )


def _built_in(options: Any, path: str) -> None:
    if not isinstance(options, ConstantConfig | PolynomialConfig):
        return
    name = "learning_rate" if isinstance(options, ConstantConfig) else "initial_learning_rate"
    rate = getattr(options, name)
    require(0 < rate < math.inf, f"{path}.{name}", rate, _LEARNS)
    if isinstance(options, PolynomialConfig):
        end = options.end_learning_rate
        below = f"must be at least 0 and at most initial_learning_rate, {rate:g}, the highest rate."
        require(0 <= end <= rate, f"{path}.end_learning_rate", end, below)
        require(
            0 < options.power < math.inf, f"{path}.power", options.power, "must be above 0, or the rate never falls."
        )
        for name, least in (("decay_steps", 1), ("decay_start", 0)):
            value = getattr(options, name)
            require(value is None or value >= least, f"{path}.{name}", value, f"must be at least {least}, or null.")


def _warmup(optimization: OptimizationConfig, options: Any) -> None:
    path = f"{OPTIMIZATION}.warmup"
    if not isinstance(options, LinearWarmupConfig):
        return
    steps, share = options.warmup_steps, options.warmup_proportion
    require(steps is None or steps >= 0, f"{path}.warmup_steps", steps, "warmup_steps must not be negative.")
    require(0 <= share < math.inf, f"{path}.warmup_proportion", share, "must be at least 0 and below 1.")
    rate = given_rate(optimization)
    start = options.warmup_learning_rate
    below = "must be at least 0 and at most the learning rate" + (f", {rate:g}." if rate else ".")
    require(0 <= start <= (rate or math.inf), f"{path}.warmup_learning_rate", start, below)
    power = getattr(options, "power", 1.0)
    require(0 < power < math.inf, f"{path}.power", power, "must be above 0, or the rate does not rise.")
    if steps is None and share >= 1 and not _has_decay_steps(optimization):
        raise UsageError(
            f"{path}.warmup_proportion is {share:g}: warm-up would take the whole run, and the learning rate never reach "
            f"{rate or 0:g}. Give a share below 1, e.g. {opt('warmup_proportion', 0.1)}."
        )


def check_length(optimization: OptimizationConfig, steps: int | None) -> Iterator[str]:
    """Warnings about warm-up and decay against the length of the run in steps (None: unknown). UsageError where it never learns."""
    if steps is None or steps < 1:
        return
    curve, rate = curve_of(optimization, steps), given_rate(optimization)
    yield from _unused_share(optimization)
    warmup = warmup_length(optimization.warmup.options, steps) if optimization.warmup else 0
    if warmup >= steps:
        if not _has_decay_steps(optimization):
            reached = f" never reach {rate:g}" if rate else " not be reached"
            raise UsageError(
                f"{OPTIMIZATION}.warmup: warm-up takes {warmup} steps, and the run has {steps}: the learning rate would"
                f"{reached}. Shorten the warm-up ({opt('num_warmup_steps')} or {opt('warmup_proportion')}) or lengthen the run "
                f"({opt('num_train_steps')})."
            )
        if curve:
            yield (
                f"warm-up takes {warmup} steps, and the run has {steps}: the highest learning rate is "
                f"{curve.peak(steps):.4g}, not {rate:g}. Lower {OPTIMIZATION}.warmup.warmup_steps or raise train_steps."
            )
    if curve is None or curve.decay_start is None or curve.decay_end is None:
        return
    if curve.peak(steps) <= 0:
        raise UsageError(
            f"{OPTIMIZATION}: the learning rate is 0 at every step: the decay reaches 0 at step {curve.decay_end} (decay_steps), "
            f"and warm-up ends at step {curve.warmup_steps}. Raise decay_steps, or lower warmup_steps."
        )
    if curve.formula and optimization.learning_rate.options.decay_start is None and warmup > curve.decay_start:
        raise UsageError(
            f"{OPTIMIZATION}.learning_rate: the decay starts at step {curve.decay_start}, before warm-up ends at step {warmup}, so "
            f"the learning rate never reaches {rate:g}. Shorten the decay or the warm-up, or lengthen the run of {steps} steps."
        )
    if _ends_too_early(optimization, curve.decay_end, steps):
        yield (
            f"the learning rate falls to {curve.at(steps - 1):.4g}, not to {curve.end_rate:g}: the decay takes "
            f"{curve.decay_end - curve.decay_start} steps, and the run has {steps}. Lower "
            f"{OPTIMIZATION}.learning_rate.decay_steps, or raise train_steps."
        )
    if warmup < steps <= curve.decay_start:
        yield (
            f"the learning rate never decays: {OPTIMIZATION}.learning_rate.decay_start is {curve.decay_start}, and the run has "
            f"{steps} steps. Lower decay_start, or raise train_steps."
        )
    if curve.decay_end < steps and curve.end_rate == 0:
        yield (
            f"the learning rate is 0 from step {curve.decay_end} on ({OPTIMIZATION}.learning_rate.decay_steps), so "
            f"{steps - curve.decay_end} of {steps} steps change nothing. Leave decay_steps out, or lower train_steps."
        )


def _ends_too_early(optimization: OptimizationConfig, decay_end: int, steps: int) -> bool:
    """Whether a decay that ends with the run, by its definition, is longer than the run."""
    options = optimization.learning_rate.options
    return isinstance(options, WarmupStableDecayConfig) and options.decay_start is None and decay_end > steps


def _unused_share(optimization: OptimizationConfig) -> Iterator[str]:
    options = optimization.warmup and optimization.warmup.options
    if not isinstance(options, LinearWarmupConfig) or options.warmup_steps is None:
        return
    if options.warmup_proportion != LinearWarmupConfig.warmup_proportion:
        yield (
            f"{OPTIMIZATION}.warmup.warmup_steps {options.warmup_steps} decides; warmup_proportion {options.warmup_proportion:g} "
            "is not used. Give one of them."
        )


def given_rate(optimization: OptimizationConfig) -> float | None:
    """The rate that a run reaches at most; None where the configuration does not say it."""
    options = optimization.learning_rate.options
    if isinstance(options, Formula):
        return options.given_rate()
    return getattr(options, "initial_learning_rate", getattr(options, "learning_rate", None))


def _has_decay_steps(optimization: OptimizationConfig) -> bool:
    """Whether the decay counts from step 0, so that warm-up need not end at the rate that is given."""
    options = optimization.learning_rate.options
    if isinstance(options, Formula):
        return options.counts_from_step_0
    return getattr(options, "decay_steps", None) is not None
