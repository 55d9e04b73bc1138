"""Multiple choice: records of own files, against a construction of them token by token in plain Python."""

import json

import numpy as np
import pytest

import nlpdata
from nlpdata.errors import DataError, UsageError
from nlpdata.finetuning.choice import ChoiceEncoder, with_choice
from nlpdata.finetuning.encode import Batch
from nlpdata.records.contract import read_meta
from nlpdata.records.inspection import inspect_records
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.finetuning.texts import write

ROWS = [
    ("the fox jumped", "it was _ bad", ["good", "not good", "a lazy dog"], "B"),
    ("a dog jumped high over a lazy dog and the river bank", "", ["high", "the bank not bad", "movie"], 2),
    ("the river", "over _ and _", ["a", "a fox", "the good bad lazy dog was born in a river bank"], "0"),
]
OWN = {"task": "choice", "text_column": "context", "text_b_column": "question", "label_column": "answer", "blank": "_"}
COLUMNS = {"choice_columns": "a, b, c"}


def expected(tokenizer, context, texts, length, most):
    """The sequences of a row as run_race.py of google-research/albert builds them: ids, mask, segments, (choices, length) each."""
    made = []
    for text in texts:
        first, second = (tokenizer.encode([each])[0].tolist() for each in (context, text))
        second = second[-most:][-(length - 3) :]
        first = first[: length - 3 - len(second)]
        ids = [tokenizer.cls_id, *first, tokenizer.sep_id, *second, tokenizer.sep_id]
        segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        rest = [0] * (length - len(ids))
        made.append((ids + [tokenizer.pad_id] * len(rest), [1] * len(ids) + rest, segments + rest))
    return [np.array([each[part] for each in made]) for part in range(3)]


def _csv(path, rows=ROWS):
    return write(path, "context,question,a,b,c,answer", *(",".join([a, b, *c, str(n)]) for a, b, c, n in rows))


def _jsonl(path, rows=ROWS):
    keys = ("context", "question", "choices", "answer")
    return write(path, *(json.dumps(dict(zip(keys, row, strict=True))) for row in rows))


def _parquet(path):
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"answer": [str(row[3]) for row in ROWS], "choices": [row[2] for row in ROWS]}
    columns |= {"context": [row[0] for row in ROWS], "question": [row[1] for row in ROWS]}
    parquet.write_table(pytest.importorskip("pyarrow").table(columns), path)
    return path


def test_own_files_give_the_records_of_run_race(tmp_path, make, records, vocab):
    sources = {"csv": _csv(tmp_path / "a.csv"), "jsonl": _jsonl(tmp_path / "a.jsonl")}
    sources["parquet"] = _parquet(tmp_path / "a.parquet")
    for name, source in sources.items():
        columns = COLUMNS if name == "csv" else {}
        result = make(
            source, output=name, max_seq_length=16, max_qa_length=6, workers=2 if name == "csv" else 1, **OWN, **columns
        )
    bare = write(tmp_path / "bare.csv", *sources["csv"].read_text().splitlines()[1:])
    numbers = {
        "text_column": "0",
        "text_b_column": "1",
        "choice_columns": "2,3,4",
        "label_column": "5",
        "header": False,
    }
    make(bare, output="bare", max_seq_length=16, max_qa_length=6, **OWN | numbers)
    written = {name: (tmp_path / name / "train.tfrecord").read_bytes() for name in (*sources, "bare")}
    assert written["csv"] == written["jsonl"] == written["parquet"] == written["bare"]
    tokenizer = load_tokenizer(vocab, do_lower_case=True)
    found = records(output="csv")[:]
    assert found["label_ids"].tolist() == [[1], [2], [0]]
    cut = 0
    for number, (context, question, choices, _) in enumerate(ROWS):
        texts = [question.replace("_", choice) if question else choice for choice in choices]
        ids, mask, segments = expected(tokenizer, context, texts, 16, 6)
        for name, values in (("input_ids", ids), ("input_mask", mask), ("segment_ids", segments)):
            assert (found[name][number].reshape(3, 16) == values).all(), (number, name)
        cut += (
            sum(len(tokenizer.encode([text])[0]) for text in [*texts, context, context, context]) + 3 * 3 - mask.sum()
        )
    meta = read_meta(result.meta)
    assert (meta["task_type"], meta["num_choices"], meta["num_labels"], meta["label_names"]) == (
        "bert_choice",
        3,
        3,
        [],
    )
    counters = meta["splits"]["train"]["counters"]
    assert (counters["choices"], counters["tokens_truncated"], counters["truncated"]) == (9, cut, 2)
    assert counters["labels"] == {"0": 1, "1": 1, "2": 1}


