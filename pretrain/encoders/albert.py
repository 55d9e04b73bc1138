"""ALBERT (Lan et al., 2019, arXiv 1909.11942), as google-research/albert computes it.

BERT with small embeddings projected to the hidden size, and layers that share weights: layer i applies the
`inner_group_num` inner layers of group i * num_hidden_groups // num_hidden_layers, one after the other.
"""

from typing import Any

import keras

from pretrain.encoders.base import Encoder
from pretrain.encoders.families.albert import AlbertConfig
from pretrain.layers.attention import SelfAttention
from pretrain.layers.embeddings import Embeddings
from pretrain.layers.feed_forward import FeedForward
from pretrain.layers.tensors import Tensor
from pretrain.layers.transformer import TransformerLayer
from pretrain.registry import ATTENTIONS, FEED_FORWARDS


class AlbertEncoder(Encoder):
    """Token ids to vectors (see Encoder). Arguments: the fields of AlbertConfig."""

    config_class = AlbertConfig

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        num_hidden_layers: int,
        num_attention_heads: int,
        intermediate_size: int,
        hidden_act: str,
        hidden_dropout_prob: float,
        attention_probs_dropout_prob: float,
        max_position_embeddings: int,
        type_vocab_size: int,
        initializer_range: float,
        layer_norm_eps: float,
        embedding_size: int,
        num_hidden_groups: int,
        inner_group_num: int,
        embedding_projection: bool | None,
        attention: str = "standard",
        feed_forward: str = "standard",
        name: str = "encoder",
    ) -> None:
        embeddings = Embeddings(
            vocab_size=vocab_size,
            embedding_size=embedding_size,
            max_position_embeddings=max_position_embeddings,
            type_vocab_size=type_vocab_size,
            hidden_dropout_prob=hidden_dropout_prob,
            layer_norm_eps=layer_norm_eps,
        )
        if embedding_projection is None:
            embedding_projection = embedding_size != hidden_size
        projection = None
        if embedding_projection:
            projection = keras.layers.Dense(hidden_size, kernel_initializer="zeros", name="embedding_projection")
        layer_options = {
            "hidden_size": hidden_size,
            "num_attention_heads": num_attention_heads,
            "intermediate_size": intermediate_size,
            "hidden_act": hidden_act,
            "hidden_dropout_prob": hidden_dropout_prob,
            "attention_probs_dropout_prob": attention_probs_dropout_prob,
            "layer_norm_eps": layer_norm_eps,
            "attention": ATTENTIONS.get_class(attention, SelfAttention),
            "feed_forward": FEED_FORWARDS.get_class(feed_forward, FeedForward),
        }
        super().__init__(
            name=name,
            embeddings=embeddings,
            embedding_projection=projection,
            layers=[LayerGroup(f"group_{g}", inner_group_num, layer_options) for g in range(num_hidden_groups)],
            vocab_size=vocab_size,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            hidden_act=hidden_act,
            layer_norm_eps=layer_norm_eps,
            max_position_embeddings=max_position_embeddings,
            initializer_range=initializer_range,
        )
        self.num_hidden_layers = num_hidden_layers

    def sequence(self) -> list[keras.layers.Layer]:
        count = self.num_hidden_layers
        return [self.layers[i * len(self.layers) // count] for i in range(count)]


class LayerGroup(keras.layers.Layer):
    """The inner layers that a group of ALBERT's layers shares, applied one after the other."""

    def __init__(self, name: str, inner_group_num: int, layer_options: dict[str, Any]) -> None:
        super().__init__(name=name)
        self.layers = [TransformerLayer(name=f"layer_{j}", **layer_options) for j in range(inner_group_num)]

    def build(self, input_shape: Any = None) -> None:
        for layer in self.layers:
            layer.build()

    def call(self, x: Tensor, mask_adder: Tensor, sequence_ids: Tensor | None = None, training: bool = False) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask_adder, sequence_ids=sequence_ids, training=training)
        return x
