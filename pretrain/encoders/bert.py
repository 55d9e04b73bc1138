"""BERT (Devlin et al., 2018, arXiv 1810.04805), as google-research/bert computes it."""

from pretrain.encoders.base import Encoder
from pretrain.encoders.families.bert import BertConfig
from pretrain.layers.attention import SelfAttention
from pretrain.layers.embeddings import Embeddings
from pretrain.layers.feed_forward import FeedForward
from pretrain.layers.transformer import TransformerLayer
from pretrain.registry import ATTENTIONS, FEED_FORWARDS


class BertEncoder(Encoder):
    """Token ids to vectors (see Encoder). Arguments: the fields of BertConfig."""

    config_class = BertConfig

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
        attention: str = "standard",
        feed_forward: str = "standard",
        name: str = "encoder",
    ) -> None:
        embeddings = Embeddings(
            vocab_size=vocab_size,
            embedding_size=hidden_size,
            max_position_embeddings=max_position_embeddings,
            type_vocab_size=type_vocab_size,
            hidden_dropout_prob=hidden_dropout_prob,
            layer_norm_eps=layer_norm_eps,
        )
        layers = [
            TransformerLayer(
                name=f"layer_{i}",
                hidden_size=hidden_size,
                num_attention_heads=num_attention_heads,
                intermediate_size=intermediate_size,
                hidden_act=hidden_act,
                hidden_dropout_prob=hidden_dropout_prob,
                attention_probs_dropout_prob=attention_probs_dropout_prob,
                layer_norm_eps=layer_norm_eps,
                attention=ATTENTIONS.get_class(attention, SelfAttention),
                feed_forward=FEED_FORWARDS.get_class(feed_forward, FeedForward),
            )
            for i in range(num_hidden_layers)
        ]
        super().__init__(
            name=name,
            embeddings=embeddings,
            layers=layers,
            vocab_size=vocab_size,
            embedding_size=hidden_size,
            hidden_size=hidden_size,
            hidden_act=hidden_act,
            layer_norm_eps=layer_norm_eps,
            max_position_embeddings=max_position_embeddings,
            initializer_range=initializer_range,
        )
