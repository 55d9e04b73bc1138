"""XNLI and PAWS-X in the layout of their official files."""

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import read_meta
from tests.nlpdata.finetuning.texts import write

LABELS = ["contradiction", "entailment", "neutral"]


@pytest.fixture
def xnli(tmp_path):
    folder = tmp_path / "XNLI"
    for language in ("en", "de"):
        rows = [("the fox", "a fox", "entailment"), ("the dog", "a bank", "contradictory"), ("a", "b", "neutral")]
        write(folder / "multinli" / f"multinli.train.{language}.tsv", "premise\thypo\tlabel", *rows)
    names = "language gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 sentence2"
    rows = [
        (language, label, *"xxxx", "the fox", f"a {language}") for language in ("de", "en", "fr") for label in LABELS
    ]
    for split in ("dev", "test"):
        write(folder / f"xnli.{split}.tsv", names.split(), *rows)
    return folder


@pytest.mark.parametrize("order", ["glue", "tfds"])
def test_xnli(xnli, make, records, order):
    result = make(xnli, task="xnli", label_order=order, max_seq_length=32)
    sizes = {name: about["records"] for name, about in result.counters.items()}
    assert sizes == {"train": 6, "dev": 9, "test_de": 3, "test_en": 3, "test_fr": 3}
    names = read_meta(result.meta)["label_names"]
    assert sorted(names) == LABELS
    assert (names == LABELS) is (order == "glue")
    expected = ["entailment", "contradiction", "neutral"]  # "contradictory" in the training files
    assert [names[i] for i in records()[:]["label_ids"][:, 0]] == expected * 2
    assert [names[i] for i in records("test_fr")[:]["label_ids"][:, 0]] == LABELS


def test_xnli_in_one_language(xnli, make):
    result = make(xnli, task="XNLI", language="en", max_seq_length=32)
    assert {name: about["records"] for name, about in result.counters.items()} == {"train": 3, "dev": 3, "test_en": 3}
    with pytest.raises(UsageError, match=r"no files of 'zz'. Found: de, en"):
        make(xnli, output="x", task="xnli", language="zz")
    (xnli / "xnli.dev.tsv").unlink()
    with pytest.raises(DataError, match=r"xnli\.dev\.tsv: missing"):
        make(xnli, output="x", task="xnli")


def test_pawsx(tmp_path, make, records):
    rows = [("1", "the fox", "a fox", "1"), ("2", "the dog", "a bank", "0")]
    for language, train in (("en", "train.tsv"), ("ja", "translated_train.tsv")):
        for name in (train, "dev_2k.tsv", "test_2k.tsv"):
            write(tmp_path / "x-final" / language / name, "id\tsentence1\tsentence2\tlabel", *rows)
    result = make(tmp_path / "x-final", task="PAWS-X", max_seq_length=32)
    sizes = {name: about["records"] for name, about in result.counters.items()}
    assert sizes == {"train": 4, "dev": 4, "test_en": 2, "test_ja": 2}
    assert records()[:]["label_ids"][:, 0].tolist() == [1, 0, 1, 0]
    assert set(make(tmp_path / "x-final", output="ja", task="pawsx", language="ja", max_seq_length=32).files) == {
        "train",
        "dev",
        "test_ja",
    }
