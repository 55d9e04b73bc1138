"""Scores of tokens in windows -> answers, by the rules of run_squad.py of google-research/bert.

An answer starts at a token that no other window shows with more context, ends at the same or a later token, and is at
most max_answer_length tokens long. It scores the sum of its two logits; no answer scores that of [CLS], the least over the
windows. Ours differs in the text: it is cut from the context by the tokens' places, so nothing is lost or rebuilt.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nlpdata.errors import DataError

CERTAIN = 1e9  # the odds of no answer where no window allows another answer: JSON does not have infinity


@dataclass(frozen=True)
class Window:
    """A part of a context with its scores, all arrays (L,): characters [start, end) of each token (0, 0: not of the text)."""

    char_start: np.ndarray
    char_end: np.ndarray
    is_max_context: np.ndarray
    start_logits: np.ndarray
    end_logits: np.ndarray


@dataclass(frozen=True)
class Answers:
    """What a question got.

    Attributes:
      nbest: {"text", "probability", "start_logit", "end_logit"}, best first; one at least, whose text may be "".
      null_odds: how much better no answer scores than the best answer; CERTAIN where there is no other.
      places: the characters [start, end) of the context that each text of nbest is; of "" (0, 0).
    """

    nbest: list[Mapping]
    null_odds: float
    places: Mapping[str, tuple[int, int]]

    @property
    def text(self) -> str:
        """The best answer that is not empty; "" where there is none."""
        return next((entry["text"] for entry in self.nbest if entry["text"]), "")


def find_answers(
    context: str, windows: Sequence[Window], n_best_size: int, max_answer_length: int, with_negative: bool
) -> Answers:
    """The answers to a question from its windows; with_negative: no answer is among them. DataError for logits of nan or inf."""
    if not all(np.isfinite(logits).all() for window in windows for logits in (window.start_logits, window.end_logits)):
        raise DataError(
            "the model's scores are not numbers (nan or inf): its weights are damaged, or training diverged."
        )
    found = [each for window in windows for each in _spans(window, n_best_size, max_answer_length)]
    null = min(((float(w.start_logits[0]), float(w.end_logits[0])) for w in windows), key=sum)
    nbest: dict[str, tuple[float, float]] = {}
    places = {"": (0, 0)}
    for start_logit, end_logit, first, last in sorted(found, key=lambda span: span[0] + span[1], reverse=True):
        text = context[first:last].strip()
        if text and text not in nbest:
            nbest[text] = (start_logit, end_logit)
            start = first + context[first:last].index(text)
            places[text] = start, start + len(text)
        if len(nbest) == n_best_size:
            break
    best = max((sum(logits) for logits in nbest.values()), default=-math.inf)
    if with_negative or not nbest:
        nbest[""] = null
    ordered = sorted(nbest.items(), key=lambda item: sum(item[1]), reverse=True)
    scores = np.array([sum(logits) for _, logits in ordered])
    weights = np.exp(scores - scores.max())
    return Answers(
        [
            {"text": text, "probability": float(p), "start_logit": logits[0], "end_logit": logits[1]}
            for (text, logits), p in zip(ordered, weights / weights.sum(), strict=True)
        ],
        min(sum(null) - best, CERTAIN),
        {text: places[text] for text in nbest},
    )


def _spans(window: Window, n_best_size: int, max_answer_length: int) -> list[tuple[float, float, int, int]]:
    """(start logit, end logit, first character, last character + 1) of the window's n best answers."""
    in_text = window.char_end > window.char_start
    starts = _best(window.start_logits, in_text & (window.is_max_context > 0), n_best_size)
    ends = _best(window.end_logits, in_text, n_best_size)
    length = ends[None, :] - starts[:, None] + 1
    at_start, at_end = np.nonzero((length >= 1) & (length <= max_answer_length))
    starts, ends = starts[at_start], ends[at_end]
    order = np.argsort(-(window.start_logits[starts] + window.end_logits[ends]), kind="stable")[:n_best_size]
    return [
        (float(window.start_logits[s]), float(window.end_logits[e]), int(window.char_start[s]), int(window.char_end[e]))
        for s, e in zip(starts[order], ends[order], strict=True)
    ]


def _best(logits: np.ndarray, allowed: np.ndarray, count: int) -> np.ndarray:
    """The allowed tokens of the highest logits, best first."""
    tokens = np.flatnonzero(allowed)
    return tokens[np.argsort(-logits[tokens], kind="stable")[:count]]


def final_answers(answers: Mapping[str, Answers], with_negative: bool, threshold: float = 0.0) -> dict[str, str]:
    """question id -> the answer to submit: "" where no answer scores better by more than the threshold (2.0 only)."""
    return {key: "" if with_negative and each.null_odds > threshold else each.text for key, each in answers.items()}
