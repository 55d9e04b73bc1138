"""The files of a report: whole, readable by a spreadsheet, and the same in both forms."""

import csv
import json

import numpy as np
import pytest

from nlpdata.errors import DataError
from pretrain.evaluation.class_report import class_report, label_report
from pretrain.evaluation.mistakes import wrong_classes
from pretrain.evaluation.report import Report, write_report


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_the_files_of_a_classification(tmp_path):
    classes = class_report(np.array([0, 0, 1]), np.array([0, 1, 1]), ("no", "=yes"))
    errors = [
        {"record": 7, "label": "no", "prediction": "=yes", "probability": 0.123456789, "text": "a\tb\n c", "more": 1}
    ]
    columns = ("record", "id", "label", "prediction", "probability", "text")
    paths = write_report(tmp_path / "eval", {"step": 30}, Report("classification", columns, errors, classes))
    assert [path.name for path in paths] == ["eval_report.json", "eval_report.tsv", "eval_errors.tsv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in paths)
    content = json.loads(paths[0].read_text())
    assert content == {"step": 30, "kind": "classification", **classes, "errors": errors}
    assert table(paths[1]) == [
        ["class", "precision", "recall", "f1", "support", "predicted", "right", "predicted no", "predicted =yes"],
        ["no", "1", "0.5", "0.666667", "2", "1", "1", "1", "1"],
        ["'=yes", "0.5", "1", "0.666667", "1", "2", "1", "0", "1"],  # text for a spreadsheet, too
        ["(macro average)", "0.75", "0.75", "0.666667", "", "", "", "", ""],
        ["(weighted average)", "0.833333", "0.666667", "0.666667", "", "", "", "", ""],
    ]
    assert table(paths[2]) == [list(columns), ["7", "", "no", "'=yes", "0.123457", "a b c"]]


def test_text_that_begins_with_a_quotation_mark_stays_in_its_row(tmp_path):
    texts = ['"Never again', '"All" of it', '"', 'a "b" c']
    _, errors = write_report(
        tmp_path / "eval", {"step": 1}, Report("regression", ("text",), [{"text": text} for text in texts])
    )
    with open(errors, encoding="utf-8", newline="") as file:
        assert [row for (row,) in csv.reader(file, delimiter="\t")] == ["text", *texts]


def test_what_is_not_a_number_is_null(tmp_path):
    labels, logits = np.array([1, 0]), np.array([[np.nan, 0.0], [-np.inf, np.inf]])
    errors = [about for _, about in wrong_classes(labels, logits, ["a", "b"], 2)]
    whole, *_ = write_report(tmp_path / "eval", {"loss": np.nan}, Report("classification", ("label",), errors))
    content = json.loads(whole.read_text(), parse_constant=pytest.fail)
    assert content["loss"] is None
    assert [each["probability"] for each in content["errors"]] == [None, None]


def test_the_next_report_takes_the_place_of_the_last(tmp_path):
    labels = np.array([[1, 0], [1, 1]])
    report = Report(
        "multilabel",
        ("id", "label"),
        [{"id": 1, "label": ["a", "b"]}, {"label": []}],
        label_report(labels, labels, "ab"),
    )
    write_report(tmp_path / "eval", {"step": 1}, report)
    assert table(tmp_path / "eval_errors.tsv") == [["id", "label"], ["1", "a, b"], ["", ""]]
    assert table(tmp_path / "eval_report.tsv")[-1][:2] == ["(micro average)", "1"]
    paths = write_report(
        tmp_path / "eval", {"step": 2}, Report("regression", ("label", "error"), [], remark="all the same")
    )
    assert [path.name for path in paths] == ["eval_report.json", "eval_errors.tsv"]
    assert table(paths[1]) == [["label", "error"]]
    assert json.loads(paths[0].read_text()) == {"step": 2, "kind": "regression", "remark": "all the same", "errors": []}


def test_a_folder_that_takes_no_files(tmp_path):
    (tmp_path / "eval_report.json").mkdir()
    with pytest.raises(DataError, match=r"cannot write .*eval_report\.json"):
        write_report(tmp_path / "eval", {"step": 1}, Report("regression", (), []))
