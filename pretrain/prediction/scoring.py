"""Labels next to texts: read as create-finetuning reads them, and compared with what a model predicts for the texts."""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import UsageError, opt
from nlpdata.files.paths import is_device
from nlpdata.finetuning.batches import Tally
from nlpdata.finetuning.datasets import BadRow, Dataset, Split
from nlpdata.finetuning.datasets import Row as LabelledRow
from nlpdata.finetuning.labels import RowReader
from nlpdata.reports.page import count_of
from pretrain.converters.checkpoint import Head
from pretrain.evaluation.report import Report, report_paths, write_report
from pretrain.evaluation.sentence_report import badness, decided, mistakes_of, sentence_report, sentence_scores
from pretrain.prediction.predictor import Facts
from pretrain.prediction.rows import Asked, Row
from pretrain.prediction.writing import is_standard_output

_log = logging.getLogger(__name__)

MOST_ERRORS = 100
_BLOCK = 1024  # rows compared together
_SEPARATOR = ","  # between several labels of a row


def with_labels(rows: Iterable[Row], path: Path, head: Head, tally: Tally) -> Iterator[Row]:
    """The rows with their labels as ids (a list of several), or numbers. A label that the model lacks is a bad row of `tally`."""
    source = Split("test", (path,), lambda: ())
    dataset = Dataset("labels", head.kind, (source,), None if head.kind == "regression" else head.names)
    read = RowReader(dataset, source, _SEPARATOR, makes_records=False)
    for row in rows:
        found = read(LabelledRow(row.first, None, row.label, row.line)) if row.first.strip() else None
        if isinstance(found, BadRow):
            tally.drop(found)
            continue
        yield row if found is None else row._replace(label=found[2])


def scoring_of(facts: Facts, output: Path, overwrite: bool) -> "Scoring":
    """The Scoring of a checkpoint's predictions, with its report next to them, if they are a file.

    UsageError where they cannot be compared with labels, or an earlier report is in the place.
    """
    if facts.classes is None or facts.head != "classifier":
        raise UsageError(
            f"{opt('label_column')}: labels are those of texts, and this model predicts something else. An evaluation scores "
            "answers to questions, and choices."
        )
    if is_device(output) or is_standard_output(output):
        return Scoring(facts.classes)
    place = output.with_suffix("")
    there = next((path for path in report_paths(place) if path.exists()), None)
    if there is not None and not overwrite:
        raise UsageError(f"{there} exists. Use {opt('overwrite', True)}, or another {opt('output')}.")
    return Scoring(facts.classes, place)


class Scoring:
    """Compares predictions with labels. Memory grows by the labels and the predictions alone; of texts, the worst errors are kept.

    Args:
      head: what the model predicts.
      place: where the report goes (write_report); None: nowhere.
    """

    def __init__(self, head: Head, place: Path | None = None) -> None:
        self._head, self._place = head, place
        self._names = head.names or ("",)
        self._waiting: list[tuple[Row, np.ndarray]] = []
        self._labels: list[np.ndarray] = []
        self._predictions: list[np.ndarray] = []
        self._errors: list[dict[str, Any]] = []
        self._count = 0

    @property
    def paths(self) -> list[Path]:
        """The files of the report."""
        return [] if self._place is None else report_paths(self._place, self._head.kind != "regression")

    def add(self, asked: Asked, result: dict) -> None:
        """Compares the result of a SentencePredictor with the label of its row; one without a prediction does not count."""
        if asked.row is None or result["prediction"] is None:
            return
        self._waiting.append((asked.row, self._logits(result)))
        self._count += 1
        if len(self._waiting) == _BLOCK:
            self._compare()

    def _logits(self, result: dict) -> np.ndarray:
        """Logits of the same meaning, float64 (classes,)."""
        if self._head.kind == "regression":
            return np.array([result["prediction"]], np.float64)
        shares = np.array([result["scores"][name] for name in self._names], np.float64)
        with np.errstate(divide="ignore"):
            return np.log(shares) - (np.log1p(-shares) if self._head.kind == "multilabel" else 0.0)

    def _compare(self) -> None:
        rows, logits = [row for row, _ in self._waiting], np.array([each for _, each in self._waiting])
        self._waiting = []
        labels = self._as_array([row.label for row in rows])
        self._labels.append(labels)
        self._predictions.append(decided(self._head.kind, logits))
        for at, about in mistakes_of(self._head.kind, labels, logits, self._names, MOST_ERRORS):
            row = rows[at]
            self._errors.append({"id": row.name, "line": row.line, "text": row.first, "text_b": row.second, **about})
        self._errors = sorted(self._errors, key=badness, reverse=True)[:MOST_ERRORS]

    def _as_array(self, labels: list) -> np.ndarray:
        if self._head.kind == "multilabel":
            chosen = np.zeros((len(labels), len(self._names)), np.int32)
            for row, ids in enumerate(labels):
                chosen[row, ids] = 1
            return chosen
        return np.array(labels, np.float64 if self._head.kind == "regression" else np.int64)

    def tell(self) -> dict[str, float]:
        """Writes the report, logs the metrics, and returns them; {} where no row was compared."""
        if not self._count:
            _log.warning("no row has a prediction: there is nothing to score")
            return {}
        metrics, report = self.result()
        rows = count_of(self._count, "row")
        _log.info(f"score of {rows}: " + "  ".join(f"{name} {value:.6g}" for name, value in metrics.items()))
        if self._place is not None:
            paths = write_report(self._place, {"rows": self._count, "metrics": metrics}, report)
            _log.info(f"report of the scores: {', '.join(map(str, paths))}")
        return metrics

    def result(self) -> tuple[dict[str, float], Report]:
        """(the metrics, the report) of all rows that were compared; there is one at least."""
        if self._waiting:
            self._compare()
        labels, predictions = np.concatenate(self._labels), np.concatenate(self._predictions)
        kind, names = self._head.kind, self._names
        metrics = sentence_scores(kind, labels, predictions, len(names))
        return metrics, sentence_report(kind, labels, predictions, names, self._errors, ("id", "line"))
