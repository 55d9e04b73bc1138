"""AdamW as in google-research/bert (optimization.py): decoupled decay times the learning rate."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from pretrain.optimizers.configs import AdamWConfig
from pretrain.optimizers.decay import is_decayed


@keras.saving.register_keras_serializable("pretrain")
class AdamW(keras.optimizers.Optimizer):
    """weight -= learning_rate * (m / (sqrt(v) + epsilon) + weight_decay_rate * weight); m, v: moments of the gradient.

    Arguments: the fields of AdamWConfig, less gradient_clip_norm, which is the engine's.
    """

    config_class = AdamWConfig

    def __init__(
        self,
        learning_rate: Any,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay_rate: float = 0.01,
        exclude_from_weight_decay: Sequence[str] = (),
        bias_correction: bool = False,
        momentum_dtype: str = "float32",
        name: str = "adamw",
    ):
        super().__init__(learning_rate=learning_rate, name=name)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.weight_decay_rate, self.exclude_from_weight_decay = weight_decay_rate, list(exclude_from_weight_decay)
        self.bias_correction, self.momentum_dtype = bias_correction, momentum_dtype

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._moments, self._velocities = [], []
        for variable in variables:
            name = f"{variable.path.replace('/', '_')}_momentum"  # as Keras names those of the weight's own dtype
            self._moments.append(self.add_variable(variable.shape, dtype=self.momentum_dtype, name=name))
            self._velocities.append(self.add_variable_from_reference(variable, name="velocity"))
        self._decayed = [is_decayed(variable.path, self.exclude_from_weight_decay) for variable in variables]

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        update = self._decayed_update(gradient, variable, self._get_variable_index(variable))
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * update)

    def _decayed_update(self, gradient: Any, variable: keras.Variable, index: int) -> Any:
        """Moves the moments on; returns what is subtracted from the variable, before the learning rate."""
        m, v = ops.cast(self._moments[index], variable.dtype), self._velocities[index]
        gradient = ops.cast(gradient, variable.dtype)
        new_m = m + (1 - self.beta_1) * (gradient - m)
        new_v = v + (1 - self.beta_2) * (ops.square(gradient) - v)
        self.assign(self._moments[index], ops.cast(new_m, self.momentum_dtype))
        self.assign(v, new_v)
        if self.bias_correction:
            step = ops.cast(self.iterations + 1, variable.dtype)
            new_m = new_m / (1 - ops.power(ops.cast(self.beta_1, variable.dtype), step))
            new_v = new_v / (1 - ops.power(ops.cast(self.beta_2, variable.dtype), step))
        update = new_m / (ops.sqrt(new_v) + self.epsilon)
        if self.weight_decay_rate and self._decayed[index]:
            update = update + self.weight_decay_rate * variable
        return update

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()  # with Keras's own decay and clipping, which this optimizer does not take
        return {name: config[name] for name in ("name", "learning_rate")} | {
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "weight_decay_rate": self.weight_decay_rate,
            "exclude_from_weight_decay": self.exclude_from_weight_decay,
            "bias_correction": self.bias_correction,
            "momentum_dtype": self.momentum_dtype,
        }
