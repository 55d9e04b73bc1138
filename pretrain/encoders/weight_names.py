"""Tables of weight names: what a checkpoint format calls the weights that we call by path. Tables, not code; read both ways.

A row is (our path, their name, how to turn theirs into ours). A placeholder such as {i} is for the number of a layer; the
published form of the encoder's family (pretrain.encoders.published) says how many there are. Kernels of ours are (in, out).

Sources of the names here and in pretrain.encoders.families: the checkpoints of google-research/bert, google-research/albert
and google-research/google-research/mobilebert, transformers' modeling files, kamalkraj/ALBERT-TF2.0's converter.py.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

WORD_EMBEDDINGS = "encoder/embeddings/word_embeddings"
EMBEDDINGS = ("word_embeddings", "position_embeddings", "token_type_embeddings")


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


@dataclass(frozen=True)
class WeightNames:
    """What one format calls the weights of one family.

    Attributes:
      rows: the table.
      tied: second name of a weight that the format stores twice -> our path. Both must be equal; one is enough.
    """

    rows: Sequence[Row]
    tied: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, path: str) -> str | None:
        """Their name of our path (with placeholders), or None."""
        return next((row.theirs for row in self.rows if row.ours == path), None)


def expand(rows: Sequence[Row], counts: Mapping[str, int]) -> Iterator[Row]:
    """The rows with their placeholders filled: {i} in range(counts["i"]), and so on."""
    for row in rows:
        names = [name for name in counts if f"{{{name}}}" in row.ours]
        for numbers in itertools.product(*(range(counts[name]) for name in names)):
            fill = dict(zip(names, numbers, strict=True))
            yield Row(row.ours.format(**fill), row.theirs.format(**fill), row.kind)


# ------------------------------------------------------------------------------------------------------- rows of one layer

Rows = Callable[[str, str], list[Row]]
"""(our path of a layer, its name in the format) -> the rows of its weights."""


def dense(
    ours: str, theirs: str, kernel: str = "kernel", bias: str = "bias", kind: str = "same", bias_kind: str = "same"
) -> list[Row]:
    """A dense layer; `theirs` ends with what separates it from the name of the weight, e.g. "/"."""
    return [Row(f"{ours}/kernel", f"{theirs}{kernel}", kind), Row(f"{ours}/bias", f"{theirs}{bias}", bias_kind)]


def norm(ours: str, theirs: str, gamma: str = "gamma", beta: str = "beta") -> list[Row]:
    """A normalisation; `theirs` as for `dense`."""
    return [Row(f"{ours}/gamma", f"{theirs}{gamma}"), Row(f"{ours}/beta", f"{theirs}{beta}")]


def torch_dense(ours: str, theirs: str) -> list[Row]:
    """A dense layer of PyTorch, whose kernel is (out, in)."""
    return dense(ours, f"{theirs}.", "weight", "bias", "transposed")


def torch_norm(ours: str, theirs: str) -> list[Row]:
    """A normalisation of PyTorch."""
    return norm(ours, f"{theirs}.", "weight", "bias")


def query_key_value(ours: str, rows: Rows, theirs: str, end: str = "/") -> list[Row]:
    """Query, key and value of a layer; `theirs` comes before these words and `end` after them."""
    return [row for x in ("query", "key", "value") for row in rows(f"{ours}/attention/{x}", f"{theirs}{x}{end}")]


# ------------------------------------------------------------------------------------------- rows that several families share


def google_heads() -> list[Row]:
    """The heads in the TensorFlow 1 checkpoints of google-research."""
    return [
        *dense("masked_lm/transform", "cls/predictions/transform/dense/"),
        *norm("masked_lm/layer_norm", "cls/predictions/transform/LayerNorm/"),
        Row("masked_lm/output_bias", "cls/predictions/output_bias"),
        Row("sentence_pair/logits/kernel", "cls/seq_relationship/output_weights", "transposed"),
        Row("sentence_pair/logits/bias", "cls/seq_relationship/output_bias"),
        Row("classifier/logits/kernel", "output_weights", "transposed"),
        Row("classifier/logits/bias", "output_bias"),
        Row("span/logits/kernel", "cls/squad/output_weights", "transposed"),
        Row("span/logits/bias", "cls/squad/output_bias"),
        *dense("span/start_logits", "start_logits/dense/"),  # the others: of a conditional answer layer
        *dense("span/end_hidden", "end_logits/dense_0/"),
        *norm("span/layer_norm", "end_logits/LayerNorm/"),
        *dense("span/end_logits", "end_logits/dense_1/"),
        *dense("span/class_hidden", "answer_class/dense_0/"),
        Row("span/class_logits/kernel", "answer_class/dense_1/kernel"),
    ]


def google_embeddings() -> list[Row]:
    """Embeddings and pooler in the TensorFlow 1 checkpoints of google-research."""
    return [
        *(Row(f"encoder/embeddings/{name}", f"bert/embeddings/{name}") for name in EMBEDDINGS),
        *norm("encoder/embeddings/layer_norm", "bert/embeddings/LayerNorm/"),
        *dense("encoder/pooler", "bert/pooler/dense/"),
    ]


def garden(ours: str, theirs: str, projection: bool) -> list[Row]:
    """The TensorFlow Model Garden's names of variables, as its object checkpoints and SavedModels state them."""
    attention = f"{theirs}/self_attention"
    predictions = "bert/cls/predictions"
    return [
        Row(WORD_EMBEDDINGS, "word_embeddings/embeddings"),
        Row("encoder/embeddings/position_embeddings", "position_embedding/embeddings"),
        Row("encoder/embeddings/token_type_embeddings", "type_embeddings/embeddings"),
        *norm("encoder/embeddings/layer_norm", "embeddings/layer_norm/"),
        *(dense("encoder/embedding_projection", "embedding_projection/") if projection else []),
        *query_key_value(ours, functools.partial(dense, kind="heads_out", bias_kind="heads_out"), f"{attention}/"),
        *dense(f"{ours}/attention/output", f"{attention}/attention_output/", kind="heads_in"),
        *norm(f"{ours}/attention/layer_norm", f"{theirs}/self_attention_layer_norm/"),
        *dense(f"{ours}/feed_forward/intermediate", f"{theirs}/intermediate/"),
        *dense(f"{ours}/feed_forward/output", f"{theirs}/output/"),
        *norm(f"{ours}/feed_forward/layer_norm", f"{theirs}/output_layer_norm/"),
        *dense("encoder/pooler", "pooler_transform/"),
        *dense("masked_lm/transform", f"{predictions}/transform/dense/"),
        *norm("masked_lm/layer_norm", f"{predictions}/transform/LayerNorm/"),
        Row("masked_lm/output_bias", f"{predictions}/output_bias/bias"),
        *dense("sentence_pair/pooler", "bert/next_sentence/pooler_dense/"),
        *dense("sentence_pair/logits", "bert/next_sentence/logits/"),
    ]
