"""Adafactor: Keras's own, with the decay of weights that the other optimizers here have."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from pretrain.optimizers.configs import AdafactorConfig
from pretrain.optimizers.decay import is_decayed


@keras.saving.register_keras_serializable("pretrain")
class Adafactor(keras.optimizers.Adafactor):
    """Shazeer and Stern, 2018 (arXiv 1804.04235), with factored second moments and no first one.

    The rate is relative: a step is at most learning_rate times the root mean square of the weight (or epsilon_2), and
    learning_rate itself at most 1 / sqrt(step). The decay is learning_rate * weight_decay_rate * weight.
    Arguments: the fields of AdafactorConfig, less gradient_clip_norm, which is the engine's.
    """

    config_class = AdafactorConfig

    def __init__(
        self,
        learning_rate: Any,
        *,
        decay_rate: float = 0.8,
        epsilon_1: float = 1e-30,
        epsilon_2: float = 1e-3,
        clip_threshold: float = 1.0,
        weight_decay_rate: float = 0.0,
        exclude_from_weight_decay: Sequence[str] = (),
        name: str = "adafactor",
    ):
        super().__init__(
            learning_rate=learning_rate,
            beta_2_decay=-decay_rate,
            epsilon_1=epsilon_1,
            epsilon_2=epsilon_2,
            clip_threshold=clip_threshold,
            relative_step=False,  # of numbers as learning rates alone; update_step bounds every rate by 1 / sqrt(step)
            name=name,
        )
        self.decay_rate, self.weight_decay_rate = decay_rate, weight_decay_rate
        self.exclude_from_weight_decay = list(exclude_from_weight_decay)

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._decayed = [is_decayed(variable.path, self.exclude_from_weight_decay) for variable in variables]

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        if not self.weight_decay_rate or not self._decayed[self._get_variable_index(variable)]:
            super().update_step(gradient, variable, learning_rate)
            return
        decay = ops.cast(learning_rate, variable.dtype) * self.weight_decay_rate * ops.convert_to_tensor(variable)
        super().update_step(gradient, variable, learning_rate)
        self.assign_sub(variable, decay)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()  # with Keras's own decay and clipping, which this optimizer does not take
        kept = ("name", "learning_rate", "epsilon_1", "epsilon_2", "clip_threshold")
        return {name: config[name] for name in kept} | {
            "decay_rate": self.decay_rate,
            "weight_decay_rate": self.weight_decay_rate,
            "exclude_from_weight_decay": self.exclude_from_weight_decay,
        }
