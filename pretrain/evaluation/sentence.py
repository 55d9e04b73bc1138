"""Metrics of sentence tasks, as GLUE defines them (Wang et al., 2018) and scikit-learn and SciPy compute them.

One difference: SciPy gives nan for a correlation with something constant; here it is 0, as Matthews's is there and here.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_FEW = 10  # examples: fewer may well be of one class
_NARROW = 0.02  # standard deviation of predictions, as a share of that of the labels


def classification_metrics(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> dict[str, float]:
    """accuracy, f1 and matthews_corrcoef of class ids (n,). f1 is that of class 1 of two; of more, the mean over classes."""
    confusion = confusion_matrix(labels, predictions, num_classes)
    if not confusion.any():
        return dict.fromkeys(("accuracy", "f1", "matthews_corrcoef"), math.nan)
    per_class = f1_per_class(confusion)
    return {
        "accuracy": float(np.trace(confusion) / confusion.sum()),
        "f1": float(per_class[1]) if num_classes == 2 else _macro(confusion, per_class),
        "matthews_corrcoef": matthews_corrcoef(confusion),
    }


def only_label(labels: np.ndarray, names: Sequence[str]) -> str | None:
    """What to tell of class ids (n,) that are all the same, with which scores say little; None where they are not.

    Args:
      names: of the classes; () where they have none.
    """
    if len(labels) < _FEW or labels.min() < labels.max():
        return None
    return (
        f"all {len(labels):,} examples are of class {_name(names, labels[0])}, so that the scores say nothing of the others. In a "
        "file that is sorted by class the first examples are of one: evaluate on all of it (trainer.validation_steps=-1, and no "
        "max_examples)"
    )


def only_prediction(labels: np.ndarray, predictions: np.ndarray, names: Sequence[str]) -> str | None:
    """What to tell of predictions (n,) that are all the same where the labels (n,) are not; None where they are not."""
    if len(labels) < _FEW or predictions.min() < predictions.max() or labels.min() == labels.max():
        return None
    share = float(np.mean(labels == predictions[0]))
    return (
        f"all {len(labels):,} predictions are {_name(names, predictions[0])}, which {share:.0%} of the examples are: the model "
        "does not tell the classes apart"
    )


def only_pairs(pairs: float, seconds: float, right: float) -> str | None:
    """The same of sentence pairs: where all are said to be of the first class, or all of the second; counts of pairs."""
    if pairs < _FEW or seconds not in (0, pairs) or right == pairs:
        return None
    return (
        f"all {pairs:,.0f} sentence pairs are given the same answer, which is right for {right / pairs:.0%} of them: the model "
        "does not tell the pairs apart"
    )


def only_piece(places: float, bits: Sequence[float], right: float) -> str | None:
    """The same of masked words: where one piece is predicted in all places.

    Args:
      places: number of places.
      bits: of each binary digit of the predicted ids, the lowest first, in how many places it is 1.
      right: number of right predictions.
    """
    if places < _FEW or any(count not in (0, places) for count in bits) or right == places:
        return None
    piece = sum(1 << digit for digit, count in enumerate(bits) if count)
    return (
        f"in all {places:,.0f} masked places the same piece is predicted, that of id {piece}, which is right for "
        f"{right / places:.0%} of them: the model does not tell the places apart"
    )


def only_choice(labels: np.ndarray, predictions: np.ndarray, choices: int) -> str | None:
    """The same of the numbers of choices (n,): where one place is always chosen."""
    return only_prediction(labels, predictions, [f"choice {number}" for number in range(choices)])


def only_labels(labels: np.ndarray, predictions: np.ndarray, names: Sequence[str]) -> str | None:
    """The same of several labels, 0 or 1 (n, labels): where each example is given the same ones."""
    if len(labels) < _FEW or (predictions != predictions[0]).any() or not (labels != labels[0]).any():
        return None
    given = ", ".join(_name(names, number) for number in np.flatnonzero(predictions[0]).tolist()) or "no label"
    share = float(np.mean((labels == predictions[0]).all(axis=1)))
    return (
        f"all {len(labels):,} examples are given {given}, which is right for {share:.0%} of them: the model does not tell the "
        "examples apart"
    )


def narrow_predictions(labels: np.ndarray, predictions: np.ndarray) -> str | None:
    """The same of numbers (n,): where the predictions hardly differ, next to the labels."""
    if len(labels) < _FEW or not np.isfinite(predictions).all():
        return None
    if np.std(predictions, dtype=np.float64) >= _NARROW * np.std(labels, dtype=np.float64):
        return None
    made, wanted = (f"{values.min():.4g} to {values.max():.4g}" for values in (predictions, labels))
    return f"all {len(labels):,} predictions are from {made}, the labels from {wanted}: the model does not tell the examples apart"


def _name(names: Sequence[str], number: int) -> str:
    return repr(names[number]) if names else str(number)


def multilabel_metrics(labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Metrics of (n, labels) 0 or 1: accuracy (all labels of an example right), f1 (over all decisions), macro_f1."""
    if not len(labels):
        return dict.fromkeys(("accuracy", "f1", "macro_f1"), math.nan)
    right = np.logical_and(labels, predictions).sum(axis=0, dtype=np.float64)
    wanted, made = labels.sum(axis=0, dtype=np.float64), predictions.sum(axis=0, dtype=np.float64)
    return {
        "accuracy": float(np.mean(np.all(labels == predictions, axis=1))),
        "f1": float(_f1(right.sum(), wanted.sum(), made.sum())),
        "macro_f1": float(np.mean(_f1(right, wanted, made))),
    }


