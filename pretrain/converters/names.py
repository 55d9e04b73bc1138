"""Name tables: what each checkpoint format calls the weights that we call by path. Tables, not code; read both ways.

A row is (our path, their name, how to turn theirs into ours). Placeholders: {i} a layer of BERT, {g} a group and {j} an
inner layer of ALBERT, {k} a further feed-forward part of a layer of MobileBERT. Kernels of ours are (in, out). Sources of
the names: the checkpoints of google-research/bert, google-research/albert and google-research/google-research/mobilebert,
transformers' modeling files, kamalkraj/ALBERT-TF2.0's converter.py.
"""

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
      ours: path of the weight in our models.
      theirs: its name in the format.
      kind: "same", "transposed" (theirs is (out, in)), "heads_out" (theirs is (in, heads, size); bias (heads, size)) or
        "heads_in" (theirs is (heads, size, out)).
    """

    ours: str
    theirs: str
    kind: str = "same"

    @property
    def least_dimensions(self) -> int:
        """How many dimensions their array needs for its kind."""
        return {"same": 0, "transposed": 2, "heads_out": 2, "heads_in": 3}[self.kind]

    def to_ours(self, array: np.ndarray) -> np.ndarray:
        """Their array in our layout."""
        if self.kind == "transposed":
            return array.T
        if self.kind == "heads_out":
            return array.reshape((*array.shape[:-2], -1))
        if self.kind == "heads_in":
            return array.reshape((-1, array.shape[-1]))
        return array

    def to_theirs(self, array: np.ndarray, heads: int) -> np.ndarray:
        """Our array in their layout; `heads` is the number of attention heads."""
        if self.kind == "transposed":
            return array.T
        if self.kind == "heads_out":
            return array.reshape((*array.shape[:-1], heads, -1))
        if self.kind == "heads_in":
            return array.reshape((heads, -1, array.shape[-1]))
        return array


def _dense(ours: str, theirs: str, kernel="kernel", bias="bias", kind="same", bias_kind="same") -> list[Row]:
    return [Row(f"{ours}/kernel", f"{theirs}{kernel}", kind), Row(f"{ours}/bias", f"{theirs}{bias}", bias_kind)]


def _norm(ours: str, theirs: str, gamma="gamma", beta="beta") -> list[Row]:
    return [Row(f"{ours}/gamma", f"{theirs}{gamma}"), Row(f"{ours}/beta", f"{theirs}{beta}")]


def _qkv(ours: str, dense, theirs: str, end: str = "/") -> list[Row]:
    """Query, key and value of a layer; `theirs` and `end` stand around these words."""
    return [row for x in ("query", "key", "value") for row in dense(f"{ours}/attention/{x}", f"{theirs}{x}{end}")]


def _google_heads() -> list[Row]:
    return [
        *_dense("masked_lm/transform", "cls/predictions/transform/dense/"),
        *_norm("masked_lm/layer_norm", "cls/predictions/transform/LayerNorm/"),
        Row("masked_lm/output_bias", "cls/predictions/output_bias"),
        Row("sentence_pair/logits/kernel", "cls/seq_relationship/output_weights", "transposed"),
        Row("sentence_pair/logits/bias", "cls/seq_relationship/output_bias"),
        Row("classifier/logits/kernel", "output_weights", "transposed"),
        Row("classifier/logits/bias", "output_bias"),
        Row("span/logits/kernel", "cls/squad/output_weights", "transposed"),
        Row("span/logits/bias", "cls/squad/output_bias"),
    ]


def _google_embeddings() -> list[Row]:
    names = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    return [
        *(Row(f"encoder/embeddings/{name}", f"bert/embeddings/{name}") for name in names),
        *_norm("encoder/embeddings/layer_norm", "bert/embeddings/LayerNorm/"),
        *_dense("encoder/pooler", "bert/pooler/dense/"),
    ]


def _bert_tf1() -> list[Row]:
    ours, theirs = "encoder/layer_{i}", "bert/encoder/layer_{i}"
    return [
        *_google_embeddings(),
        *_qkv(ours, _dense, f"{theirs}/attention/self/"),
        *_dense(f"{ours}/attention/output", f"{theirs}/attention/output/dense/"),
        *_norm(f"{ours}/attention/layer_norm", f"{theirs}/attention/output/LayerNorm/"),
        *_dense(f"{ours}/feed_forward/intermediate", f"{theirs}/intermediate/dense/"),
        *_dense(f"{ours}/feed_forward/output", f"{theirs}/output/dense/"),
        *_norm(f"{ours}/feed_forward/layer_norm", f"{theirs}/output/LayerNorm/"),
        *_google_heads(),
    ]


def _albert_tf1() -> list[Row]:
    ours, theirs = "encoder/group_{g}/layer_{j}", "bert/encoder/transformer/group_{g}/inner_group_{j}"
    return [
        *_google_embeddings(),
        *_dense("encoder/embedding_projection", "bert/encoder/embedding_hidden_mapping_in/"),
        *_qkv(ours, _dense, f"{theirs}/attention_1/self/"),
        *_dense(f"{ours}/attention/output", f"{theirs}/attention_1/output/dense/"),
        *_norm(f"{ours}/attention/layer_norm", f"{theirs}/LayerNorm/"),
        *_dense(f"{ours}/feed_forward/intermediate", f"{theirs}/ffn_1/intermediate/dense/"),
        *_dense(f"{ours}/feed_forward/output", f"{theirs}/ffn_1/intermediate/output/dense/"),
        *_norm(f"{ours}/feed_forward/layer_norm", f"{theirs}/LayerNorm_1/"),
        *_google_heads(),
    ]


def _torch(ours: str, theirs: str) -> list[Row]:
    return _dense(ours, f"{theirs}.", "weight", "bias", "transposed")


def _torch_norm(ours: str, theirs: str) -> list[Row]:
    return _norm(ours, f"{theirs}.", "weight", "bias")


def _bert_hugging_face() -> list[Row]:
    ours, theirs = "encoder/layer_{i}", "bert.encoder.layer.{i}"
    names = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    return [
        *(Row(f"encoder/embeddings/{name}", f"bert.embeddings.{name}.weight") for name in names),
        *_torch_norm("encoder/embeddings/layer_norm", "bert.embeddings.LayerNorm"),
        *_qkv(ours, _torch, f"{theirs}.attention.self.", ""),
        *_torch(f"{ours}/attention/output", f"{theirs}.attention.output.dense"),
        *_torch_norm(f"{ours}/attention/layer_norm", f"{theirs}.attention.output.LayerNorm"),
        *_torch(f"{ours}/feed_forward/intermediate", f"{theirs}.intermediate.dense"),
        *_torch(f"{ours}/feed_forward/output", f"{theirs}.output.dense"),
        *_torch_norm(f"{ours}/feed_forward/layer_norm", f"{theirs}.output.LayerNorm"),
        *_torch("encoder/pooler", "bert.pooler.dense"),
        *_torch("masked_lm/transform", "cls.predictions.transform.dense"),
        *_torch_norm("masked_lm/layer_norm", "cls.predictions.transform.LayerNorm"),
        Row("masked_lm/output_bias", "cls.predictions.bias"),
        *_torch("sentence_pair/logits", "cls.seq_relationship"),
        *_torch("classifier/logits", "classifier"),
        *_torch("span/logits", "qa_outputs"),
    ]


def _albert_hugging_face() -> list[Row]:
    ours, theirs = "encoder/group_{g}/layer_{j}", "albert.encoder.albert_layer_groups.{g}.albert_layers.{j}"
    names = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    return [
        *(Row(f"encoder/embeddings/{name}", f"albert.embeddings.{name}.weight") for name in names),
        *_torch_norm("encoder/embeddings/layer_norm", "albert.embeddings.LayerNorm"),
        *_torch("encoder/embedding_projection", "albert.encoder.embedding_hidden_mapping_in"),
        *_qkv(ours, _torch, f"{theirs}.attention.", ""),
        *_torch(f"{ours}/attention/output", f"{theirs}.attention.dense"),
        *_torch_norm(f"{ours}/attention/layer_norm", f"{theirs}.attention.LayerNorm"),
        *_torch(f"{ours}/feed_forward/intermediate", f"{theirs}.ffn"),
        *_torch(f"{ours}/feed_forward/output", f"{theirs}.ffn_output"),
        *_torch_norm(f"{ours}/feed_forward/layer_norm", f"{theirs}.full_layer_layer_norm"),
        *_torch("encoder/pooler", "albert.pooler"),
        *_torch("masked_lm/transform", "predictions.dense"),
        *_torch_norm("masked_lm/layer_norm", "predictions.LayerNorm"),
        Row("masked_lm/output_bias", "predictions.bias"),
        *_torch("sentence_pair/logits", "sop_classifier.classifier"),
        *_torch("classifier/logits", "classifier"),
        *_torch("span/logits", "qa_outputs"),
    ]


def _garden(ours: str, theirs: str, projection: bool) -> list[Row]:
    """The TensorFlow Model Garden's names of variables, as its object checkpoints and SavedModels state them."""
    attention = f"{theirs}/self_attention"
    predictions = "bert/cls/predictions"
    return [
        Row("encoder/embeddings/word_embeddings", "word_embeddings/embeddings"),
        Row("encoder/embeddings/position_embeddings", "position_embedding/embeddings"),
        Row("encoder/embeddings/token_type_embeddings", "type_embeddings/embeddings"),
        *_norm("encoder/embeddings/layer_norm", "embeddings/layer_norm/"),
        *(_dense("encoder/embedding_projection", "embedding_projection/") if projection else []),
        *_qkv(ours, functools.partial(_dense, kind="heads_out", bias_kind="heads_out"), f"{attention}/"),
        *_dense(f"{ours}/attention/output", f"{attention}/attention_output/", kind="heads_in"),
        *_norm(f"{ours}/attention/layer_norm", f"{theirs}/self_attention_layer_norm/"),
        *_dense(f"{ours}/feed_forward/intermediate", f"{theirs}/intermediate/"),
        *_dense(f"{ours}/feed_forward/output", f"{theirs}/output/"),
        *_norm(f"{ours}/feed_forward/layer_norm", f"{theirs}/output_layer_norm/"),
        *_dense("encoder/pooler", "pooler_transform/"),
        *_dense("masked_lm/transform", f"{predictions}/transform/dense/"),
        *_norm("masked_lm/layer_norm", f"{predictions}/transform/LayerNorm/"),
        Row("masked_lm/output_bias", f"{predictions}/output_bias/bias"),
        *_dense("sentence_pair/pooler", "bert/next_sentence/pooler_dense/"),
        *_dense("sentence_pair/logits", "bert/next_sentence/logits/"),
    ]


