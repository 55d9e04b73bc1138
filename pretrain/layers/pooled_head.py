"""What heads over the pooled output share: one row of logits, behind the encoder's pooler or their own."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from pretrain.layers.tensors import Tensor


def first_tokens(x: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
    """The vectors of the first token of each example: (b, L, width) -> (b, width), or (b * S, width) of packed rows.

    Args:
      inputs: of the model; packed rows have sequence_starts, int32 (b, S).
    """
    if "sequence_starts" not in inputs:
        return x[:, 0]
    chosen = ops.one_hot(inputs["sequence_starts"], ops.shape(x)[1], dtype=x.dtype)
    return ops.reshape(ops.matmul(chosen, x), (-1, x.shape[-1]))


class PooledHead(keras.layers.Layer):
    """A dense layer over the pooled output; subclasses compute their output with `pooled` and `logits`.

    Args:
      hidden_size: size of the encoder's output.
      outputs: number of logits.
      pooler: whether the head has its own dense layer with tanh over the first token, which it reads instead of the
        encoder's pooled output.
    """

    def __init__(self, *, hidden_size: int, outputs: int, pooler: bool, name: str):
        super().__init__(name=name)
        self.hidden_size = hidden_size
        self.pooler = None
        if pooler:
            self.pooler = keras.layers.Dense(hidden_size, activation="tanh", kernel_initializer="zeros", name="pooler")
        self.logits = keras.layers.Dense(outputs, kernel_initializer="zeros", name="logits")

    def build(self, input_shape: Any = None) -> None:
        if self.pooler is not None:
            self.pooler.build((None, self.hidden_size))
        self.logits.build((None, self.hidden_size))

    def pooled(self, encoded: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> Tensor:
        """(examples, hidden_size) of what the encoder returns."""
        if self.pooler is None:
            return encoded["pooled_output"]
        return self.pooler(first_tokens(encoded["sequence_output"], inputs))
