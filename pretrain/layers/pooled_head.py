"""What heads over the pooled output share: one row of logits, behind the encoder's pooler or their own."""

from collections.abc import Mapping
from typing import Any

import keras

from pretrain.layers.tensors import Tensor


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

    def pooled(self, encoded: Mapping[str, Tensor]) -> Tensor:
        """(b, hidden_size) of what the encoder returns."""
        return encoded["pooled_output"] if self.pooler is None else self.pooler(encoded["sequence_output"][:, 0])
