"""A user's own files: formats, columns, labels found and given, splits by file and by fraction."""

import json
from pathlib import Path

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import read_meta
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.finetuning.texts import segments, write

TEXTS = ['the "quick", fox', "the dog", "good river\nbank", "bad movie", "a lazy dog"]
LABELS = ["pos", "neg", "pos", "neg", "pos"]


def _csv(path, header="text,label"):
    quoted = ['"' + text.replace('"', '""') + '"' for text in TEXTS]
    return write(path, header, *(f"{text},{label}" for text, label in zip(quoted, LABELS, strict=True)))


def _jsonl(path):
    return write(path, *(json.dumps({"text": t, "label": n}) for t, n in zip(TEXTS, LABELS, strict=True)))


def _tsv(path):
    return write(path, "text\tlabel", *([t.replace("\n", " "), n] for t, n in zip(TEXTS, LABELS, strict=True)))


def _parquet(path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({"label": LABELS, "text": TEXTS})
    parquet.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("name", "writer"), [("a.csv", _csv), ("a.jsonl", _jsonl), ("a.tsv", _tsv), ("a.parquet", _parquet)]
)
def test_formats_give_the_same_records(tmp_path, make, records, vocab, name, writer):
    result = make(writer(tmp_path / name), task="classification", max_seq_length=32)
    assert read_meta(result.meta)["label_names"] == ["neg", "pos"]  # alphabetical: what 0 and 1 mean
    found, tokenizer = records()[:], load_tokenizer(vocab, do_lower_case=True)
    assert found["label_ids"][:, 0].tolist() == [1, 0, 1, 0, 1]
    for i, text in enumerate(TEXTS):
        ids = tokenizer.encode([text.replace("\n", " ")])[0].tolist()
        assert segments({key: values[i] for key, values in found.items()}, tokenizer) == (ids, [])


def test_gzip_bom_and_crlf(tmp_path, make, records):
    import gzip

    plain = _csv(tmp_path / "plain.csv")
    content = b"\xef\xbb\xbf" + plain.read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(content))
    for name in ("plain.csv", "a.csv.gz"):
        make(tmp_path / name, output=f"out-{name}", task="classification", max_seq_length=32)
    plain, packed = (records(output=f"out-{name}")[:] for name in ("plain.csv", "a.csv.gz"))
    assert all((plain[name] == packed[name]).all() for name in plain)


def test_wide_and_old_headers_of_a_test_file(tmp_path, make):
    path = write(tmp_path / "a.csv", f"text,label,{'x' * 200_000}", "the fox,a,1", "the dog,b,1")
    assert set(make(path, test_input=path, task="classification").files) == {"train", "test"}
    path.write_bytes(b"text,label\rthe fox,a\rthe dog,b\r")
    with pytest.raises(DataError, match=r"a\.csv:1: lines that end at a lone CR .*Expected LF or CRLF"):
        make(path, output="b", test_input=path, task="classification")


def test_columns_by_name_and_by_number(tmp_path, make, records):
    write(tmp_path / "named.csv", "id,class,review", *(f"{i},{n},fox {i}" for i, n in enumerate("xyx")))
    write(tmp_path / "bare.csv", *(f"{i},{n},fox {i}" for i, n in enumerate("xyx")))
    named = {"text_column": "review", "label_column": "class"}
    make(tmp_path / "named.csv", output="n", task="classification", max_seq_length=32, **named)
    bare = {"text_column": "2", "label_column": "1", "header": False}
    make(tmp_path / "bare.csv", output="b", task="classification", max_seq_length=32, **bare)
    assert (tmp_path / "n" / "train.tfrecord").read_bytes() == (tmp_path / "b" / "train.tfrecord").read_bytes()
    with pytest.raises(DataError, match=r"named\.csv:1: column 'reviw' is missing.*Did you mean review"):
        make(tmp_path / "named.csv", output="x", task="classification", text_column="reviw", label_column="class")
    with pytest.raises(UsageError, match="a column is a number from 0"):
        make(tmp_path / "bare.csv", output="x", task="classification", text_column="review", header=False)


