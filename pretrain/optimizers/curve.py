"""The learning rate of a run in numbers, without Keras: what is checked before a run and what its checkpoints store.

The first step is step 0. Warm-up rises to the rate that the decay has where warm-up ends. There are two rules:

    decay_steps unset   the decay starts where warm-up ends and ends with the run: warm-up ends at the rate that is given
    decay_steps set     the decay counts from step 0 (or decay_start), as in the TensorFlow Model Garden

    rate 1e-4, 100 steps of warm-up, 1000 steps:                     step 0 -> 0, 50 -> 5e-5, 100 -> 1e-4, 550 -> 5e-5
    the same with decay_steps 1000:                                  step 0 -> 0, 50 -> 4.5e-5, 100 -> 9e-5, 550 -> 4.5e-5

Runs from before the first rule counted from step 0 always; `with_older_rule` keeps that for their checkpoints.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from nlpdata.registry import Registry
from pretrain.optimizers.configs import ConstantConfig, LinearWarmupConfig, PolynomialConfig
from pretrain.optimizers.formulas import Formula
from pretrain.registry import SCHEDULES, WARMUPS
from pretrain.settings.fields import Choice
from pretrain.settings.trainer_section import OptimizationConfig

AFTER_WARMUP, DECAY_STEPS, OLDER_RUN = "after_warmup", "decay_steps", "older_run"
_FILLED_IN = {"decay_proportion": "decay_steps"}  # an option that says nothing -> the one of the run that does


@dataclass(frozen=True)
class Curve:
    """The rate of every step; of the built-in learning rates and warm-ups.

    Attributes:
      type: name of the learning rate, e.g. polynomial.
      rate: learning rate before the decay begins.
      warmup_steps, warmup_rate, warmup_power: length of the warm-up, where it starts, how it rises.
      decay_start, decay_end: steps between which the rate falls; None: it never does.
      end_rate, power: where and how it falls.
      rule: what decides on decay_start: AFTER_WARMUP, DECAY_STEPS or OLDER_RUN.
      formula: computes the rate after warm-up of types other than constant and polynomial, filled in for the run.
    """

    type: str
    rate: float
    warmup_steps: int = 0
    warmup_rate: float = 0.0
    warmup_power: float = 1.0
    decay_start: int | None = None
    decay_end: int | None = None
    end_rate: float | None = None
    power: float | None = None
    rule: str = AFTER_WARMUP
    formula: Formula | None = None

    def at(self, step: int) -> float:
        """The rate of a step."""
        if step >= self.warmup_steps:
            return self._decayed(step)
        top = self._decayed(self.warmup_steps)
        return self.warmup_rate + (top - self.warmup_rate) * (step / self.warmup_steps) ** self.warmup_power

    def peak(self, train_steps: int) -> float:
        """The highest rate of a run of that many steps. All parts are monotonic, so their ends decide."""
        turns = self.formula.turns() if self.formula else ()
        ends = (0, self.warmup_steps - 1, self.warmup_steps, train_steps - 1, *turns)
        return max(self.at(min(max(step, 0), train_steps - 1)) for step in ends)

    def _decayed(self, step: int) -> float:
        if self.formula:
            return float(self.formula.at(float(step), np))
        start, end, last, power = self.decay_start, self.decay_end, self.end_rate, self.power
        if start is None or end is None or last is None or power is None:  # constant
            return self.rate
        passed = (step - start) / (end - start)
        return last + (self.rate - last) * (1 - min(max(passed, 0.0), 1.0)) ** power


def curve_of(config: OptimizationConfig, train_steps: int) -> Curve | None:
    """The rates of a run of that many steps; None where a part of the user's own decides them."""
    options, warmup = config.learning_rate.options, config.warmup and config.warmup.options
    if not SCHEDULES.is_built_in(config.learning_rate.type):
        return None
    if config.warmup and not WARMUPS.is_built_in(config.warmup.type):
        return None
    rising: dict[str, Any] = {}
    if warmup:
        rising = {
            "warmup_steps": warmup_length(warmup, train_steps),
            "warmup_rate": warmup.warmup_learning_rate,
            "warmup_power": getattr(warmup, "power", 1.0),
        }
    if isinstance(options, ConstantConfig):
        return Curve(config.learning_rate.type, options.learning_rate, **rising)
    filled = resolved(config, train_steps).learning_rate.options
    if isinstance(filled, Formula):
        start, end, last = filled.decay() or (None, None, None)
        return Curve(
            config.learning_rate.type,
            filled.given_rate() or 0.0,
            **rising,
            decay_start=start,
            decay_end=end,
            end_rate=last,
            rule=DECAY_STEPS if options.counts_from_step_0 else AFTER_WARMUP,
            formula=filled,
        )
    return Curve(
        config.learning_rate.type,
        options.initial_learning_rate,
        **rising,
        decay_start=filled.decay_start,
        decay_end=filled.decay_start + max(filled.decay_steps, 1),
        end_rate=options.end_learning_rate,
        power=options.power,
        rule=AFTER_WARMUP if options.decay_steps is None else DECAY_STEPS,
    )


def warmup_length(config: Any, train_steps: int) -> int:
    """Steps of the warm-up of a run; 0 for options of the user's own, which may have no such number."""
    if not isinstance(config, LinearWarmupConfig):
        return 0
    return int(train_steps * config.warmup_proportion) if config.warmup_steps is None else config.warmup_steps


