"""Which mistakes are listed, in which order, and what is told of them."""

import numpy as np
import pytest

from pretrain.evaluation.mistakes import largest_errors, worst_answers, wrong_classes, wrong_labels


def test_the_most_certain_of_the_wrong_classes_come_first():
    logits = np.log(np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.1, 0.9], [0.7, 0.3]], np.float32))
    labels = np.array([1, 1, 1, 0, 1])  # the second is right
    found = wrong_classes(labels, logits, ("no", "yes"), 100)
    assert [row for row, _ in found] == [0, 3, 2, 4]  # of equal ones the first
    assert found[0][1] == {
        "label": "yes", "prediction": "no", "probability": pytest.approx(0.9, abs=1e-6),
        "label_probability": pytest.approx(0.1, abs=1e-6),
    }  # fmt: skip
    assert [row for row, _ in wrong_classes(labels, logits, ("no", "yes"), 2)] == [0, 3]
    assert wrong_classes(labels, logits, ("no", "yes"), 0) == []
    assert wrong_classes(logits.argmax(axis=-1), logits, ("no", "yes"), 5) == []
    huge = np.array([[1000.0, -1000.0]])
    assert wrong_classes(np.array([1]), huge, ("no", "yes"), 5)[0][1]["probability"] == 1.0


def test_a_wrong_label_is_as_certain_as_its_decision():
    logits = np.array([[4.0, -1.0, 2.0], [1.0, 1.0, -800.0], [0.5, -0.5, -9.0]])
    labels = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 0]])
    found = wrong_labels(labels, logits, ("a", "b", "c"), 100)
    assert [row for row, _ in found] == [1, 2]
    assert found[0][1] == {
        "label": ["a", "c"],
        "prediction": ["a", "b"],
        "wrong": "c",
        "probability": pytest.approx(1.0),
    }
    assert found[1][1] == {
        "label": [], "prediction": ["a"], "wrong": "a", "probability": pytest.approx(1 / (1 + np.exp(-0.5))),
    }  # fmt: skip


def test_the_largest_errors_of_numbers():
    targets, predictions = np.array([1.0, 2.0, 3.0, 4.0], np.float32), np.array([1.5, 2.0, 1.0, 4.25], np.float32)
    found = largest_errors(targets, predictions, 2)
    assert found == [
        (2, {"label": 3.0, "prediction": 1.0, "error": -2.0}), (0, {"label": 1.0, "prediction": 1.5, "error": 0.5}),
    ]  # fmt: skip
    assert len(largest_errors(targets, predictions, 100)) == 3


def test_the_worst_answers():
    scores = {"a": (1.0, 1.0), "b": (0.0, 0.5), "c": (0.0, 0.0), "d": (0.0, 0.0), "e": (0.0, 1.0)}
    certain = {"a": 0.9, "b": 0.9, "c": 0.2, "d": 0.7, "e": 0.9}
    assert worst_answers(scores, certain, 9) == ["d", "c", "b", "e"]
    assert worst_answers(scores, certain, 1) == ["d"]
