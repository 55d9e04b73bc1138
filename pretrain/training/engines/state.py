"""What engines share: the model in the precision of the run, what updates it, and the state of both by name, on every backend."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from nlpdata.errors import DataError, UsageError
from pretrain.encoders.model import EncoderModel, weights_by_path
from pretrain.optimizers import build_optimizer
from pretrain.optimizers.average import Average
from pretrain.optimizers.freezing import freeze
from pretrain.optimizers.schedules import GivenRate
from pretrain.settings.schema import RuntimeConfig
from pretrain.settings.trainer_section import OptimizationConfig

_PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
LOSS_SCALE_START, LOSS_SCALE_GROWTH_STEPS = 2.0**15, 2000


def build_model(task: Any, runtime: RuntimeConfig) -> EncoderModel:
    """The task's model, its layers in the runtime's precision. UsageError for an unknown precision."""
    precision = runtime.mixed_precision_dtype
    if precision not in _PRECISIONS:
        raise UsageError(f"runtime.mixed_precision_dtype is {precision!r}, expected one of {', '.join(_PRECISIONS)}.")
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_PRECISIONS[precision])
    try:
        model = task.build_model(seed=runtime.seed)
    finally:
        keras.config.set_dtype_policy(before)
    if runtime.gradient_checkpointing:
        if not hasattr(model.encoder, "gradient_checkpointing"):
            raise UsageError(
                f"runtime.gradient_checkpointing is true, but {type(model.encoder).__name__} cannot compute its layers again: it "
                "has no such attribute. Set it to false."
            )
        model.encoder.gradient_checkpointing = True
    return model


@dataclass(frozen=True)
class Updates:
    """What a step does to a model's weights.

    Attributes:
      optimizer: built for the model's trainable variables.
      clip_norm: largest global norm of the gradients; None: any.
      average: of the trainable variables, where the run keeps one.
      frozen: the weights that stay as they are.
    """

    optimizer: Any
    clip_norm: float | None
    average: Average | None
    frozen: list


def build_updates(model: EncoderModel, config: OptimizationConfig, train_steps: int) -> Updates:
    """What trains a model in a run of that many steps; freezes the weights that the configuration names."""
    frozen = freeze(weights_by_path(model), config.freeze)
    optimizer, clip_norm = build_optimizer(config, train_steps, model.weights)
    optimizer.build(model.trainable_variables)
    average = Average(config.ema, model.trainable_variables) if config.ema else None
    return Updates(optimizer, clip_norm, average, frozen)


def named_variables(
    model: EncoderModel, optimizer: Any = None, average: Average | None = None
) -> dict[str, keras.Variable]:
    """The variables of a model, its optimizer and the average of its weights: "model/<path>", "optimizer/...", "average/<path>"."""
    named = {f"model/{path}": variable for path, variable in weights_by_path(model).items()}
    if optimizer is not None:
        named |= _named_of_optimizer(optimizer.variables)
    if average is not None:
        paths = {id(weight): path for path, weight in weights_by_path(model).items()}
        averaged = zip(model.trainable_variables, average.variables, strict=True)
        named |= {f"average/{paths[id(weight)]}": value for weight, value in averaged}
    return named


def _named_of_optimizer(variables: list[keras.Variable]) -> dict[str, keras.Variable]:
    """By path; of several with one path, as Keras's Adafactor has, the second and further ones get their number."""
    named: dict[str, keras.Variable] = {}
    for variable in variables:
        name, number = f"optimizer/{variable.path}", 1
        while name in named:
            name, number = f"optimizer/{variable.path}_{number}", number + 1
        named[name] = variable
    return named


def stored(value: np.ndarray) -> np.ndarray:
    """An array as checkpoints keep it: bfloat16, which numpy's files do not know, as float32, which holds it exactly."""
    return value.astype(np.float32) if value.dtype.name == "bfloat16" else value


def select_state(own: Mapping, state: Mapping[str, np.ndarray], weights_only: bool) -> dict[str, np.ndarray]:
    """What an engine takes over of a checkpoint: all, or the "model/..." alone.

    Args:
      own: name -> what the engine has, with a shape.
      state: name -> array of the checkpoint.

    Raises DataError where names or shapes differ.
    """
    own = {k: v for k, v in own.items() if k.startswith("model/") or not weights_only}
    state = {k: v for k, v in state.items() if k.startswith("model/") or not weights_only}
    wrong = [f"{name}: not in the checkpoint" for name in sorted(own.keys() - state.keys())]
    wrong += [f"{name}: only in the checkpoint" for name in sorted(state.keys() - own.keys())]
    wrong += [
        f"{name}: {tuple(own[name].shape)}, in the checkpoint {state[name].shape}"
        for name in sorted(own.keys() & state.keys())
        if tuple(own[name].shape) != state[name].shape
    ]
    if wrong:
        raise DataError(
            "the checkpoint does not fit this model and optimizer. Was the configuration changed? Use another model_dir, "
            "and init_checkpoint for the weights to start from. " + "; ".join(wrong[:10])
        )
    return state


def give_rate(optimizer: Any) -> GivenRate | None:
    """Puts a GivenRate in the place of an optimizer's schedule, and returns it; None for an optimizer that has no schedule."""
    schedule = optimizer._learning_rate
    if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        return None
    optimizer.learning_rate = rate = GivenRate(schedule)
    return rate


def rate_at(optimizer: Any, step: int, compiled: Callable[[Any], Any] = lambda rate: rate) -> float:
    """The learning rate of a step; `compiled` gives what computes the same as a schedule, e.g. jax.jit."""
    rate = optimizer._learning_rate
    scheduled = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    return float(compiled(rate)(step) if scheduled else optimizer.learning_rate)