def resolved(config: OptimizationConfig, train_steps: int) -> OptimizationConfig:
    """The configuration with the decay's start and length filled in, where it leaves them to the run."""
    options = config.learning_rate.options
    if isinstance(options, Formula):
        warmup = warmup_length(config.warmup.options, train_steps) if config.warmup else 0
        return _with_rate(config, options.for_run(warmup, train_steps))
    if not isinstance(options, PolynomialConfig):
        return config
    start, steps = options.decay_start, options.decay_steps
    if start is None:
        start = warmup_length(config.warmup.options, train_steps) if steps is None and config.warmup else 0
    steps = max(1, train_steps - start) if steps is None else steps
    return _with_decay(config, start, steps)


def with_older_rule(config: OptimizationConfig, train_steps: int) -> OptimizationConfig:
    """The configuration whose decay counts from step 0 to the last step, as that of all runs once did."""
    options = config.learning_rate.options
    unset = isinstance(options, PolynomialConfig) and options.decay_steps is None and options.decay_start is None
    return _with_decay(config, 0, train_steps) if unset else config


def _with_decay(config: OptimizationConfig, start: int, steps: int) -> OptimizationConfig:
    return _with_rate(config, replace(config.learning_rate.options, decay_start=start, decay_steps=steps))


def _with_rate(config: OptimizationConfig, options: Any) -> OptimizationConfig:
    return replace(config, learning_rate=replace(config.learning_rate, options=options))


def description(config: OptimizationConfig, train_steps: int, older: bool = False) -> dict:
    """The learning rate of a run as plain data, for its checkpoints.

    Args:
      config: configuration as the user gave it.
      train_steps: length of the run in steps.
      older: the run resumes from a checkpoint that follows the older rule.

    Has `type`, `peak` (the highest rate that the run reaches) and the fields of Curve, or its warm-up and its formula's options;
    of parts of the user's own, their names and options.
    """
    followed = with_older_rule(config, train_steps) if older else config
    curve = curve_of(followed, train_steps)
    if curve is None:
        parts = {"learning_rate": config.learning_rate, "warmup": config.warmup}
        own = {name: part and {"type": part.type, "options": asdict(part.options)} for name, part in parts.items()}
        return own | {"train_steps": train_steps}
    peak, numbers = curve.peak(train_steps), asdict(curve)
    formula = numbers.pop("formula")
    if formula is not None:
        warmup = {name: value for name, value in numbers.items() if name.startswith("warmup")}
        return {"type": curve.type, "peak": peak, **warmup, "formula": formula, "rule": curve.rule}
    return {"type": curve.type, "peak": peak, **numbers, "rule": OLDER_RUN if followed is not config else curve.rule}


def in_words(stored: Mapping) -> str:
    """What `description` returned, on one line; anything else is shown as it is."""
    try:
        return _in_words(stored)
    except (KeyError, TypeError, ValueError, AttributeError):
        return f"not understood: {str(dict(stored))[:80]}"


def _in_words(stored: Mapping) -> str:
    if "type" not in stored:
        parts = [part["type"] for part in (stored.get("learning_rate"), stored.get("warmup")) if part]
        return f"{' after '.join(parts)}, {stored.get('train_steps')} steps"
    words = [f"peak {stored['peak']:.4g}"]
    if stored["warmup_steps"]:
        steps = stored["warmup_steps"]
        words.append(f"warm-up from {stored['warmup_rate']:.4g} in {steps} step{'s' if steps > 1 else ''}")
    if "formula" in stored:
        options = ", ".join(f"{name} {str(value)[:40]}" for name, value in _in_order(stored["type"], stored["formula"]))
        words.append(f"then {stored['type']}: {options}"[:400])
    elif stored["decay_start"] is None:
        words.append("then constant")
    else:
        power = "" if stored["power"] == 1 else f" with power {stored['power']:g}"
        words.append(
            f"decay{power} from {stored['rate']:.4g} at step {stored['decay_start']} to {stored['end_rate']:.4g} at step "
            f"{stored['decay_end']}"
        )
    return ", ".join(words)


def _in_order(kind: str, options: Mapping) -> list[tuple[str, Any]]:
    """The options of a learning rate in the order in which they are declared: those of a checkpoint come by name."""
    declared = [each.name for each in fields(SCHEDULES.config_class(kind))] if SCHEDULES.is_built_in(kind) else []
    told = ((name, value) for name, value in options.items() if options.get(_FILLED_IN.get(name, "")) is None)
    return sorted(told, key=lambda each: declared.index(each[0]) if each[0] in declared else len(declared))


def is_older(info: Mapping) -> bool:
    """Whether a checkpoint's run follows the older rule: it stores no learning rate, or that rule."""
    stored = info.get("schedule")
    return stored is None or stored.get("rule") == OLDER_RUN


def stored_description(info: Mapping) -> dict | None:
    """The learning rate of the run that wrote a checkpoint; None where it cannot be known."""
    if info.get("schedule"):
        return info["schedule"]
    try:  # of a checkpoint that stores none: from its configuration
        trainer, data = info["config"]["trainer"], info["data"]
        steps = trainer["train_steps"]
        if steps is None:
            steps = data["num_examples"] // data["batch_size"] * trainer["num_train_epochs"]
        parts = trainer["optimizer_config"]
        config = OptimizationConfig(
            learning_rate=_part(SCHEDULES, parts["learning_rate"]),
            warmup=_part(WARMUPS, parts["warmup"]) if parts["warmup"] else None,
        )
        return description(config, steps, older=True)
    except (KeyError, TypeError, ValueError):
        return None


def _part(registry: Registry, stored: Mapping) -> Choice:
    """A built-in part with its stored options: a name in a checkpoint is never imported."""
    if not registry.is_built_in(stored["type"]):
        raise ValueError(stored["type"])
    return Choice(stored["type"], registry.config_class(stored["type"])(**stored["options"]))
