"""MobileBERT (Sun et al., 2020, arXiv 2004.02984), as transformers computes it.

google-research's own code lets padding take part in attention with a weight of exp(-6) instead of 0, for the sake of
quantization; on sequences without padding the two are the same.
"""

from pretrain.encoders.base import Encoder
from pretrain.encoders.families.mobilebert import MobileBertConfig
from pretrain.layers.attention import SelfAttention
from pretrain.layers.feed_forward import FeedForward
from pretrain.layers.mobile import MobileLayer, TrigramEmbeddings
from pretrain.registry import ATTENTIONS, FEED_FORWARDS


class MobileBertEncoder(Encoder):
    """Token ids to vectors (see Encoder). Arguments: the fields of MobileBertConfig.

    Without classifier_activation there is no pooler: pooled_output is the first token's vector.
    """

    config_class = MobileBertConfig
    packs = False  # an embedding reads the words next to it

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
        intra_bottleneck_size: int,
        use_bottleneck_attention: bool,
        key_query_shared_bottleneck: bool,
        num_feedforward_networks: int,
        classifier_activation: bool,
        attention: str = "standard",
        feed_forward: str = "standard",
        name: str = "encoder",
    ) -> None:
        embeddings = TrigramEmbeddings(
            vocab_size=vocab_size,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            max_position_embeddings=max_position_embeddings,
            type_vocab_size=type_vocab_size,
            hidden_dropout_prob=hidden_dropout_prob,
            layer_norm_eps=None,
        )
        layers = [
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
                attention=ATTENTIONS.get_class(attention, SelfAttention),
                feed_forward=FEED_FORWARDS.get_class(feed_forward, FeedForward),
            )
            for i in range(num_hidden_layers)
        ]
        super().__init__(
            name=name,
            embeddings=embeddings,
            layers=layers,
            pooler=classifier_activation,
            masked_lm_size=hidden_size,
            vocab_size=vocab_size,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            hidden_act=hidden_act,
            layer_norm_eps=layer_norm_eps,
            max_position_embeddings=max_position_embeddings,
            initializer_range=initializer_range,
        )
