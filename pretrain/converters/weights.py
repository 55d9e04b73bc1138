"""Turns a format's tensors into our weights, and back, by its names for an encoder family (pretrain.encoders.published)."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from nlpdata.errors import DataError, UsageError, opt
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.format import formats_for_any_encoder
from pretrain.encoders.published import PublishedForm, published_form, published_forms, unpublished
from pretrain.encoders.weight_names import Row, WeightNames, expand
from pretrain.settings.fields import Choice

# Tensors that belong to training, not to the model: pattern of the name -> why it is not used.
_TRAINING = (
    (r"/(adam_[mv]|Adam(_1)?)$|\.OPTIMIZER_SLOT|^optimizer/", "optimizer slot"),
    (r"^(global_step|save_counter|_CHECKPOINTABLE_OBJECT_GRAPH|Variable)$", "counter or bookkeeping"),
    (r"position_ids$", "position numbers, which we count ourselves"),
)

UNKNOWN = "unknown to this encoder"
MOST_LAYERS = 1000  # of an encoder whose layers share weights, so that their number shows in none


def as_weight(array: Any, name: str, source: str) -> np.ndarray:
    """An array as float32 in memory order. DataError for anything but floating-point numbers: integers are of quantised weights,
    which mean nothing without their scales."""
    array = np.asarray(array)
    if array.dtype.kind != "f":
        raise DataError(
            f"{source}: {name} holds {array.dtype}, expected floating-point numbers. Of a quantised model, name the original"
        )
    return np.ascontiguousarray(array, dtype=np.float32)


def names_of(encoder: Choice, format: str, source: str) -> WeightNames:
    """What a format calls the weights of an encoder. UsageError where it has no names for them, e.g. for a user's own."""
    form = published_form(encoder.type)
    if form is None or format not in form.names:
        others = sorted(name for name, other in published_forms().items() if format in other.names)
        raise UsageError(
            f"{source}: this format has no names for the weights of an encoder of type {encoder.type!r}, only of "
            f"{', '.join(others)}. Formats for any encoder: {formats_for_any_encoder()}."
        )
    if others := unpublished(encoder):
        raise UsageError(
            f"{source}: this format has no place for {' and '.join(others)} of an encoder. Formats for any encoder: "
            f"{formats_for_any_encoder()}."
        )
    return form.names[format]


def form_of(encoder: Choice) -> PublishedForm:
    """The form of an encoder whose names in some format were found (names_of)."""
    form = published_form(encoder.type)
    assert form is not None, encoder.type
    return form


def _rows_of(names: WeightNames, encoder: Choice) -> list[Row]:
    """The rows for an encoder of this shape."""
    return list(expand(names.rows, form_of(encoder).counts(encoder.options)))


def _refuse_endless(names: WeightNames, encoder: Choice, tensors: int, source: str) -> None:
    """DataError where the configuration has far more layers than there are tensors, before their names are listed."""
    counts = form_of(encoder).counts(encoder.options)
    layers = max(math.prod(n for name, n in counts.items() if f"{{{name}}}" in row.ours) for row in names.rows)
    if layers > max(tensors, MOST_LAYERS):
        raise DataError(
            f"{source}: its configuration ({_shape_words(encoder)}) has {layers} layers, for which its {tensors} tensors are too "
            "few. Is it the configuration of another model?"
        )


def take(
    tensors: Mapping[str, np.ndarray], names: WeightNames, encoder: Choice, source: str
) -> tuple[dict[str, np.ndarray], dict[str, str], dict[str, str]]:
    """Our weights, from tensors under a format's names.

    Args:
      tensors: name in the source -> array; looked up only where used.
      names: those of the format for the encoder's family, or a part of them.
      encoder: the configuration.
      source: what is read, for messages.

    Returns (our path -> float32 array; unused name -> reason; head that is left out -> reason: the masked language model's
    where two copies of one weight differ).
    DataError where tensors are there for more layers than the configuration has.
    """
    _refuse_endless(names, encoder, len(tensors), source)
    weights, used = {}, set()
    for row in _rows_of(names, encoder):
        if row.theirs in tensors:
            array = as_weight(tensors[row.theirs], row.theirs, source)
            weights[row.ours] = np.ascontiguousarray(_to_ours(row, array, source))
            used.add(row.theirs)
    tied = {name: as_weight(tensors[name], name, source) for name in names.tied if name in tensors}
    unused, left_out = _take_tied(tied, names.tied, weights)
    patterns = [re.compile(re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(row.theirs)) + "$") for row in names.rows]
    for name in tensors:
        if name in used or name in tied:
            continue
        if any(pattern.match(name) for pattern in patterns):
            raise DataError(
                f"{source}: has {name}, which the configuration ({_shape_words(encoder)}) has no layer for. Is it the "
                "configuration of another model size?"
            )
        unused[name] = next((why for pattern, why in _TRAINING if re.search(pattern, name)), UNKNOWN)
    return weights, unused, left_out


def _take_tied(
    copies: Mapping[str, np.ndarray], paths: Mapping[str, str], weights: dict[str, np.ndarray]
) -> tuple[dict[str, str], dict[str, str]]:
    """Compares second copies with the first ones; one of the two is enough. Returns what is unused and what is left out."""
    unused, left_out = {}, {}
    for name, copy in copies.items():
        ours = paths[name]
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
    return unused, left_out


def _to_ours(row: Row, array: np.ndarray, source: str) -> np.ndarray:
    if array.ndim < row.least_dimensions:
        raise DataError(f"{source}: {row.theirs} has the shape {array.shape}, which is not that of {row.ours}")
    return row.to_ours(array)


def _shape_words(encoder: Choice) -> str:
    options = encoder.options
    names = ("num_hidden_layers", "num_hidden_groups", "inner_group_num")
    return ", ".join(f"{name} {getattr(options, name)}" for name in names if hasattr(options, name))


def give(checkpoint: Checkpoint, names: WeightNames) -> dict[str, np.ndarray]:
    """The checkpoint's weights under a format's names, in its layout; the way back from `take`."""
    heads = checkpoint.known_encoder.options.num_attention_heads
    return {
        row.theirs: np.ascontiguousarray(row.to_theirs(checkpoint.weights[row.ours], heads))
        for row in _rows_of(names, checkpoint.known_encoder)
        if row.ours in checkpoint.weights
    }


def refuse_unwritten(checkpoint: Checkpoint, names: WeightNames, format: str) -> None:
    """UsageError where the format has no place for some of the weights."""
    known = {row.ours for row in _rows_of(names, checkpoint.known_encoder)}
    left = sorted(checkpoint.weights.keys() - known)
    if left:
        raise UsageError(
            f"{checkpoint.source}: format {format} has no place for {', '.join(left[:3])}{', ...' if len(left) > 3 else ''}. "
            f"Choose another format, e.g. {opt('format', 'native')}."
        )
