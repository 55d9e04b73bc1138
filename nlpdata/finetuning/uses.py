"""Which options of create-finetuning have an effect with which datasets. The others are refused, and reports leave them out."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from nlpdata.errors import UsageError, opt
from nlpdata.finetuning.datasets import DATASETS, OWN_FILES, find_dataset

_TFDS, _TFDS_NUMBERS = "tfds", "tfds of numbers"  # a set of TensorFlow Datasets, and one taken as a regression
_ALL_TFDS = (_TFDS, _TFDS_NUMBERS)
_CHOICES = ("race", "swag", "choice")
_NLI = ("mnli", "mnlimatched", "mnlimismatched", "ax", "xnli")
_NO_ONE_LABEL = ("ax", "squad", "multilabel", *_CHOICES)

USES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("tfds_data_dir", "tfds_splits"), _ALL_TFDS),
    **dict.fromkeys(("dev_input", "test_input"), ("squad", *OWN_FILES)),
    "eval_fraction": OWN_FILES,
    **dict.fromkeys(("header", "format", "delimiter", "encoding"), OWN_FILES),
    **dict.fromkeys(("text_column", "text_b_column", "label_column"), (*OWN_FILES, *_ALL_TFDS)),
    "choice_columns": ("choice",),
    "label_separator": ("multilabel",),
    "label_order": (*_NLI, _TFDS),
    "labels": ("classification", "pair", "multilabel", _TFDS),
    "drop_labels": (*(name for name in DATASETS if name not in _NO_ONE_LABEL), *_ALL_TFDS),
    "language": ("xnli", "pawsx"),
    "level": ("race",),
    **dict.fromkeys(("max_qa_length", "blank"), _CHOICES),
    **dict.fromkeys(
        ("doc_stride", "max_query_length", "version_2_with_negative", "windows_without_answer"), ("squad",)
    ),
}
"""Option -> the datasets with which it has an effect; one that is not here has one with all, or like the seed harms with none."""


def refuse_unused(options: Any) -> None:
    """UsageError for an option of FinetuningOptions that is given and has no effect with the dataset; a user's own may use any."""
    name = _listed_as(options.task, options.tfds)
    for each in fields(options):
        value = getattr(options, each.name)
        if value != each.default and not _has_effect(each.name, name):
            shown = opt("tfds", options.tfds) if options.tfds else opt("task", name)
            shown += f" {opt('task', 'regression')}" if name == _TFDS_NUMBERS else ""
            option = opt(each.name, value) if isinstance(value, bool) else opt(each.name)
            raise UsageError(
                f"{option} has no effect with {shown}: it is for {_listed(USES[each.name])}. Leave it out."
            )


def options_in_use(options: Mapping[str, Any]) -> dict[str, Any]:
    """Of the options in a meta file those that have an effect with its dataset; all where that is not known."""
    task, tfds = options.get("task"), options.get("tfds")
    try:
        name = _listed_as(task, tfds) if isinstance(task, str | None) else None
    except UsageError:  # of a dataset that this version does not have
        name = None
    return {option: value for option, value in options.items() if _has_effect(option, name)}


def _listed_as(task: str | None, tfds: object) -> str | None:
    """What USES calls a dataset; None for a user's own."""
    name = find_dataset(task) if task else None
    if tfds:
        return _TFDS_NUMBERS if name == "regression" else _TFDS
    return name if name and DATASETS.is_built_in(name) else None


def _has_effect(option: str, name: str | None) -> bool:
    return name is None or name in USES.get(option, (name,))


def _listed(names: tuple[str, ...]) -> str:
    """--task race, swag, choice or --tfds."""
    tasks = ", ".join(name for name in names if name not in _ALL_TFDS)
    kinds = [*([f"{opt('task')} {tasks}"] if tasks else []), *([opt("tfds")] if _TFDS in names else [])]
    return " or ".join(kinds)
