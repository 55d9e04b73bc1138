"""What every reader returns, and how a name table turns a source's tensors into ours."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import Tokenizer
from pretrain.converters.names import Row, expand
from pretrain.encoders.model_config import CONFIG_FILES, read_folder_config
from pretrain.registry import ENCODERS
from pretrain.settings.schema import Choice

# Tensors that belong to training, not to the model: pattern of the name -> why it is not used.
_TRAINING = (
    (r"/(adam_[mv]|Adam(_1)?)$|\.OPTIMIZER_SLOT|^optimizer/", "optimizer slot"),
    (r"^(global_step|save_counter|_CHECKPOINTABLE_OBJECT_GRAPH|Variable)$", "counter or bookkeeping"),
    (r"position_ids$", "position numbers, which we count ourselves"),
)

UNKNOWN = "unknown to this encoder"
_SIZES = ("vocab_size", "embedding_size", "hidden_size", "intra_bottleneck_size", "intermediate_size")
_SIZES += ("num_hidden_layers", "num_hidden_groups", "max_position_embeddings")


@dataclass(frozen=True)
class Head:
    """What a classifier's logits mean: kind (classification, regression, multilabel), class names in id order."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Checkpoint:
    """Weights of an encoder and its heads.

    Attributes:
      format: name of the format it was read from.
      source: where it was read from, for messages.
      encoder: the encoder that it is of; None where a checkpoint of ours is of no encoder.
      weights: path in our models -> float32 array in our layout.
      unused: the source's other tensors -> why they are not used.
      extras: what travels along: kind and label_names (in id order) of a classifier, facts about the data that it was
        trained on.
      tokenizer: to be written with it.
      left_out: heads of the source that cannot be used -> why; their weights are not among `weights`. A head that none of
        our models has goes by the name of its class.
    """

    format: str
    source: str
    encoder: Choice | None
    weights: dict[str, np.ndarray]
    unused: dict[str, str] = field(default_factory=dict)
    extras: dict = field(default_factory=dict)
    tokenizer: Tokenizer | None = None
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def sequence_length(self) -> int:
        """Tokens of the examples that it was trained on, if it says so, else the most that its encoder takes."""
        return self.extras.get("seq_length") or self.encoder.options.max_position_embeddings

    @property
    def head(self) -> Head | None:
        """Of its classifier; None where it has none."""
        kernel = self.weights.get("classifier/logits/kernel")
        if kernel is None:
            return None
        classes = kernel.shape[1]
        kind = self.extras.get("kind") or ("regression" if classes == 1 else "classification")
        return Head(kind, tuple(self.extras.get("label_names") or map(str, range(classes))))


def find_model_config(given: Choice | None, folders: list[Path], source: str, first: str = "") -> Choice:
    """The configuration next to the weights, else the one that was given; UsageError where there is none.

    Args:
      first: the file that is the format's own, where several lie there.
    """
    for folder in folders:
        if any((folder / name).is_file() for name in CONFIG_FILES):
            return read_folder_config(folder, first)
    if given is not None:
        return given
    raise UsageError(
        f"{source}: holds no model configuration, and weights alone do not tell it (number of heads, activation, ...). "
        f"Name one with --model_config: a file, or a name such as bert_base_uncased. Expected beside the weights: "
        f"{', '.join(CONFIG_FILES)}."
    )


def stored_encoder(stored, source: str) -> Choice:
    """The encoder that a checkpoint of ours describes: {"type": name, "options": {field: value}}.

    UsageError for a part that the user has not named (Registry.check_stored), DataError for anything else.
    """
    kind = stored.get("type") if isinstance(stored, dict) else None
    options = stored.get("options") if isinstance(stored, dict) else None
    if not isinstance(kind, str) or not isinstance(options, dict):
        raise DataError(f"{source}: encoder must have a type and options. Received: {str(stored)[:80]}")
    try:
        ENCODERS.check_stored(kind)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
    try:
        config_class = ENCODERS.config_class(kind)
        unknown = options.keys() - {field.name for field in fields(config_class)}
        if unknown:
            raise UsageError(f"{kind} has no option {', '.join(sorted(unknown))}")
        return Choice(kind, config_class(**options))
    except UsageError as error:
        raise DataError(f"{source}: encoder: {error}") from None


_MOST_LAYERS = 1000  # of an ALBERT, which has the weights of a few


def check_sizes(checkpoint: Checkpoint) -> None:
    """DataError where the configuration describes more weights than there are, before memory is taken for them."""
    arrays = [array for path, array in checkpoint.weights.items() if path.startswith("encoder/")]
    there = sum(array.size for array in arrays)
    if arrays:
        what = f"its {len(arrays)} weights of {there} numbers are"
        refuse_larger(checkpoint.encoder, len(arrays), there, checkpoint.source, what)


def refuse_larger(encoder: Choice, tensors: int, numbers: int, source: str, what: str) -> None:
    """DataError where an encoder has more weights than so many tensors of so many numbers in all; `what`: these, in words."""
    options = encoder.options
    size = {name: getattr(options, name, 0) or 0 for name in _SIZES}
    width = size["intra_bottleneck_size"] or size["hidden_size"]
    layers = size["num_hidden_groups"] or size["num_hidden_layers"]
    for names, wanted, limit in (
        ("hidden_size", size["hidden_size"] * width, numbers),
        ("vocab_size", size["vocab_size"] * (size["embedding_size"] or size["hidden_size"]), numbers),
        ("max_position_embeddings", size["max_position_embeddings"] * (size["embedding_size"] or width), numbers),
        ("intermediate_size", size["intermediate_size"] * width, numbers),
        ("num_hidden_layers", layers, tensors),
        ("num_hidden_layers", size["num_hidden_layers"], _MOST_LAYERS),
    ):
        if wanted > limit:
            raise DataError(
                f"{source}: its configuration has {names} {size[names]}, for which {what} too few. Is it the configuration of "
                "another model?"
            )


