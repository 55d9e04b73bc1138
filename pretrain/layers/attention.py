"""Multi-head self-attention of BERT, with its residual connection and layer normalisation."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from pretrain.layers.dropout import Dropout
from pretrain.layers.fast_path import add_and_norm, attend, project
from pretrain.layers.layer_norm import LayerNorm
from pretrain.layers.tensors import Tensor


class SelfAttention(keras.layers.Layer):
    """layer_norm(x + dropout(output(heads(x)))), as in "Attention Is All You Need" and google-research/bert.

    call(x (b, L, hidden), mask_adder (b, 1, 1, L) float32, added to the scores) -> (b, L, hidden). Scores become
    probabilities in float32. For rows of several examples mask_adder is (b, 1, L, L), and sequence_ids (b, L) say the same.

    MobileBERT makes query and key of key_input (b, L, key_size) and value of value_input (b, L, value_size) instead of x.

    A variant overrides `attend`; weights of its own are made in `build`.
    """

    def __init__(
        self,
        *,
        hidden_size: int,
        num_attention_heads: int,
        hidden_dropout_prob: float,
        attention_probs_dropout_prob: float,
        layer_norm_eps: float | None,
        norm: Callable[..., LayerNorm] = LayerNorm,
        key_size: int | None = None,
        value_size: int | None = None,
    ):
        super().__init__(name="attention")
        self.hidden_size, self.heads = hidden_size, num_attention_heads
        self.key_size, self.value_size = key_size or hidden_size, value_size or hidden_size
        self.query, self.key, self.value, self.output_dense = (
            keras.layers.Dense(hidden_size, kernel_initializer="zeros", name=name)
            for name in ("query", "key", "value", "output")
        )
        self.probs_dropout = Dropout(attention_probs_dropout_prob, name="probs_dropout")
        self.dropout = Dropout(hidden_dropout_prob)
        self.layer_norm = norm(hidden_size, layer_norm_eps)

    def build(self, input_shape: Any = None) -> None:
        sizes = {self.query: self.key_size, self.key: self.key_size, self.value: self.value_size}
        for dense, size in (sizes | {self.output_dense: self.hidden_size}).items():
            dense.build((None, None, size))
        self.layer_norm.build()

    def call(
        self,
        x: Tensor,
        mask_adder: Tensor,
        key_input: Tensor | None = None,
        value_input: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        training: bool = False,
    ) -> Tensor:
        key_input, value_input = (x if other is None else other for other in (key_input, value_input))
        query, key = (self._split(project(dense, key_input)) for dense in (self.query, self.key))
        value = self._split(project(self.value, value_input))
        context = self.attend(query, key, value, mask_adder, sequence_ids, training)
        context = ops.reshape(context, ops.shape(x))
        return add_and_norm(self.layer_norm, self.dropout, self.output_dense, x, context, training)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask_adder: Tensor,
        sequence_ids: Tensor | None,
        training: bool,
    ) -> Tensor:
        """What each head takes of the values: (b, L, heads, hidden / heads) three times -> the same.

        Args:
          mask_adder, sequence_ids: as in call. They say the same, so plain operations need the first alone.
          training: whether self.probs_dropout applies.
        """
        context = attend(query, key, value, mask_adder, sequence_ids, self.probs_dropout, training)
        return self._plain(query, key, value, mask_adder, training) if context is None else context

    def _plain(self, query: Tensor, key: Tensor, value: Tensor, mask_adder: Tensor, training: bool) -> Tensor:
        """The same by plain operations."""
        query, key, value = (ops.transpose(each, (0, 2, 1, 3)) for each in (query, key, value))
        query = query * (self.hidden_size // self.heads) ** -0.5
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        probs = ops.softmax(ops.cast(scores, "float32") + ops.cast(mask_adder, "float32"))
        probs = self.probs_dropout(ops.cast(probs, self.compute_dtype), training=training)
        return ops.transpose(ops.matmul(probs, value), (0, 2, 1, 3))

    def _split(self, x: Tensor) -> Tensor:
        """(b, L, hidden) -> (b, L, heads, hidden / heads)"""
        batch, length = ops.shape(x)[:2]
        return ops.reshape(x, (batch, length, self.heads, self.hidden_size // self.heads))
