"""Metrics of sentence tasks, as GLUE defines them (Wang et al., 2018) and scikit-learn and SciPy compute them."""

import numpy as np


def classification_metrics(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> dict[str, float]:
    """accuracy, f1 and matthews_corrcoef of class ids (n,). f1 is that of class 1 of two; of more, the mean over classes."""
    confusion = confusion_matrix(labels, predictions, num_classes)
    per_class = f1_per_class(confusion)
    return {
        "accuracy": float(np.trace(confusion) / max(confusion.sum(), 1)),
        "f1": float(per_class[1]) if num_classes == 2 else _macro(confusion, per_class),
        "matthews_corrcoef": matthews_corrcoef(confusion),
    }


def multilabel_metrics(labels: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """Metrics of (n, labels) 0 or 1: accuracy (all labels of an example right), f1 (over all decisions), macro_f1."""
    right = np.logical_and(labels, predictions).sum(axis=0, dtype=np.float64)
    wanted, made = labels.sum(axis=0, dtype=np.float64), predictions.sum(axis=0, dtype=np.float64)
    return {
        "accuracy": float(np.mean(np.all(labels == predictions, axis=1))),
        "f1": float(_f1(right.sum(), wanted.sum(), made.sum())),
        "macro_f1": float(np.mean(_f1(right, wanted, made))),
    }


def regression_metrics(targets: np.ndarray, predictions: np.ndarray) -> dict[str, float]:
    """pearson, spearman and mean_squared_error of numbers (n,)."""
    targets, predictions = np.asarray(targets, np.float64), np.asarray(predictions, np.float64)
    return {
        "pearson": pearson(targets, predictions),
        "spearman": pearson(ranks(targets), ranks(predictions)),
        "mean_squared_error": float(np.mean((targets - predictions) ** 2)),
    }


def confusion_matrix(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """Number of examples by (label, prediction), int64 (num_classes, num_classes)."""
    cells = np.asarray(labels, np.int64) * num_classes + np.asarray(predictions, np.int64)
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)


def f1_per_class(confusion: np.ndarray) -> np.ndarray:
    """The F1 of each class, float64; 0 for one that is neither a label nor a prediction."""
    return _f1(np.diag(confusion).astype(np.float64), confusion.sum(axis=1), confusion.sum(axis=0))


def _f1(right, wanted, made):
    total = np.asarray(wanted + made, np.float64)
    return np.divide(2 * right, total, out=np.zeros_like(total), where=total > 0)


def _macro(confusion: np.ndarray, per_class: np.ndarray) -> float:
    seen = confusion.sum(axis=0) + confusion.sum(axis=1) > 0
    return float(per_class[seen].mean()) if seen.any() else 0.0


def matthews_corrcoef(confusion: np.ndarray) -> float:
    """Matthews's correlation of any number of classes (Gorodkin, 2004); 0 where labels or predictions are all the same."""
    counts = confusion.astype(np.float64)
    total, right = counts.sum(), np.trace(counts)
    labels, predictions = counts.sum(axis=1), counts.sum(axis=0)
    scale = (total**2 - labels @ labels) * (total**2 - predictions @ predictions)
    return float((right * total - labels @ predictions) / np.sqrt(scale)) if scale > 0 else 0.0


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's correlation of two float64 (n,); 0 where one of them is constant, for which it is not defined."""
    a, b = a - a.mean(), b - b.mean()
    scale = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.clip(a @ b / scale, -1.0, 1.0)) if scale > 0 else 0.0


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, float64; equal values share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[group]
