"""Heads of a checkpoint: which can be used, and what a classifier's logits mean. One rule for every format and every use.

A head is used whole or not at all: one whose weights are not all there, or do not fit the encoder, is left out, with the
reason, and the encoder stays usable. What a checkpoint says about its classifier must agree with its weights.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nlpdata.errors import DataError
from nlpdata.files.json_kinds import as_written
from pretrain.converters.checkpoint import Checkpoint, Head
from pretrain.settings.fields import MOST_BEAM
from pretrain.settings.schema import KINDS

CHOICE = "choice"  # the head, and the kind of a checkpoint that has it
HEADS = ("masked_lm", "sentence_pair", "classifier", "span", CHOICE)
BEAM_SIZES = ("start_n_top", "end_n_top")
"""Facts about a span head whose ends depend on the start: how many of each it looks at."""
# Facts that mean nothing without the head.
_OF_HEADS = (
    *("kind", "label_names", "version_2_with_negative", "doc_stride", "max_query_length", "max_qa_length", "blank"),
    *BEAM_SIZES,
)
_WORDS = "encoder/embeddings/word_embeddings"


def head_of(path: str) -> str | None:
    """The head that a weight belongs to; None for those of an encoder."""
    head = path.partition("/")[0]
    return None if head == "encoder" else head


def heads_of(paths: Iterable[str]) -> set[str]:
    """The heads that weights belong to."""
    return {head for path in paths if (head := head_of(path)) is not None}


def settled(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with the heads that can be used, and facts that agree with them.

    Raises DataError where what it says about its classifier contradicts itself or the weights.
    """
    check_facts(checkpoint.extras, checkpoint.source)
    if checkpoint.extras.get("kind") == CHOICE:
        checkpoint = as_choice(checkpoint)
    found = heads_of(checkpoint.weights)
    faults = {head: _fault(head, checkpoint) for head in HEADS if head in found}
    checkpoint = leave_out(checkpoint, {head: why for head, why in faults.items() if why} | checkpoint.left_out)
    head = checkpoint.head
    if head is None:
        return checkpoint
    rows = checkpoint.weights["classifier/logits/kernel"].shape[1]
    if head.kind == "regression" and rows > 1:
        why = f"a regression of {rows} numbers: our heads have one"
        return leave_out(checkpoint, {"classifier": why})
    _check_labels(checkpoint, head, rows)
    return checkpoint


def leave_out(checkpoint: Checkpoint, heads: Mapping[str, str]) -> Checkpoint:
    """The checkpoint without the weights of some heads (name -> why)."""
    gone = {path for path in checkpoint.weights if head_of(path) in heads}
    return replace(
        checkpoint,
        weights={path: array for path, array in checkpoint.weights.items() if path not in gone},
        unused=checkpoint.unused | {path: f"of {head_of(path)}, which is left out" for path in gone},
        left_out=checkpoint.left_out | dict(heads),
    )


