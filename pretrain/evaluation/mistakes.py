"""The mistakes of an evaluation that are worth a look: wrong and most certain, farthest off, or with the least in common.

Each function returns pairs (number of the example, what is told of it), worst first; of equal ones the first example comes first.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Mistakes = list[tuple[int, dict[str, Any]]]


def wrong_classes(labels: np.ndarray, logits: np.ndarray, names: Sequence[str], most: int) -> Mistakes:
    """The wrong predictions of the highest probability: of labels (n,) and logits (n, classes), `most` of them."""
    probabilities = _softmax(logits)
    predictions = logits.argmax(axis=-1)
    rows = np.arange(len(labels))
    certain = probabilities[rows, predictions]
    return [
        (
            row,
            {
                "label": names[labels[row]],
                "prediction": names[predictions[row]],
                "probability": float(certain[row]),
                "label_probability": float(probabilities[row, labels[row]]),
            },
        )
        for row in _worst(np.flatnonzero(predictions != labels), -certain, most)
    ]


def wrong_labels(labels: np.ndarray, logits: np.ndarray, names: Sequence[str], most: int) -> Mistakes:
    """The same of several labels (n, labels); an example's probability is that of the most certain of its wrong decisions."""
    probabilities = 1 / (1 + np.exp(-np.clip(logits.astype(np.float64), -700, 700)))
    predictions = logits > 0
    wrong = predictions != (labels > 0)
    certain = np.where(wrong, np.maximum(probabilities, 1 - probabilities), 0.0)
    return [
        (
            row,
            {
                "label": [names[at] for at in np.flatnonzero(labels[row]).tolist()],
                "prediction": [names[at] for at in np.flatnonzero(predictions[row]).tolist()],
                "wrong": names[int(certain[row].argmax())],
                "probability": float(certain[row].max()),
            },
        )
        for row in _worst(np.flatnonzero(wrong.any(axis=1)), -certain.max(axis=1), most)
    ]


def largest_errors(targets: np.ndarray, predictions: np.ndarray, most: int) -> Mistakes:
    """The predictions (n,) that are farthest from their targets (n,)."""
    errors = predictions.astype(np.float64) - targets.astype(np.float64)
    return [
        (row, {"label": float(targets[row]), "prediction": float(predictions[row]), "error": float(errors[row])})
        for row in _worst(np.flatnonzero(errors), -np.abs(errors), most)
    ]


def worst_answers(
    scores: Mapping[str, tuple[float, float]], probabilities: Mapping[str, float], most: int
) -> list[str]:
    """The ids of the questions whose answer is not exactly right: of the lowest F1, and of those the most certain ones first.

    Args:
      scores: question id -> (exact match, F1).
      probabilities: question id -> probability of the answer among the best ones.
    """
    wrong = [key for key, (exact, _) in scores.items() if not exact]
    return sorted(wrong, key=lambda key: (scores[key][1], -probabilities[key]))[:most]


def _worst(rows: np.ndarray, order: np.ndarray, most: int) -> list[int]:
    """The first `most` of some rows, by ascending values of `order` (n,)."""
    return rows[np.argsort(order[rows], kind="stable")[:most]].tolist()


def _softmax(logits: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # infinite logits: the probabilities are not numbers
        weights = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
