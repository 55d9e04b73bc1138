"""ALBERT (Lan et al., 2019, arXiv 1909.11942), as google-research/albert computes it.

BERT with small embeddings projected to the hidden size, and layers that share weights: layer i applies the
`inner_group_num` inner layers of group i * num_hidden_groups // num_hidden_layers, one after the other.
"""

import keras

from pretrain.encoders.bert import attention_mask_adder
from pretrain.encoders.configs import AlbertConfig
from pretrain.layers.embeddings import Embeddings
from pretrain.layers.transformer import TransformerLayer


class AlbertEncoder(keras.layers.Layer):
    """Token ids to vectors. Arguments: the fields of AlbertConfig. Inputs and outputs as BertEncoder's."""

    config_class = AlbertConfig

    def __init__(
        self,
        *,
        vocab_size,
        hidden_size,
        num_hidden_layers,
        num_attention_heads,
        intermediate_size,
        hidden_act,
        hidden_dropout_prob,
        attention_probs_dropout_prob,
        max_position_embeddings,
        type_vocab_size,
        initializer_range,
        layer_norm_eps,
        embedding_size,
        num_hidden_groups,
        inner_group_num,
        embedding_projection,
        name="encoder",
    ):
        super().__init__(name=name)
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, embedding_size, hidden_size
        self.masked_lm_size = self.embedding_size
        self.hidden_act, self.layer_norm_eps = hidden_act, layer_norm_eps
        self.max_position_embeddings, self.initializer_range = max_position_embeddings, initializer_range
        self.embeddings = Embeddings(
            vocab_size=vocab_size,
            embedding_size=embedding_size,
            max_position_embeddings=max_position_embeddings,
            type_vocab_size=type_vocab_size,
            hidden_dropout_prob=hidden_dropout_prob,
            layer_norm_eps=layer_norm_eps,
        )
        if embedding_projection is None:
            embedding_projection = embedding_size != hidden_size
        self.embedding_projection = None
        if embedding_projection:
            self.embedding_projection = keras.layers.Dense(
                hidden_size, kernel_initializer="zeros", name="embedding_projection"
            )
        layer_options = {
            "hidden_size": hidden_size,
            "num_attention_heads": num_attention_heads,
            "intermediate_size": intermediate_size,
            "hidden_act": hidden_act,
            "hidden_dropout_prob": hidden_dropout_prob,
            "attention_probs_dropout_prob": attention_probs_dropout_prob,
            "layer_norm_eps": layer_norm_eps,
        }
        self.groups = [LayerGroup(f"group_{g}", inner_group_num, layer_options) for g in range(num_hidden_groups)]
        self.num_hidden_layers = num_hidden_layers
        self.pooler = keras.layers.Dense(hidden_size, activation="tanh", kernel_initializer="zeros", name="pooler")

    def build(self, input_shape=None):
        self.embeddings.build()
        if self.embedding_projection is not None:
            self.embedding_projection.build((None, None, self.embedding_size))
        for group in self.groups:
            group.build()
        self.pooler.build((None, self.hidden_size))

    def call(self, inputs, training=False):
        x = self.embeddings(inputs["input_ids"], inputs["segment_ids"], training=training)
        if self.embedding_projection is not None:
            x = self.embedding_projection(x)
        mask_adder = attention_mask_adder(inputs["input_mask"])
        for i in range(self.num_hidden_layers):
            x = self.groups[i * len(self.groups) // self.num_hidden_layers](x, mask_adder, training=training)
        return {"sequence_output": x, "pooled_output": self.pooler(x[:, 0])}


class LayerGroup(keras.layers.Layer):
    """The inner layers that a group of ALBERT's layers shares, applied one after the other."""

    def __init__(self, name, inner_group_num, layer_options):
        super().__init__(name=name)
        self.layers = [TransformerLayer(name=f"layer_{j}", **layer_options) for j in range(inner_group_num)]

    def build(self, input_shape=None):
        for layer in self.layers:
            layer.build()

    def call(self, x, mask_adder, training=False):
        for layer in self.layers:
            x = layer(x, mask_adder, training=training)
        return x