def test_every_text_is_found_back(vocab):
    """Of random rows nothing is cut, and decoding gives context and texts; a batch's rows do not depend on its neighbours."""
    tokenizer = load_tokenizer(vocab, do_lower_case=True)
    draw = np.random.default_rng(3)
    words = ["fox", "dog", "river", "bank", "lazy", "bad", "x7"]
    text = lambda most: " ".join(draw.choice(words, draw.integers(1, most)))  # noqa: E731
    shared = text(9)
    rows = [
        (shared if draw.random() < 0.5 else text(9), tuple(text(6) for _ in range(4)), int(draw.integers(4)))
        for _ in range(60)
    ]
    encoder = ChoiceEncoder(tokenizer, 40, "v1", 4, 20)
    columns, counters = encoder.columns(Batch("train", 0, 7, rows))
    assert counters["tokens_truncated"] == 0
    for number, (context, texts, label) in enumerate(rows):
        ids = columns["input_ids"][number].reshape(4, 40)
        segment, mask = (columns[name][number].reshape(4, 40) for name in ("segment_ids", "input_mask"))
        for choice, own in enumerate(texts):
            plain = [ids[choice][(mask[choice] == 1) & (segment[choice] == part)].tolist() for part in (0, 1)]
            first, second = (tokenizer.encode([each])[0].tolist() for each in (context, own))
            assert plain == [[tokenizer.cls_id, *first, tokenizer.sep_id], [*second, tokenizer.sep_id]]
        assert [columns[name][number].tolist() for name in ("label_ids", "example_id")] == [[label], [7 + number]]
        alone = encoder.columns(Batch("train", 0, 0, [rows[number]]))[0]["input_ids"][0]
        assert (alone == columns["input_ids"][number]).all()


def test_a_choice_goes_into_the_blank():
    assert with_choice(" _ is _.", "he ", "_") == "he is he."
    assert with_choice("what is max_len", "7", None) == "what is max_len 7"
    assert [with_choice(question, "he", "_") for question in ("", "who")] == ["he", "who he"]


def test_texts_are_joined_as_run_race_joins_them(tiny_model):
    """run_race.py normalises question and choice first, then joins them, and SentencePiece takes the result as it is."""
    tokenizer = load_tokenizer(tiny_model)
    for question in ("The moon is_.", " the  SUN is _ and _ ", "What is  warm ?", "a ``quoted'' _"):
        for choice in ("cold", " the moon ", "Éa  b", "_"):
            first, second = tokenizer.normalize([question, choice])
            joined = first.replace("_", second) if "_" in first else f"{first} {second}"
            ours, theirs = (
                tokenizer.encode([with_choice(question, choice, "_")])[0],
                tokenizer.encode_normalized([joined])[0],
            )
            assert ours.tolist() == theirs.tolist(), (question, choice)


def test_rows_that_cannot_be_used(tmp_path, make, records):
    bad = [
        ("the fox", "was", ["good", "bad"], 0),
        ("the fox", "was", ["good", " ", "bad"], 0),
        ("the fox", "was", ["good", 3, "bad"], 0),
        ("the fox", "was", "good", 0),
        ("the fox", "was", ["good", "a", "bad"], 3),
        ("the fox", "was", ["good", "a", "bad"], "D"),
        ("the fox", "was", ["good", "a", "bad"], None),
        ("", "was", ["good", "a", "bad"], 1),
    ]
    said = [
        "expected 3 choices, found 2",
        r"choice 1 \('choices'\) is empty",
        "'choices' is 3, expected a string",
        "'choices' is 'good', expected a list of texts",
        "the label is 3, expected the number of the right choice, 0 to 2, or its letter, A to C",
        "the label is 'D', expected the number",
        "no label, expected the number",
        "an empty text",
    ]
    for number, (row, message) in enumerate(zip(bad, said, strict=True)):
        path = _jsonl(tmp_path / "bad.jsonl", [ROWS[0], row])
        with pytest.raises(DataError, match=rf"bad\.jsonl:2: {message}.* on_bad_row='skip'"):
            make(path, output=f"x{number}", **OWN)
    path = _jsonl(tmp_path / "mixed.jsonl", [*bad, *ROWS])
    make(path, output="kept", on_bad_row="skip", **OWN | {"max_seq_length": 16})
    dropped = read_meta(tmp_path / "kept" / "meta.json")["splits"]["train"]["counters"]["dropped"]
    assert dropped == {"choices": 3, "text_type": 1, "label_type": 2, "missing_label": 1, "empty_text": 1}
    assert records(output="kept")[:]["label_ids"].tolist() == [[1], [2], [0]]