def _kamalkraj() -> list[Row]:
    model, layer, ours = "albert_model", "albert_model/encoder/shared_layer", "encoder/group_0/layer_0"
    return [
        Row("encoder/embeddings/word_embeddings", f"{model}/word_embeddings/embeddings"),
        Row("encoder/embeddings/token_type_embeddings", f"{model}/embedding_postprocessor/type_embeddings"),
        Row("encoder/embeddings/position_embeddings", f"{model}/embedding_postprocessor/position_embeddings"),
        *_norm("encoder/embeddings/layer_norm", f"{model}/embedding_postprocessor/layer_norm/"),
        *_dense("encoder/embedding_projection", f"{model}/embedding_postprocessor/embedding_hidden_mapping_in/"),
        *_qkv(ours, _dense, f"{layer}/self_attention/"),
        *_dense(f"{ours}/attention/output", f"{layer}/self_attention_output/"),
        *_norm(f"{ours}/attention/layer_norm", f"{layer}/self_attention_layer_norm/"),
        *_dense(f"{ours}/feed_forward/intermediate", f"{layer}/intermediate/"),
        *_dense(f"{ours}/feed_forward/output", f"{layer}/output/"),
        *_norm(f"{ours}/feed_forward/layer_norm", f"{layer}/output_layer_norm/"),
        *_dense("encoder/pooler", f"{model}/pooler_transform/"),
        Row("masked_lm/output_bias", "cls/predictions/output_bias"),
        Row("sentence_pair/logits/kernel", "cls/seq_relationship/output_weights", "transposed"),
        Row("sentence_pair/logits/bias", "cls/seq_relationship/output_bias"),
        *_dense("masked_lm/transform", "cls/predictions/transform/dense/"),
        *_norm("masked_lm/layer_norm", "cls/predictions/transform/LayerNorm/"),
    ]


