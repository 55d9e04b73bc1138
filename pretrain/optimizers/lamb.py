"""LAMB (You et al., 2019, arXiv 1904.00962, algorithm 2), with phi the identity."""

import re
from dataclasses import dataclass

from keras import ops

from pretrain.optimizers.adamw import AdamW, AdamWConfig
from pretrain.optimizers.decay import is_decayed


@dataclass(frozen=True)
class LambConfig(AdamWConfig):
    bias_correction: bool = True
    """Divide the moments by 1 - beta ** step, as in the paper; google-research/albert does not."""
    exclude_from_layer_adaptation: list[str] | None = None
    """Regular expressions of weights without trust ratio; null: those that do not decay, as the authors' code has it."""


class Lamb(AdamW):
    """update = m / (sqrt(v) + epsilon) + weight_decay_rate * weight; weight -= learning_rate * trust * update.

    The trust ratio is norm(weight) / norm(update), the decay included; 1 where either norm is 0.
    Arguments: the fields of LambConfig, less gradient_clip_norm, which is the engine's.
    """

    config_class = LambConfig

    def __init__(
        self, learning_rate, *, bias_correction=True, exclude_from_layer_adaptation=None, name="lamb", **options
    ):
        super().__init__(learning_rate, bias_correction=bias_correction, name=name, **options)
        self.exclude_from_layer_adaptation = exclude_from_layer_adaptation

    def update_step(self, gradient, variable, learning_rate):
        update = self.adam_update(gradient, variable)
        decayed = is_decayed(variable.path, self.exclude_from_weight_decay)
        if decayed and self.weight_decay_rate:
            update = update + ops.cast(self.weight_decay_rate, variable.dtype) * variable
        rate = ops.cast(learning_rate, variable.dtype)
        if self._is_adapted(variable.path):
            rate = rate * _trust_ratio(variable, update)
        self.assign_sub(variable, rate * update)

    def _is_adapted(self, path: str) -> bool:
        exclude = self.exclude_from_layer_adaptation
        if exclude is None:
            return is_decayed(path, self.exclude_from_weight_decay)
        return not any(re.search(pattern, path) for pattern in exclude)

    def get_config(self):
        return super().get_config() | {"exclude_from_layer_adaptation": self.exclude_from_layer_adaptation}


def _trust_ratio(weight, update):
    weight_norm = ops.sqrt(ops.sum(ops.square(weight)))
    update_norm = ops.sqrt(ops.sum(ops.square(update)))
    usable = ops.logical_and(weight_norm > 0, update_norm > 0)
    return ops.where(usable, weight_norm / ops.where(usable, update_norm, 1.0), 1.0)
