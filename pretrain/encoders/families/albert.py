"""ALBERT's options, and how its models are published: google-research/albert, transformers, Model Garden, ALBERT-TF2.0."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nlpdata.errors import UsageError
from pretrain.encoders.families.bert import BertConfig
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


def _albert_tf1() -> list[Row]:
    ours, theirs = "encoder/group_{g}/layer_{j}", "bert/encoder/transformer/group_{g}/inner_group_{j}"
    return [
        *google_embeddings(),
        *dense("encoder/embedding_projection", "bert/encoder/embedding_hidden_mapping_in/"),
        *query_key_value(ours, dense, f"{theirs}/attention_1/self/"),
        *dense(f"{ours}/attention/output", f"{theirs}/attention_1/output/dense/"),
        *norm(f"{ours}/attention/layer_norm", f"{theirs}/LayerNorm/"),
        *dense(f"{ours}/feed_forward/intermediate", f"{theirs}/ffn_1/intermediate/dense/"),
        *dense(f"{ours}/feed_forward/output", f"{theirs}/ffn_1/intermediate/output/dense/"),
        *norm(f"{ours}/feed_forward/layer_norm", f"{theirs}/LayerNorm_1/"),
        *google_heads(),
    ]


def _albert_hugging_face() -> list[Row]:
    ours, theirs = "encoder/group_{g}/layer_{j}", "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}"
    return [
        *(Row(f"encoder/embeddings/{name}", f"albert.embeddings.{name}.weight") for name in EMBEDDINGS),
        *torch_norm("encoder/embeddings/layer_norm", "albert.embeddings.LayerNorm"),
        *torch_dense("encoder/embedding_projection", "albert.encoder.embedding_hidden_mapping_in"),
        *query_key_value(ours, torch_dense, f"{theirs}.attention.", ""),
        *torch_dense(f"{ours}/attention/output", f"{theirs}.attention.dense"),
        *torch_norm(f"{ours}/attention/layer_norm", f"{theirs}.attention.LayerNorm"),
        *torch_dense(f"{ours}/feed_forward/intermediate", f"{theirs}.ffn"),
        *torch_dense(f"{ours}/feed_forward/output", f"{theirs}.ffn_output"),
        *torch_norm(f"{ours}/feed_forward/layer_norm", f"{theirs}.full_layer_layer_norm"),
        *torch_dense("encoder/pooler", "albert.pooler"),
        *torch_dense("masked_lm/transform", "predictions.dense"),
        *torch_norm("masked_lm/layer_norm", "predictions.LayerNorm"),
        Row("masked_lm/output_bias", "predictions.bias"),
        *torch_dense("sentence_pair/logits", "sop_classifier.classifier"),
        *torch_dense("classifier/logits", "classifier"),
        *torch_dense("span/logits", "qa_outputs"),
    ]


def _kamalkraj() -> list[Row]:
    model, layer, ours = "albert_model", "albert_model/encoder/shared_layer", "encoder/group_0/layer_0"
    return [
        Row(WORD_EMBEDDINGS, f"{model}/word_embeddings/embeddings"),
        Row("encoder/embeddings/token_type_embeddings", f"{model}/embedding_postprocessor/type_embeddings"),
        Row("encoder/embeddings/position_embeddings", f"{model}/embedding_postprocessor/position_embeddings"),
        *norm("encoder/embeddings/layer_norm", f"{model}/embedding_postprocessor/layer_norm/"),
        *dense("encoder/embedding_projection", f"{model}/embedding_postprocessor/embedding_hidden_mapping_in/"),
        *query_key_value(ours, dense, f"{layer}/self_attention/"),
        *dense(f"{ours}/attention/output", f"{layer}/self_attention_output/"),
        *norm(f"{ours}/attention/layer_norm", f"{layer}/self_attention_layer_norm/"),
        *dense(f"{ours}/feed_forward/intermediate", f"{layer}/intermediate/"),
        *dense(f"{ours}/feed_forward/output", f"{layer}/output/"),
        *norm(f"{ours}/feed_forward/layer_norm", f"{layer}/output_layer_norm/"),
        *dense("encoder/pooler", f"{model}/pooler_transform/"),
        Row("masked_lm/output_bias", "cls/predictions/output_bias"),
        Row("sentence_pair/logits/kernel", "cls/seq_relationship/output_weights", "transposed"),
        Row("sentence_pair/logits/bias", "cls/seq_relationship/output_bias"),
        *dense("masked_lm/transform", "cls/predictions/transform/dense/"),
        *norm("masked_lm/layer_norm", "cls/predictions/transform/LayerNorm/"),
    ]


_HUGGING_FACE_TIED = {
    "predictions.decoder.weight": WORD_EMBEDDINGS,
    "predictions.decoder.bias": "masked_lm/output_bias",
}
_PROJECTION = "encoder/embedding_projection"


def _without_projection(fields: dict[str, Any]) -> dict[str, Any]:
    """The published configurations do not say whether there is a projection."""
    return {name: value for name, value in fields.items() if name != "embedding_projection"}


def _google_lacks(options: "AlbertConfig") -> str:
    if options.embedding_projection and options.embedding_size == options.hidden_size:
        return f"a projection of embeddings of the hidden size ({options.hidden_size})"
    return ""


def _with_projection(weights: Mapping[str, np.ndarray], options: "AlbertConfig") -> Mapping[str, np.ndarray]:
    """transformers' model always has the projection; the identity computes the same as none."""
    if f"{_PROJECTION}/kernel" in weights:
        return weights
    identity = {
        "kernel": np.eye(options.hidden_size, dtype=np.float32),
        "bias": np.zeros(options.hidden_size, np.float32),
    }
    return {**weights, **{f"{_PROJECTION}/{part}": array for part, array in identity.items()}}