def _mobilebert(bert: list[Row], dense, norm, layer: str, ffn: str, embeddings: str, extra: str) -> list[Row]:
    """MobileBERT's rows, given BERT's in the same format, how that names dense layers and norms, and three places."""
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
        for row in _bert_tf1()
    ]
    return _mobilebert(
        fake,
        lambda ours, theirs: _dense(ours, f"{theirs}/"),
        lambda ours, theirs: _norm(ours, f"{theirs}/FakeLayerNorm/"),
        "bert/encoder/layer_{i}",
        "bert/encoder/layer_{i}/ffn_layer_{k}",
        "bert/embeddings",
        "cls/predictions/extra_output_weights",
    )


def _mobilebert_hugging_face() -> list[Row]:
    bert = [Row(row.ours, re.sub(r"^bert\.", "mobilebert.", row.theirs), row.kind) for row in _bert_hugging_face()]
    return _mobilebert(
        bert,
        _torch,
        lambda ours, theirs: _torch_norm(ours, f"{theirs}.LayerNorm"),
        "mobilebert.encoder.layer.{i}",
        "mobilebert.encoder.layer.{i}.ffn.{k}",
        "mobilebert.embeddings",
        "cls.predictions.dense.weight",
    )


TF1 = {"bert": _bert_tf1(), "albert": _albert_tf1(), "mobilebert": _mobilebert_tf1()}
HUGGING_FACE = {
    "bert": _bert_hugging_face(),
    "albert": _albert_hugging_face(),
    "mobilebert": _mobilebert_hugging_face(),
}
KAMALKRAJ = {"albert": _kamalkraj()}
GARDEN = {
    "bert": _garden("encoder/layer_{i}", "transformer/layer_{i}", projection=False),
    "albert": _garden("encoder/group_0/layer_0", "transformer", projection=True),
}

# Second names of a weight, which a format stores twice: both must be equal, and one stands in for the other.
_WORDS, _BIAS = "encoder/embeddings/word_embeddings", "masked_lm/output_bias"
TIED_HUGGING_FACE = {
    "bert": {"cls.predictions.decoder.weight": _WORDS, "cls.predictions.decoder.bias": _BIAS},
    "albert": {"predictions.decoder.weight": _WORDS, "predictions.decoder.bias": _BIAS},
    "mobilebert": {"cls.predictions.decoder.weight": _WORDS, "cls.predictions.decoder.bias": _BIAS},
}
TIED_KAMALKRAJ = {"cls/albert_model/word_embeddings/embeddings": _WORDS}


def expand(table: list[Row], counts: dict[str, int]) -> Iterator[Row]:
    """The rows with their placeholders filled: {i} in range(counts["i"]), and so on."""
    for row in table:
        names = [name for name in counts if f"{{{name}}}" in row.ours]
        for numbers in itertools.product(*(range(counts[name]) for name in names)):
            fill = dict(zip(names, numbers, strict=True))
            yield Row(row.ours.format(**fill), row.theirs.format(**fill), row.kind)