def test_options_that_cannot_be(tmp_path, make):
    path, lines = _csv(tmp_path / "a.csv"), _jsonl(tmp_path / "a.jsonl", [("the fox", "was", ["one"], 0)])
    for options, message in (
        ({}, r"choice_columns must name two columns or more of .*a\.csv.* Received: choices"),
        (
            {"choice_columns": "a,,b"},
            r"choice_columns: expected one name, or up to 64 different ones .* Received: 'a,,b'",
        ),
        ({**COLUMNS, "header": False}, "column is a number from 0"),
    ):
        with pytest.raises(UsageError, match=message):
            make(path, **OWN, **options)
    with pytest.raises(DataError, match=r"column 'd' is missing .*Name it with .*choice_columns"):
        make(path, **OWN, choice_columns="a,b,d")
    with pytest.raises(
        DataError,
        match=r"a\.jsonl:1: 'choices': expected 2 to 64 choices, found 1\. Correct the row, or use on_bad_row",
    ):
        make(lines, **OWN)
    with pytest.raises(DataError, match=r"no row can be used\. The first one: .*a\.jsonl:1: no key 'right' among"):
        make(lines, **OWN | {"label_column": "right", "on_bad_row": "skip"})


def test_one_choice_that_is_always_right_is_reported(tmp_path, make):
    make(_jsonl(tmp_path / "a.jsonl", [(a, b, c, "C") for a, b, c, _ in ROWS]), max_seq_length=32, **OWN)
    assert f"warning: {tmp_path / 'a.jsonl'}: all 3 training rows have the label '2'" in make.log


def test_they_are_verified_and_shown_choice_by_choice(tmp_path, make):
    make(
        _csv(tmp_path / "a.csv"),
        max_seq_length=16,
        test_input=str(write(tmp_path / "t.csv", "context,question,a,b,c", "a,b,c,d,e")),
        **OWN,
        **COLUMNS,
    )
    path = tmp_path / "out" / "train.tfrecord"
    assert not nlpdata.verify([path, path.with_name("test.tfrecord")]).faults
    shown = inspect_records(path, limit=1)
    assert "  3 choices of 16, 33 tokens, 15 padding (31%), label 1\n" in shown
    assert "choice 1 (right)\n    A: as above\n    B: it was not good bad [SEP]" in shown
    meta = json.loads((tmp_path / "out" / "meta.json").read_text())
    (tmp_path / "out" / "meta.json").write_text(json.dumps(meta | {"num_choices": 4, "num_labels": 3}))
    faults = "\n".join(nlpdata.verify(path).faults)
    assert "max_seq_length is 16 of 4 choices, its splits.train.features have 48" in faults
    assert "record 0: choice 1: input_mask is not ones followed by zeros" in faults
    assert "num_labels is 3, its num_choices 4" in faults
    meta.pop("num_choices")
    (tmp_path / "out" / "meta.json").write_text(json.dumps(meta))
    assert "num_choices is missing or below 2" in "\n".join(nlpdata.verify(path).faults)


MODULE = """
from pathlib import Path

from nlpdata.finetuning.datasets import Dataset, Row, Split


def open_own(name, inputs, options, choices=3):
    rows = [Row("the fox", None, "b", 1, ("a dog", "a river", "bad")), Row("the dog", None, 0, 2, ("a dog", "bad"))]
    return Dataset("own", "choice", (Split("train", (Path(inputs[0]),), lambda: iter(rows)),), choices=choices)


def open_single(name, inputs, options):
    return open_own(name, inputs, options, 1)
"""


def test_a_dataset_of_ones_own(tmp_path, make, records, monkeypatch):
    (tmp_path / "own_choices.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        DataError, match=r"own_choices\.py:2: expected 3 choices, found 2\. Correct the row, or use on_bad_row"
    ):
        make(tmp_path / "own_choices.py", task="own_choices:open_own")
    make(tmp_path / "own_choices.py", task="own_choices:open_own", on_bad_row="skip", max_seq_length=12)
    assert records()[:]["label_ids"].tolist() == [[1]]
    with pytest.raises(
        UsageError, match=r"Dataset\.choices must be how many texts compete in each row, 2 to 64\. Received: 1"
    ):
        make(tmp_path / "own_choices.py", task="own_choices:open_single", output="x")
