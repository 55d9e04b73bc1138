"""MobileBERT (Sun et al., 2020, arXiv 2004.02984), as transformers computes it.

google-research's own code lets padding take part in attention with a weight of exp(-6) instead of 0, for the sake of
quantization; on sequences without padding the two are the same.
"""

import keras

from pretrain.encoders.bert import attention_mask_adder
from pretrain.encoders.configs import MobileBertConfig
from pretrain.layers.mobile import MobileLayer, TrigramEmbeddings


class MobileBertEncoder(keras.layers.Layer):
    """Token ids to vectors. Arguments: the fields of MobileBertConfig. Inputs and outputs as BertEncoder's.

    Without classifier_activation there is no pooler: pooled_output is the first token's vector.
    """

    config_class = MobileBertConfig

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
        intra_bottleneck_size,
        use_bottleneck_attention,
        key_query_shared_bottleneck,
        num_feedforward_networks,
        classifier_activation,
        name="encoder",
    ):
        super().__init__(name=name)
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, embedding_size, hidden_size
        self.masked_lm_size = hidden_size
        self.hidden_act, self.layer_norm_eps = hidden_act, layer_norm_eps
        self.max_position_embeddings, self.initializer_range = max_position_embeddings, initializer_range
        self.embeddings = TrigramEmbeddings(
            vocab_size=vocab_size,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            max_position_embeddings=max_position_embeddings,
            type_vocab_size=type_vocab_size,
            hidden_dropout_prob=hidden_dropout_prob,
            layer_norm_eps=None,
        )
        self.layers = [
            MobileLayer(
                name=f"layer_{i}",
                hidden_size=hidden_size,
                intra_bottleneck_size=intra_bottleneck_size,
                num_attention_heads=num_attention_heads,
                intermediate_size=intermediate_size,
                hidden_act=hidden_act,
                hidden_dropout_prob=hidden_dropout_prob,
                attention_probs_dropout_prob=attention_probs_dropout_prob,
                use_bottleneck_attention=use_bottleneck_attention,
                key_query_shared_bottleneck=key_query_shared_bottleneck,
                num_feedforward_networks=num_feedforward_networks,
            )
            for i in range(num_hidden_layers)
        ]
        self.pooler = None
        if classifier_activation:
            self.pooler = keras.layers.Dense(hidden_size, activation="tanh", kernel_initializer="zeros", name="pooler")

    def build(self, input_shape=None):
        self.embeddings.build()
        for layer in self.layers:
            layer.build()
        if self.pooler is not None:
            self.pooler.build((None, self.hidden_size))

    def call(self, inputs, training=False):
        x = self.embeddings(inputs["input_ids"], inputs["segment_ids"], training=training)
        mask_adder = attention_mask_adder(inputs["input_mask"])
        for layer in self.layers:
            x = layer(x, mask_adder, training=training)
        first = x[:, 0]
        return {"sequence_output": x, "pooled_output": first if self.pooler is None else self.pooler(first)}
