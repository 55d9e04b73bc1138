"""The gated feed-forward part (Shazeer, 2020, "GLU Variants Improve Transformer", arXiv 2002.05202), with biases."""

from typing import Any

import keras

from pretrain.layers.fast_path import project
from pretrain.layers.feed_forward import FeedForward
from pretrain.layers.tensors import Tensor


class GatedFeedForward(FeedForward):
    """FeedForward whose inner vectors are multiplied by a second dense layer's: activation(intermediate(x)) * gate(x).

    The TensorFlow Model Garden computes the same.
    """

    def build(self, input_shape: Any = None) -> None:
        super().build()
        hidden_size, intermediate_size = self.sizes
        self.gate = keras.layers.Dense(intermediate_size, kernel_initializer="zeros", name="gate")
        self.gate.build((None, None, hidden_size))

    def inner(self, x: Tensor) -> Tensor:
        return super().inner(x) * project(self.gate, x)
