"""Predictions compared with labels: scores and reports against the labels by hand, and what cannot be compared."""

import csv
import json

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.converters.checkpoint import Head
from pretrain.evaluation.report import write_report
from pretrain.prediction import scoring
from pretrain.prediction.rows import Asked, Row
from pretrain.prediction.scoring import SentenceScoring
from pretrain.prediction.sentences import judge
from tests.pretrain.prediction.test_predict import made_classifier, run

TEXTS = [f"w{20 + i} w{30 + i}" for i in range(12)]


def table(path, labels, texts=TEXTS):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("text", "truth"), *zip(texts, labels, strict=True)])
    return path


@pytest.fixture(scope="module")
def predicted(tmp_path_factory):
    """(checkpoint, the model's predictions for TEXTS, each with its probability)."""
    folder = tmp_path_factory.mktemp("predicted")
    model = made_classifier(folder)
    run(model, table(folder / "plain.csv", [""] * 12), folder / "plain.jsonl")
    results = list(map(json.loads, (folder / "plain.jsonl").read_text().splitlines()))
    return model, [(each["prediction"], each["scores"][each["prediction"]]) for each in results]


def test_scores_and_errors(predicted, tmp_path):
    model, found = predicted
    names = ("no", "yes", "maybe")
    wrong = {2: 0, 5: 0, 9: 0}  # rows whose label is made another one
    labels = [names[(names.index(name) + 1) % 3] if at in wrong else name for at, (name, _) in enumerate(found)]
    source = table(tmp_path / "in.csv", [*labels[:11], labels[11].upper()])
    with pytest.raises(
        DataError, match=r"in\.csv:13: unknown label '[A-Z]+', expected one of no, yes, maybe\. Did you mean"
    ):
        run(model, source, tmp_path / "out.tsv", label_column="truth")
    assert not list(tmp_path.glob("out*"))
    said = run(model, table(source, labels), tmp_path / "out.tsv", label_column="truth")
    assert any(line.startswith("score of 12 rows: accuracy 0.75  f1 ") for line in said)
    report = json.loads((tmp_path / "out_report.json").read_text())
    assert (report["rows"], report["metrics"]["accuracy"]) == (12, 0.75)
    assert sum(each["right"] for each in report["classes"]) == 9
    by_certainty = sorted(wrong, key=lambda at: -found[at][1])
    assert [(each["id"], each["line"], each["text"]) for each in report["errors"]] == [
        (str(at), at + 2, TEXTS[at]) for at in by_certainty
    ]
    assert report["errors"][0]["label"] == labels[by_certainty[0]]
    assert report["errors"][0]["probability"] == pytest.approx(found[by_certainty[0]][1])
    with open(tmp_path / "out_errors.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["text"] for row in rows] == [TEXTS[at] for at in by_certainty]
    assert (tmp_path / "out.tsv").read_text().count("\n") == 13
    (tmp_path / "out.tsv").unlink()
    with pytest.raises(UsageError, match=r"out_report\.json exists\. Use overwrite=True"):
        run(model, source, tmp_path / "out.tsv", label_column="truth")
    run(model, source, tmp_path / "out.tsv", label_column="truth", overwrite=True)


def test_rows_that_cannot_be_compared(predicted, tmp_path, capsys):
    model, found = predicted
    labels = [name for name, _ in found]
    source = table(tmp_path / "in.csv", ["", "never", *labels[2:]], [*TEXTS[:3], " ", *TEXTS[4:]])
    said = run(model, source, tmp_path / "out.tsv", label_column="truth", on_bad_row="skip")
    assert any(line.startswith("score of 9 rows: accuracy 1 ") for line in said)  # of 12, two bad, one empty
    assert any("rows that cannot be used" in line and ": 2 (missing_label 1, unknown_label 1)" in line for line in said)
    with pytest.raises(DataError, match="column 'absent' is missing from the header, which has: text, truth"):
        run(model, source, tmp_path / "a.tsv", label_column="absent")
    (tmp_path / "in.txt").write_text("w20\n")
    with pytest.raises(UsageError, match=r"label_column: .*is read as text, one a line, which has no columns"):
        run(model, tmp_path / "in.txt", tmp_path / "a.tsv", label_column="truth")
    said = run(model, table(source, labels), "-", label_column="truth")
    assert [line.partition(":")[0] for line in said if "score" in line] == ["score of 12 rows"]  # and no report
    assert not list(tmp_path.glob("-*"))


def scored(head, rows):
    own = SentenceScoring(head)
    for at, (label, logits) in enumerate(rows):
        prediction, shares = judge(head, np.array(logits, np.float64))
        asked = Asked(str(at), at + 1, False, Row(str(at), f"text {at}", "", at + 1, label))
        own.add(asked, {"prediction": prediction, "scores": shares})
    return own.result()


@pytest.mark.parametrize("kind", ["classification", "regression", "multilabel"])
def test_blocks_change_nothing(kind, tmp_path, monkeypatch):
    draw = np.random.default_rng(3)
    head = Head(kind, () if kind == "regression" else ("a", "b", "c"))
    logits = draw.normal(size=(50, 1 if kind == "regression" else 3)) * 3
    labels = {
        "classification": draw.integers(0, 3, 50).tolist(),
        "regression": draw.normal(size=50).tolist(),
        "multilabel": [np.flatnonzero(draw.random(3) < 0.5).tolist() for _ in range(50)],
    }[kind]
    rows = list(zip(labels, logits, strict=True))
    monkeypatch.setattr(scoring, "MOST_ERRORS", 7)
    metrics, report = scored(head, rows)
    monkeypatch.setattr(scoring, "_BLOCK", 8)
    again, in_blocks = scored(head, rows)
    assert metrics == again
    assert report == in_blocks
    assert len(report.errors) == 7
    written = write_report(tmp_path / "x", {}, report)
    assert written == SentenceScoring(head, tmp_path / "x").paths
    assert set(written) == set(tmp_path.iterdir())
    if kind == "classification":
        assert metrics["accuracy"] == np.mean(logits.argmax(axis=1) == labels)
    elif kind == "regression":
        assert metrics["pearson"] == pytest.approx(np.corrcoef(logits[:, 0], labels)[0, 1])
        assert report.errors[0]["error"] == pytest.approx(max(logits[:, 0] - labels, key=abs))
    else:
        right = [np.flatnonzero(row > 0).tolist() == label for label, row in rows]
        assert metrics["accuracy"] == np.mean(right)
