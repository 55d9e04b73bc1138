"""From scores of tokens to answers, by hand."""

import math

import numpy as np
import pytest

from nlpdata.errors import DataError
from pretrain.evaluation.squad_answers import CERTAIN, Window, final_answers, find_answers

CONTEXT = "Zürich, the city"  # tokens: [CLS] q [SEP] Zürich , the city [SEP]
STARTS = np.array([0, 0, 0, 0, 6, 8, 12, 0])
ENDS = np.array([0, 0, 0, 6, 7, 11, 16, 0])


def window(start, end, max_context=(0, 0, 0, 1, 1, 1, 1, 0), starts=STARTS, ends=ENDS):
    return Window(starts, ends, np.array(max_context), np.array(start, np.float32), np.array(end, np.float32))


def test_best_span_and_its_odds():
    # best: start at "Zürich" (4) and end at "city" (3) = 7; no answer: 1 + 2
    scores = window([1, 9, 0, 4, 0, 2, 0, 9], [2, 9, 0, 1, 0, 0, 3, 9])
    answers = find_answers(CONTEXT, [scores], 20, 30, with_negative=True)
    assert answers.text == "Zürich, the city"
    assert answers.null_odds == pytest.approx(3 - 7)
    assert [entry["text"] for entry in answers.nbest[:3]] == ["Zürich, the city", "Zürich", "the city"]
    assert sum(entry["probability"] for entry in answers.nbest) == pytest.approx(1)
    assert answers.nbest[0]["probability"] / answers.nbest[1]["probability"] == pytest.approx(math.exp(2))
    assert final_answers({"a": answers}, True) == {"a": "Zürich, the city"}
    assert final_answers({"a": answers}, True, threshold=-4.5) == {"a": ""}
    assert final_answers({"a": answers}, False, threshold=-4.5) == {"a": "Zürich, the city"}


def test_length_and_order_limit_the_answer():
    scores = window([0, 0, 0, 4, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 3, 0])
    assert find_answers(CONTEXT, [scores], 20, 3, True).text == "Zürich"
    backwards = window([0, 0, 0, 0, 0, 0, 9, 0], [0, 0, 0, 9, 0, 0, 1, 0])
    assert find_answers(CONTEXT, [backwards], 20, 30, True).text == "city"


def test_a_start_without_the_most_context_is_left_to_the_other_window():
    first = window([0, 0, 0, 9, 0, 0, 0, 0], [0, 0, 0, 9, 0, 0, 0, 0], max_context=[0, 0, 0, 0, 1, 1, 1, 0])
    second = window([-2, 0, 0, 2, 0, 0, 0, 0], [-1, 0, 0, 2, 0, 0, 0, 0])
    answers = find_answers(CONTEXT, [first, second], 20, 30, True)
    assert (answers.text, answers.nbest[0]["start_logit"]) == ("Zürich", 2.0)
    assert answers.null_odds == pytest.approx(-3 - 4)  # the least of the two windows


def test_no_answer_at_all():
    nowhere = window([1, 0, 0, 9, 9, 9, 9, 0], [1, 0, 0, 9, 9, 9, 9, 0], max_context=[0] * 8)
    for with_negative in (True, False):
        answers = find_answers(CONTEXT, [nowhere], 20, 30, with_negative)
        assert answers.text == ""
        assert answers.null_odds == CERTAIN
        assert [entry["text"] for entry in answers.nbest] == [""]


def test_the_list_is_as_long_as_asked_and_has_each_text_once():
    scores = window(np.arange(8), np.arange(8))
    answers = find_answers(CONTEXT, [scores, scores], 3, 30, with_negative=False)
    texts = [entry["text"] for entry in answers.nbest]
    assert len(texts) == len(set(texts)) == 3


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(wrong):
    good = np.arange(8.0)
    bad = np.where(good == 5, wrong, good)
    for start, end in ((good, bad), (bad, good)):
        with pytest.raises(DataError, match=r"not numbers \(nan or inf\)"):
            find_answers(CONTEXT, [window(good, good), window(start, end)], 20, 30, with_negative=True)
