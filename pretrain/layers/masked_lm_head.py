"""Masked language model head: scores of the vocabulary, with the word embeddings as output weights."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from pretrain.layers.activations import ACTIVATIONS
from pretrain.layers.layer_norm import LayerNorm
from pretrain.layers.tensors import Tensor


class MaskedLMHead(keras.layers.Layer):
    """Computes "mlm_logits": (b, P, V) at inputs["masked_lm_positions"] (b, P) where given, else (b, L, V) everywhere.

    Args:
      transform_size: width of what is scored. Where it is more than embedding_size (MobileBERT), the head has output
        weights for the rest of it.
    """

    predicts = ("mlm_logits",)  # outputs that predictions are made of

    def __init__(
        self,
        *,
        hidden_size: int,
        transform_size: int,
        embedding_size: int,
        vocab_size: int,
        hidden_act: str,
        layer_norm_eps: float,
        name: str = "masked_lm",
    ):
        super().__init__(name=name)
        self.hidden_size, self.vocab_size = hidden_size, vocab_size
        self.extra_size = transform_size - embedding_size
        self.activation = ACTIVATIONS[hidden_act]
        self.transform = keras.layers.Dense(transform_size, kernel_initializer="zeros", name="transform")
        self.layer_norm = LayerNorm(transform_size, layer_norm_eps)

    def build(self, input_shape: Any = None) -> None:
        self.transform.build((None, None, self.hidden_size))
        self.layer_norm.build()
        self.output_bias = self.add_weight(name="output_bias", shape=(self.vocab_size,), initializer="zeros")
        self.extra_output_weights = None
        if self.extra_size:
            shape = self.vocab_size, self.extra_size
            self.extra_output_weights = self.add_weight(name="extra_output_weights", shape=shape, initializer="zeros")

    def call(
        self, encoded: Mapping[str, Tensor], inputs: Mapping[str, Tensor], training: bool = False
    ) -> dict[str, Tensor]:
        hidden = encoded["sequence_output"]
        if "masked_lm_positions" in inputs:
            # As a product with one-hot rows: no scatter in its gradient, and no ragged gather on accelerators.
            chosen = ops.one_hot(inputs["masked_lm_positions"], ops.shape(hidden)[1], dtype=hidden.dtype)
            hidden = ops.matmul(chosen, hidden)
        hidden = self.layer_norm(self.activation(self.transform(hidden)))
        table = ops.cast(encoded["word_embeddings"], hidden.dtype)
        if self.extra_output_weights is not None:
            table = ops.concatenate([table, ops.cast(self.extra_output_weights, hidden.dtype)], axis=1)
        return {"mlm_logits": _scores(hidden, table) + self.output_bias}


@ops.custom_gradient
def _scores(hidden: Tensor, table: Tensor) -> Tensor:
    """hidden (b, n, E) times the transpose of table (V, E): (b, n, V).

    The gradient of a plain product would make that of the transposed table, and then transpose it: a copy as large as
    the table, in bad order.
    """
    rows = ops.reshape(hidden, (-1, hidden.shape[-1]))
    shape = (*ops.shape(hidden)[:-1], table.shape[0])

    def gradient(upstream: Tensor) -> Tensor:
        upstream = ops.reshape(upstream, (-1, table.shape[0]))
        to_hidden = ops.reshape(ops.matmul(upstream, table), ops.shape(hidden))
        return to_hidden, ops.matmul(ops.transpose(upstream), rows)

    return ops.reshape(ops.matmul(rows, ops.transpose(table)), shape), gradient
