"""Scores of tokens in windows -> answers, by the rules of run_squad.py of google-research/bert and run_squad_v2 of /albert.

An answer starts at a token that no other window shows with more context, ends at the same or a later token, and is at
most max_answer_length tokens long. It scores the sum of its two logits, or logarithms of probabilities. Ours differs in the
text: it is cut from the context by the tokens' places, so nothing is lost or rebuilt. How no answer scores depends on what
the model has (Window, BeamWindow).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nlpdata.errors import DataError

CERTAIN = 1e9  # the odds of no answer where no window allows another answer: JSON does not have infinity


Span = tuple[float, float, int, int]
"""Score of the start, score of the end, first character, last character + 1."""


@dataclass(frozen=True)
class _Places:
    """Characters [start, end) of each token of a part of a context (0, 0: not of the text), arrays (L,)."""

    char_start: np.ndarray
    char_end: np.ndarray
    is_max_context: np.ndarray

    def _spans(
        self, starts: np.ndarray, ends: np.ndarray, of_starts: np.ndarray, of_ends: np.ndarray, n: int
    ) -> list[Span]:
        """The n best of spans of tokens, all arrays (spans,)."""
        order = np.argsort(-(of_starts + of_ends), kind="stable")[:n]
        return [
            (float(of_starts[at]), float(of_ends[at]), int(self.char_start[starts[at]]), int(self.char_end[ends[at]]))
            for at in order.tolist()
        ]


@dataclass(frozen=True)
class Window(_Places):
    """A part of a context with scores of each token as the first and the last one, arrays (L,), or longer by padding.

    No answer scores as [CLS], the least over the windows.
    """

    start_logits: np.ndarray
    end_logits: np.ndarray

    names: ClassVar = ("start_logit", "end_logit")

    def is_finite(self) -> bool:
        return all(np.isfinite(logits).all() for logits in (self.start_logits, self.end_logits))

    def spans(self, n_best_size: int, max_answer_length: int) -> list[Span]:
        """The window's n best answers."""
        length = min(len(self.char_start), len(self.start_logits))
        in_text = (self.char_end > self.char_start)[:length]
        starts = _best(self.start_logits, in_text & (self.is_max_context[:length] > 0), n_best_size)
        ends = _best(self.end_logits, in_text, n_best_size)
        size = ends[None, :] - starts[:, None] + 1
        at_start, at_end = np.nonzero((size >= 1) & (size <= max_answer_length))
        starts, ends = starts[at_start], ends[at_end]
        return self._spans(starts, ends, self.start_logits[starts], self.end_logits[ends], n_best_size)

    @staticmethod
    def no_answer(windows: Sequence["Window"], scores: Sequence[float]) -> tuple[float, float, dict[str, float]]:
        """(score of no answer, how much better than the best of `scores` it is, its fields in n-best lists)."""
        null = min(((float(w.start_logits[0]), float(w.end_logits[0])) for w in windows), key=sum)
        return sum(null), sum(null) - max(scores, default=-math.inf), dict(zip(Window.names, null, strict=True))


