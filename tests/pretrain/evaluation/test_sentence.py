"""Metrics of sentence tasks against scikit-learn and SciPy, and against numbers by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.evaluation.sentence import (
    classification_metrics,
    matthews_corrcoef,
    multilabel_metrics,
    narrow_predictions,
    only_label,
    only_labels,
    only_prediction,
    ranks,
    regression_metrics,
)
from pretrain.evaluation.sentence_report import sentence_report


def test_binary_by_hand():
    # TP 2, FP 1, FN 1, TN 1: F1 = 4 / 6, MCC = (2 * 1 - 1 * 1) / sqrt(3 * 3 * 2 * 2) = 1 / 6
    metrics = classification_metrics(np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0]), 2)
    assert metrics == pytest.approx({"accuracy": 3 / 5, "f1": 2 / 3, "matthews_corrcoef": 1 / 6})


def test_one_class_only_has_no_correlation():
    metrics = classification_metrics(np.array([1, 0, 1]), np.array([1, 1, 1]), 2)
    assert metrics["matthews_corrcoef"] == 0
    assert metrics["f1"] == pytest.approx(0.8)
    assert classification_metrics(np.array([0, 0]), np.array([0, 0]), 2)["f1"] == 0


def test_labels_or_predictions_of_one_class_are_told():
    mixed, zeros, ones, names = np.arange(12) % 3, np.zeros(12, int), np.ones(12, int), ("neg", "pos", "x")
    assert only_label(zeros, names).startswith("all 12 examples are of class 'neg', so that the scores say nothing")
    assert only_prediction(mixed, ones, names).startswith("all 12 predictions are 'pos', which 33% of the examples are")
    assert "predictions are 1, which" in only_prediction(mixed, ones, ())
    assert only_label(mixed, names) is None
    assert only_label(zeros[:9], names) is None  # few may well be of one class
    assert only_label(zeros[:0], names) is None
    for labels, predictions in ((mixed, mixed[::-1]), (ones, ones), (mixed[:9], ones[:9]), (mixed[:0], ones[:0])):
        assert only_prediction(labels, predictions, names) is None


def test_several_labels_and_numbers_that_are_the_same_for_all_examples_are_told():
    labels, none, both = np.eye(12, 2, dtype=int), np.zeros((12, 2), int), np.ones((12, 2), int)
    assert only_labels(labels, none, ("a", "b")).startswith(
        "all 12 examples are given no label, which is right for 83% of"
    )
    assert only_labels(labels, both, ("a", "b")).startswith(
        "all 12 examples are given 'a', 'b', which is right for 0% of"
    )
    for wanted, made in ((labels, labels), (none, both), (labels[:9], none[:9]), (labels[:0], none[:0])):
        assert only_labels(wanted, made, ()) is None
    numbers = np.arange(12) / 2
    told = (
        "all 12 predictions are from 2.5 to 2.51, the labels from 0 to 5.5: the model does not tell the examples apart"
    )
    same = np.linspace(2.5, 2.51, 12)
    assert (
        narrow_predictions(numbers, same)
        == sentence_report("regression", numbers, same, (), [], ("id",)).remark
        == told
    )
    assert sentence_report("multilabel", labels, labels, ("a", "b"), [], ("id",)).remark == ""
    for wanted, made in (
        (numbers, numbers / 10),
        (none[:, 0], none[:, 0]),
        (numbers, numbers * np.nan),
        (numbers[:9], none[:9, 0]),
    ):
        assert narrow_predictions(wanted, made) is None


def test_ranks_share_ties():
    assert ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]


@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, 1e30, -1e300, 5e-324])
@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000])
def test_a_constant_has_no_correlation(constant, count):
    constants, others = np.full(count, constant), np.linspace(0, 1, count)
    for pair in ((constants, others), (others, constants), (constants, constants)):
        metrics = regression_metrics(*pair)
        assert (metrics["pearson"], metrics["spearman"]) == (0.0, 0.0)
    single = regression_metrics(np.array([1.0, 2.0, 3.0], np.float32), np.full(3, 2.0, np.float32))
    assert single == {"pearson": 0.0, "spearman": 0.0, "pearson_spearman_corr": 0.0, "mean_squared_error": 2 / 3}


def test_numbers_of_any_size():
    targets = np.array([1.0, 2.0, 4.0, 3.0])
    wanted = regression_metrics(targets, targets[::-1])
    for size in (1e-200, 1e-300, 1e200, 3e307):
        metrics = regression_metrics(targets * size, targets[::-1] * size)
        assert (metrics["pearson"], metrics["spearman"]) == pytest.approx((wanted["pearson"], wanted["spearman"]))
    large = np.array([3e38, -3e38, 3e38], np.float32)  # squares do not fit into float32
    assert regression_metrics(large, -large) == pytest.approx(
        {"pearson": -1.0, "spearman": -1.0, "pearson_spearman_corr": -1.0, "mean_squared_error": 3.6e77}, rel=1e-6
    )


def test_what_is_not_a_number_gives_none():
    for values in ([np.nan, 1.0, 2.0], [1.0, np.nan, np.nan]):
        assert all(map(math.isnan, regression_metrics(np.array([1.0, 2.0, 3.0]), np.array(values)).values()))
    infinite = regression_metrics(np.array([1.0, 2.0, 3.0]), np.array([1.0, np.inf, 2.0]))
    assert (math.isnan(infinite["pearson"]), infinite["spearman"]) == (True, pytest.approx(0.5))


def test_of_no_examples_every_metric_is_nan():
    none = np.zeros(0)
    for metrics in (
        regression_metrics(none, none),
        classification_metrics(none.astype(int), none.astype(int), 2),
        classification_metrics(none.astype(int), none.astype(int), 3),
        multilabel_metrics(np.zeros((0, 3), int), np.zeros((0, 3), int)),
    ):
        assert len(metrics) == (4 if "pearson" in metrics else 3)
        assert all(map(math.isnan, metrics.values()))


def test_ids_out_of_range_are_refused():
    for labels, predictions in (([0, 1], [5, 0]), ([3, 0], [0, 0]), ([-1, 0], [0, 0])):
        with pytest.raises(ValueError, match="class ids must be 0 to 2"):
            classification_metrics(np.array(labels), np.array(predictions), 3)


def test_correlation_of_a_huge_number_of_examples():
    # All of a class but 3 of each kind: squares of the counts need more digits than float64 has.
    count = 10**11
    table = np.array([[count, 3], [3, 3]])
    exact = (count * 3 - 9) / ((count + 3) * 6)
    assert matthews_corrcoef(table) == pytest.approx(exact, rel=1e-12)
    assert matthews_corrcoef(np.array([[count, 0], [0, 0]])) == 0
    assert matthews_corrcoef(np.array([[count, 7], [0, 0]])) == 0


@settings(max_examples=60)
@given(st.integers(2, 5), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_classification_equals_scikit_learn(classes, pairs):
    metrics_of = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    labels, predictions = (np.array(column) % classes for column in zip(*pairs, strict=True))
    metrics = classification_metrics(labels, predictions, classes)
    average = "binary" if classes == 2 else "macro"
    assert metrics["accuracy"] == pytest.approx(metrics_of.accuracy_score(labels, predictions))
    assert metrics["f1"] == pytest.approx(metrics_of.f1_score(labels, predictions, average=average, zero_division=0))
    one_class = len({*labels, *predictions}) == 1  # of which scikit-learn warns
    correlation = 0 if one_class else metrics_of.matthews_corrcoef(labels, predictions)
    assert metrics["matthews_corrcoef"] == pytest.approx(correlation)


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


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(-8, 8)), min_size=2, max_size=40))
def test_correlations_equal_scipy(pairs):
    stats = pytest.importorskip("scipy.stats", reason="SciPy is not installed")
    targets, predictions = (np.array(column, np.float64) / 3 for column in zip(*pairs, strict=True))
    if len(set(targets)) == 1 or len(set(predictions)) == 1:
        return
    metrics = regression_metrics(targets, predictions)
    assert metrics["pearson"] == pytest.approx(stats.pearsonr(targets, predictions)[0], abs=1e-12)
    assert metrics["spearman"] == pytest.approx(stats.spearmanr(targets, predictions)[0], abs=1e-12)
    assert metrics["pearson_spearman_corr"] == pytest.approx((metrics["pearson"] + metrics["spearman"]) / 2)
    assert math.isclose(metrics["mean_squared_error"], sum((targets - predictions) ** 2) / len(targets))
