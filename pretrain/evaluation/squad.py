"""SQuAD's metrics by the rules of its official evaluation scripts, versions 1.1 and 2.0 (Rajpurkar et al., 2016, 2018).

Both compare normalised texts: lower case, without ASCII punctuation, without the articles a, an and the, white space
single. A question counts the best of its gold answers. In 2.0 a question without (non-empty) gold answers has the empty
answer as its only one. Scores are percentages. One rule of 2.0 holds for both: two texts of which nothing is left, e.g.
"the" and "The.", agree (1.1 gives them an F1 of 0 although they match exactly).
"""

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """The text as it is compared."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(gold: str, answer: str) -> float:
    """1 where the texts are equal once normalised, else 0."""
    return float(normalize_answer(gold) == normalize_answer(answer))


def f1(gold: str, answer: str) -> float:
    """F1 of the words of the two texts, 0 to 1; where one has no words: 1 if both have none, else 0."""
    wanted, made = normalize_answer(gold).split(), normalize_answer(answer).split()
    if not wanted or not made:
        return float(wanted == made)
    common = sum((Counter(wanted) & Counter(made)).values())
    return 2 * common / (len(wanted) + len(made))


def gold_answers(answers: Sequence[Mapping]) -> list[str]:
    """The texts of a question's gold answers that are not empty once normalised; [""] where there is none."""
    return [text for answer in answers if normalize_answer(text := answer["text"])] or [""]


def squad_metrics(
    golds: Mapping[str, Sequence[str]],
    answers: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    null_threshold: float = 0.0,
) -> dict[str, float]:
    """Scores of answers.

    Args:
      golds: question id -> its gold answers, one at least ("" for none).
      answers: question id -> answer; one that is absent counts as wrong.
      null_odds: question id -> how much better "no answer" scored than the answer, in which `answers` has the best
        answer that is not empty. Null: `answers` are final (1.1).
      null_threshold: odds above which the answer is taken as empty.

    Returns exact_match and f1 in percent; with null_odds also HasAns_* and NoAns_* (of the questions with and without
    answers, where there are some), best_exact, best_exact_thresh, best_f1, best_f1_thresh: the scores that the best
    threshold would give, for the metrics as they stand take no threshold from the data they score.
    """
    raw = {key: _scores(golds[key], answers.get(key)) for key in golds}
    if null_odds is None:
        return _means(raw, golds)
    unanswered = {key: (float(key in answers and not any(golds[key])),) * 2 for key in golds}
    final = {key: unanswered[key] if null_odds.get(key, 0.0) > null_threshold else raw[key] for key in golds}
    result = _means(final, golds)
    for prefix, keys in (
        ("HasAns", [key for key in golds if any(golds[key])]),
        ("NoAns", [key for key in golds if not any(golds[key])]),
    ):
        if keys:
            result |= {f"{prefix}_{name}": value for name, value in _means(final, keys).items()}
    for at, name in enumerate(("exact", "f1")):
        best, threshold = best_threshold(
            [null_odds.get(key, 0.0) for key in golds],
            [raw[key][at] for key in golds],
            [unanswered[key][at] for key in golds],
        )
        result |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return result


def best_threshold(
    odds: Sequence[float], answered: Sequence[float], unanswered: Sequence[float]
) -> tuple[float, float]:
    """(best mean score in percent, threshold): questions with odds above it take `unanswered`, the others `answered`.

    The threshold is the odds of the last question that is answered, as in the official script; below all: none is.
    """
    order = sorted(range(len(odds)), key=odds.__getitem__)
    total = best = sum(unanswered)
    threshold = min(odds, default=0.0) - 1.0
    for place, at in enumerate(order):
        total += answered[at] - unanswered[at]
        ties = place + 1 < len(order) and odds[order[place + 1]] == odds[at]  # one threshold cannot part them
        if total > best and not ties:
            best, threshold = total, odds[at]
    return 100.0 * best / max(len(odds), 1), threshold


def _scores(golds: Sequence[str], answer: str | None) -> tuple[float, float]:
    if answer is None:
        return 0.0, 0.0
    return max(exact_match(gold, answer) for gold in golds), max(f1(gold, answer) for gold in golds)


def _means(scores: Mapping[str, tuple[float, float]], keys) -> dict[str, float]:
    count = max(len(keys), 1)
    return {
        name: 100.0 * math.fsum(scores[key][at] for key in keys) / count
        for at, name in enumerate(("exact_match", "f1"))
    }
