"""Labels next to texts: read as create-finetuning reads them, and compared with what a model predicts for the texts."""

import logging
from abc import ABC, abstractmethod
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
from pretrain.converters.heads import CHOICE
from pretrain.evaluation.choice_report import choice_report
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


def with_right_choices(rows: Iterable[Row], path: Path, tally: Tally) -> Iterator[Row]:
    """The rows with the number of their right choice, also given as a letter, as label; another label is a bad row of `tally`."""
    source = Split("test", (path,), lambda: ())
    readers: dict[int, RowReader] = {}
    for row in rows:
        count = len(row.choices)
        if count not in readers:
            readers[count] = RowReader(
                Dataset("labels", "choice", (source,), None, choices=count), source, _SEPARATOR, makes_records=False
            )
        found = readers[count](LabelledRow(row.first or "-", None, row.label, row.line, row.choices))
        if isinstance(found, BadRow):
            tally.drop(found)
            continue
        yield row._replace(label=found[2])


def scoring_of(facts: Facts, output: Path, overwrite: bool) -> "Scoring":
    """The Scoring of a checkpoint's predictions, with its report next to them, if they are a file.

    UsageError where they cannot be compared with labels, or an earlier report is in the place.
    """
    if facts.head not in ("classifier", CHOICE):
        raise UsageError(
            f"{opt('label_column')}: labels are those of texts, and this model predicts something else. Answers to the "
            "questions of SQuAD's JSON are compared with those that it has, without this option."
        )
    place = None if is_device(output) or is_standard_output(output) else output.with_suffix("")
    there = next((path for path in report_paths(place) if path.exists()), None) if place else None
    if there is not None and not overwrite:
        raise UsageError(f"{there} exists. Use {opt('overwrite', True)}, or another {opt('output')}.")
    if facts.head == CHOICE:
        return ChoiceScoring(place)
    assert facts.classes is not None
    return SentenceScoring(facts.classes, place)


class Scoring(ABC):
    """Compares predictions with labels. Memory grows by the labels and the predictions alone; of texts, the worst errors are kept.

    Args:
      place: where the report goes (write_report); None: nowhere.
      has_classes: whether the report has a table of classes.
    """

    def __init__(self, place: Path | None, has_classes: bool) -> None:
        self._place, self._has_classes = place, has_classes
        self._errors: list[dict[str, Any]] = []
        self._count = 0

    @property
    def paths(self) -> list[Path]:
        """The files of the report."""
        return [] if self._place is None else report_paths(self._place, self._has_classes)

    @abstractmethod
    def add(self, asked: Asked, result: dict) -> None:
        """Compares the result of a predictor with the label of its row; one without a prediction does not count."""

    @abstractmethod
    def result(self) -> tuple[dict[str, float], Report]:
        """(the metrics, the report) of all rows that were compared; there is one at least."""

    def tell(self) -> dict[str, float]:
        """Writes the report, logs the metrics, and returns them; {} where no row was compared."""
        if not self._count:
            _log.warning("no row has a prediction: there is nothing to score")
            return {}
        metrics, report = self.result()
        rows = count_of(self._count, "row")
        _log.info(f"score of {rows}: " + "  ".join(f"{name} {value:.6g}" for name, value in metrics.items()))
        if report.remark:
            _log.info(report.remark)
        if self._place is not None:
            paths = write_report(self._place, {"rows": self._count, "metrics": metrics}, report)
            _log.info(f"report of the scores: {', '.join(map(str, paths))}")
        return metrics

    def _keep(self, errors: Iterable[dict[str, Any]]) -> None:
        """Adds errors, of which the worst stay."""
        self._errors = sorted([*self._errors, *errors], key=badness, reverse=True)[:MOST_ERRORS]


class ChoiceScoring(Scoring):
    """Compares the results of a ChoicePredictor with the numbers of the right choices."""

    def __init__(self, place: Path | None = None) -> None:
        super().__init__(place, has_classes=True)
        self._pairs: list[tuple[int, int]] = []  # label, prediction
        self._choices = 0

    def add(self, asked: Asked, result: dict) -> None:
        if (row := asked.row) is None:
            return
        prediction, probability = result["prediction"], max(result["scores"])
        self._count += 1
        self._choices = max(self._choices, len(row.choices))
        self._pairs.append((row.label, prediction))
        if prediction != row.label:
            error = {"id": row.name, "line": row.line, "label": row.label, "prediction": prediction}
            error |= {"probability": probability, "text": row.first, "text_b": row.second, "choices": list(row.choices)}
            self._keep([error])

    def result(self) -> tuple[dict[str, float], Report]:
        labels, predictions = np.array(self._pairs, np.int64).T
        report = choice_report(labels, predictions, self._choices, self._errors, ("id", "line"), ("text", "text_b"))
        return {"accuracy": float(np.mean(labels == predictions))}, report


class SentenceScoring(Scoring):
    """Compares the results of a SentencePredictor with labels. `head`: what the model predicts."""

    def __init__(self, head: Head, place: Path | None = None) -> None:
        super().__init__(place, head.kind != "regression")
        self._head = head
        self._names = head.names or ("",)
        self._waiting: list[tuple[Row, np.ndarray]] = []
        self._labels: list[np.ndarray] = []
        self._predictions: list[np.ndarray] = []

    def add(self, asked: Asked, result: dict) -> None:
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
        found = mistakes_of(self._head.kind, labels, logits, self._names, MOST_ERRORS)
        of_rows = [(rows[at], about) for at, about in found]
        self._keep(
            {"id": row.name, "line": row.line, "text": row.first, "text_b": row.second, **about}
            for row, about in of_rows
        )

    def _as_array(self, labels: list) -> np.ndarray:
        if self._head.kind == "multilabel":
            chosen = np.zeros((len(labels), len(self._names)), np.int32)
            for row, ids in enumerate(labels):
                chosen[row, ids] = 1
            return chosen
        return np.array(labels, np.float64 if self._head.kind == "regression" else np.int64)

    def result(self) -> tuple[dict[str, float], Report]:
        if self._waiting:
            self._compare()
        labels, predictions = np.concatenate(self._labels), np.concatenate(self._predictions)
        kind, names = self._head.kind, self._names
        metrics = sentence_scores(kind, labels, predictions, len(names))
        return metrics, sentence_report(kind, labels, predictions, names, self._errors, ("id", "line"))
