"""What config.json of a Hugging Face folder says about heads: architectures, problem_type, id2label; read and written.

Three classes call their head `classifier`: ForSequenceClassification and ForMultipleChoice, which we have, and
ForTokenClassification. `architectures` decides. Without it, `problem_type` does, which only the first has, or the shape: only
the first has a pooler and several rows.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.json_files import read_object
from nlpdata.files.json_kinds import as_written
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.heads import CHOICE, heads_of
from pretrain.encoders.published import HuggingFaceForm, published_form
from pretrain.settings.fields import Choice

_PRETRAINING = ("masked_lm", "sentence_pair")  # a published file may hold more of these than its class: all are read
_CLASSES = {
    **dict.fromkeys(
        ("Model", "ForPreTraining", "ForMaskedLM", "LMHeadModel", "ForNextSentencePrediction"), _PRETRAINING
    ),
    "ForSequenceClassification": ("classifier",),
    "ForMultipleChoice": ("classifier",),
    "ForQuestionAnswering": ("span",),
}
_PROBLEMS = {
    "single_label_classification": "classification",
    "multi_label_classification": "multilabel",
    "regression": "regression",
}
_CLASSIFIER = "classifier.weight"


class HeadConfig:
    """The fields of a config.json about heads. Without the file there are none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fields = read_object(path) if path.is_file() else {}

    def heads(self, form: HuggingFaceForm, tensors: Mapping[str, np.ndarray]) -> tuple[tuple[str, ...], dict[str, str]]:
        """(our heads that are to be read from these tensors, heads of other classes -> why they are left out)."""
        names = self._fields.get("architectures") or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{self._path}: architectures must be a list of names. Received: {as_written(names)[:60]}")
        if not names:
            return self._by_shape(form, tensors)
        classes = {
            name: _CLASSES.get(re.sub(rf"^(TF|Flax)?{form.classes}(?=For|Model$|LMHead)", "", name)) for name in names
        }
        unknown = [name for name, heads in classes.items() if heads is None]
        if unknown:
            return (), dict.fromkeys(unknown, "a class whose head none of our models has")
        return tuple(dict.fromkeys(head for heads in classes.values() for head in heads or ())), {}

    def _by_shape(
        self, form: HuggingFaceForm, tensors: Mapping[str, np.ndarray]
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        others = (*_PRETRAINING, "span")
        if _CLASSIFIER not in tensors or self._fields.get("problem_type"):
            return (*others, "classifier"), {}
        shape = tensors[_CLASSIFIER].shape
        if len(shape) == 2 and shape[0] > 1 and any(name.startswith(f"{form.prefix}.pooler.") for name in tensors):
            return (*others, "classifier"), {}
        return others, {
            "classifier": (
                f"{self._path.name} names no architectures, and {_CLASSIFIER} {shape} may score sentences, "
                f'tokens or choices. For sentences add "architectures": ["{form.classes}ForSequenceClassification"], for choices '
                f'["{form.classes}ForMultipleChoice"]'
            )
        }

    def facts(self, rows: int) -> dict:
        """kind and label_names of a classifier of `rows` rows, as far as config.json gives them. What it says of labels means
        nothing for choices.

        Raises DataError where the fields contradict each other or the rows.
        """
        if any(name.endswith("ForMultipleChoice") for name in self._fields.get("architectures") or ()):
            return {"kind": CHOICE}
        facts = {}
        problem = self._fields.get("problem_type")
        if problem is not None:
            if not isinstance(problem, str) or problem not in _PROBLEMS:
                raise DataError(
                    f"{self._path}: problem_type must be one of {', '.join(_PROBLEMS)}. Received: {as_written(problem)[:40]}"
                )
            facts["kind"] = _PROBLEMS[problem]
        number = self._fields.get("num_labels")
        if number is not None and (type(number) is not int or number != rows):
            raise DataError(
                f"{self._path}: num_labels is {as_written(number)[:40]}, the classifier ({_CLASSIFIER}) has {rows} rows"
            )
        names = self._names(rows)
        return facts | ({"label_names": names} if names else {})

    def _names(self, rows: int) -> list[str]:
        """Label names in id order; [] where they are only LABEL_0, LABEL_1, ..., with which transformers fills the fields."""
        by_id = _pairs(self._fields.get("id2label"), f"{self._path}: id2label must give a name to each id")
        ids_first = f"{self._path}: label2id must give an id to each name"
        by_name = [(id, name) for name, id in _pairs(self._fields.get("label2id"), ids_first, swapped=True)]
        if by_id and len(by_id) != rows:
            raise DataError(
                f"{self._path}: id2label has {len(by_id)} names, the classifier ({_CLASSIFIER}) {rows} rows"
            )
        if not by_id or _is_filler(by_id):
            by_id = [] if _is_filler(by_name) else by_name or by_id
        elif by_name and not _is_filler(by_name) and sorted(by_name) != sorted(by_id):
            differ = sorted(set(by_name) ^ set(by_id))[0]
            raise DataError(f"{self._path}: label2id contradicts id2label, e.g. in id {differ[0]}, {differ[1]!r}")
        ids, names = [id for id, _ in sorted(by_id)], [name for _, name in sorted(by_id)]
        if ids and ids != list(range(rows)):
            raise DataError(f"{self._path}: the ids of the labels must be 0 to {rows - 1}. Received: {str(ids)[:60]}")
        if twice := [name for name in names if names.count(name) > 1]:
            raise DataError(f"{self._path}: id2label calls two classes {twice[0]!r}")
        return names


def _pairs(value: Any, expected: str, swapped: bool = False) -> list[tuple]:
    """(id, name) of id2label, or (name, id) of label2id, both as JSON gives them. DataError for anything else."""
    if value is None:
        return []
    if not isinstance(value, dict):
        raise DataError(f"{expected}. Received: {as_written(value)[:60]}")
    pairs = []
    for key, other in value.items():
        id, name = (other, key) if swapped else (key, other)
        if not re.fullmatch(r"[0-9]{1,9}", str(id)) or isinstance(name, dict | list | None):
            raise DataError(f"{expected}. Received: {as_written(value)[:60]}")
        pairs.append((str(name), int(id)) if swapped else (int(id), str(name)))
    return pairs


def _is_filler(pairs: Collection[tuple[int, str]]) -> bool:
    return all(name == f"LABEL_{id}" for id, name in pairs)


def hugging_face_form(encoder: Choice) -> HuggingFaceForm:
    """The folders of transformers of an encoder's family. UsageError where it has none."""
    form = published_form(encoder.type)
    if form is None or form.hugging_face is None:
        raise UsageError(
            f"an encoder of type {encoder.type!r} declares no folders of transformers (PublishedForm.hugging_face). Use "
            f"{opt('format', 'native')}."
        )
    return form.hugging_face


def architecture_of(checkpoint: Checkpoint) -> str:
    """The class of transformers that has a checkpoint's heads. UsageError where there is none."""
    form = hugging_face_form(checkpoint.known_encoder)
    heads = heads_of(checkpoint.weights)
    classes: dict[frozenset[str], str] = {
        frozenset(): "Model",
        frozenset({"masked_lm"}): "ForMaskedLM",
        frozenset({"masked_lm", "sentence_pair"}): "ForPreTraining",
        frozenset({"sentence_pair"}): "ForNextSentencePrediction",
        frozenset({"classifier"}): "ForSequenceClassification",
        frozenset({"span"}): "ForQuestionAnswering",
        frozenset({CHOICE}): "ForMultipleChoice",
    }
    end = classes.get(frozenset(heads))
    if end is None or end in form.absent_classes:
        raise UsageError(
            f"{checkpoint.source}: transformers has no class of {form.classes} with the heads {', '.join(sorted(heads))}. Write "
            f"the encoder alone with {opt('encoder_only')}, or choose another {opt('format')}."
        )
    return form.classes + end


def head_fields(checkpoint: Checkpoint) -> dict[str, Any]:
    """config.json's fields about a checkpoint's heads."""
    architecture = architecture_of(checkpoint)
    fields: dict[str, Any] = {"architectures": [architecture]}
    if architecture.endswith(("ForMaskedLM", "ForPreTraining")):
        fields["tie_word_embeddings"] = True
    head = checkpoint.head
    if head is not None:
        rows = checkpoint.weights["classifier/logits/kernel"].shape[1]
        names = checkpoint.extras.get("label_names") or [f"LABEL_{i}" for i in range(rows)]
        fields["problem_type"] = next(theirs for theirs, ours in _PROBLEMS.items() if ours == head.kind)
        fields["num_labels"] = rows
        fields["id2label"] = {str(i): name for i, name in enumerate(names)}
        fields["label2id"] = {name: i for i, name in enumerate(names)}
    return fields
