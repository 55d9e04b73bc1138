"""Optimizers, learning rates, weight decay, averages of weights; `build_optimizer` makes what a configuration describes."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nlpdata.errors import UsageError
from pretrain.optimizers.curve import resolved
from pretrain.registry import OPTIMIZERS, SCHEDULES, WARMUPS
from pretrain.settings.trainer_section import OptimizationConfig


def build_optimizer(
    config: OptimizationConfig, train_steps: int, variables: Sequence[Any] = ()
) -> tuple[Any, float | None]:
    """(optimizer, largest global norm of the gradients or None) for a run of that many steps.

    Args:
      config: what it computes.
      train_steps: length of the run.
      variables: all weights of the model, frozen ones too, of whose layers layer_decay and unfreeze_steps speak.

    Clipping is the engine's, since gradients must be summed over replicas and micro-steps first.
    """
    if train_steps < 1:
        raise UsageError(f"train_steps must be above 0. Received: {train_steps}")
    learning_rate = build_learning_rate(config, train_steps)
    options = asdict(config.optimizer.options)
    clip_norm = options.pop("gradient_clip_norm")
    if clip_norm is not None and clip_norm < 0:
        raise UsageError(
            f"gradient_clip_norm must not be negative; 0 or null switches clipping off. Received: {clip_norm}"
        )
    optimizer = OPTIMIZERS.get(config.optimizer.type)
    if config.layer_decay != 1 or config.unfreeze_steps:
        from pretrain.optimizers.layer_rates import with_layer_rates  # imports Keras, which this package does not

        rates = {"layer_decay": config.layer_decay, "unfreeze_steps": config.unfreeze_steps}
        optimizer = with_layer_rates(optimizer, [variable.path for variable in variables], **rates)
    return optimizer(learning_rate, **options), clip_norm or None


def build_learning_rate(config: OptimizationConfig, train_steps: int) -> Any:
    """The rate as a function of the step, with its warm-up, for a run of that many steps."""
    config = resolved(config, train_steps)
    rate = SCHEDULES.get(config.learning_rate.type).for_run(config.learning_rate.options, train_steps)
    if config.warmup is None:
        return rate
    return WARMUPS.get(config.warmup.type).for_run(config.warmup.options, train_steps, rate)
