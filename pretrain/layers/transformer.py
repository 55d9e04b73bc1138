"""One layer of BERT: self-attention, then feed-forward."""

from typing import Any

import keras

from pretrain.layers.attention import SelfAttention
from pretrain.layers.feed_forward import FeedForward
from pretrain.layers.tensors import Tensor


class TransformerLayer(keras.layers.Layer):
    """(b, L, hidden), mask_adder (b, 1, 1, L) -> (b, L, hidden). Normalised after each part, as BERT does. See SelfAttention.

    Args:
      attention, feed_forward: classes of the two parts: SelfAttention and FeedForward, or variants of them.
    """

    def __init__(
        self,
        *,
        name: str,
        hidden_size: int,
        num_attention_heads: int,
        intermediate_size: int,
        hidden_act: str,
        hidden_dropout_prob: float,
        attention_probs_dropout_prob: float,
        layer_norm_eps: float,
        attention: type[SelfAttention] = SelfAttention,
        feed_forward: type[FeedForward] = FeedForward,
    ):
        super().__init__(name=name)
        self.attention = attention(
            hidden_size=hidden_size,
            num_attention_heads=num_attention_heads,
            hidden_dropout_prob=hidden_dropout_prob,
            attention_probs_dropout_prob=attention_probs_dropout_prob,
            layer_norm_eps=layer_norm_eps,
        )
        self.feed_forward = feed_forward(
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            hidden_act=hidden_act,
            hidden_dropout_prob=hidden_dropout_prob,
            layer_norm_eps=layer_norm_eps,
        )

    def build(self, input_shape: Any = None) -> None:
        self.attention.build()
        self.feed_forward.build()

    def call(self, x: Tensor, mask_adder: Tensor, sequence_ids: Tensor | None = None, training: bool = False) -> Tensor:
        attended = self.attention(x, mask_adder, sequence_ids=sequence_ids, training=training)
        return self.feed_forward(attended, training=training)
