"""Options of the encoders, without Keras: reading a configuration must not import it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """Shape of a BERT encoder, in the published JSON's names; defaults are BERT-base, uncased."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: Literal["gelu", "gelu_new", "gelu_tanh", "relu"] = "gelu_tanh"
    """gelu (exact), gelu_new or gelu_tanh (one approximation, what google-research/bert computes), relu."""
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    """Longest sequence."""
    type_vocab_size: int = 2
    """Number of segments."""
    initializer_range: float = 0.02
    """Standard deviation of the initial weights, a normal distribution cut at two of them."""
    layer_norm_eps: float = 1e-12


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(BertConfig):
    """Shape of an ALBERT encoder, in the published JSON's names; defaults are ALBERT-base v2."""

    vocab_size: int = 30000
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    embedding_size: int = 128
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    embedding_projection: bool | None = None
    """A dense layer between embeddings and layers; null: where the two sizes differ, as published. Must be there then."""
