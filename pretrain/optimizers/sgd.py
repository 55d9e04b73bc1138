"""Stochastic gradient descent, with or without momentum."""

from typing import Any

import keras
from keras import ops

from pretrain.optimizers.configs import SgdConfig


@keras.saving.register_keras_serializable("pretrain")
class Sgd(keras.optimizers.Optimizer):
    """velocity = momentum * velocity + gradient; weight -= learning_rate * velocity. Without momentum: the gradient itself.

    Arguments: the fields of SgdConfig, less gradient_clip_norm, which is the engine's.
    """

    config_class = SgdConfig

    def __init__(self, learning_rate: Any, *, momentum: float = 0.0, name: str = "sgd"):
        super().__init__(learning_rate=learning_rate, name=name)
        self.momentum = momentum

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._velocities = self.add_optimizer_variables(variables, "velocity") if self.momentum else []

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        update = ops.cast(gradient, variable.dtype)
        if self.momentum:
            velocity = self._velocities[self._get_variable_index(variable)]
            update = self.momentum * velocity + update
            self.assign(velocity, update)
        self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * update)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()  # with Keras's own decay and clipping, which this optimizer does not take
        return {name: config[name] for name in ("name", "learning_rate")} | {"momentum": self.momentum}
