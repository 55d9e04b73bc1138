"""From scores of tokens to answers, by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlpdata.errors import DataError
from pretrain.evaluation.squad_answers import CERTAIN, BeamWindow, Window, final_answers, find_answers

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
        assert answers.null_odds == CERTAIN == 1e9  # a number that files of predictions have
        assert [entry["text"] for entry in answers.nbest] == [""]


def test_the_list_is_as_long_as_asked_and_has_each_text_once():
    scores = window(np.arange(8), np.arange(8))
    answers = find_answers(CONTEXT, [scores, scores], 3, 30, with_negative=False)
    texts = [entry["text"] for entry in answers.nbest]
    assert len(texts) == len(set(texts)) == 3


def test_the_list_is_drawn_from_all_windows():
    """Each has texts of its own and one in common, which counts where it scores best; all are in one order."""
    early, late = (0, 0, 0, 1, 1, 0, 0, 0), (0, 0, 0, 0, 1, 1, 1, 0)
    first = window([0, 0, 0, 9, 1, 0, 0, 0], [0, 0, 0, 1, 0, -9, -9, 0], max_context=early)
    second = window([0, 0, 0, 0, 2, 6, 3, 0], [0, 0, 0, -9, 1, -9, 1, 0], max_context=late)
    found = [
        ("Zürich", 9.0, 1.0),
        ("Zürich,", 9.0, 0.0),
        ("the city", 6.0, 1.0),
        ("city", 3.0, 1.0),
        (",", 2.0, 1.0),  # 1 + 0 in the first window
        (", the city", 2.0, 1.0),
    ]
    for windows in ([first, second], [second, first]):
        for size in (1, 2, 3, 5, 6):
            nbest = find_answers(CONTEXT, windows, 20, 30, with_negative=False).nbest[:size]
            assert [(entry["text"], entry["start_logit"], entry["end_logit"]) for entry in nbest[:4]] == found[:size][
                :4
            ]
            assert {entry["text"] for entry in nbest[4:]} <= {",", ", the city"}
    assert len(find_answers(CONTEXT, [first, second], 4, 30, with_negative=False).nbest) == 4
    assert len(find_answers(CONTEXT, [first, second], 4, 30, with_negative=True).nbest) == 5


def one_by_one(context, windows, n_best_size, max_answer_length):
    """(text, start logit, end logit) of the best answers, with plain loops."""
    found = []
    for w in windows:
        text = [at for at in range(len(w.start_logits)) if w.char_end[at] > w.char_start[at]]
        starts = sorted((at for at in text if w.is_max_context[at]), key=lambda at: -w.start_logits[at])[:n_best_size]
        ends = sorted(text, key=lambda at: -w.end_logits[at])[:n_best_size]
        spans = [(s, e) for s in starts for e in ends if s <= e < s + max_answer_length]
        spans.sort(key=lambda span: -(w.start_logits[span[0]] + w.end_logits[span[1]]))
        for s, e in spans[:n_best_size]:
            found.append((context[w.char_start[s] : w.char_end[e]].strip(), w.start_logits[s], w.end_logits[e]))
    found.sort(key=lambda each: -(each[1] + each[2]))
    nbest = []
    for text, start, end in found:
        if text and text not in [known for known, *_ in nbest] and len(nbest) < n_best_size:
            nbest.append((text, float(start), float(end)))
    return nbest


WORDS = "a b  a c b a"
_ROW = st.lists(st.integers(-3, 3), min_size=10, max_size=10)
_FLAGS = st.lists(st.booleans(), min_size=10, max_size=10)


@given(
    st.lists(st.tuples(_ROW, _ROW, _FLAGS), min_size=1, max_size=3), st.integers(1, 5), st.integers(1, 4), st.booleans()
)
def test_answers_are_those_of_plain_loops(rows, n_best_size, max_answer_length, with_negative):
    starts = np.array([0, 0, 0, 2, 3, 5, 7, 9, 11, 0])  # the fifth token is a space, which is the text of no answer
    ends = np.array([0, 0, 1, 3, 4, 6, 8, 10, 12, 0])
    windows = [window(start, end, flags, starts, ends) for start, end, flags in rows]
    answers = find_answers(WORDS, windows, n_best_size, max_answer_length, with_negative)
    expected = one_by_one(WORDS, windows, n_best_size, max_answer_length)
    null = min(((float(w.start_logits[0]), float(w.end_logits[0])) for w in windows), key=sum)
    best = expected[0] if expected else None
    assert answers.null_odds == (sum(null) - best[1] - best[2] if best else CERTAIN)
    assert answers.text == (best[0] if best else "")
    if with_negative or not expected:
        expected = sorted([*expected, ("", *null)], key=lambda each: -(each[1] + each[2]))
    assert [(entry["text"], entry["start_logit"], entry["end_logit"]) for entry in answers.nbest] == expected
    weights = np.exp([start + end for _, start, end in expected])
    assert [entry["probability"] for entry in answers.nbest] == pytest.approx(list(weights / weights.sum()))


def test_no_answer_is_listed_only_where_it_may_be_one():
    scores = window([5, 0, 0, 4, 0, 0, 0, 0], [5, 0, 0, 4, 0, 0, 0, 0])
    with_none, without = (find_answers(CONTEXT, [scores], 2, 1, negative) for negative in (True, False))
    assert [entry["text"] for entry in with_none.nbest] == ["", "Zürich", ","]
    assert [entry["text"] for entry in without.nbest] == ["Zürich", ","]
    assert (with_none.text, without.text) == ("Zürich", "Zürich")
    assert with_none.null_odds == without.null_odds == 10 - 8


def test_the_threshold_itself_keeps_the_answer():
    scores = window([2, 0, 0, 1, 0, 0, 0, 0], [2, 0, 0, 1, 0, 0, 0, 0])
    answers = {"a": find_answers(CONTEXT, [scores], 1, 1, True)}
    assert answers["a"].null_odds == 2
    assert final_answers(answers, True, threshold=2.0) == {"a": "Zürich"}
    assert final_answers(answers, True, threshold=1.9) == {"a": ""}
    equal = {"a": find_answers(CONTEXT, [window([1, 0, 0, 1, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0, 0, 0])], 1, 1, True)}
    assert final_answers(equal, True) == {"a": "Zürich"}
    better = {"a": find_answers(CONTEXT, [window([1.25, 0, 0, 1, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0, 0, 0])], 1, 1, True)}
    assert final_answers(better, True) == {"a": ""}  # the threshold is 0


def test_probabilities_of_large_scores_are_numbers():
    scores = window([0, 0, 0, 500, 0, 499, 0, 0], [0, 0, 0, 500, 0, 500, 0, 0])
    found = find_answers(CONTEXT, [scores], 20, 1, False).nbest
    assert [entry["text"] for entry in found[:2]] == ["Zürich", "the"]
    assert found[0]["probability"] / found[1]["probability"] == pytest.approx(math.e)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(wrong):
    good = np.arange(8.0)
    bad = np.where(good == 5, wrong, good)
    for start, end in ((good, bad), (bad, good)):
        with pytest.raises(DataError, match=r"not numbers \(nan or inf\)"):
            find_answers(CONTEXT, [window(good, good), window(start, end)], 20, 30, with_negative=True)


# ------------------------------------------------------------------------------------------------------------------- beams


def beam(starts, ends, class_logit, max_context=(0, 0, 0, 1, 1, 1, 1, 0)):
    """A window of starts {token: score} and of the ends for each, [{token: score}, ...]."""
    return BeamWindow(
        STARTS,
        ENDS,
        np.array(max_context),
        np.array(list(starts.values()), np.float32),
        np.array(list(starts), np.float32),
        np.array([list(each.values()) for each in ends], np.float32),
        np.array([list(each) for each in ends], np.float32),
        np.float32(class_logit),
    )


def test_the_best_pair_of_a_beam_and_its_class():
    # [CLS], tokens off the text, ends before the start and padding are never an answer.
    first = beam({3: -1, 0: -2, 4: -8}, [{6: -2, 2: -1}, {0: -1, 6: -1}, {3: -1, 9: -1}], 1.5)
    second = beam({5: -2, 1: -1}, [{6: -0.5, 5: -4}, {6: 0, 5: 0}], -0.5)
    answers = find_answers(CONTEXT, [first, second], 20, 30, with_negative=True)
    assert answers.null_odds == -0.5  # the least of the windows
    none = 1 / (1 + math.exp(0.5))
    rest = np.exp([-2.5, -3.0, -6.0])
    rest *= (1 - none) / rest.sum()
    assert [(entry["text"], entry["probability"]) for entry in answers.nbest] == [
        ("the city", pytest.approx(rest[0])),
        ("", pytest.approx(none)),
        ("Zürich, the city", pytest.approx(rest[1])),
        ("the", pytest.approx(rest[2])),
    ]
    assert [entry.keys() - {"text", "probability"} for entry in answers.nbest[:2]] == [
        {"start_log_prob", "end_log_prob"},
        {"class_logit"},
    ]
    assert answers.places["the city"] == (8, 16)
    assert final_answers({"a": answers}, True) == {"a": "the city"}
    assert final_answers({"a": answers}, True, threshold=-0.6) == {"a": ""}
    without = find_answers(CONTEXT, [first, second], 2, 2, with_negative=False)
    assert [entry["text"] for entry in without.nbest] == ["the city", "the"]
    nowhere = find_answers(CONTEXT, [beam({0: -1}, [{0: -1}], -3)], 20, 30, with_negative=True)
    assert (nowhere.text, nowhere.null_odds) == ("", CERTAIN)
    assert nowhere.nbest == [{"text": "", "probability": 1.0, "class_logit": -3.0}]
    with pytest.raises(DataError, match=r"not numbers \(nan or inf\)"):
        find_answers(CONTEXT, [beam({3: -1}, [{6: -2}], math.nan)], 20, 30, with_negative=True)
