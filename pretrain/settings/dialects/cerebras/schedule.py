"""The learning rate of a Cerebras YAML: a number, a schedule, or a list of them one after the other -> warm-up and decay.

Theirs: Linear goes from initial_learning_rate to end_learning_rate in `steps`, which count from its own beginning, or with
disable_lr_steps_reset from step 0. Ours: a decay of decay_steps from decay_start, and a warm-up to its value where warm-up
ends (optimizers/curve.py). A Linear that rises and has nothing after it is a warm-up to a constant rate.
"""

import logging
from typing import Any

from nlpdata.files.json_kinds import as_written
from pretrain.settings.values import parse_value

_log = logging.getLogger(__name__)

_FIELDS = {
    "constant": ("learning_rate",),
    "linear": ("initial_learning_rate", "end_learning_rate", "steps"),
}


def learning_rate_layer(given: Any, reset: bool) -> dict:
    """{"learning_rate": ..., "warmup": ...}: a layer over trainer.optimizer_config.

    Args:
      given: their value.
      reset: whether a schedule's steps count from its own beginning.

    Raises ValueError for a schedule that is not supported.
    """
    given = given if isinstance(given, list) else [given]
    if not given:
        raise ValueError("expected a rate, or a list of schedules. Received: []")
    schedules = [_schedule(each) for each in given]
    only = schedules[0]
    if len(schedules) == 1 and only.get("end_learning_rate", 0.0) > only.get("initial_learning_rate", 0.0):
        schedules.append({"learning_rate": only["end_learning_rate"]})
    if len(schedules) == 1:
        return {"learning_rate": _ours(only, 0), "warmup": None}
    if len(schedules) != 2 or "steps" not in schedules[0]:
        raise ValueError(
            f"{len(schedules)} schedules: expected one, or a Linear warm-up and one more. Received: {given}"
        )
    first, second = schedules
    top = second.get("initial_learning_rate", second.get("learning_rate"))
    if first["end_learning_rate"] != top:
        raise ValueError(f"the first schedule ends at {first['end_learning_rate']:g}, the second begins at {top:g}.")
    steps = first["steps"]
    if not reset and "steps" in second:
        _log.info(
            f"the learning rate decays from step 0 (disable_lr_steps_reset); warm-up rises to its value at step {steps}, where "
            "Cerebras's rises to the initial rate and drops"
        )
    warmup = {"warmup_steps": steps, "warmup_learning_rate": first["initial_learning_rate"]}
    return {
        "learning_rate": _ours(second, steps if reset else 0),
        "warmup": {"type": "linear", "linear": warmup},
    }


def _schedule(given: Any) -> dict[str, float]:
    if not isinstance(given, dict):
        return {"learning_rate": parse_value(float, given)}
    kind = str(given.get("scheduler", "")).lower()
    if kind not in _FIELDS:
        raise ValueError(f"scheduler {as_written(given.get('scheduler'))} is not supported. Use Linear or Constant.")
    optional = {"steps"} if kind == "constant" else set()
    wrong = sorted(({"scheduler", *_FIELDS[kind]} ^ set(given)) - optional)
    if wrong:
        raise ValueError(
            f"a {given['scheduler']} schedule has {', '.join(_FIELDS[kind])}. Missing or unknown: {', '.join(wrong)}."
        )
    return {name: parse_value(int if name == "steps" else float, given[name]) for name in _FIELDS[kind]}


def _ours(schedule: dict[str, float], start: float) -> dict:
    """The learning rate of `schedule`, whose steps count from `start`."""
    if "steps" not in schedule:
        return {"type": "constant", "constant": {"learning_rate": schedule["learning_rate"]}}
    first, last, steps = (schedule[name] for name in _FIELDS["linear"])
    options = {
        "initial_learning_rate": first, "end_learning_rate": last, "decay_steps": steps, "decay_start": start, "power": 1.0,
    }  # fmt: skip
    return {"type": "polynomial", "polynomial": options}
