"""The report of an evaluation: what a task makes, and the files that it becomes.

X_report.json has all of it; X_report.tsv and X_errors.tsv have its tables, for a spreadsheet.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nlpdata.cli.results import plain
from nlpdata.files.json_files import write_file, write_json
from pretrain.evaluation.class_report import SCORES

_log = logging.getLogger(__name__)

EVALUATION = "eval"  # X of the files in a model_dir
_ENDINGS = ("_report.json", "_report.tsv", "_errors.tsv")
_COUNTS = ("support", "predicted", "right")
_FORMULA = ("=", "+", "-", "@")  # how a cell begins that a spreadsheet would compute


@dataclass(frozen=True)
class Report:
    """What an evaluation tells besides its metrics.

    Attributes:
      kind: classification, multilabel, regression, squad or choice.
      columns: of the table of errors, in this order; an error may have more, which only the JSON file keeps.
      errors: the examples that were most wrong, worst first.
      classes: what class_report or label_report returns; {} where there are no classes.
      remark: on the predictions as a whole, such as that they are all the same; "" where there is nothing to say.
    """

    kind: str
    columns: Sequence[str]
    errors: Sequence[Mapping[str, Any]]
    classes: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""


def tell(remark: str | None) -> None:
    """Logs the remark of an evaluation, where there is one, with what to do."""
    if remark:
        _log.info(f"evaluation: {remark}. If that stays, train longer, or with another learning rate")


def report_paths(place: Path, classes: bool = True) -> list[Path]:
    """The files of a report at a place, folder/X: X_report.json, where there are classes X_report.tsv, X_errors.tsv."""
    endings = _ENDINGS if classes else (_ENDINGS[0], _ENDINGS[-1])
    return [place.with_name(f"{place.name}{ending}") for ending in endings]


def write_report(place: Path, facts: Mapping[str, Any], report: Report) -> list[Path]:
    """Writes the files of a report, each whole, in place of those of an earlier one; returns their paths.

    Args:
      place: see report_paths.
      facts: what the JSON file says first, e.g. the step.

    DataError where the disk refuses.
    """
    whole, classes, errors = report_paths(place)
    remark = {"remark": report.remark} if report.remark else {}
    write_json(whole, plain({**facts, "kind": report.kind, **remark, **report.classes, "errors": list(report.errors)}))
    if report.classes:
        _write_table(classes, _class_rows(report.classes))
    rows = ([each.get(name, "") for name in report.columns] for each in report.errors)
    _write_table(errors, [report.columns, *rows])
    return report_paths(place, bool(report.classes))


def _class_rows(classes: Mapping[str, Any]) -> list[list[Any]]:
    """The table of classes: a row each, with the row of the confusion matrix behind it, then the means."""
    names, matrix = [each["name"] for each in classes["classes"]], classes.get("confusion")
    heads = [f"predicted {name}" for name in names] if matrix else []
    rows: list[list[Any]] = [["class", *SCORES, *_COUNTS, *heads]]
    for at, each in enumerate(classes["classes"]):
        rows.append([each[name] for name in ("name", *SCORES, *_COUNTS)] + (matrix[at] if matrix else []))
    means = [(name, classes[name]) for name in ("macro", "weighted", "micro") if name in classes]
    width = len(rows[0]) - len(SCORES) - 1
    return [*rows, *([f"({name} average)", *(mean[score] for score in SCORES), *[""] * width] for name, mean in means)]


def _write_table(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    text = "".join("\t".join(map(_cell, row)) + "\n" for row in rows)
    write_file(path, text.encode("utf-8", "backslashreplace"))


def _cell(value: Any) -> str:
    """A value as a cell: numbers with six digits, white space single, and text never as a formula.

    A quotation mark in front would open a field that goes on in the next rows: such text is quoted as in CSV.
    """
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    text = " ".join(str("" if value is None else value).split())
    if isinstance(value, str) and text.startswith(_FORMULA):
        return f"'{text}"
    return '"' + text.replace('"', '""') + '"' if text.startswith('"') else text
