"""Layers of MobileBERT (Sun et al., 2020, arXiv 2004.02984): thin layers between wide vectors."""

from typing import Any

import keras
from keras import ops

from pretrain.layers.attention import SelfAttention
from pretrain.layers.dropout import Dropout
from pretrain.layers.embeddings import Embeddings
from pretrain.layers.feed_forward import FeedForward
from pretrain.layers.layer_norm import NoNorm
from pretrain.layers.tensors import Tensor


class TrigramEmbeddings(Embeddings):
    """Embeddings of (next, this, previous) word, side by side, made hidden_size wide; then positions and segments are added.

    int32 input_ids and segment_ids (b, L) -> (b, L, hidden_size). Past the ends there are zeros.
    """

    def __init__(self, *, embedding_size: int, hidden_size: int, **options: Any):
        super().__init__(embedding_size=hidden_size, norm=NoNorm, **options)
        self.word_size = embedding_size
        self.transformation = keras.layers.Dense(hidden_size, kernel_initializer="zeros", name="transformation")

    def build(self, input_shape: Any = None) -> None:
        super().build()
        self.transformation.build((None, None, 3 * self.word_size))

    def _words(self, input_ids: Tensor) -> Tensor:
        words = super()._words(input_ids)
        zero = ops.zeros_like(words[:, :1])
        following = ops.concatenate([words[:, 1:], zero], axis=1)
        preceding = ops.concatenate([zero, words[:, :-1]], axis=1)
        return self.transformation(ops.concatenate([following, words, preceding], axis=-1))


class Bottleneck(keras.layers.Layer):
    """A dense layer and its scale: (b, L, from_size) -> (b, L, to_size)."""

    def __init__(self, from_size: int, to_size: int, name: str, hidden_dropout_prob: float = 0.0):
        super().__init__(name=name)
        self.from_size = from_size
        self.dense = keras.layers.Dense(to_size, kernel_initializer="zeros", name="dense")
        self.dropout = Dropout(hidden_dropout_prob)
        self.layer_norm = NoNorm(to_size)

    def build(self, input_shape: Any = None) -> None:
        self.dense.build((None, None, self.from_size))
        self.layer_norm.build()

    def call(self, x: Tensor, residual: Tensor | None = None, training: bool = False) -> Tensor:
        x = self.dropout(self.dense(x), training=training)
        return self.layer_norm(x if residual is None else x + residual)


class MobileLayer(keras.layers.Layer):
    """(b, L, hidden_size), mask_adder (b, 1, 1, L) -> (b, L, hidden_size).

    A bottleneck narrows the input to intra_bottleneck_size, where attention and feed-forward parts work; another widens
    their result and adds the input.

    Args:
      use_bottleneck_attention: query, key and value are made of the narrowed input; else the value of the wide one, and
        query and key of
      key_query_shared_bottleneck: another narrowed input; else the wide one too.
      num_feedforward_networks: how many of them, one after the other.
      attention, feed_forward: classes of these parts.
    """

    def __init__(
        self,
        *,
        name: str,
        hidden_size: int,
        intra_bottleneck_size: int,
        num_attention_heads: int,
        intermediate_size: int,
        hidden_act: str,
        hidden_dropout_prob: float,
        attention_probs_dropout_prob: float,
        use_bottleneck_attention: bool,
        key_query_shared_bottleneck: bool,
        num_feedforward_networks: int,
        attention: type[SelfAttention] = SelfAttention,
        feed_forward: type[FeedForward] = FeedForward,
    ):
        super().__init__(name=name)
        narrow = intra_bottleneck_size
        self.use_bottleneck_attention = use_bottleneck_attention
        self.bottleneck_input = Bottleneck(hidden_size, narrow, "bottleneck_input")
        self.bottleneck_attention = None
        if key_query_shared_bottleneck and not use_bottleneck_attention:
            self.bottleneck_attention = Bottleneck(hidden_size, narrow, "bottleneck_attention")
        wide = narrow if use_bottleneck_attention else hidden_size
        self.attention = attention(
            hidden_size=narrow,
            num_attention_heads=num_attention_heads,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=attention_probs_dropout_prob,
            layer_norm_eps=None,
            norm=NoNorm,
            key_size=narrow if self.bottleneck_attention is not None else wide,
            value_size=wide,
        )
        names = [*(f"feed_forward_{k}" for k in range(num_feedforward_networks - 1)), "feed_forward"]
        self.feed_forwards = [
            feed_forward(
                hidden_size=narrow,
                intermediate_size=intermediate_size,
                hidden_act=hidden_act,
                hidden_dropout_prob=0.0,
                layer_norm_eps=None,
                norm=NoNorm,
                name=name,
            )
            for name in names
        ]
        self.bottleneck_output = Bottleneck(narrow, hidden_size, "bottleneck_output", hidden_dropout_prob)

    def build(self, input_shape: Any = None) -> None:
        parts = [self.bottleneck_input, self.bottleneck_attention, self.attention, *self.feed_forwards]
        for part in (*parts, self.bottleneck_output):
            if part is not None:
                part.build()

    def call(self, x: Tensor, mask_adder: Tensor, training: bool = False) -> Tensor:
        narrow = self.bottleneck_input(x)
        value = narrow if self.use_bottleneck_attention else x
        key = value if self.bottleneck_attention is None else self.bottleneck_attention(x)
        inner = self.attention(narrow, mask_adder, key_input=key, value_input=value, training=training)
        for feed_forward in self.feed_forwards:
            inner = feed_forward(inner, training=training)
        return self.bottleneck_output(inner, x, training=training)
