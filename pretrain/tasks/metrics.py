"""What the built-in tasks measure, and which side of each metric is better; without Keras, for checks before a run.

Metrics that have no better side are not here: the thresholds that go with SQuAD 2.0's best_* scores.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

Better = Literal["higher", "lower"]

_SENTENCE: dict[str, tuple[str, ...]] = {
    "classification": ("accuracy", "f1", "matthews_corrcoef"),
    "regression": ("pearson", "spearman", "pearson_spearman_corr"),
    "multilabel": ("accuracy", "f1", "macro_f1"),
}
_SQUAD = ("exact_match", "f1")
_SQUAD_WITH_NEGATIVE = (
    *(f"{part}_{name}" for part in ("HasAns", "NoAns") for name in _SQUAD),
    *("best_exact", "best_f1"),
)


def pretraining_metrics(pairs: bool) -> dict[str, Better]:
    """Of masked words, and of sentence pairs where they are learned."""
    terms = ["masked_lm", "next_sentence"] if pairs else ["masked_lm"]
    lower = [*(f"{term}_loss" for term in terms), "masked_lm_perplexity"]
    return _declared((f"{term}_accuracy" for term in terms), *lower)


def sentence_metrics(kind: str | None, parts: Sequence[str] = ()) -> dict[str, Better]:
    """Of a kind of sentence task; None: of any, where only the records know.

    Args:
      parts: names of the parts of the data that are measured each for itself, too.
    """
    kinds = _SENTENCE if kind is None else [kind]
    squared = ["mean_squared_error"] if "regression" in kinds else []
    higher = [name for each in kinds for name in _SENTENCE[each]]
    of_parts = [[f"{name}_{part}" for part in parts for name in names] for names in (higher, squared)]
    return _declared(higher + of_parts[0], "prediction_loss", *squared, *of_parts[1])


def part_names(splits: Sequence[str]) -> list[str]:
    """Short names of several splits, validation_matched and validation_mismatched -> matched, mismatched; [] for one."""
    words, shared = [split.split("_") for split in splits], 0
    while len(words) > 1 and all(len(each) > shared + 1 and each[shared] == words[0][shared] for each in words):
        shared += 1
    return ["_".join(each[shared:]) for each in words] if len(words) > 1 else []


def question_metrics(with_negative: bool, has_class: bool = False) -> dict[str, Better]:
    """Of questions. HasAns_* and NoAns_* are there where such questions are.

    Args:
      with_negative: whether they may have no answer.
      has_class: whether the answer layer has a class for that.
    """
    more = _SQUAD_WITH_NEGATIVE if with_negative else ()
    if not has_class:
        return _declared(("span_accuracy", *_SQUAD, *more), "span_loss")
    return _declared(("span_accuracy", *_SQUAD, *more, "answer_class_accuracy"), "span_loss", "answer_class_loss")


def choice_metrics(parts: Sequence[str] = ()) -> dict[str, Better]:
    """Of multiple choice; parts: names of the files that are measured each for itself, too."""
    return _declared(("accuracy", *(f"accuracy_{part}" for part in parts)), "choice_loss")


def _declared(higher: Iterable[str], *lower: str) -> dict[str, Better]:
    declared: dict[str, Better] = dict.fromkeys(("loss", *lower), "lower")
    return declared | {name: "higher" for name in higher}


BETTER: dict[str, Better] = (
    pretraining_metrics(True) | sentence_metrics(None) | question_metrics(True, True) | choice_metrics()
)
"""All of them: no two tasks have a metric of one name with different sides."""

_GARDEN: dict[str, tuple[str, ...]] = {
    "cls_accuracy": ("accuracy",),
    "lm_example_loss": ("masked_lm_loss",),
    "final_f1": ("best_f1", "f1"),  # of SQuAD 2.0 the Garden's is that of the best threshold
    "has_answer_exact_match": ("HasAns_exact_match",),
    "has_answer_f1": ("HasAns_f1",),
    "validation_loss": ("loss",),
}
"""A name of a metric in the TensorFlow Model Garden -> ours, of which the first that a task has counts."""


def own_name(name: str, measured: Collection[str]) -> str:
    """The name here of a metric that may be named as in the TensorFlow Model Garden; other names stay as they are.

    Args:
      name: what the user wrote.
      measured: the metrics of the task.
    """
    if name in measured:
        return name
    return next((ours for ours in _GARDEN.get(name, ()) if ours in measured), name)
