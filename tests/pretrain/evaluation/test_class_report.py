"""Reports of classes against scikit-learn, and against numbers by hand."""

import numpy as np
import pytest
from sklearn.metrics import classification_report, confusion_matrix

from pretrain.evaluation.class_report import MATRIX_CLASSES, class_report, label_report
from pretrain.evaluation.sentence import classification_metrics, multilabel_metrics


def of_scikit(labels, predictions, names):
    options = {"labels": range(len(names)), "target_names": names, "output_dict": True, "zero_division": 0}
    return classification_report(labels, predictions, **options)


def same(ours, theirs):
    names = {"precision": "precision", "recall": "recall", "f1": "f1-score", "support": "support"}
    return all(ours[own] == pytest.approx(theirs[their]) for own, their in names.items() if own in ours)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_classes_as_scikit_learn_scores_them(classes):
    draw, names = np.random.default_rng(classes), [f"class {n}" for n in range(classes)]
    for count in (1, 5, 400):
        labels = draw.integers(0, classes, count)
        predictions = np.where(draw.random(count) < 0.6, labels, draw.integers(0, classes, count))
        report, theirs = class_report(labels, predictions, names), of_scikit(labels, predictions, names)
        assert [each["name"] for each in report["classes"]] == names
        assert all(same(each, theirs[each["name"]]) for each in report["classes"])
        assert same(report["weighted"], theirs["weighted avg"])
        present = sorted({*labels.tolist(), *predictions.tolist()})
        of_present = classification_report(labels, predictions, labels=present, output_dict=True, zero_division=0)
        assert same(report["macro"], of_present["macro avg"])
        assert report["confusion"] == confusion_matrix(labels, predictions, labels=range(classes)).tolist()
        if classes > 2:  # the metric and the report say the same
            assert report["macro"]["f1"] == pytest.approx(classification_metrics(labels, predictions, classes)["f1"])


def test_classes_by_hand():
    report = class_report(np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 1, 0]), ("no", "yes", "never"))
    yes, never = report["classes"][1:]
    assert yes == pytest.approx(
        {"name": "yes", "precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "support": 3, "predicted": 3, "right": 2}
    )
    assert never == {"name": "never", "precision": 0, "recall": 0, "f1": 0, "support": 0, "predicted": 0, "right": 0}
    assert report["macro"]["f1"] == pytest.approx((1 / 2 + 2 / 3) / 2)  # of the classes that are there
    assert report["weighted"]["f1"] == pytest.approx((1 / 2 * 2 + 2 / 3 * 3) / 5)
    assert report["confusion"] == [[1, 1, 0], [1, 2, 0], [0, 0, 0]]


def test_a_matrix_of_many_classes_is_left_out():
    count = MATRIX_CLASSES + 1
    ids = np.arange(count)
    report = class_report(ids, ids, list(map(str, ids)))
    assert report["confusion"] is None
    assert report["macro"]["f1"] == 1.0


def test_several_labels_as_scikit_learn_scores_them():
    draw, names = np.random.default_rng(4), ["a", "b", "c", "d"]
    labels = (draw.random((300, 4)) < (0.5, 0.2, 0.9, 0.0)).astype(np.int32)
    predictions = np.where(draw.random((300, 4)) < 0.8, labels, 1 - labels)
    report = label_report(labels, predictions, names)
    theirs = classification_report(labels, predictions, target_names=names, output_dict=True, zero_division=0)
    assert all(same(each, theirs[each["name"]]) for each in report["classes"])
    assert all(same(report[mean], theirs[f"{mean} avg"]) for mean in ("macro", "micro", "weighted"))
    metrics = multilabel_metrics(labels, predictions)
    assert (report["micro"]["f1"], report["macro"]["f1"]) == pytest.approx((metrics["f1"], metrics["macro_f1"]))
    assert report["classes"][0]["right"] == int((labels & predictions)[:, 0].sum())
