"""What classes are called in every format, and the warnings about classes that look odd."""

import json
import math
from decimal import Decimal

import pytest

import nlpdata
from nlpdata.errors import DataError, UsageError
from nlpdata.finetuning.label_names import class_warnings, label_ids, label_name, label_parts, sorted_labels
from nlpdata.records.contract import read_meta
from tests.nlpdata.commands import run_command
from tests.nlpdata.finetuning.texts import write

ONE = ["1", "1.0", " 1 ", "+1", "1.00", "1e0", 1, 1.0, Decimal("1.0")]


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (ONE, "1"),
        (["-1", "-1.0", -1, -1.0], "-1"),
        (["0", "-0", "0.0", "-0.0", 0, -0.0], "0"),
        (["0.5", "0.50", 0.5, "5e-1"], "0.5"),
        (["1e16", 1e16, 10**16, "10000000000000000"], "1" + "0" * 16),
        (["01"], "01"),
        (["1_0"], "1_0"),
        (["1."], "1."),
        (["0x1"], "0x1"),
        (["1e999"], "1e999"),
        (["1" * 5000], "1" * 5000),
        ([True], "true"),
        (["True"], "True"),
        (["nan"], "nan"),
        (["a", b"a", b" a "], "a"),
        ([None, math.nan, [1], ("a",), {"a": 1}, b"\xff"], None),
        (["", "  "], ""),
    ],
)
def test_numbers_that_are_equal_are_one_class(labels, name):
    assert [label_name(label) for label in labels] == [name] * len(labels)


def test_parts_of_a_multilabel_row():
    assert label_parts("1, 1.0,a,,", ",") == ["1", "1", "a"]
    assert label_parts([1, "1.0", " a ", None, math.nan], ",") == ["1", "1", "a"]
    assert label_parts(0, ",") == ["0"], "a number is a label, not a missing one"
    assert label_parts(None, ",") == label_parts("", ",") == label_parts(math.nan, ",") == []


def test_order_of_classes():
    assert sorted_labels({"10": 1, "9": 1, "-1": 1}) == ("-1", "9", "10")
    assert sorted_labels({"0.5": 1, "10": 1, "2": 1}) == ("0.5", "2", "10")
    assert sorted_labels({"02": 1, "10": 1, "1": 1}) == ("1", "02", "10")
    assert sorted_labels({"b": 1, "B": 1, "a": 1}) == ("B", "a", "b")
    assert sorted_labels({"True": 3, "true": 2, "false": 1}) == ("True", "false"), "the most frequent spelling"
    assert label_ids(("True", "false", "a")) == {
        **{"True": 0, "true": 0, "TRUE": 0},
        **{"false": 1, "False": 1, "FALSE": 1},
        "a": 2,
    }


VALUES = [1, 0, 1, 0, 1, 0, 1, 0]
SPELT = ["1", "0", "1.0", "0.0", " 1", "0", "1.00", "-0"]


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "mixed.jsonl", "parquet", "floats.parquet"])
def test_every_format_gives_the_same_classes_and_records(tmp_path, make, form):
    path = tmp_path / f"train.{form}"
    rows = [(f"the fox {i}", spelt, value) for i, (spelt, value) in enumerate(zip(SPELT, VALUES, strict=True))]
    if form.endswith("parquet"):
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        labels = [float(value) if "floats" in form else value for _, _, value in rows]
        parquet.write_table(pyarrow.table({"text": [text for text, *_ in rows], "label": labels}), path)
    elif form.endswith("jsonl"):
        chosen = [spelt if form.startswith("mixed") and i % 2 else value for i, (_, spelt, value) in enumerate(rows)]
        write(path, *(json.dumps({"text": row[0], "label": label}) for row, label in zip(rows, chosen, strict=True)))
    else:
        mark = "," if form == "csv" else "\t"
        write(path, f"text{mark}label", *(f"{text}{mark}{spelt}" for text, spelt, _ in rows))
    result = make(path, task="classification", max_seq_length=16)
    meta = read_meta(result.meta)
    assert meta["label_names"] == ["0", "1"]
    assert meta["splits"]["train"]["counters"]["labels"] == {"0": 4, "1": 4}
    assert nlpdata.open_records(result.files["train"])[:]["label_ids"][:, 0].tolist() == VALUES