def regression_metrics(targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """pearson, spearman, their mean pearson_spearman_corr, and mean_squared_error of numbers (n,).

    A correlation with a constant is 0.
    """
    targets, predictions = np.asarray(targets, np.float64), np.asarray(predictions, np.float64)
    if not len(targets) or np.isnan(targets).any() or np.isnan(predictions).any():
        return dict.fromkeys(("pearson", "spearman", "pearson_spearman_corr", "mean_squared_error"), math.nan)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large for float64 is inf
        error = float(np.mean((targets - predictions) ** 2))
    linear, by_rank = pearson(targets, predictions), pearson(ranks(targets), ranks(predictions))
    return {
        "pearson": linear,
        "spearman": by_rank,
        "pearson_spearman_corr": (linear + by_rank) / 2,
        "mean_squared_error": error,
    }


def confusion_matrix(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """Number of examples by (label, prediction), int64 (num_classes, num_classes). ValueError for ids out of range."""
    labels, predictions = np.asarray(labels, np.int64), np.asarray(predictions, np.int64)
    ids = np.concatenate([labels, predictions])
    if len(ids) and not 0 <= ids.min() <= ids.max() < num_classes:
        raise ValueError(f"class ids must be 0 to {num_classes - 1}")
    cells = labels * num_classes + predictions
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)


def f1_per_class(confusion: np.ndarray) -> np.ndarray:
    """The F1 of each class, float64; 0 for one that is neither a label nor a prediction."""
    return _f1(np.diag(confusion).astype(np.float64), confusion.sum(axis=1), confusion.sum(axis=0))


def _f1(right: Any, wanted: Any, made: Any) -> Any:
    total = np.asarray(wanted + made, np.float64)
    return np.divide(2 * right, total, out=np.zeros_like(total), where=total > 0)


def _macro(confusion: np.ndarray, per_class: np.ndarray) -> float:
    seen = confusion.sum(axis=0) + confusion.sum(axis=1) > 0
    return float(per_class[seen].mean())


def matthews_corrcoef(confusion: np.ndarray) -> float:
    """Matthews's correlation of any number of classes (Gorodkin, 2004); 0 where labels or predictions are all the same."""
    # In Python's whole numbers: squares of large counts are not exact in float64.
    total, right = int(confusion.sum()), int(np.trace(confusion))
    labels, predictions = confusion.sum(axis=1).tolist(), confusion.sum(axis=0).tolist()
    scale = (total**2 - sum(n * n for n in labels)) * (total**2 - sum(n * n for n in predictions))
    shared = sum(n * m for n, m in zip(labels, predictions, strict=True))
    return (right * total - shared) / math.sqrt(scale) if scale else 0.0


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's correlation of two float64 (n,); 0 where one of them is constant, for which it is not defined."""
    if a.min() == a.max() or b.min() == b.max():  # what is left of a constant without its mean may be rounding
        return 0.0
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return math.nan
    a, b = _centred(a), _centred(b)
    return float(np.clip(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), -1.0, 1.0))


def _centred(values: np.ndarray) -> np.ndarray:
    """Without the mean, and of a size whose squares neither overflow nor vanish."""
    values = np.ldexp(values, -np.frexp(np.abs(values).max())[1])
    values = values - values.mean()
    return values / np.abs(values).max()


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, float64; equal values share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[group]
