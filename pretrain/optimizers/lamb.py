"""LAMB (You et al., 2019, arXiv 1904.00962, algorithm 2), with phi the identity."""

import re
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from pretrain.optimizers.adamw import AdamW
from pretrain.optimizers.configs import LambConfig


@keras.saving.register_keras_serializable("pretrain")
class Lamb(AdamW):
    """update = m / (sqrt(v) + epsilon) + weight_decay_rate * weight; weight -= learning_rate * trust * update.

    The trust ratio is norm(weight) / norm(update), the decay included; 1 where either norm is 0.
    Arguments: the fields of LambConfig, less gradient_clip_norm, which is the engine's.
    """

    config_class = LambConfig

    def __init__(
        self,
        learning_rate: Any,
        *,
        bias_correction: bool = True,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "lamb",
        **options: Any,
    ):
        super().__init__(learning_rate, bias_correction=bias_correction, name=name, **options)
        self.exclude_from_layer_adaptation = exclude_from_layer_adaptation

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        exclude = self.exclude_from_layer_adaptation
        self._adapted = self._decayed
        if exclude is not None:
            self._adapted = [
                not any(re.search(pattern, variable.path) for pattern in exclude) for variable in variables
            ]

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        update = self._decayed_update(gradient, variable, index)
        rate = ops.cast(learning_rate, variable.dtype)
        if self._adapted[index]:
            rate = rate * _trust_ratio(variable, update)
        self.assign_sub(variable, rate * update)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"exclude_from_layer_adaptation": self.exclude_from_layer_adaptation}


def _trust_ratio(weight: Any, update: Any) -> Any:
    weight_norm = ops.sqrt(ops.sum(ops.square(weight)))
    update_norm = ops.sqrt(ops.sum(ops.square(update)))
    usable = ops.logical_and(weight_norm > 0, update_norm > 0)
    return ops.where(usable, weight_norm / ops.where(usable, update_norm, 1.0), 1.0)
