"""The report of a sentence task, of classes, several labels or numbers: its scores of classes and its mistakes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pretrain.evaluation.class_report import class_report, label_report
from pretrain.evaluation.mistakes import Mistakes, largest_errors, wrong_classes, wrong_labels
from pretrain.evaluation.report import Report
from pretrain.evaluation.sentence import (
    classification_metrics,
    multilabel_metrics,
    narrow_predictions,
    only_labels,
    only_prediction,
    regression_metrics,
)

_TOLD = {
    "classification": ("label", "prediction", "probability"),
    "regression": ("label", "prediction", "error"),
    "multilabel": ("label", "prediction", "wrong", "probability"),
}


def decided(kind: str, logits: np.ndarray) -> np.ndarray:
    """The predictions that logits (n, classes) mean: class ids (n,), numbers (n,), or 0 and 1 (n, labels)."""
    if kind == "regression":
        return logits[:, 0]
    return (logits > 0).astype(np.int32) if kind == "multilabel" else logits.argmax(axis=-1)


def sentence_scores(kind: str, labels: np.ndarray, predictions: np.ndarray, classes: int) -> dict[str, float]:
    """The metrics of a kind of task, from labels and what `decided` returns."""
    if kind == "regression":
        return regression_metrics(labels, predictions)
    if kind == "multilabel":
        return multilabel_metrics(labels, predictions)
    return classification_metrics(labels, predictions, classes)


def sameness(kind: str, labels: np.ndarray, predictions: np.ndarray, names: Sequence[str]) -> str | None:
    """What to tell of predictions that are the same for all examples, whose labels differ; None where they are not."""
    if kind == "regression":
        return narrow_predictions(labels, predictions)
    return (only_labels if kind == "multilabel" else only_prediction)(labels, predictions, names)


def mistakes_of(kind: str, labels: np.ndarray, logits: np.ndarray, names: Sequence[str], most: int) -> Mistakes:
    """The mistakes of a kind of task, worst first; see pretrain.evaluation.mistakes."""
    if kind == "regression":
        return largest_errors(labels, logits[:, 0], most)
    found = wrong_labels if kind == "multilabel" else wrong_classes
    return found(labels, logits, names, most)


def badness(about: Mapping[str, Any]) -> float:
    """By what mistakes of one kind are ordered: the greater, the worse."""
    return abs(about["error"]) if "error" in about else about["probability"]


def sentence_report(
    kind: str,
    labels: np.ndarray,
    predictions: np.ndarray,
    names: Sequence[str],
    errors: Sequence[Mapping[str, Any]],
    identifiers: Sequence[str],
) -> Report:
    """The report.

    Args:
      labels, predictions: of all examples, as `decided` returns them.
      names: of the classes.
      errors: mistakes with what identifies their examples, and text and text_b where they are known.
      identifiers: the names under which they have the former.
    """
    classes: dict[str, Any] = {}
    if kind != "regression":
        classes = (label_report if kind == "multilabel" else class_report)(labels, predictions, names)
    columns = (*identifiers, *_TOLD[kind], "text", "text_b")
    return Report(kind, columns, errors, classes, sameness(kind, labels, predictions, names) or "")
