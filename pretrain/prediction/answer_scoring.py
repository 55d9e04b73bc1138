"""Answers to the questions of SQuAD's JSON, compared with those that the file has."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from nlpdata.reports.page import count_of
from pretrain.evaluation.squad import only_no_answer, squad_metrics
from pretrain.evaluation.squad_answers import Answers, final_answers
from pretrain.prediction.rows import Asked

_log = logging.getLogger(__name__)


class AnswerScoring:
    """Scores answers as an evaluation does. Memory grows by the best answer of each question.

    Args:
      golds: question id -> the texts of its answers; none for a question without. Those that are not predicted count as wrong.
      with_negative: whether no answer may be given.
      threshold: the odds of no answer above which none is given.
    """

    def __init__(self, golds: Mapping[str, Sequence[str]], with_negative: bool, threshold: float) -> None:
        self._golds, self._with_negative, self._threshold = golds, with_negative, threshold
        self._answers: dict[str, Answers] = {}

    def watched(self, answers: Iterable[tuple[Asked, Answers]]) -> Iterator[tuple[Asked, Answers]]:
        """The same answers, of which those that pass are scored."""
        for asked, each in answers:
            self._answers[asked.name] = replace(each, nbest=[{"text": each.text}], places={})
            yield asked, each

    def tell(self) -> dict[str, float]:
        """Logs the metrics (pretrain.evaluation.squad.squad_metrics), and returns them."""
        texts = {key: each.text for key, each in self._answers.items()}
        odds = {key: each.null_odds for key, each in self._answers.items()} if self._with_negative else None
        metrics = squad_metrics(self._golds, texts, odds, self._threshold)
        questions = count_of(len(self._golds), "question")
        _log.info(f"score of {questions}: " + "  ".join(f"{name} {value:.6g}" for name, value in metrics.items()))
        final = final_answers(self._answers, self._with_negative, self._threshold)
        if remark := only_no_answer(self._golds, final):
            _log.info(remark)
        return metrics
