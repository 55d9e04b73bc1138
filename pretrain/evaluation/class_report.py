"""What an evaluation says of each class: precision, recall and F1 as scikit-learn computes them, and which are taken for which.

A score whose denominator is 0, of a class that is never a label or never a prediction, is 0.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pretrain.evaluation.sentence import confusion_matrix

MATRIX_CLASSES = 200  # a confusion matrix of more is not for people
SCORES = ("precision", "recall", "f1")


def class_report(labels: np.ndarray, predictions: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """The report of a classification.

    Args:
      labels, predictions: class ids (n,).
      names: of the classes, in the order of their ids.

    Returns
      classes: for each class its name, precision, recall, f1, support (examples of it), predicted (predictions of it) and right;
      macro: the mean of each score over the classes that are a label or a prediction; weighted: the mean by support;
      confusion: numbers of examples by [label][prediction], None for more than MATRIX_CLASSES classes.
    """
    count = len(names)
    support, predicted = np.bincount(labels, minlength=count), np.bincount(predictions, minlength=count)
    right = np.bincount(labels[labels == predictions], minlength=count)
    matrix = confusion_matrix(labels, predictions, count).tolist() if count <= MATRIX_CLASSES else None
    return _report(support, predicted, right, names, support + predicted > 0) | {"confusion": matrix}


def label_report(labels: np.ndarray, predictions: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """The report of several labels (n, labels), 0 or 1: as class_report, with each label as a class.

    macro is the mean over all labels, micro has the scores of all decisions together, and there is no confusion matrix: of a
    label, predicted - right examples have it wrongly, and support - right lack it.
    """
    labels, predictions = np.asarray(labels, np.int64), np.asarray(predictions, np.int64)
    support, predicted, right = labels.sum(axis=0), predictions.sum(axis=0), (labels & predictions).sum(axis=0)
    report = _report(support, predicted, right, names, np.ones(len(names), bool))
    micro = _scores(support.sum(keepdims=True), predicted.sum(keepdims=True), right.sum(keepdims=True))
    return report | {"micro": {name: float(values[0]) for name, values in micro.items()}}


def _report(
    support: np.ndarray, predicted: np.ndarray, right: np.ndarray, names: Sequence[str], seen: np.ndarray
) -> dict[str, Any]:
    """The report from int64 (classes,) each; seen: which classes macro is over, bool (classes,)."""
    columns = _scores(support, predicted, right) | {"support": support, "predicted": predicted, "right": right}
    cells = {name: values.tolist() for name, values in columns.items()}
    return {
        "classes": [{"name": name, **{key: cells[key][at] for key in cells}} for at, name in enumerate(names)],
        "macro": {name: _mean(columns[name], seen) for name in SCORES},
        "weighted": {name: _mean(columns[name], support) for name in SCORES},
    }


def _scores(support: np.ndarray, predicted: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    values = _ratio(right, predicted), _ratio(right, support), _ratio(2 * right, support + predicted)
    return dict(zip(SCORES, values, strict=True))


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.zeros(len(below)), where=below > 0)


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    return float(np.average(values, weights=weights)) if weights.any() else 0.0
