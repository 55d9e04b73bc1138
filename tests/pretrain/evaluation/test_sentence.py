"""Metrics of sentence tasks against scikit-learn and SciPy, and against numbers by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.evaluation.sentence import classification_metrics, multilabel_metrics, ranks, regression_metrics


def test_binary_by_hand():
    # TP 2, FP 1, FN 1, TN 1: F1 = 4 / 6, MCC = (2 * 1 - 1 * 1) / sqrt(3 * 3 * 2 * 2) = 1 / 6
    metrics = classification_metrics(np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0]), 2)
    assert metrics == pytest.approx({"accuracy": 3 / 5, "f1": 2 / 3, "matthews_corrcoef": 1 / 6})


def test_one_class_only_has_no_correlation():
    metrics = classification_metrics(np.array([1, 0, 1]), np.array([1, 1, 1]), 2)
    assert metrics["matthews_corrcoef"] == 0
    assert metrics["f1"] == pytest.approx(0.8)
    assert classification_metrics(np.array([0, 0]), np.array([0, 0]), 2)["f1"] == 0


def test_ranks_share_ties():
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]


def test_constant_predictions_have_no_correlation():
    metrics = regression_metrics(np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0]))
    assert metrics == pytest.approx({"pearson": 0.0, "spearman": 0.0, "mean_squared_error": 2 / 3})


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_classification_equals_scikit_learn(classes, pairs):
    metrics_of = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    labels, predictions = (np.array(column) % classes for column in zip(*pairs, strict=True))
    metrics = classification_metrics(labels, predictions, classes)
    average = "binary" if classes == 2 else "macro"
    assert metrics["accuracy"] == pytest.approx(metrics_of.accuracy_score(labels, predictions))
    assert metrics["f1"] == pytest.approx(metrics_of.f1_score(labels, predictions, average=average, zero_division=0))
    assert metrics["matthews_corrcoef"] == pytest.approx(metrics_of.matthews_corrcoef(labels, predictions))


def test_multilabel_equals_scikit_learn():
    metrics_of = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    draw = np.random.default_rng(1)
    labels, predictions = draw.integers(0, 2, (50, 4)), draw.integers(0, 2, (50, 4))
    labels[:, 3] = predictions[:, 3] = 0
    metrics = multilabel_metrics(labels, predictions)
    assert metrics["accuracy"] == pytest.approx(metrics_of.accuracy_score(labels, predictions))
    for name, average in (("f1", "micro"), ("macro_f1", "macro")):
        assert metrics[name] == pytest.approx(
            metrics_of.f1_score(labels, predictions, average=average, zero_division=0)
        )


def test_multilabel_by_hand():
    metrics = multilabel_metrics(np.array([[1, 0], [1, 1]]), np.array([[1, 0], [0, 1]]))
    assert metrics == pytest.approx({"accuracy": 0.5, "f1": 0.8, "macro_f1": (2 / 3 + 1) / 2})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(-8, 8)), min_size=2, max_size=40))
def test_correlations_equal_scipy(pairs):
    stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed")
    targets, predictions = (np.array(column, np.float64) / 3 for column in zip(*pairs, strict=True))
    if len(set(targets)) == 1 or len(set(predictions)) == 1:
        return
    metrics = regression_metrics(targets, predictions)
    assert metrics["pearson"] == pytest.approx(stats.pearsonr(targets, predictions)[0], abs=1e-12)
    assert metrics["spearman"] == pytest.approx(stats.spearmanr(targets, predictions)[0], abs=1e-12)
    assert math.isclose(metrics["mean_squared_error"], sum((targets - predictions) ** 2) / len(targets))
