"""The position-wise feed-forward part of a BERT layer, with its residual connection and layer normalisation."""

from collections.abc import Callable
from typing import Any

import keras

from pretrain.layers.activations import ACTIVATIONS
from pretrain.layers.dropout import Dropout
from pretrain.layers.fast_path import activate, add_and_norm
from pretrain.layers.layer_norm import LayerNorm
from pretrain.layers.tensors import Tensor


class FeedForward(keras.layers.Layer):
    """layer_norm(x + dropout(output(activation(intermediate(x))))), (b, L, hidden) -> (b, L, hidden).

    A variant overrides `inner`; weights of its own are made in `build`.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        intermediate_size: int,
        hidden_act: str,
        hidden_dropout_prob: float,
        layer_norm_eps: float | None,
        norm: Callable[..., LayerNorm] = LayerNorm,
        name: str = "feed_forward",
    ):
        super().__init__(name=name)
        self.sizes = hidden_size, intermediate_size
        self.activation = ACTIVATIONS[hidden_act]
        self.intermediate = keras.layers.Dense(intermediate_size, kernel_initializer="zeros", name="intermediate")
        self.output_dense = keras.layers.Dense(hidden_size, kernel_initializer="zeros", name="output")
        self.dropout = Dropout(hidden_dropout_prob)
        self.layer_norm = norm(hidden_size, layer_norm_eps)

    def build(self, input_shape: Any = None) -> None:
        for dense, size in zip((self.intermediate, self.output_dense), self.sizes, strict=True):
            dense.build((None, None, size))
        self.layer_norm.build()

    def call(self, x: Tensor, training: bool = False) -> Tensor:
        return add_and_norm(self.layer_norm, self.dropout, self.output_dense, x, self.inner(x), training)

    def inner(self, x: Tensor) -> Tensor:
        """What the output layer is applied to: (b, L, hidden) -> (b, L, intermediate)."""
        return activate(self.intermediate, self.activation, x)
