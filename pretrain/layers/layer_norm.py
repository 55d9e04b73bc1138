"""Layer normalisation over the last axis, and what MobileBERT has instead; in float32 whatever the precision of the model."""

from typing import Any

import keras
from keras import ops

from pretrain.layers.tensors import Tensor


class LayerNorm(keras.layers.Layer):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, float (..., size) -> the model's precision, same shape."""

    def __init__(self, size: int, epsilon: float, name: str = "layer_norm"):
        super().__init__(name=name)
        self.size, self.epsilon = size, epsilon

    def build(self, input_shape: Any = None) -> None:
        self.gamma = self.add_weight(name="gamma", shape=(self.size,), initializer="ones", autocast=False)
        self.beta = self.add_weight(name="beta", shape=(self.size,), initializer="zeros", autocast=False)

    def call(self, inputs: Tensor) -> Tensor:
        x = ops.cast(inputs, "float32")
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        normed = centred * ops.rsqrt(variance + self.epsilon)
        return ops.cast(normed * self.gamma + self.beta, self.compute_dtype)


class NoNorm(LayerNorm):
    """gamma * x + beta: what MobileBERT has in the place of layer normalisation."""

    def __init__(self, size: int, epsilon: None = None, name: str = "layer_norm"):
        super().__init__(size, 0.0, name)

    def call(self, inputs: Tensor) -> Tensor:
        return ops.cast(ops.cast(inputs, "float32") * self.gamma + self.beta, self.compute_dtype)