def test_lists_and_objects_are_no_labels(tmp_path, make):
    rows = [json.dumps({"text": "the fox", "label": label}) for label in ("a", "b", [1], {"a": 1})]
    path = write(tmp_path / "a.jsonl", *rows)
    with pytest.raises(DataError, match=r"a\.jsonl:3: the label is \[1\], expected .*use task='multilabel'"):
        make(path, task="classification")
    result = make(path, task="classification", on_bad_row="skip")
    counters = read_meta(result.meta)["splits"]["train"]["counters"]
    assert counters["labels"] == {"a": 1, "b": 1}
    assert counters["dropped"] == {"label_type": 2}
    with pytest.raises(DataError, match=r"a\.jsonl:4: the label is \{'a': 1\}, expected"):
        make(path, output="several", task="multilabel")
    write(path, *(json.dumps({"text": "the fox", "label": [label]}) for label in "ab"))
    with pytest.raises(DataError, match=r"column 'label' has values such as \['a'\].*use task='multilabel'"):
        make(path, output="lists", task="classification")
    write(path, rows[0], rows[1], '{"text": "a dog", "label": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(DataError, match=r"a\.jsonl:3: not JSON: it is nested too deeply"):
        make(path, output="deep", task="classification")


def test_types_of_parquet(tmp_path, make):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    for values, names in (
        ([b"a", b"b"], ["a", "b"]),
        ([Decimal("1.00"), Decimal("2.50")], ["1", "2.5"]),
        ([True, False], ["false", "true"]),
    ):
        parquet.write_table(pyarrow.table({"text": ["the fox"] * 2, "label": values}), path)
        result = make(path, output=f"out-{names[0]}", task="classification")
        assert read_meta(result.meta)["label_names"] == names
    times = pyarrow.array([1, 2], pyarrow.timestamp("ns"))
    parquet.write_table(pyarrow.table({"text": ["the fox"] * 2, "label": times}), path)
    with pytest.raises(DataError, match=r"a\.parquet: after row 0: a value cannot .*'label' \(timestamp\[ns\]\)"):
        make(path, output="times", task="classification")


def test_a_dev_file_of_another_format(tmp_path, make):
    """Booleans as pandas writes them to CSV, and as JSON has them; numbers with and without a point."""
    write(tmp_path / "train.csv", "text,label", *(f"fox {i},{i % 2 == 0}" for i in range(6)))
    write(tmp_path / "dev.jsonl", *(json.dumps({"text": "a dog", "label": label}) for label in (True, False)))
    result = make(tmp_path / "train.csv", dev_input=str(tmp_path / "dev.jsonl"), task="classification")
    assert read_meta(result.meta)["label_names"] == ["False", "True"]
    assert nlpdata.open_records(result.files["dev"])[:]["label_ids"][:, 0].tolist() == [1, 0]
    write(tmp_path / "dev.csv", "text,label", "a dog,2")
    with pytest.raises(DataError, match=r"dev\.csv:2: unknown label '2', expected one of False, True.*drop_labels='2'"):
        make(tmp_path / "train.csv", output="b", dev_input=str(tmp_path / "dev.csv"), task="classification")


def snli(tmp_path, dashes=1):
    names = ("entailment", "neutral", "contradiction")
    rows = [f"the fox\ta dog\t{names[i % 3]}" for i in range(90)]
    write(tmp_path / "snli.tsv", "text\tb\tlabel", *rows, *["the fox\ta dog\t-"] * dashes)
    return tmp_path / "snli.tsv"


def test_a_marker_is_reported_and_can_be_left_out(tmp_path, make, vocab, capsys):
    options = {"task": "pair", "text_b_column": "b", "max_seq_length": 32}
    result = make(snli(tmp_path), **options)
    assert read_meta(result.meta)["label_names"][0] == "-"
    (warning,) = result.warnings
    assert "1 of 91 rows (1.10%) have the label '-'" in warning
    assert "drop_labels='-'" in warning
    assert f"warning: {warning}" in make.log
    left = make(snli(tmp_path), output="left", drop_labels="-", **options)
    assert left.warnings == []
    counters = read_meta(left.meta)["splits"]["train"]["counters"]
    assert counters["dropped"] == {"drop_labels": 1}
    assert counters["labels"] == {"contradiction": 30, "entailment": 30, "neutral": 30}
    named = make(
        snli(tmp_path), output="named", labels="contradiction,entailment,neutral", on_bad_row="skip", **options
    )
    for result in (left, named):
        assert read_meta(result.meta)["label_names"] == ["contradiction", "entailment", "neutral"]
    assert nlpdata.open_records(left.files["train"])[:]["label_ids"].tolist() == (
        nlpdata.open_records(named.files["train"])[:]["label_ids"].tolist()
    )
    command = (
        "create-finetuning",
        "--task",
        "pair",
        "--text-b-column",
        "b",
        "--input",
        snli(tmp_path),
        "--tokenizer",
        vocab,
    )
    shown = run_command(capsys, *command, "--output", tmp_path / "cli", "--drop-labels", "-", "--quiet")
    assert shown.code == 0
    assert [line.split() for line in shown.out.splitlines() if "label " in line] == [
        ["label", name, "30"] for name in ("contradiction", "entailment", "neutral")
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop_labels": "a,a"}, "drop_labels: names must be different"),
        ({"labels": "1,1.0"}, "labels: names must be different"),
        ({"labels": "a,b", "drop_labels": "b"}, "both name 'b'"),
    ],
)
def test_wrong_options(tmp_path, make, options, message):
    with pytest.raises(UsageError, match=message):
        make(snli(tmp_path), **{"task": "classification", **options})


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"a": 500, "b": 400}, []),
        ({"-1": 300, "0": 300, "1": 300}, []),  # a scale
        ({"-1": 300, "1": 300}, []),
        ({"-2": 300, "-1": 300, "0": 300, "1": 300, "2": 300}, []),
        ({"-1": 300, "0": 300, "1": 300, "2": 300}, ["'-1', which looks like a marker"]),
        ({"-1": 5, "0": 300, "1": 300}, ["'-1', which looks like a marker"]),
        ({"-1": 5, "0": 300, "2": 300}, ["'-1', which looks like a marker"]),
        ({"hidden": 5, "a": 300, "b": 300}, ["'hidden', which looks like a marker"]),
        ({"N/A": 5, "a": 300, "UNK": 300}, ["'N/A', which", "'UNK', which"]),
        ({"none": 200, "a": 300, "b": 300}, []),  # a class of many datasets
        ({"none": 2, "a": 300, "b": 300}, ["'none', which"]),
        ({"a": 300, "b": 299, "aa": 1}, ["very rare classes (rows of 600): 'aa' (1)"]),
        ({"a": 99_000, "b": 1000}, []),
        ({"Pos": 30, "pos ": 30, "b": 30}, ["'Pos' (30) and 'pos ' (30) differ only in case"]),
        ({"01": 30, "1": 30}, ["'01' (30) and '1' (30) differ only"]),
        ({f"intent {i}": 5 + i for i in range(150)}, []),
    ],
)
def test_warnings_about_classes(counts, words):
    found = class_warnings(list(counts), counts, sum(counts.values()), ())
    assert len(found) == len(words)
    for word, line in zip(words, found, strict=True):
        assert word in line