@dataclass(frozen=True)
class BeamWindow(_Places):
    """A part of a context with its best starts, the best ends for each, and the logit of the class "no answer".

    Scores are logarithms of probabilities within the window: of starts (S,), of ends (S, E); so are the places of the tokens.
    Whether there is an answer the class alone decides, by its least logit over the windows, as in run_squad_v2.
    """

    start_log_probs: np.ndarray
    starts: np.ndarray
    end_log_probs: np.ndarray
    ends: np.ndarray
    class_logit: np.ndarray

    names: ClassVar = ("start_log_prob", "end_log_prob")

    def is_finite(self) -> bool:
        return all(np.isfinite(each).all() for each in (self.start_log_probs, self.end_log_probs, self.class_logit))

    def spans(self, n_best_size: int, max_answer_length: int) -> list[Span]:
        """The window's n best answers."""
        ends = self.ends.astype(np.int64).reshape(-1)
        starts = np.repeat(self.starts.astype(np.int64), self.ends.shape[-1])
        in_text = np.flatnonzero((starts < len(self.char_start)) & (ends < len(self.char_start)))
        size = ends - starts + 1
        in_text = in_text[(size[in_text] >= 1) & (size[in_text] <= max_answer_length)]
        is_token = self.char_end > self.char_start
        first = is_token & (self.is_max_context > 0)
        kept = in_text[first[starts[in_text]] & is_token[ends[in_text]]]
        of_starts = np.repeat(self.start_log_probs, self.ends.shape[-1])[kept]
        return self._spans(starts[kept], ends[kept], of_starts, self.end_log_probs.reshape(-1)[kept], n_best_size)

    @staticmethod
    def no_answer(windows: Sequence["BeamWindow"], scores: Sequence[float]) -> tuple[float, float, dict[str, float]]:
        """As Window's. The score gives no answer the probability of its class, the sigmoid of the logit, among all of them."""
        logit = min(float(window.class_logit) for window in windows)
        if not scores:
            return 0.0, math.inf, {"class_logit": logit}
        highest = max(scores)
        total = highest + math.log(math.fsum(math.exp(score - highest) for score in scores))
        return logit + total, logit, {"class_logit": logit}


@dataclass(frozen=True)
class Answers:
    """What a question got.

    Attributes:
      nbest: {"text", "probability", "start_logit", "end_logit"}, best first; one at least, whose text may be "". Of a
        BeamWindow "start_log_prob" and "end_log_prob" in place of the logits, and no answer has "class_logit".
      null_odds: how much better no answer scores than the best answer (of a BeamWindow the logit of its class); CERTAIN where
        there is no other.
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
    context: str,
    windows: Sequence[Window | BeamWindow],
    n_best_size: int,
    max_answer_length: int,
    with_negative: bool,
) -> Answers:
    """The answers to a question from its windows, which are of one kind; with_negative: no answer is among them.

    DataError for scores of nan or inf.
    """
    if not all(window.is_finite() for window in windows):
        raise DataError(
            "the model's scores are not numbers (nan or inf): its weights are damaged, or training diverged."
        )
    kind: Any = type(windows[0])
    found = [each for window in windows for each in window.spans(n_best_size, max_answer_length)]
    nbest: dict[str, tuple[float, Mapping[str, float]]] = {}
    places = {"": (0, 0)}
    for of_start, of_end, first, last in sorted(found, key=lambda span: span[0] + span[1], reverse=True):
        text = context[first:last].strip()
        if text and text not in nbest:
            nbest[text] = of_start + of_end, dict(zip(kind.names, (of_start, of_end), strict=True))
            start = first + context[first:last].index(text)
            places[text] = start, start + len(text)
        if len(nbest) == n_best_size:
            break
    score, odds, fields = kind.no_answer(windows, [score for score, _ in nbest.values()])
    if with_negative or not nbest:
        nbest[""] = score, fields
    ordered = sorted(nbest.items(), key=lambda item: item[1][0], reverse=True)
    scores = np.array([score for _, (score, _) in ordered])
    weights = np.exp(scores - scores.max())
    return Answers(
        [
            {"text": text, "probability": float(p), **fields}
            for (text, (_, fields)), p in zip(ordered, weights / weights.sum(), strict=True)
        ],
        min(odds, CERTAIN),
        {text: places[text] for text in nbest},
    )


def _best(logits: np.ndarray, allowed: np.ndarray, count: int) -> np.ndarray:
    """The allowed tokens of the highest logits, best first."""
    tokens = np.flatnonzero(allowed)
    return tokens[np.argsort(-logits[tokens], kind="stable")[:count]]


def final_answers(answers: Mapping[str, Answers], with_negative: bool, threshold: float = 0.0) -> dict[str, str]:
    """question id -> the answer to submit: "" where no answer scores better by more than the threshold (2.0 only)."""
    return {key: "" if with_negative and each.null_odds > threshold else each.text for key, each in answers.items()}
