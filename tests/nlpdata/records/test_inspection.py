"""Records in words: the text for a small set, and for records that are not quite as expected."""

import numpy as np
import pytest

import nlpdata.records.inspection as inspection
from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import Feature, pretraining_features, write_meta
from nlpdata.records.encoding import encode_examples
from nlpdata.records.inspection import inspect_records
from nlpdata.records.writer import ShardWriter
from tests.shared import shared

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcde", "the", "quick", "fox", "jump", "##ed", "high"]

# The example of records.py, then one whose predictions are a random word and the true word.
FIRST = {
    "input_ids": [2, 10, 4, 12, 3, 4, 14, 15, 3, 0, 0, 0],
    "input_mask": [1] * 9 + [0] * 3,
    "segment_ids": [0] * 5 + [1] * 4 + [0] * 3,
    "token_boundary": [1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 0],
    "masked_lm_positions": [2, 5, 6],
    "masked_lm_ids": [11, 13, 14],
    "masked_lm_weights": [1, 1, 1],
    "next_sentence_labels": [0],
}
SECOND = FIRST | {
    "input_ids": [2, 10, 7, 12, 3, 13, 14, 15, 10, 11, 12, 3],
    "input_mask": [1] * 12,
    "segment_ids": [0] * 5 + [1] * 7,
    "masked_lm_positions": [2, 5, 0],
    "masked_lm_ids": [11, 13, 0],
    "masked_lm_weights": [1, 1, 0],
    "next_sentence_labels": [1],
}


FEATURES = pretraining_features(12, 3)


class Words:
    """Stands in for a tokenizer."""

    vocab_size, unk_id = len(VOCAB), 1

    def pieces(self, ids):
        return [VOCAB[i] for i in ids]


def write(path, *examples, features=FEATURES):
    columns = {
        f.name: np.array([example[f.name] for example in examples], object if f.dtype == "bytes" else f.dtype)
        for f in features
    }
    with ShardWriter(path) as writer:
        writer.write(encode_examples(features, columns)[0], len(examples))
    return path


@pytest.fixture
def loaded(monkeypatch):
    """What load_tokenizer was called with; it returns Words."""
    calls = []

    def load(source, **options):
        calls.append((source, options))
        return Words()

    monkeypatch.setattr(inspection, "load_tokenizer", load)
    return calls


def test_a_small_set(tmp_path, loaded):
    path = write(tmp_path / "x.tfrecord", FIRST, SECOND)
    entry = {"file": "x.tokenizer.model", "special_ids": {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}}
    write_meta(
        tmp_path / "x.meta.json", {"objective": "sop", "label_names": ["in_order", "swapped"], "tokenizer": entry}
    )
    text = inspect_records(path)
    assert loaded == [(entry, {"folder": tmp_path})]
    assert (
        text.replace(str(tmp_path), "DIR")
        == """\
2 records in 1 file, objective sop
features: input_ids int64[12], input_mask int64[12], masked_lm_ids int64[3], masked_lm_positions
  int64[3], masked_lm_weights float32[3], next_sentence_labels int64[1], segment_ids int64[12],
  token_boundary int64[12]

#0 (DIR/x.tfrecord, record 0)  9 tokens, 3 padding (25%), 3 masked, label 0 (in_order)
  A: [CLS] the [MASK:quick] fox [SEP]
  B: [MASK:jump] [##ed] high [SEP]

#1 (DIR/x.tfrecord, record 1)  12 tokens, 0 padding (0%), 2 masked, label 1 (swapped)
  A: [CLS] the [c:quick] fox [SEP]
  B: [=jump] ##ed high the quick fox [SEP]""".replace("[##ed]", "[=##ed]")
    )


def test_without_a_meta_file(tmp_path):
    text = inspect_records(write(tmp_path / "x.tfrecord", FIRST))
    assert "No meta file names a tokenizer: ids are shown. Give a tokenizer to see words." in text
    assert "  A: 2 10 [4:11] 12 3\n  B: [4:13] [=14] 15 3" in text


def test_a_tokenizer_that_is_given(tmp_path, loaded):
    text = inspect_records(write(tmp_path / "x.tfrecord", FIRST), tokenizer="some.model")
    assert loaded == [("some.model", {})]
    assert "[MASK:jump]" in text


def test_a_tokenizer_that_cannot_be_loaded(tmp_path, monkeypatch):
    path = write(tmp_path / "x.tfrecord", FIRST)
    write_meta(tmp_path / "x.meta.json", {"tokenizer": {"file": "gone.model"}})
    text = inspect_records(path)
    assert "Ids are shown: " in text
    assert "gone.model" in text
    with pytest.raises((DataError, UsageError), match=r"gone\.model"):
        inspect_records(path, tokenizer=str(tmp_path / "gone.model"))


