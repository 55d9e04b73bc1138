"""SQuAD's metrics on answers made by hand; the numbers follow from the rules of the official scripts."""

import pytest

from pretrain.evaluation.squad import best_threshold, exact_match, f1, gold_answers, normalize_answer, squad_metrics


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  Cat's   paw.", "cats paw"),
        ("an apple, a day; the end", "apple day end"),
        ("Theatre of an Anaconda", "theatre of anaconda"),
        ("U.S. dollars ($5.00)", "us dollars 500"),
        ("the-end", "theend"),  # punctuation goes before articles
        ("L\u2019\u00c9cole", "l\u2019\u00e9cole"),  # only ASCII punctuation is removed
        ("\u00a0caf\u00e9\u2003noir\n", "caf\u00e9 noir"),
        ("\u6771\u4eac\u3002", "\u6771\u4eac\u3002"),
        ("The", ""),
        ("", ""),
    ],
)
def test_normalisation(text, normalized):
    assert normalize_answer(text) == normalized


def test_exact_match_and_f1():
    assert exact_match("the Beatles!", "Beatles") == 1
    assert exact_match("Beatles", "Beetles") == 0
    # common {big, red}: precision 2/3, recall 2/4
    assert f1("a big red old house", "big red car") == pytest.approx(2 * 2 / (3 + 4))
    assert f1("one one two", "one three one one") == pytest.approx(2 * 2 / (3 + 4))  # counted with multiplicity
    assert f1("", "") == 1
    assert f1("", "x") == 0
    assert f1("x", "the") == 0
    assert f1("x", "y") == 0
    assert f1("caf\u00e9", "cafe\u0301") == 0  # the rules do not normalise Unicode forms


def test_gold_answers():
    assert gold_answers([{"text": "Rome"}, {"text": "the"}, {"text": "Roma"}]) == ["Rome", "Roma"]
    assert gold_answers([]) == [""]
    assert gold_answers([{"text": ""}]) == [""]


def test_version_1_takes_the_best_gold_and_counts_what_is_absent():
    golds = {"a": ["Rome", "the city of Rome"], "b": ["42"], "c": ["x y"]}
    metrics = squad_metrics(golds, {"a": "City of Rome", "c": "x"})
    assert metrics == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 0 + 2 / 3) / 3})


def test_version_2_with_threshold():
    golds = {"a": ["Rome"], "b": [""], "c": ["x y"], "d": [""]}
    answers = {"a": "Rome", "b": "guess", "c": "x", "d": "wrong"}
    odds = {"a": -3.0, "b": 2.0, "c": 1.0, "d": -1.0}
    metrics = squad_metrics(golds, answers, odds, null_threshold=0.0)
    assert metrics["exact_match"] == pytest.approx(50)  # a and b; c is taken as empty, d is answered
    assert metrics["f1"] == pytest.approx(50)
    assert metrics["HasAns_exact_match"] == 50
    assert metrics["NoAns_exact_match"] == 50
    # thresholds: below all: b, d -> 2; -3: a, b, d -> 3; -1: a, b -> 2; 1: a, b and two thirds of c
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (75.0, -3.0)
    assert (metrics["best_f1"], metrics["best_f1_thresh"]) == (75.0, -3.0)
    lower = squad_metrics(golds, answers, odds, null_threshold=-3.0)
    assert lower["exact_match"] == 75.0  # the threshold found gives the score that was promised


def test_best_threshold_never_parts_equal_odds():
    assert best_threshold([1.0, 1.0, 2.0], [1, 0, 0], [0, 1, 1]) == (pytest.approx(200 / 3), 0.0)
    best, threshold = best_threshold([1.0, 1.0], [1, 1], [0, 0])
    assert (best, threshold) == (100.0, 1.0)


def test_an_absent_answer_is_wrong_whatever_the_threshold():
    metrics = squad_metrics({"a": [""], "b": [""]}, {"a": "x"}, {"a": 1.0})
    assert metrics["exact_match"] == 50
    assert metrics["best_exact"] == 50