def test_pairs(tmp_path, make, records, vocab):
    path = write(tmp_path / "a.tsv", "a\tb\tlabel", "the fox\tthe dog\t0", "a river\ta bank\t1")
    with pytest.raises(UsageError, match=r"text_b_column is missing.*a, b, label"):
        make(path, task="pair", text_column="a")
    make(path, task="pair", text_column="a", text_b_column="b", max_seq_length=32)
    tokenizer = load_tokenizer(vocab, do_lower_case=True)
    assert segments(records()[1], tokenizer) == tuple(tokenizer.encode([t])[0].tolist() for t in ("a river", "a bank"))


def test_regression(tmp_path, make, records):
    path = write(tmp_path / "a.csv", "text,score", "the fox,1.5", "the dog,-2")
    result = make(path, task="regression", label_column="score", max_seq_length=32)
    assert records()[:]["label_ids"].tolist() == [[1.5], [-2.0]]
    assert read_meta(result.meta)["task_type"] == "bert_regression"


def test_multilabel(tmp_path, make, records):
    rows = [{"text": "the fox", "label": ["b", "a"]}, {"text": "the dog", "label": []}, {"text": "a", "label": ["c"]}]
    path = write(tmp_path / "a.jsonl", *map(json.dumps, rows))
    result = make(path, output="lists", task="multilabel", max_seq_length=32)
    assert read_meta(result.meta)["label_names"] == ["a", "b", "c"]
    expected = [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert records(output="lists")[:]["label_ids"].tolist() == expected
    path = write(tmp_path / "a.csv", "text,label", "the fox,b; a", "the dog,", "a,c")
    make(path, output="text", task="multilabel", label_separator=";", max_seq_length=32)
    assert records(output="text")[:]["label_ids"].tolist() == expected
    with pytest.raises(DataError, match=r"a\.csv:4: unknown label 'c', expected one of a, b"):
        make(path, output="given", task="multilabel", label_separator=";", labels="a,b")


def test_given_labels_decide_about_ids(tmp_path, make, records):
    path = _csv(tmp_path / "a.csv")
    make(path, task="classification", labels="pos,neutral,neg", max_seq_length=32)
    assert records()[:]["label_ids"][:, 0].tolist() == [0, 2, 0, 2, 0]


def test_number_labels_are_in_the_order_of_numbers(tmp_path, make, records):
    path = write(tmp_path / "a.csv", "text,label", *(f"fox,{n}" for n in (10, 9, 1, 10)))
    assert read_meta(make(path, task="classification", max_seq_length=32).meta)["label_names"] == ["1", "9", "10"]
    assert records()[:]["label_ids"][:, 0].tolist() == [2, 1, 0, 2]


def test_dev_and_test_files(tmp_path, make, records):
    train, dev = _csv(tmp_path / "train.csv"), _csv(tmp_path / "dev.csv")
    test = write(tmp_path / "test.csv", "text", "the fox")
    result = make(train, task="classification", dev_input=str(dev), test_input=str(test), max_seq_length=32)
    assert {name: about["records"] for name, about in result.counters.items()} == {"train": 5, "dev": 5, "test": 1}
    assert "label_ids" not in records("test")[0]
    assert "label_ids" in records("dev")[0]


def test_accents_that_the_tokenizer_drops_are_told(tmp_path, make):
    path = write(
        tmp_path / "a.csv", "text,label", *(f"le café numéro {i} était fermé,{'ab'[i % 2]}" for i in range(20))
    )
    told = "the tokenizer drops accents, 80 in the"
    options = {"task": "classification", "accept_loss": True}
    make(path, output="dropped", **options)
    assert any(line.startswith(told) and "'é' becomes 'e'" in line for line in make.log)
    make(path, output="kept", keep_accents=True, **options)
    assert not any(line.startswith(told) for line in make.log)


def test_a_split_of_several_files(tmp_path, make, records):
    whole = [f"the fox {i},{'ab'[i % 2]}" for i in range(6)]
    write(tmp_path / "whole.csv", "text,label", *whole)
    write(tmp_path / "part-0.csv", "text,label", *whole[:2])
    write(tmp_path / "part-1.csv", "label;text", *(";".join(reversed(row.split(","))) for row in whole[2:3]))
    rows = [dict(zip(("text", "label"), row.split(","), strict=True)) for row in whole[3:]]
    write(tmp_path / "rest.jsonl", *map(json.dumps, rows))
    options = {"task": "classification", "max_seq_length": 32}
    one = make(tmp_path / "whole.csv", output="one", dev_input=tmp_path / "whole.csv", **options)
    assert any(line.startswith("warning: ") and "whole.csv is given for train and for dev" in line for line in make.log)
    parts, rest = str(tmp_path / "part-*.csv"), str(tmp_path / "rest.jsonl")
    several = make([parts, rest], output="several", dev_input=[f"{parts},", rest], **options)
    for split in ("train", "dev"):
        assert Path(one.files[split][0]).read_bytes() == Path(several.files[split][0]).read_bytes()
    assert [entry["file"] for entry in read_meta(several.meta)["inputs"]] == ["part-0.csv", "part-1.csv", "rest.jsonl"]
    make([parts, rest], output="share", eval_fraction=0.3, **options)
    assert sorted(records("dev", "share")[:]["label_ids"][:, 0].tolist()) == [0, 1]  # of the label's rows in all files
    write(tmp_path / "part-1.csv", "text,label", "the dog,")
    with pytest.raises(DataError, match=r"part-1\.csv:2: no label"):
        make([parts, rest], output="bad", **options)
    write(tmp_path / "part-1.csv", "text,klass", "the dog,a")
    with pytest.raises(
        DataError, match=r"part-1\.csv:1: column 'label' is missing from the header, which has: text, klass"
    ):
        make(rest, output="bad", test_input=parts, **options)  # of which the other file has labels
    (tmp_path / "link").symlink_to(rest)
    for given, message in (
        ([rest, ","], "input: received ',', expected a path"),
        ([parts, rest, rest], r"names .*rest.jsonl twice\. Name it once"),
        ([parts, rest, tmp_path / "link"], "names .*link twice, as .*rest.jsonl, too"),
        (f"{tmp_path}/p*.tsv", r"p\*\.tsv matches no file\.$"),
        (f"{rest}, gs://bucket/b.csv", "read from this machine. Received: gs://bucket/b.csv"),
    ):
        with pytest.raises(UsageError, match=message):
            make(given, output="bad", **options)


def test_a_label_that_training_lacks(tmp_path, make):
    train = _csv(tmp_path / "train.csv")
    dev = write(tmp_path / "dev.csv", "text,label", "the fox,neutral")
    with pytest.raises(DataError, match=r"dev\.csv:2: unknown label 'neutral', expected one of neg, pos"):
        make(train, task="classification", dev_input=str(dev))


def test_fraction_is_stratified_and_by_seed(tmp_path, make, records):
    rows = [f"fox number {i},{'rare' if i % 10 == 0 else 'often'}" for i in range(400)]
    path = write(tmp_path / "a.csv", "text,label", *rows)
    found = {}
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        make(path, output=name, task="classification", eval_fraction=0.25, seed=seed, max_seq_length=32)
        dev, train = (records(split, name)[:] for split in ("dev", "train"))
        assert np.bincount(dev["label_ids"][:, 0]).tolist() == [90, 10]
        assert np.bincount(train["label_ids"][:, 0]).tolist() == [270, 30]
        rows_of = [set(map(bytes, split["input_ids"])) for split in (dev, train)]
        assert len(rows_of[0] | rows_of[1]) == 400
        found[name] = rows_of[0]
    assert found["one"] == found["again"] != found["two"]


def test_a_column_of_text_is_not_a_label(tmp_path, make):
    path = write(tmp_path / "a.csv", "text,label", *(f"fox,label {i}" for i in range(1200)))
    with pytest.raises(DataError, match="1200 different labels in 1200 rows: that looks like text"):
        make(path, task="classification")


def test_unknown_formats_are_asked_for(tmp_path, make):
    with pytest.raises(UsageError, match="cannot tell its format"):
        make(write(tmp_path / "a.dat", "text,label"), task="classification")
    for options in ({}, {"format": "csv"}):
        with pytest.raises(UsageError, match="is a folder; expected files"):
            make(tmp_path, task="classification", **options)