def test_a_class_without_rows_and_classes_that_are_named():
    assert class_warnings(["a", "b", "-"], {"a": 30, "-": 2}, 32, ["a", "b", "-"]) == [
        "no training row has the label 'b'"
    ]


def test_regression_labels(tmp_path, make):
    for text in ("1e39", "inf", "nan", "1_0", "true"):
        write(tmp_path / "r.tsv", "text\tlabel", "fox\t1.5", f"dog\t{text}")
        with pytest.raises(DataError, match=rf"r\.tsv:3: the label is '{text}', expected a number"):
            make(tmp_path / "r.tsv", task="regression")
    write(tmp_path / "r.tsv", "text\tlabel", "fox\t1.5", "dog\t-1.0", "a dog\t-1")
    result = make(tmp_path / "r.tsv", task="regression", drop_labels="-1")
    assert nlpdata.open_records(result.files["train"])[:]["label_ids"].tolist() == [[1.5]]


@pytest.mark.parametrize("choice", ["fail", "skip"])
def test_a_marker_is_explained_with_what_is_not_chosen_yet(tmp_path, make, choice):
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "".join(f"fox {i},{('a', 'b', '-')[i % 3]}\n" for i in range(30)))
    (line,) = make(path, task="classification", on_bad_row=choice, max_seq_length=32).warnings
    assert "Leave them out with drop_labels='-', or name the classes with labels" in line
    assert ("on_bad_row" in line) == (choice == "fail")