def as_choice(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with its classifier as the head that scores choices: the files of others call the two alike."""
    return _renamed(checkpoint, "classifier", CHOICE)


def as_classifier(checkpoint: Checkpoint) -> Checkpoint:
    """The way back, to write such files."""
    return _renamed(checkpoint, CHOICE, "classifier")


def _renamed(checkpoint: Checkpoint, old: str, new: str) -> Checkpoint:
    weights = {
        f"{new}/{path.partition('/')[2]}" if head_of(path) == old else path: array
        for path, array in checkpoint.weights.items()
    }
    return replace(checkpoint, weights=weights)


def encoder_alone(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint without heads, and without what it says about them."""
    return replace(
        checkpoint,
        weights={path: array for path, array in checkpoint.weights.items() if head_of(path) is None},
        extras={name: value for name, value in checkpoint.extras.items() if name not in _OF_HEADS},
        left_out={},
    )


def with_pooler(checkpoint: Checkpoint, target: str) -> tuple[Checkpoint, list[str]]:
    """The checkpoint with weights for the pooler `target`, taken from another one of its own where it lacks them; and notes.

    Args:
      target: encoder/pooler or classifier/pooler.
    """
    weights = checkpoint.weights
    if f"{target}/kernel" in weights:
        return checkpoint, []
    source = next((p for p in ("sentence_pair/pooler", "encoder/pooler") if f"{p}/kernel" in weights), None)
    if source is None:
        return checkpoint, []
    taken = {f"{target}/{part}": weights[f"{source}/{part}"] for part in ("kernel", "bias")}
    return replace(checkpoint, weights=weights | taken), [f"{target} starts from the checkpoint's {source}"]


def with_shared_pooler(checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
    """The checkpoint with the pooler of its sentence pair head, where that has one, as the encoder's; and notes."""
    own = {path: array for path, array in checkpoint.weights.items() if path.startswith("sentence_pair/pooler/")}
    if not own:
        return checkpoint, []
    weights = {path: array for path, array in checkpoint.weights.items() if path not in own}
    weights |= {path.replace("sentence_pair", "encoder", 1): array for path, array in own.items()}
    return replace(checkpoint, weights=weights), ["encoder/pooler starts from the checkpoint's sentence_pair/pooler"]


def listed(left_out: Mapping[str, str]) -> str:
    """Heads and why they are left out, for messages."""
    return "; ".join(f"{head}: {why}" for head, why in left_out.items())


def _fault(head: str, checkpoint: Checkpoint) -> str:
    """Why the head cannot be used; empty where it can."""
    hidden = getattr(checkpoint.encoder.options, "hidden_size", None) if checkpoint.encoder else None
    words = checkpoint.weights.get(_WORDS, np.zeros(0)).shape
    if hidden is None or len(words) != 2:
        return ""  # there is no encoder for it to fit
    shapes = {path: array.shape for path, array in checkpoint.weights.items() if head_of(path) == head}
    wanted = {f"{head}/{name}": shape for name, shape in _shapes(head, shapes, hidden, *words).items()}
    if missing := sorted(wanted.keys() - shapes.keys()):
        return f"{', '.join(missing[:3])} is missing"
    wrong = [f"{path} is {shapes[path]}, expected {shape}" for path, shape in wanted.items() if shapes[path] != shape]
    return "; ".join(wrong[:3])


def _shapes(head: str, found: Mapping[str, tuple], hidden: int, vocabulary: int, embedding: int) -> dict[str, tuple]:
    """The weights that the head must have, without its name, with their shapes; `found`: those that it has."""
    if head == "masked_lm":
        width = max(_last(found, "masked_lm/transform/kernel", embedding), embedding)
        shapes = {"transform/kernel": (hidden, width), "output_bias": (vocabulary,)}
        shapes |= dict.fromkeys(("transform/bias", "layer_norm/gamma", "layer_norm/beta"), (width,))
        extra = {"extra_output_weights": (vocabulary, width - embedding)} if width > embedding else {}
        return shapes | extra
    if head == "span" and not any(path.startswith("span/logits/") for path in found):
        return _conditional_span_shapes(hidden)
    classes = {"classifier": _last(found, "classifier/logits/kernel", 1), CHOICE: 1}.get(head, 2)
    logits = {"logits/kernel": (hidden, classes), "logits/bias": (classes,)}
    pooler = {"pooler/kernel": (hidden, hidden), "pooler/bias": (hidden,)}
    poolers = poolers_among(found)
    return (logits if len(poolers) < len(found) else {}) | (pooler if poolers else {})


def _conditional_span_shapes(hidden: int) -> dict[str, tuple]:
    shapes: dict[str, tuple] = dict.fromkeys(("end_hidden/kernel", "class_hidden/kernel"), (2 * hidden, hidden))
    vectors = ("end_hidden/bias", "class_hidden/bias", "layer_norm/gamma", "layer_norm/beta")
    shapes |= dict.fromkeys(vectors, (hidden,))
    shapes |= dict.fromkeys((f"{name}_logits/kernel" for name in ("start", "end", "class")), (hidden, 1))
    return shapes | dict.fromkeys(("start_logits/bias", "end_logits/bias"), (1,))


def poolers_among(paths: Iterable[str]) -> list[str]:
    """The weights of heads' own poolers: the only part of a head that is useful without the rest."""
    return [path for path in paths if path.split("/")[1:2] == ["pooler"]]


def _last(found: Mapping[str, tuple], path: str, default: int) -> int:
    return (found.get(path) or (default,))[-1]


def _check_labels(checkpoint: Checkpoint, head: Head, rows: int) -> None:
    names = checkpoint.extras.get("label_names") or []
    if head.kind not in KINDS:
        raise DataError(
            f"{checkpoint.source}: has a classifier, but its kind is {head.kind!r}. Expected one of {', '.join(KINDS)}."
        )
    if names and len(names) != rows:
        raise DataError(
            f"{checkpoint.source}: label_names has {len(names)} names ({', '.join(names[:4])}), the classifier {rows} rows."
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{checkpoint.source}: two classes are called {twice[0]!r}.")


def check_facts(facts: Any, source: str) -> None:
    """DataError where a fact about a model has the wrong type."""
    if not isinstance(facts, dict):
        raise DataError(f"{source}: expected an object of facts about the model. Received: {as_written(facts)[:40]}")
    names = facts.get("label_names")
    for name, right, expected in (
        *((name, isinstance(facts.get(name), str | None), "a word") for name in ("kind", "objective")),
        (
            "label_names",
            names is None or (isinstance(names, list) and all(isinstance(each, str) for each in names)),
            "a list of names",
        ),
        *(
            (name, _is_count(facts.get(name)), "a whole number above 0")
            for name in ("seq_length", "doc_stride", "max_query_length", "max_qa_length")
        ),
        ("tokenizer_sha256", isinstance(facts.get("tokenizer_sha256"), str | None), "a checksum in text"),
        ("blank", isinstance(facts.get("blank"), str | None), "text"),
        ("version_2_with_negative", isinstance(facts.get("version_2_with_negative"), bool | None), "true or false"),
        *((name, _is_beam(facts.get(name, 1)), f"a whole number from 1 to {MOST_BEAM}") for name in BEAM_SIZES),
    ):
        if not right:
            raise DataError(f"{source}: {name} must be {expected}. Received: {as_written(facts[name])[:40]}")


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and value > 0)


def _is_beam(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST_BEAM
