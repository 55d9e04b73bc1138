"""The score of answers to SQuAD's JSON: as the official scripts count, by hand."""

import pytest

from pretrain.evaluation.squad_answers import Answers
from pretrain.prediction.answer_scoring import AnswerScoring
from pretrain.prediction.rows import Asked
from tests.messages import messages


def scored(golds, answers, with_negative=False, threshold=0.0):
    """(metrics, messages) of answers, id -> (text, odds of no answer)."""
    scoring = AnswerScoring(golds, with_negative, threshold)
    given = [
        (Asked(key, 1, False), Answers([{"text": ""}, {"text": text, "probability": 0.5}], odds, {text: (0, 1)}))
        for key, (text, odds) in answers.items()
    ]
    assert list(scoring.watched(given)) == given
    with messages() as said:
        return scoring.tell(), said


def test_as_evaluate_v1():
    """The best of the gold answers; what was not predicted is wrong."""
    golds = {"1": ["a fox", "The red fox"], "2": ["blue owl"], "3": ["fox"], "4": ["owl"]}
    found, said = scored(golds, {"1": ("red fox", 0), "2": ("owl", 0), "3": ("fox", 9)})
    assert found == pytest.approx({"exact_match": 50, "f1": 100 * (1 + 2 / 3 + 1) / 4})
    assert said == ["score of 4 questions: exact_match 50  f1 66.6667"]


def test_as_evaluate_v2():
    golds, answers = {"1": ["red fox"], "2": [], "3": []}, {"1": ("fox", 1.5), "2": ("owl", 1.0), "3": ("owl", 4.0)}
    found, said = scored(golds, answers, with_negative=True, threshold=2.0)
    expected = {"exact_match": 100 / 3, "f1": 100 * (2 / 3 + 1) / 3, "HasAns_f1": 200 / 3, "NoAns_f1": 50}
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert (found["best_exact"], found["best_exact_thresh"]) == pytest.approx((200 / 3, 0))
    assert len(said) == 1
    found, said = scored(golds, answers, with_negative=True)
    assert found["exact_match"] == pytest.approx(200 / 3)
    assert said[1].startswith("all 3 questions are given no answer, which is right for 2 of them")
