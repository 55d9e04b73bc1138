"""BERT (Devlin et al., 2018, arXiv 1810.04805), as google-research/bert computes it."""

import keras
from keras import ops

from pretrain.encoders.configs import BertConfig
from pretrain.layers.embeddings import Embeddings
from pretrain.layers.transformer import TransformerLayer

_MASKED = -10000.0  # added to the scores of padding


class BertEncoder(keras.layers.Layer):
    """Token ids to vectors. Arguments: the fields of BertConfig.

    call({"input_ids", "input_mask" (1 on real tokens), "segment_ids"}, int32 (b, L) each) ->
    {"sequence_output": (b, L, hidden_size), "pooled_output": (b, hidden_size)}
    """

    config_class = BertConfig

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
        name="encoder",
    ):
        super().__init__(name=name)
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, hidden_size, hidden_size
        self.masked_lm_size = self.embedding_size
        self.hidden_act, self.layer_norm_eps = hidden_act, layer_norm_eps
        self.max_position_embeddings, self.initializer_range = max_position_embeddings, initializer_range
        self.embeddings = Embeddings(
            vocab_size=vocab_size,
            embedding_size=hidden_size,
            max_position_embeddings=max_position_embeddings,
            type_vocab_size=type_vocab_size,
            hidden_dropout_prob=hidden_dropout_prob,
            layer_norm_eps=layer_norm_eps,
        )
        self.layers = [
            TransformerLayer(
                name=f"layer_{i}",
                hidden_size=hidden_size,
                num_attention_heads=num_attention_heads,
                intermediate_size=intermediate_size,
                hidden_act=hidden_act,
                hidden_dropout_prob=hidden_dropout_prob,
                attention_probs_dropout_prob=attention_probs_dropout_prob,
                layer_norm_eps=layer_norm_eps,
            )
            for i in range(num_hidden_layers)
        ]
        self.pooler = keras.layers.Dense(hidden_size, activation="tanh", kernel_initializer="zeros", name="pooler")

    def build(self, input_shape=None):
        self.embeddings.build()
        for layer in self.layers:
            layer.build()
        self.pooler.build((None, self.hidden_size))

    def call(self, inputs, training=False):
        x = self.embeddings(inputs["input_ids"], inputs["segment_ids"], training=training)
        mask_adder = attention_mask_adder(inputs["input_mask"])
        for layer in self.layers:
            x = layer(x, mask_adder, training=training)
        return {"sequence_output": x, "pooled_output": self.pooler(x[:, 0])}


def attention_mask_adder(input_mask):
    """(b, L), 1 on real tokens -> float32 (b, 1, 1, L) to add to attention scores: 0 there, -10000 on padding."""
    return (1.0 - ops.cast(input_mask, "float32"))[:, None, None, :] * _MASKED
