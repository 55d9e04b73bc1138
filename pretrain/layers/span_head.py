"""Question answering head: where an answer starts and ends."""

from collections.abc import Mapping
from typing import Any

import keras

from pretrain.layers.tensors import Tensor


class SpanHead(keras.layers.Layer):
    """Computes "logits" (b, L, 2): a score for each token as the first and as the last one of the answer."""

    predicts = ("logits",)  # outputs that predictions are made of

    def __init__(self, *, hidden_size: int, name: str = "span"):
        super().__init__(name=name)
        self.hidden_size = hidden_size
        self.logits = keras.layers.Dense(2, kernel_initializer="zeros", name="logits")

    def build(self, input_shape: Any = None) -> None:
        self.logits.build((None, None, self.hidden_size))

    def call(
        self, encoded: Mapping[str, Tensor], inputs: Mapping[str, Tensor], training: bool = False
    ) -> dict[str, Tensor]:
        return {"logits": self.logits(encoded["sequence_output"])}