def test_which_records(tmp_path):
    path = write(tmp_path / "x.tfrecord", *[FIRST] * 5)
    heads = [line.split()[0] for line in inspect_records(path).splitlines() if line.startswith("#")]
    assert heads == ["#0", "#1", "#2"]
    heads = [line.split()[0] for line in inspect_records(path, first=3, limit=9).splitlines() if line.startswith("#")]
    assert heads == ["#3", "#4"]
    with pytest.raises(UsageError, match="first=5: there are 5 records, numbered from 0"):
        inspect_records(path, first=5)
    for options in ({"first": -1}, {"limit": 0}):
        with pytest.raises(UsageError, match="limit must be at least 1 and first at least 0"):
            inspect_records(path, **options)
    (tmp_path / "empty").touch()
    with pytest.raises(UsageError, match="there are 0 records"):
        inspect_records(tmp_path / "empty")


def test_shards_name_the_file(tmp_path):
    for index in range(2):
        write(tmp_path / f"x.tfrecord-0000{index}-of-00002", FIRST, SECOND)
    text = inspect_records(str(tmp_path / "x*"), first=3)
    assert text.startswith("4 records in 2 files\n")
    assert f"#3 ({tmp_path}/x.tfrecord-00001-of-00002, record 1)" in text


def test_ids_out_of_the_vocabulary(tmp_path, loaded):
    strange = FIRST | {"input_ids": [2, 99, 4, -7, *FIRST["input_ids"][4:]], "masked_lm_ids": [16, 13, 14]}
    text = inspect_records(write(tmp_path / "x.tfrecord", strange), tokenizer="some.model")
    assert "  A: [CLS] ?99 [MASK:?16] ?-7 [SEP]\n" in text


def test_v2_names_dynamic_masking_and_one_segment(tmp_path, loaded):
    features = pretraining_features(12, 3, False, "dynamic", "v2")
    example = FIRST | {"input_word_ids": FIRST["input_ids"], "input_type_ids": [0] * 12}
    text = inspect_records(write(tmp_path / "x.tfrecord", example, features=features), tokenizer="some.model")
    assert text.endswith("9 tokens, 3 padding (25%)\n  A: [CLS] the [MASK] fox [SEP] [MASK] ##ed high [SEP]")


def test_odd_values(tmp_path, loaded):
    odd = FIRST | {
        "input_mask": [5, -3] + [1] * 7 + [0] * 3,
        "masked_lm_positions": [11, -1, 2**40],
        "masked_lm_weights": [np.nan, 1, 1],
        "next_sentence_labels": [7],
    }
    write_meta(tmp_path / "x.meta.json", {"label_names": ["in_order", "swapped"]})
    text = inspect_records(write(tmp_path / "x.tfrecord", odd), tokenizer="some.model")
    assert "7 tokens, 5 padding (42%), 2 masked, label 7\n" in text


@pytest.mark.parametrize(
    "features",
    [
        [Feature("label", "int64", 1), Feature("text", "bytes", 1)],
        [Feature("input_ids", "int64", 2), Feature("input_mask", "int64", 1)],
        [Feature("input_ids", "int64", 2), Feature("segment_ids", "int64", 3)],
        [Feature("input_ids", "int64", 0), Feature("input_mask", "int64", 0)],
    ],
)
def test_other_records_are_printed_as_they_are(tmp_path, features):
    values = {"int64": lambda n: [7] * n, "bytes": lambda n: [b"some text"] * n}
    example = {f.name: values[f.dtype](f.width) for f in features}
    text = inspect_records(write(tmp_path / "x", example, features=features))
    for name, value in example.items():
        assert f"  {name}: [{' '.join(map(str, value))}]" in text


def test_long_lines_are_wrapped_between_pieces(tmp_path, loaded):
    features = pretraining_features(60, 3, False, "dynamic")
    example = {f.name: [1] * 60 for f in features} | {"input_ids": [10, 11, 12] * 20, "segment_ids": [0] * 60}
    lines = inspect_records(write(tmp_path / "x", example, features=features), tokenizer="t").splitlines()
    text = lines[[line[:4] for line in lines].index("  A:") :]
    assert max(map(len, text)) <= 100
    assert " ".join(text).split()[1:] == ["the", "quick", "fox"] * 20


def test_records_of_albert_with_their_tokenizer():
    records = shared("oracle", "create_pretraining", "albert_spm_randomnext_False.tfrecord")
    model = shared("data", "models", "spm", "albert_30k-clean.privately-corp.model")
    text = inspect_records(records, tokenizer=str(model), limit=30)
    assert text.count("\n#") == 30
    assert "A: [CLS] " in text
    assert "[SEP]" in text
    assert "[MASK:▁" in text
