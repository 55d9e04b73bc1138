"""Options of the encoders, without Keras: reading a configuration must not import it."""

from dataclasses import dataclass
from typing import Literal, get_args

from nlpdata.errors import UsageError


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

    _split_over_heads = "hidden_size"  # no field: the width that the heads share

    def __post_init__(self):
        for name in _SIZES:
            value = getattr(self, name, 1)
            if type(value) is not int or value < 1:
                raise UsageError(f"{name} must be a whole number above 0. Received: {value!r}")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not (_is_number(getattr(self, name)) and 0 <= getattr(self, name) < 1):
                raise UsageError(f"{name} must be at least 0 and below 1. Received: {getattr(self, name)!r}")
        for name in ("initializer_range", "layer_norm_eps"):
            if not (_is_number(getattr(self, name)) and getattr(self, name) > 0):
                raise UsageError(f"{name} must be above 0. Received: {getattr(self, name)!r}")
        activations = get_args(BertConfig.__annotations__["hidden_act"])
        if self.hidden_act not in activations:
            raise UsageError(f"hidden_act must be one of {', '.join(activations)}. Received: {self.hidden_act!r}")
        width = getattr(self, self._split_over_heads)
        if width % self.num_attention_heads:
            raise UsageError(
                f"{self._split_over_heads} must be a multiple of num_attention_heads. Received: {width} and "
                f"{self.num_attention_heads}"
            )


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "type_vocab_size", "embedding_size", "num_hidden_groups", "inner_group_num"),
    *("intra_bottleneck_size", "num_feedforward_networks"),
)


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

    def __post_init__(self):
        super().__post_init__()
        if self.num_hidden_groups > self.num_hidden_layers:
            raise UsageError(
                f"num_hidden_groups must not exceed num_hidden_layers. Received: {self.num_hidden_groups} and "
                f"{self.num_hidden_layers}"
            )
        if self.embedding_projection is False and self.embedding_size != self.hidden_size:
            raise UsageError(
                "embedding_projection can be false only where embedding_size equals hidden_size. Received: "
                f"{self.embedding_size} and {self.hidden_size}"
            )


@dataclass(frozen=True, kw_only=True)
class MobileBertConfig(BertConfig):
    """Shape of a MobileBERT encoder, in the published JSON's names; defaults are the published model's."""

    hidden_size: int = 512
    num_hidden_layers: int = 24
    num_attention_heads: int = 4
    intermediate_size: int = 512
    hidden_act: Literal["gelu", "gelu_new", "gelu_tanh", "relu"] = "relu"
    hidden_dropout_prob: float = 0.0
    embedding_size: int = 128
    intra_bottleneck_size: int = 128
    """Width inside a layer."""
    use_bottleneck_attention: bool = False
    """Attention over narrowed vectors only."""
    key_query_shared_bottleneck: bool = True
    """Query and key are made of narrowed vectors of their own."""
    num_feedforward_networks: int = 4
    classifier_activation: bool = False
    """A pooler: a dense layer with tanh over the first token; the published model has none."""

    _split_over_heads = "intra_bottleneck_size"

    def __post_init__(self):
        super().__post_init__()
        if self.embedding_size > self.hidden_size:
            raise UsageError(
                f"embedding_size must not exceed hidden_size. Received: {self.embedding_size} and {self.hidden_size}"
            )