def as_weight(array, name: str, source: str) -> np.ndarray:
    """float32 in memory order. DataError for anything but an array of numbers."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{source}: {name} holds {array.dtype}, not numbers")
    return np.ascontiguousarray(array, dtype=np.float32)


def table_of(tables: Mapping[str, list[Row]], encoder: Choice, source: str) -> list[Row]:
    """The table of an encoder's kind. UsageError for one that this format does not have, e.g. a user's own."""
    if encoder.type not in tables:
        raise UsageError(
            f"{source}: this format has no names for the weights of an encoder of type {encoder.type!r}, only of "
            f"{', '.join(sorted(tables))}. Formats for any encoder: native, savedmodel, hub."
        )
    return tables[encoder.type]


def rows_of(table: list[Row], encoder: Choice) -> list[Row]:
    """The table's rows for an encoder of this shape."""
    return list(expand(table, _counts(encoder)))


def _counts(encoder: Choice) -> dict[str, int]:
    options = encoder.options
    return {
        "i": options.num_hidden_layers,
        "g": getattr(options, "num_hidden_groups", 0),
        "j": getattr(options, "inner_group_num", 0),
        "k": getattr(options, "num_feedforward_networks", 1) - 1,
    }


def _refuse_endless(table: list[Row], encoder: Choice, tensors: int, source: str) -> None:
    """DataError where the configuration has far more layers than there are tensors, before their names are listed."""
    counts = _counts(encoder)
    layers = max(math.prod(n for name, n in counts.items() if f"{{{name}}}" in row.ours) for row in table)
    if layers > max(tensors, _MOST_LAYERS):
        raise DataError(
            f"{source}: its configuration ({_shape_words(encoder)}) has {layers} layers, for which its {tensors} tensors are too "
            "few. Is it the configuration of another model?"
        )


def take(
    tensors: Mapping[str, np.ndarray],
    table: list[Row],
    encoder: Choice,
    source: str,
    tied: Mapping[str, str] | None = None,
):
    """Reads what the table names.

    Args:
      tensors: name in the source -> array; looked up only where used.
      tied: second name of a weight that the format stores twice -> our path; it stands in where the first is missing.

    Returns (weights by our path, float32; unused names with reasons; heads left out with reasons: that of the masked
    language model where two copies of one weight differ).
    DataError where tensors are there for more layers than the configuration has.
    """
    _refuse_endless(table, encoder, len(tensors), source)
    rows = rows_of(table, encoder)
    weights, used, left_out = {}, set(), {}
    for row in rows:
        if row.theirs in tensors:
            array = as_weight(tensors[row.theirs], row.theirs, source)
            weights[row.ours] = np.ascontiguousarray(_to_ours(row, array, source))
            used.add(row.theirs)
    unused = {}
    for name in [name for name in tied or {} if name in tensors]:
        copy, ours = as_weight(tensors[name], name, source), tied[name]
        used.add(name)
        if ours not in weights:
            weights[ours] = copy
        elif np.array_equal(copy, weights[ours]):
            unused[name] = f"the same as {ours}"
        else:
            unused[name] = f"not equal to {ours}"
            left_out["masked_lm"] = (
                f"{name} {copy.shape} is not equal to {ours} {weights[ours].shape}: its output layer is not tied to the "
                "embeddings, as it is in our models"
            )
    patterns = [re.compile(re.sub(r"\\\{[gijk]\\\}", r"\\d+", re.escape(row.theirs)) + "$") for row in table]
    for name in tensors:
        if name in used:
            continue
        if any(pattern.match(name) for pattern in patterns):
            raise DataError(
                f"{source}: has {name}, which the configuration ({_shape_words(encoder)}) has no layer for. Is it the "
                "configuration of another model size?"
            )
        unused[name] = next((why for pattern, why in _TRAINING if re.search(pattern, name)), UNKNOWN)
    return weights, unused, left_out


def _to_ours(row: Row, array: np.ndarray, source: str) -> np.ndarray:
    if array.ndim < row.least_dimensions:
        raise DataError(f"{source}: {row.theirs} has the shape {array.shape}, which is no {row.ours}")
    return row.to_ours(array)


def _shape_words(encoder: Choice) -> str:
    options = encoder.options
    names = ("num_hidden_layers", "num_hidden_groups", "inner_group_num")
    return ", ".join(f"{name} {getattr(options, name)}" for name in names if hasattr(options, name))


def give(checkpoint: Checkpoint, table: list[Row]) -> dict[str, np.ndarray]:
    """The checkpoint's weights under the table's names, in its layout; the way back from `take`."""
    heads = checkpoint.encoder.options.num_attention_heads
    return {
        row.theirs: np.ascontiguousarray(row.to_theirs(checkpoint.weights[row.ours], heads))
        for row in rows_of(table, checkpoint.encoder)
        if row.ours in checkpoint.weights
    }


def refuse_unwritten(checkpoint: Checkpoint, table: list[Row], format: str) -> None:
    """UsageError where the format has no place for some of the weights."""
    known = {row.ours for row in rows_of(table, checkpoint.encoder)}
    left = sorted(checkpoint.weights.keys() - known)
    if left:
        raise UsageError(
            f"{checkpoint.source}: format {format} has no place for {', '.join(left[:3])}{', ...' if len(left) > 3 else ''}. "
            "Choose another --format, e.g. native."
        )
