"""SQuAD's metrics by the rules of its official evaluation scripts, versions 1.1 and 2.0 (Rajpurkar et al., 2016, 2018).

Both compare normalised texts: lower case, without ASCII punctuation, without the articles a, an and the, white space
single. A question counts the best of its gold answers. Scores are percentages. Of texts such as "the", of which nothing is
left, each version has rules of its own, and they are followed to the letter:

- 1.1: two of them match exactly, and have an F1 of 0.
- 2.0: two of them match exactly, and have an F1 of 1. They are not gold answers; a question that has no others is one of
  the answered ones (HasAns) all the same, and its gold answer is the empty text.

Of no questions every score is nan. A question without a prediction is wrong, as in 1.1; the script of 2.0 stops there.
"""

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nlpdata.errors import DataError

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """The text as it is compared."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(gold: str, answer: str) -> float:
    """1 where the texts are equal once normalised, else 0."""
    return float(normalize_answer(gold) == normalize_answer(answer))


def f1(gold: str, answer: str) -> float:
    """F1 of the words of the two texts, 0 to 1; where one has no words: 1 if both have none, else 0 (the rule of 2.0)."""
    wanted, made = normalize_answer(gold).split(), normalize_answer(answer).split()
    if not wanted or not made:
        return float(wanted == made)
    common = sum((Counter(wanted) & Counter(made)).values())
    return 2 * common / (len(wanted) + len(made))


def squad_metrics(
    golds: Mapping[str, Sequence[str]],
    answers: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    null_threshold: float = 0.0,
) -> dict[str, float]:
    """Scores of answers.

    Args:
      golds: question id -> the texts of its gold answers, as the data set has them; none for a question without answer.
      answers: question id -> answer; one that is absent counts as wrong.
      null_odds: question id -> how much better "no answer" scored than the answer, in which `answers` has the best
        answer that is not empty. None: `answers` are final, and scored by the rules of 1.1.
      null_threshold: odds above which the answer is taken as empty.

    Returns exact_match and f1 in percent; with null_odds also HasAns_* and NoAns_* (of the questions with and without
    answers, where there are some), best_exact, best_exact_thresh, best_f1, best_f1_thresh (see best_threshold).
    Raises DataError for an answer whose odds are absent or nan.
    """
    if null_odds is None:
        return _means(question_scores(golds, answers), golds)
    raw = _raw_scores(golds, answers, null_odds)
    final = _final_scores(raw, golds, answers, null_odds, null_threshold)
    answered = [key for key in golds if key in answers]
    result = _means(final, golds)
    groups = {"HasAns": [key for key in golds if golds[key]], "NoAns": [key for key in golds if not golds[key]]}
    for prefix, keys in groups.items():
        if keys:
            result |= {f"{prefix}_{name}": value for name, value in _means(final, keys).items()}
    unanswered = sum(not golds[key] for key in answered)
    order = sorted((key for key in null_odds if key in golds and key in answers), key=null_odds.__getitem__)
    for at, name in enumerate(("exact", "f1")):
        gains = ((null_odds[key], raw[key][at] if golds[key] else -float(answers[key] != "")) for key in order)
        best, threshold = best_threshold(unanswered, gains)
        result |= {f"best_{name}": _percent(best, len(golds)), f"best_{name}_thresh": threshold}
    return result


def only_no_answer(golds: Mapping[str, Sequence[str]], answers: Mapping[str, str]) -> str | None:
    """What to tell of final answers that are all empty though some questions have one; None where they are not.

    Args:
      golds: as squad_metrics takes them.
      answers: question id -> the answer after the threshold, "" for none.
    """
    answered = sum(bool(texts) for texts in golds.values())
    if not answered or any(answers.get(key) for key in golds):
        return None
    return (
        f"all {len(golds):,} questions are given no answer, which is right for {len(golds) - answered:,} of them: the scores are "
        "those of a model that has not learned to answer"
    )


def question_scores(
    golds: Mapping[str, Sequence[str]],
    answers: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    null_threshold: float = 0.0,
) -> dict[str, tuple[float, float]]:
    """question id -> (exact match, F1), 0 to 1, of what squad_metrics takes the mean of; arguments and errors as there."""
    if null_odds is None:
        return {key: _scores_1(golds[key], answers.get(key)) for key in golds}
    return _final_scores(_raw_scores(golds, answers, null_odds), golds, answers, null_odds, null_threshold)


def _raw_scores(
    golds: Mapping[str, Sequence[str]], answers: Mapping[str, str], null_odds: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """(exact match, F1) of the best answer that is not empty. DataError for one whose odds are absent or nan."""
    for key in golds:
        if key in answers and math.isnan(null_odds.get(key, math.nan)):
            raise DataError(
                f"question {key}: the odds of no answer are {null_odds.get(key, 'missing')}, expected a number: the model's scores "
                "are damaged, or training has diverged"
            )
    return {key: _scores(golds[key], answers.get(key)) for key in golds}


def _final_scores(
    raw: Mapping[str, tuple[float, float]],
    golds: Mapping[str, Sequence[str]],
    answers: Mapping[str, str],
    null_odds: Mapping[str, float],
    null_threshold: float,
) -> dict[str, tuple[float, float]]:
    """The same, where odds above the threshold make an answer the empty one."""
    final = dict(raw)
    for key in golds:
        if key in answers and null_odds[key] > null_threshold:
            final[key] = (float(not golds[key]),) * 2
    return final


def best_threshold(unanswered: float, gains: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """(best sum of scores, its threshold), as the official script finds them in the very data that it scores.

    Args:
      unanswered: the sum where no question is answered.
      gains: (odds, what answering adds to the sum) of the questions, ascending by odds.

    The threshold is the odds of the last question that is answered, and 0 where answering none is best. Questions of equal
    odds count one by one in their order: the best sum may be one that no threshold gives.
    """
    total = best = unanswered
    threshold = 0.0
    for odds, gain in gains:
        total += gain
        if total > best:
            best, threshold = total, odds
    return best, threshold


def _scores(golds: Sequence[str], answer: str | None) -> tuple[float, float]:
    """(exact match, F1) by the rules of 2.0."""
    if answer is None:
        return 0.0, 0.0
    wanted = [gold for gold in golds if normalize_answer(gold)] or [""]
    return max(exact_match(gold, answer) for gold in wanted), max(f1(gold, answer) for gold in wanted)


def _scores_1(golds: Sequence[str], answer: str | None) -> tuple[float, float]:
    """(exact match, F1) by the rules of 1.1."""
    if answer is None:
        return 0.0, 0.0
    wanted = golds or [""]
    found = f1 if normalize_answer(answer) else lambda *_: 0.0
    return max(exact_match(gold, answer) for gold in wanted), max(found(gold, answer) for gold in wanted)


def _means(scores: Mapping[str, tuple[float, float]], keys: Any) -> dict[str, float]:
    return {
        name: _percent(math.fsum(scores[key][at] for key in keys), len(keys))
        for at, name in enumerate(("exact_match", "f1"))
    }


def _percent(total: float, count: int) -> float:
    return 100.0 * total / count if count else math.nan
