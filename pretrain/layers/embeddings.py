"""The sum of word, position and segment embeddings, normalised."""

from typing import Any

import keras
from keras import ops

from pretrain.layers.dropout import Dropout
from pretrain.layers.layer_norm import LayerNorm
from pretrain.layers.tensors import Tensor


class Embeddings(keras.layers.Layer):
    """int32 input_ids and segment_ids (b, L) -> (b, L, embedding_size); positions count from 0, or are position_ids (b, L).

    Rows are looked up and summed in float32 and rounded to the model's precision at the end. Segment rows are computed,
    not gathered: a gather's gradient would add the whole batch up into two rows, one element after the other.
    """

    def __init__(
        self,
        *,
        vocab_size: int,
        embedding_size: int,
        max_position_embeddings: int,
        type_vocab_size: int,
        hidden_dropout_prob: float,
        layer_norm_eps: float,
        norm: type[LayerNorm] = LayerNorm,
    ):
        super().__init__(name="embeddings")
        self.rows = {
            "word_embeddings": vocab_size,
            "position_embeddings": max_position_embeddings,
            "token_type_embeddings": type_vocab_size,
        }
        self.word_size = self.size = embedding_size
        self.layer_norm = norm(embedding_size, layer_norm_eps)
        self.dropout = Dropout(hidden_dropout_prob)

    def build(self, input_shape: Any = None) -> None:
        self.word_embeddings, self.position_embeddings, self.token_type_embeddings = (
            self.add_weight(name=name, shape=(rows, size), initializer="zeros", autocast=False)
            for (name, rows), size in zip(self.rows.items(), (self.word_size, self.size, self.size), strict=True)
        )
        self.layer_norm.build()

    def call(
        self, input_ids: Tensor, segment_ids: Tensor, position_ids: Tensor | None = None, training: bool = False
    ) -> Tensor:
        words = self._words(input_ids)
        if position_ids is None:
            positions = ops.convert_to_tensor(self.position_embeddings)[: ops.shape(input_ids)[1]]
        else:
            positions = ops.take(self.position_embeddings, position_ids, axis=0)
        return self.dropout(self.layer_norm(words + positions + self._segments(segment_ids)), training=training)

    def _words(self, input_ids: Tensor) -> Tensor:
        return ops.take(self.word_embeddings, input_ids, axis=0)

    def _segments(self, segment_ids: Tensor) -> Tensor:
        table = ops.convert_to_tensor(self.token_type_embeddings)
        if table.shape[0] == 2:
            return table[0] + ops.cast(segment_ids, table.dtype)[..., None] * (table[1] - table[0])
        return ops.matmul(ops.one_hot(segment_ids, table.shape[0], dtype=table.dtype), table)