@dataclass(kw_only=True)
class AlbertConfig(BertConfig):
    """Shape of an ALBERT encoder, in the published JSON's names; defaults are ALBERT-base v2."""

    vocab_size: int = 30000
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    embedding_size: int = 128
    """Width of the embeddings."""
    num_hidden_groups: int = 1
    """Groups of layers with weights of their own; the layers of a group share theirs."""
    inner_group_num: int = 1
    """Inner layers with weights of their own that make one layer of a group."""
    embedding_projection: bool | None = None
    """A dense layer between embeddings and layers; null: where the two sizes differ, as published. Must be there then."""

    published: ClassVar[PublishedForm] = PublishedForm(
        model_type="albert",
        telling=frozenset({"embedding_size", "num_hidden_groups", "inner_group_num"}),
        counts=lambda options: {"g": options.num_hidden_groups, "j": options.inner_group_num},
        names={
            "tf1": WeightNames(_albert_tf1()),
            "tf2": WeightNames(garden("encoder/group_0/layer_0", "transformer", projection=True)),
            "hf": WeightNames(_albert_hugging_face(), _HUGGING_FACE_TIED),
            "h5": WeightNames(_kamalkraj(), {"cls/albert_model/word_embeddings/embeddings": WORD_EMBEDDINGS}),
        },
        google=GoogleForm(
            checkpoint="model.ckpt-best",
            config_file="albert_config.json",
            to_config=_without_projection,
            lacks=_google_lacks,
        ),
        hugging_face=HuggingFaceForm(
            classes="Albert",
            prefix="albert",
            defaults={
                **{"hidden_act": "gelu_new", "embedding_projection": True},
                **{"num_attention_heads": 64, "intermediate_size": 16384},
            },
            absent_classes=frozenset({"ForNextSentencePrediction"}),
            to_config=_without_projection,
            completed=_with_projection,
        ),
    )
    sentence_objective: ClassVar[str] = "sop"

    sizes: ClassVar[tuple[str, ...]] = (*BertConfig.sizes, "embedding_size", "num_hidden_groups", "inner_group_num")

    def __post_init__(self) -> None:
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
