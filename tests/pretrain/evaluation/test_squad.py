"""SQuAD's metrics on answers made by hand; the numbers follow from the rules of the official scripts."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.errors import DataError
from pretrain.evaluation.squad import exact_match, f1, normalize_answer, only_no_answer, squad_metrics


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


def test_that_no_question_is_answered_is_told():
    golds = {"a": ["Rome"], "b": [], "c": ["1902", "in 1902"]}
    told = "all 3 questions are given no answer, which is right for 1 of them: the scores are"
    assert only_no_answer(golds, {"a": "", "b": "", "c": ""}).startswith(told)
    assert only_no_answer(golds, {"a": "", "b": "Paris", "c": ""}) is None
    assert only_no_answer({"b": []}, {"b": ""}) is None


def test_version_1_takes_the_best_gold_and_counts_what_is_absent():
    golds = {"a": ["Rome", "the city of Rome"], "b": ["42"], "c": ["x y"]}
    metrics = squad_metrics(golds, {"a": "City of Rome", "c": "x"})
    assert metrics == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 0 + 2 / 3) / 3})


def test_version_2_with_threshold():
    golds = {"a": ["Rome"], "b": [], "c": ["x y"], "d": []}
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


def test_questions_with_and_without_answers_have_scores_of_their_own():
    golds = {"a": ["Rome"], "b": ["x y"], "c": ["z"], "d": [], "e": []}
    answers = {"a": "Rome", "b": "x", "c": "z", "d": "guess", "e": "guess"}
    odds = {"a": -3.0, "b": -2.0, "c": 2.0, "d": 1.0, "e": -1.0}  # c and d are taken as empty
    metrics = squad_metrics(golds, answers, odds)
    assert {name: value for name, value in metrics.items() if "best" not in name} == pytest.approx(
        {
            "exact_match": 100 * (1 + 0 + 0 + 1 + 0) / 5,
            "f1": 100 * (1 + 2 / 3 + 0 + 1 + 0) / 5,
            "HasAns_exact_match": 100 / 3,
            "HasAns_f1": 100 * (1 + 2 / 3) / 3,
            "NoAns_exact_match": 100 / 2,
            "NoAns_f1": 100 / 2,
        }
    )
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (60.0, -3.0)  # a right, d and e empty
    assert (metrics["best_f1"], metrics["best_f1_thresh"]) == (pytest.approx(100 * (1 + 2 / 3 + 2) / 5), -2.0)


@pytest.mark.parametrize(("gold", "there", "absent"), [(["x"], "HasAns", "NoAns"), ([], "NoAns", "HasAns")])
def test_data_of_one_kind_of_questions_has_no_scores_of_the_other(gold, there, absent):
    metrics = squad_metrics(
        {"a": gold, "b": gold, "c": gold}, dict.fromkeys("abc", "x"), {"a": -1.0, "b": 1.0, "c": 2.0}
    )
    assert {f"{absent}_exact_match", f"{absent}_f1"}.isdisjoint(metrics)
    assert metrics[f"{there}_exact_match"] == metrics["exact_match"] == pytest.approx(100 / 3 if gold else 200 / 3)
    assert metrics[f"{there}_f1"] == metrics["f1"] == metrics["exact_match"]


def test_odds_of_other_questions_and_of_those_without_an_answer_count_for_nothing():
    golds = {"a": ["x"], "b": [], "c": ["y"], "d": []}
    answers = {"a": "x", "b": "", "other": "x"}
    odds = {"a": -1.0, "b": 1.0, "c": -2.0, "d": -4.0, "other": -3.0}
    expected = squad_metrics(golds, answers, {"a": -1.0, "b": 1.0})
    assert squad_metrics(golds, answers, odds) == expected
    assert [expected[name] for name in ("exact_match", "HasAns_f1", "NoAns_f1", "best_f1")] == [50.0] * 4


def test_a_question_without_gold_answers_under_version_1():
    metrics = squad_metrics({"a": [], "b": []}, {"a": "", "b": "x"})
    assert metrics == {"exact_match": 50.0, "f1": 0.0}  # the empty text matches, and has an F1 of 0 there


def test_where_answering_nothing_is_best_the_threshold_is_0():
    metrics = squad_metrics({"a": [], "b": ["x"]}, {"a": "y", "b": "z"}, {"a": -5.0, "b": -4.0})
    assert (metrics["best_exact"], metrics["best_exact_thresh"], metrics["exact_match"]) == (50.0, 0.0, 0.0)


def test_equal_odds_count_one_by_one():
    # a right answer, then a wrong one where none was right, both at 1: the best is between them
    metrics = squad_metrics({"a": ["x"], "b": []}, {"a": "x", "b": "y"}, {"a": 1.0, "b": 1.0})
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (100.0, 1.0)
    other = squad_metrics({"a": ["x"], "b": []}, {"a": "x", "b": "y"}, {"b": 1.0, "a": 1.0})
    assert (other["best_exact"], other["best_exact_thresh"]) == (50.0, 0.0)


def test_gold_answers_of_which_nothing_is_left():
    """Their question is one with answers, and the empty text is right; answering "the" where none is right gains nothing."""
    metrics = squad_metrics({"a": ["The", ""], "b": []}, {"a": "an", "b": "the"}, {"a": -1.0, "b": -2.0})
    assert (metrics["HasAns_exact_match"], metrics["NoAns_f1"]) == (100.0, 100.0)
    assert (metrics["best_exact"], metrics["best_exact_thresh"]) == (50.0, 0.0)
    assert squad_metrics({"a": ["the", "Rome"]}, {"a": ""}) == {"exact_match": 100.0, "f1": 0.0}
    assert squad_metrics({"a": ["the", "Rome"]}, {"a": ""}, {"a": -1.0})["exact_match"] == 0.0


def test_an_absent_answer_is_wrong_whatever_the_threshold():
    metrics = squad_metrics({"a": [], "b": []}, {"a": "x"}, {"a": 1.0})
    assert metrics["exact_match"] == 50
    assert metrics["best_exact"] == 50


@pytest.mark.parametrize("odds", [{"a": math.nan}, {}])
def test_odds_that_are_no_numbers_are_refused(odds):
    with pytest.raises(DataError, match=r"question a: the odds of no answer are (nan|missing), expected a number"):
        squad_metrics({"a": []}, {"a": "x"}, odds)


def test_of_no_questions_the_scores_are_nan():
    assert all(math.isnan(value) for value in squad_metrics({}, {}).values())
    metrics = squad_metrics({}, {}, {})
    assert all(math.isnan(metrics[name]) for name in ("exact_match", "f1", "best_exact", "best_f1"))


def words_of(text):
    """Normalisation as the papers tell it, character by character and word by word."""
    kept = "".join(c for c in text.lower() if c not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def overlap(gold, answer, empty):
    wanted, made = words_of(gold), words_of(answer)
    if not wanted or not made:
        return empty if wanted == made else 0.0
    rest, common = list(wanted), 0
    for word in made:
        if word in rest:
            rest.remove(word)
            common += 1
    if common == 0:
        return 0.0
    precision, recall = common / len(made), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def official(golds, answers, odds, threshold):
    """What evaluate-v2.0 prints, told again: names of it -> figures."""
    raw = {}
    for key, texts in golds.items():
        left = [text for text in texts if words_of(text)]
        if not left:
            left = [""]
        raw[key] = {
            "exact": max(1.0 if words_of(text) == words_of(answers[key]) else 0.0 for text in left),
            "f1": max(overlap(text, answers[key], 1.0) for text in left),
        }
    has = {key: len(texts) > 0 for key, texts in golds.items()}
    out = {}
    for name in ("exact", "f1"):
        final = {key: (0.0 if has[key] else 1.0) if odds[key] > threshold else raw[key][name] for key in golds}
        groups = {"": list(golds), "HasAns_": [k for k in golds if has[k]], "NoAns_": [k for k in golds if not has[k]]}
        for prefix, keys in groups.items():
            if keys:
                out[prefix + name] = 100 * sum(final[key] for key in keys) / len(keys)
        score = best = sum(1 for key in golds if not has[key])
        best_threshold = 0.0
        for key in sorted(odds, key=lambda key: odds[key]):
            if has[key]:
                score += raw[key][name]
            elif answers[key]:
                score -= 1
            if score > best:
                best, best_threshold = score, odds[key]
        out[f"best_{name}"], out[f"best_{name}_thresh"] = 100 * best / len(golds), best_threshold
    return out


TEXTS = st.sampled_from(["", "the", "A.", "an!", "x", "X.", "the x", "x y", "y x x", "z", "?", " "])
ODDS = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 1e9]) | st.floats(-5, 5)
QUESTIONS = st.lists(st.tuples(st.lists(TEXTS, max_size=3), TEXTS, ODDS), min_size=1, max_size=9)


@settings(max_examples=300)
@given(QUESTIONS, st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 1e9, math.inf]), st.randoms(use_true_random=False))
def test_version_2_is_the_official_script(questions, threshold, random):
    names = [f"q{i}" for i in range(len(questions))]
    golds = {name: texts for name, (texts, _, _) in zip(names, questions, strict=True)}
    answers = {name: answer for name, (_, answer, _) in zip(names, questions, strict=True)}
    order = list(range(len(names)))
    random.shuffle(order)
    odds = {names[i]: questions[i][2] for i in order}
    ours = squad_metrics(golds, answers, odds, threshold)
    theirs = official(golds, answers, odds, threshold)
    renamed = {name.replace("exact", "exact_match") if "best" not in name else name: v for name, v in theirs.items()}
    assert ours.keys() == renamed.keys()
    for name, value in renamed.items():
        if name.startswith("best_f1"):  # sums of thirds: the order of adding may decide between equals
            assert ours["best_f1"] == pytest.approx(renamed["best_f1"])
        else:
            assert ours[name] == pytest.approx(value, abs=1e-9), name


@settings(max_examples=200)
@given(st.lists(st.tuples(st.lists(TEXTS, min_size=1, max_size=3), TEXTS | st.none()), min_size=1, max_size=9))
def test_version_1_is_the_official_script(questions):
    golds = {f"q{i}": texts for i, (texts, _) in enumerate(questions)}
    answers = {f"q{i}": answer for i, (_, answer) in enumerate(questions) if answer is not None}
    exact = f1 = 0.0
    for texts, answer in questions:
        if answer is not None:
            exact += max(words_of(text) == words_of(answer) for text in texts)
            f1 += max(overlap(text, answer, 0.0) for text in texts)
    count = len(questions)
    assert squad_metrics(golds, answers) == pytest.approx({"exact_match": 100 * exact / count, "f1": 100 * f1 / count})
