"""MobileBERT's options, and how its models are published: google-research/google-research/mobilebert, transformers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from nlpdata.errors import UsageError
from pretrain.encoders.families.bert import TIED, BertConfig, bert_hugging_face, bert_tf1
from pretrain.encoders.published import GoogleForm, HuggingFaceForm, PublishedForm
from pretrain.encoders.weight_names import Row, Rows, WeightNames, dense, norm, torch_dense, torch_norm


def _mobilebert(
    bert: list[Row], dense: Rows, norm: Rows, layer: str, ffn: str, embeddings: str, extra: str
) -> list[Row]:
    """MobileBERT's rows of one format.

    Args:
      bert: BERT's rows in it, under MobileBERT's names.
      dense: rows of a dense layer.
      norm: rows of a normalisation.
      layer: name of a layer.
      ffn: name of a further feed-forward part of it.
      embeddings: name of the embeddings.
      extra: name of the rest of the masked language model's output weights.
    """
    ours, end = "encoder/layer_{i}", "." if "." in layer else "/"
    named = {
        f"{ours}/bottleneck_input": f"{layer}{end}bottleneck{end}input",
        f"{ours}/bottleneck_attention": f"{layer}{end}bottleneck{end}attention",
        f"{ours}/bottleneck_output": f"{layer}{end}output{end}bottleneck",
    }
    further = f"{ours}/feed_forward_{{k}}"
    return [
        *bert,
        *dense("encoder/embeddings/transformation", f"{embeddings}{end}embedding_transformation"),
        *(row for to, at in named.items() for row in dense(f"{to}/dense", f"{at}{end}dense")),
        *(row for to, at in named.items() for row in norm(f"{to}/layer_norm", at)),
        *dense(f"{further}/intermediate", f"{ffn}{end}intermediate{end}dense"),
        *dense(f"{further}/output", f"{ffn}{end}output{end}dense"),
        *norm(f"{further}/layer_norm", f"{ffn}{end}output"),
        Row("masked_lm/extra_output_weights", extra, "transposed" if end == "." else "same"),
    ]


def _mobilebert_tf1() -> list[Row]:
    fake = [
        Row(
            row.ours,
            row.theirs.replace("LayerNorm", "FakeLayerNorm") if row.ours.startswith("encoder/") else row.theirs,
            row.kind,
        )
        for row in bert_tf1()
    ]
    return _mobilebert(
        fake,
        lambda ours, theirs: dense(ours, f"{theirs}/"),
        lambda ours, theirs: norm(ours, f"{theirs}/FakeLayerNorm/"),
        "bert/encoder/layer_{i}",
        "bert/encoder/layer_{i}/ffn_layer_{k}",
        "bert/embeddings",
        "cls/predictions/extra_output_weights",
    )


def _mobilebert_hugging_face() -> list[Row]:
    bert = [Row(row.ours, re.sub(r"^bert\.", "mobilebert.", row.theirs), row.kind) for row in bert_hugging_face()]
    return _mobilebert(
        bert,
        torch_dense,
        lambda ours, theirs: torch_norm(ours, f"{theirs}.LayerNorm"),
        "mobilebert.encoder.layer.{i}",
        "mobilebert.encoder.layer.{i}.ffn.{k}",
        "mobilebert.embeddings",
        "cls.predictions.dense.weight",
    )


_FIXED = {"normalization_type": "no_norm", "trigram_input": True, "use_bottleneck": True}


def _hugging_face_fields(fields: dict[str, Any]) -> dict[str, Any]:
    if fields["use_bottleneck_attention"]:  # the other field has no effect then, but their model gets its weights
        return fields | {"key_query_shared_bottleneck": False}
    return fields


def _with_extra_weights(weights: Mapping[str, np.ndarray], options: "MobileBertConfig") -> Mapping[str, np.ndarray]:
    """transformers' model has the extra output weights also where they are empty: embeddings as wide as the layers."""
    extra = "masked_lm/extra_output_weights"
    if "masked_lm/output_bias" not in weights or extra in weights:
        return weights
    return {**weights, extra: np.zeros((options.vocab_size, 0), np.float32)}


def _wide_queries(options: "MobileBertConfig") -> str:
    """Refuses queries that are made of wide vectors, as Google's code allows (its teacher model)."""
    if options.key_query_shared_bottleneck or options.use_bottleneck_attention:
        return ""
    if options.hidden_size == options.intra_bottleneck_size:
        return ""
    return (
        "key_query_shared_bottleneck and use_bottleneck_attention are both false: query and key are made of vectors of "
        f"hidden_size ({options.hidden_size}). transformers, which reads this format, has them only of intra_bottleneck_size "
        f"({options.intra_bottleneck_size})"
    )


@dataclass(kw_only=True)
class MobileBertConfig(BertConfig):
    """Shape of a MobileBERT encoder, in the published JSON's names; defaults are the published model's."""

    hidden_size: int = 512
    num_hidden_layers: int = 24
    num_attention_heads: int = 4
    intermediate_size: int = 512
    hidden_act: Literal["gelu", "gelu_new", "gelu_tanh", "relu"] = "relu"
    hidden_dropout_prob: float = 0.0
    embedding_size: int = 128
    """Width of the embeddings, three of which, of a token and its neighbours, are projected to hidden_size."""
    intra_bottleneck_size: int = 128
    """Width inside a layer."""
    use_bottleneck_attention: bool = False
    """Attention over narrowed vectors only."""
    key_query_shared_bottleneck: bool = True
    """Query and key are made of another narrowed input."""
    num_feedforward_networks: int = 4
    """Feed-forward parts of a layer, one after the other."""
    classifier_activation: bool = False
    """A pooler: a dense layer with tanh over the first token; the published model has none."""

    published: ClassVar[PublishedForm] = PublishedForm(
        model_type="mobilebert",
        telling=frozenset({"intra_bottleneck_size", "trigram_input"}),
        fixed=_FIXED,
        counts=lambda options: {"i": options.num_hidden_layers, "k": options.num_feedforward_networks - 1},
        names={"tf1": WeightNames(_mobilebert_tf1()), "hf": WeightNames(_mobilebert_hugging_face(), TIED)},
        google=GoogleForm(
            checkpoint="mobilebert_variables.ckpt",
            config_file="bert_config.json",
            to_config=lambda fields: fields | _FIXED,
        ),
        hugging_face=HuggingFaceForm(
            classes="MobileBert",
            prefix="mobilebert",
            defaults={"hidden_act": "relu", "classifier_activation": True, "attention_probs_dropout_prob": 0.1},
            to_config=_hugging_face_fields,
            completed=_with_extra_weights,
            refusal=_wide_queries,
        ),
    )
    sizes: ClassVar[tuple[str, ...]] = (
        *BertConfig.sizes,
        *("embedding_size", "intra_bottleneck_size", "num_feedforward_networks"),
    )
    split_over_heads: ClassVar[str] = "intra_bottleneck_size"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding_size > self.hidden_size:
            raise UsageError(
                f"embedding_size must not exceed hidden_size. Received: {self.embedding_size} and {self.hidden_size}"
            )
