"""BERT's options, and how its models are published: google-research/bert, transformers, TensorFlow Model Garden."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from nlpdata.errors import UsageError
from nlpdata.files.json_kinds import as_written
from pretrain.encoders.published import GoogleForm, HuggingFaceForm, PublishedForm
from pretrain.encoders.weight_names import (
    EMBEDDINGS,
    WORD_EMBEDDINGS,
    Row,
    WeightNames,
    dense,
    garden,
    google_embeddings,
    google_heads,
    norm,
    query_key_value,
    torch_dense,
    torch_norm,
)
from pretrain.registry import ATTENTIONS, FEED_FORWARDS
from pretrain.settings.config import Config
from pretrain.settings.fields import names_part


def bert_tf1() -> list[Row]:
    """The names of google-research/bert."""
    ours, theirs = "encoder/layer_{i}", "bert/encoder/layer_{i}"
    return [
        *google_embeddings(),
        *query_key_value(ours, dense, f"{theirs}/attention/self/"),
        *dense(f"{ours}/attention/output", f"{theirs}/attention/output/dense/"),
        *norm(f"{ours}/attention/layer_norm", f"{theirs}/attention/output/LayerNorm/"),
        *dense(f"{ours}/feed_forward/intermediate", f"{theirs}/intermediate/dense/"),
        *dense(f"{ours}/feed_forward/output", f"{theirs}/output/dense/"),
        *norm(f"{ours}/feed_forward/layer_norm", f"{theirs}/output/LayerNorm/"),
        *google_heads(),
    ]


def bert_hugging_face() -> list[Row]:
    """The names of transformers."""
    ours, theirs = "encoder/layer_{i}", "bert.encoder.layer.{i}"
    return [
        *(Row(f"encoder/embeddings/{name}", f"bert.embeddings.{name}.weight") for name in EMBEDDINGS),
        *torch_norm("encoder/embeddings/layer_norm", "bert.embeddings.LayerNorm"),
        *query_key_value(ours, torch_dense, f"{theirs}.attention.self.", ""),
        *torch_dense(f"{ours}/attention/output", f"{theirs}.attention.output.dense"),
        *torch_norm(f"{ours}/attention/layer_norm", f"{theirs}.attention.output.LayerNorm"),
        *torch_dense(f"{ours}/feed_forward/intermediate", f"{theirs}.intermediate.dense"),
        *torch_dense(f"{ours}/feed_forward/output", f"{theirs}.output.dense"),
        *torch_norm(f"{ours}/feed_forward/layer_norm", f"{theirs}.output.LayerNorm"),
        *torch_dense("encoder/pooler", "bert.pooler.dense"),
        *torch_dense("masked_lm/transform", "cls.predictions.transform.dense"),
        *torch_norm("masked_lm/layer_norm", "cls.predictions.transform.LayerNorm"),
        Row("masked_lm/output_bias", "cls.predictions.bias"),
        *torch_dense("sentence_pair/logits", "cls.seq_relationship"),
        *torch_dense("classifier/logits", "classifier"),
        *torch_dense("span/logits", "qa_outputs"),
    ]


TIED = {"cls.predictions.decoder.weight": WORD_EMBEDDINGS, "cls.predictions.decoder.bias": "masked_lm/output_bias"}

_WIDEST = 1 << 20  # of widths and lengths
_LAYERS = ("num_hidden_layers", "num_hidden_groups", "inner_group_num", "num_feedforward_networks")
_MOST = {"vocab_size": 10_000_000, **dict.fromkeys(_LAYERS, 1024)}


@dataclass(kw_only=True)
class BertConfig(Config):
    """Shape of a BERT encoder, in the published JSON's names; defaults are BERT-base, uncased."""

    vocab_size: int = 30522
    """Pieces of the vocabulary."""
    hidden_size: int = 768
    """Width of the vectors between layers."""
    num_hidden_layers: int = 12
    """Layers, each with self-attention and a feed-forward part."""
    num_attention_heads: int = 12
    """Attention heads of a layer."""
    intermediate_size: int = 3072
    """Width inside a feed-forward part."""
    hidden_act: Literal["gelu", "gelu_new", "gelu_tanh", "relu"] = "gelu_tanh"
    """gelu (exact), gelu_new or gelu_tanh (one approximation, what google-research/bert computes), relu."""
    hidden_dropout_prob: float = 0.1
    """Dropout of the embeddings and of each part's output."""
    attention_probs_dropout_prob: float = 0.1
    """Dropout of the attention probabilities."""
    max_position_embeddings: int = 512
    """Longest sequence."""
    type_vocab_size: int = 2
    """Number of segments."""
    initializer_range: float = 0.02
    """Standard deviation of the initial weights, a normal distribution cut at two of them."""
    layer_norm_eps: float = 1e-12
    """Added to the variance in layer normalisation."""
    attention: str = names_part(ATTENTIONS, "standard")
    """standard, talking_heads, or a SelfAttention of your own as module:attribute."""
    feed_forward: str = names_part(FEED_FORWARDS, "standard")
    """standard, gated, or a FeedForward of your own as module:attribute."""

    published: ClassVar[PublishedForm] = PublishedForm(
        model_type="bert",
        names={
            "tf1": WeightNames(bert_tf1()),
            "tf2": WeightNames(garden("encoder/layer_{i}", "transformer/layer_{i}", projection=False)),
            "hf": WeightNames(bert_hugging_face(), TIED),
        },
        google=GoogleForm(checkpoint="bert_model.ckpt", config_file="bert_config.json"),
        hugging_face=HuggingFaceForm(classes="Bert", prefix="bert", defaults={"hidden_act": "gelu"}),
    )
    sizes: ClassVar[tuple[str, ...]] = (
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        *("max_position_embeddings", "type_vocab_size"),
    )
    """The fields that must be whole numbers above 0."""
    sentence_objective: ClassVar[str] = "nsp"
    """What such models learn of sentence pairs: the objective of records that a run makes of text."""

    split_over_heads: ClassVar[str] = "hidden_size"
    """The field whose width the attention heads share."""

    def __post_init__(self) -> None:
        for name in self.sizes:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise UsageError(f"{name} must be a whole number above 0. Received: {as_written(value)}")
            if value > _MOST.get(name, _WIDEST):
                raise UsageError(f"{name} must be at most {_MOST.get(name, _WIDEST)}. Received: {value}")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not (_is_number(getattr(self, name)) and 0 <= getattr(self, name) < 1):
                raise UsageError(f"{name} must be at least 0 and below 1. Received: {as_written(getattr(self, name))}")
        for name in ("initializer_range", "layer_norm_eps"):
            if not (_is_number(getattr(self, name)) and 0 < getattr(self, name) < math.inf):
                raise UsageError(f"{name} must be above 0. Received: {as_written(getattr(self, name))}")
        activations = get_args(BertConfig.__annotations__["hidden_act"])
        if self.hidden_act not in activations:
            raise UsageError(
                f"hidden_act must be one of {', '.join(activations)}. Received: {as_written(self.hidden_act)}"
            )
        for name, parts in (("attention", ATTENTIONS), ("feed_forward", FEED_FORWARDS)):
            if not isinstance(getattr(self, name), str):
                raise UsageError(
                    f"{name} must be one of {', '.join(parts)}. Received: {as_written(getattr(self, name))}"
                )
            parts.target(getattr(self, name))
        width = getattr(self, self.split_over_heads)
        if width % self.num_attention_heads:
            raise UsageError(
                f"{self.split_over_heads} must be a multiple of num_attention_heads. Received: {width} and "
                f"{self.num_attention_heads}"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
