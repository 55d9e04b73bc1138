"""Verification: a sound set passes, and each broken rule is reported with file, record and values, and nothing else."""

import gzip
import json
import os
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import nlpdata
from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import (
    V2_NAMES,
    committing_marker,
    pretraining_features,
    read_meta,
    write_meta,
)
from nlpdata.records.encoding import encode_examples, masked_crc
from nlpdata.records.reader import RecordFile, file_crc
from nlpdata.records.verification import MAX_SHOWN, verify
from nlpdata.records.writer import ShardWriter

# The example of records.py.
EXAMPLE = {
    "input_ids": [2, 10, 4, 12, 3, 4, 14, 15, 3, 0, 0, 0],
    "input_mask": [1] * 9 + [0] * 3,
    "segment_ids": [0] * 5 + [1] * 4 + [0] * 3,
    "token_boundary": [1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 0],
    "masked_lm_positions": [2, 5, 6, 0, 0],
    "masked_lm_ids": [11, 13, 14, 0, 0],
    "masked_lm_weights": [1.0, 1.0, 1.0, 0.0, 0.0],
    "next_sentence_labels": [0],
}
ONE_SEGMENT = EXAMPLE | {
    "input_ids": [2, 10, 4, 12, 13, 4, 14, 15, 3, 0, 0, 0],
    "segment_ids": [0] * 12,
    "token_boundary": [1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 0],
}
VOCAB = "\n".join("[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e the quick fox jump ##ed high".split()).encode() + b"\n"
SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
ROWS = 10
ROOT = Path(__file__).resolve().parents[3]


def batch(example: dict, rows: int = ROWS) -> dict:
    columns = {}
    for name, values in example.items():
        dtype = np.float32 if name == "masked_lm_weights" else np.int64
        columns[name] = np.tile(np.array(values, dtype), (rows, 1))
    return columns


def write(path, features, columns) -> dict:
    """One shard; its entry in the meta file."""
    data, lengths = encode_examples(features, columns)
    with ShardWriter(path) as writer:
        writer.write(data, len(lengths))
    return {"file": path.name, "records": writer.info.records, "crc32c": writer.info.crc32c}


def make_set(folder, shards, objective="sop", masking="static", names="v1", **options):
    """Two shards (or as many as there are column dicts), a tokenizer and the meta file. Returns the pattern."""
    features = pretraining_features(12, 5, objective != "none", masking, names)
    entries = []
    for index, columns in enumerate(shards):
        if names == "v2":
            columns = {V2_NAMES.get(name, name): values for name, values in columns.items()}
        name = f"x.tfrecord-{index:05d}-of-{len(shards):05d}" if len(shards) > 1 else "x.tfrecord"
        entries.append(write(folder / name, features, columns))
    (folder / "x.tokenizer.txt").write_bytes(VOCAB)
    meta = {
        "task_type": {"sop": "albert_pretraining", "nsp": "bert_pretraining", "none": "mlm_pretraining"}[objective],
        "label_names": [] if objective == "none" else ["one", "two"],
        "objective": objective,
        "max_seq_length": 12,
        "max_predictions_per_seq": 5,
        "options": {"objective": objective, "masking": masking, "feature_names": names, **options},
        "shards": entries,
        "tokenizer": {
            "file": "x.tokenizer.txt",
            "type": "wordpiece",
            "do_lower_case": True,
            "sha256": sha256(VOCAB).hexdigest(),
            "vocab_size": 16,
            "special_ids": SPECIAL,
        },
    }
    write_meta(folder / "x.meta.json", meta)
    return str(folder / "x.tfrecord*")


@pytest.mark.parametrize("names", ["v1", "v2"])
@pytest.mark.parametrize("masking", ["static", "dynamic"])
@pytest.mark.parametrize("objective", ["sop", "nsp", "none"])
def test_sound_sets(tmp_path, objective, masking, names):
    columns = batch(ONE_SEGMENT if objective == "none" else EXAMPLE)
    report = verify(make_set(tmp_path, [columns, columns], objective, masking, names))
    assert (report.faults, report.not_checked, report.files, report.records) == ([], [], 2, 20)
    assert str(report) == "2 files, 20 records: no faults"


BROKEN = [  # feature, position, value; or several changes; kind; message
    ("input_mask", 3, 0, "input_mask", "input_mask is not ones followed by zeros"),
    ("input_mask", 11, 1, "input_mask", "input_mask is not ones followed by zeros"),
    ("input_mask", 0, 2, "input_mask", "input_mask is not ones followed by zeros"),
    ("input_ids", 1, 16, "input_ids", "input_ids[1] is 16, expected 0 to 15"),
    ("input_ids", 1, -1, "input_ids", "input_ids[1] is -1, expected 0 to 15"),
    ("input_ids", 10, 99, "input_ids", "input_ids[10] is 99, expected 0 to 15"),
    ("input_ids", 10, 5, "padding", "padding holds ids other than 0"),
    ("input_ids", 0, 7, "[CLS]", "starts with id 7, expected [CLS] (2)"),
    ("input_ids", 8, 7, "[SEP]", "ends with id 7, expected [SEP] (3)"),
    ("input_ids", 4, 7, "[SEP]", "holds [SEP] 1 times, expected 2"),
    ("input_ids", 7, 3, "[SEP]", "holds [SEP] 3 times, expected 2"),
    ("segment_ids", 2, 1, "segment_ids", "segment_ids are not 0 then 1, and 0 on padding"),
    ("segment_ids", 7, 2, "segment_ids", "segment_ids are not 0 then 1, and 0 on padding"),
    ("segment_ids", 11, 1, "segment_ids", "segment_ids are not 0 then 1, and 0 on padding"),
    ("segment_ids", 5, 0, "segment_ids", "segment_ids do not change behind the first [SEP]"),
    ("segment_ids", 4, 1, "segment_ids", "segment_ids do not change behind the first [SEP]"),
    ("token_boundary", 3, 2, "token_boundary", "token_boundary is not 0 or 1, and 0 on padding"),
    ("token_boundary", 9, 1, "token_boundary", "token_boundary is not 0 or 1, and 0 on padding"),
    ("masked_lm_weights", 1, 0, "masked_lm_weights", "masked_lm_weights is not ones followed by zeros"),
    ("masked_lm_weights", 2, 0.5, "masked_lm_weights", "masked_lm_weights is not ones followed by zeros"),
    ("masked_lm_weights", 4, np.nan, "masked_lm_weights", "masked_lm_weights is not ones followed by zeros"),
    ("masked_lm_positions", 3, 7, "masked_lm padding", "masked_lm positions or ids behind the last are not 0"),
    ("masked_lm_ids", 4, 7, "masked_lm padding", "masked_lm positions or ids behind the last are not 0"),
    ("masked_lm_positions", 1, 2, "masked_lm_positions", "masked_lm_positions do not ascend"),
    ("masked_lm_positions", 2, 3, "masked_lm_positions", "masked_lm_positions do not ascend"),
    ("masked_lm_positions", 2, 9, "masked_lm_positions", "masks position 9 of a sequence of 9"),
    ("masked_lm_positions", 0, -1, "masked_lm_positions", "masks position -1 of a sequence of 9"),
    ("masked_lm_positions", 2, 2**40, "masked_lm_positions", f"masks position {2**40} of a sequence of 9"),
    ("masked_lm_positions", 0, 0, "masked special token", "masks [CLS] or [SEP]"),
    ("masked_lm_positions", 1, 4, "masked special token", "masks [CLS] or [SEP]"),
    ("masked_lm_ids", 1, 3, "masked_lm_ids", "masked_lm_ids holds 3, a special id or not in the vocabulary"),
    ("masked_lm_ids", 1, 16, "masked_lm_ids", "masked_lm_ids holds 16, a special id or not in the vocabulary"),
    ("masked_lm_ids", 1, -5, "masked_lm_ids", "masked_lm_ids holds -5, a special id or not in the vocabulary"),
    ("next_sentence_labels", 0, 2, "label", "next_sentence_labels is 2, expected 0 or 1"),
    ("next_sentence_labels", 0, -1, "label", "next_sentence_labels is -1, expected 0 or 1"),
]


@pytest.mark.parametrize("names", ["v1", "v2"])
@pytest.mark.parametrize(("feature", "position", "value", "kind", "message"), BROKEN)
def test_each_rule(tmp_path, names, feature, position, value, kind, message):
    second = batch(EXAMPLE)
    second[feature][7, position] = value
    report = verify(make_set(tmp_path, [batch(EXAMPLE), second], names=names))
    assert report.faults == [f"{tmp_path}/x.tfrecord-00001-of-00002, record 7: {message}"]
    assert report.counts == {kind: 1}
    assert str(report).endswith("2 files, 20 records: 1 fault")


def test_no_prediction(tmp_path):
    columns = batch(EXAMPLE)
    for name in ("positions", "ids", "weights"):
        columns[f"masked_lm_{name}"][4] = 0
    assert verify(make_set(tmp_path, [columns])).faults == [f"{tmp_path}/x.tfrecord, record 4: has no masked position"]


def test_one_segment_ends_with_its_only_sep(tmp_path):
    columns = batch(ONE_SEGMENT)
    columns["input_ids"][4] = EXAMPLE["input_ids"]
    columns["segment_ids"][5, 8] = 1
    assert verify(make_set(tmp_path, [columns], "none")).faults == [
        f"{tmp_path}/x.tfrecord, record 4: holds [SEP] 2 times, expected 1",
        f"{tmp_path}/x.tfrecord, record 5: segment_ids do not change behind the first [SEP]",
    ]


def test_packed_documents_have_sep_between_them(tmp_path):
    columns = batch(EXAMPLE | {"segment_ids": [0] * 12})
    columns["input_ids"][3] = ONE_SEGMENT["input_ids"]
    columns["input_ids"][[4, 5], [1, 3]] = SPECIAL["sep"]
    columns["segment_ids"][6, 8] = 1
    del columns["next_sentence_labels"]
    assert verify(make_set(tmp_path, [columns], "none", pack_across_documents=True)).faults == [
        f"{tmp_path}/x.tfrecord, record 4: holds [SEP] with no document in front of it",
        f"{tmp_path}/x.tfrecord, record 5: holds [SEP] with no document in front of it",
        f"{tmp_path}/x.tfrecord, record 6: segment_ids are not 0",
    ]


def test_twenty_of_a_kind_are_listed_and_all_are_counted(tmp_path):
    columns = batch(EXAMPLE, 3000)  # more than one batch
    columns["next_sentence_labels"][::2] = 5
    columns["input_ids"][[3, 2999], 1] = 77
    report = verify(make_set(tmp_path, [columns]))
    assert report.counts == {"label": 1500, "input_ids": 2}
    assert len(report.faults) == MAX_SHOWN + 2
    assert f"{tmp_path}/x.tfrecord, record 2999: input_ids[1] is 77, expected 0 to 15" in report.faults
    assert str(report).splitlines()[-2:] == ["... 1480 more: label", "1 file, 3000 records: 1502 faults"]


def test_records_of_another_shape(tmp_path):
    pattern = make_set(tmp_path, [batch(EXAMPLE), batch(EXAMPLE)])
    file = tmp_path / "x.tfrecord-00001-of-00002"
    meta = read_meta(tmp_path / "x.meta.json")
    columns = batch(EXAMPLE, 1)
    columns |= {new: columns[old] for old, new in V2_NAMES.items()}
    wide = columns | {name: np.pad(columns[name], ((0, 0), (0, 4))) for name in columns if len(columns[name][0]) == 12}

    def faults(features, columns):
        meta["shards"][1] = write(file, features, columns)
        write_meta(tmp_path / "x.meta.json", meta)
        return [fault.removeprefix(f"{file}, record 0: ") for fault in verify(pattern).faults]

    long = ["input_ids", "input_mask", "segment_ids", "token_boundary"]
    assert faults(pretraining_features(16, 5), wide) == [
        f"feature {name!r} has 16 values of int64, expected 12 of int64" for name in long
    ]
    assert faults(pretraining_features(12, 5, False), columns) == [
        "lacks feature 'next_sentence_labels'; expected 1 values of int64"
    ]
    assert faults(pretraining_features(12, 5, names="v2"), columns) == [
        "lacks feature 'input_ids'; expected 12 values of int64",
        "lacks feature 'segment_ids'; expected 12 values of int64",
        "has a feature 'input_type_ids' (12 of int64) that the set does not have",
        "has a feature 'input_word_ids' (12 of int64) that the set does not have",
    ]
    # Without the meta file, the first record of the set says how the others must be.
    write(file, pretraining_features(16, 5), wide)
    (tmp_path / "x.meta.json").unlink()
    report = verify(pattern)
    assert report.counts == {"shape": 4}
    assert report.faults[0] == f"{file}, record 0: feature 'input_ids' has 16 values of int64, expected 12 of int64"


def test_missing_and_extra_files(tmp_path):
    pattern = make_set(tmp_path, [batch(EXAMPLE, rows) for rows in (10, 10, 9)])
    extra = tmp_path / "x.tfrecord-00003-of-00003"
    (tmp_path / "x.tfrecord-00001-of-00003").rename(extra)
    names = ", ".join(f"x.tfrecord-0000{i}-of-00003" for i in range(3))
    report = verify(pattern)
    assert report.faults == [
        f"{tmp_path}/x.tfrecord-00001-of-00003: missing; the meta file lists it",
        f"{extra}: not in the meta file, which lists {names}",
    ]
    assert report.counts == {"missing file": 1, "extra file": 1}
    # Without the meta file, the numbers in the names tell.
    (tmp_path / "x.meta.json").rename(tmp_path / "kept")
    extra.unlink()
    fault = f"{tmp_path}/x.tfrecord: 2 of 3 shards are there; 00001 is missing"
    assert verify(pattern).faults == [fault]
    (tmp_path / "kept").rename(tmp_path / "x.meta.json")
    # A part of a set may be verified alone.
    write(extra, pretraining_features(12, 5), batch(EXAMPLE))
    extra.rename(tmp_path / "x.tfrecord-00001-of-00003")
    assert verify(tmp_path / "x.tfrecord-00001-of-00003").faults == []


def test_count_and_checksum_of_the_meta_file(tmp_path):
    pattern = make_set(tmp_path, [batch(EXAMPLE)])
    file, meta = tmp_path / "x.tfrecord", read_meta(tmp_path / "x.meta.json")
    meta["shards"][0] |= {"records": 11, "crc32c": "12345678"}
    write_meta(tmp_path / "x.meta.json", meta)
    assert verify(pattern).faults == [
        f"{file}: crc32c is {file_crc(file)}, the meta file says 12345678",
        f"{file}: 10 records, the meta file says 11",
    ]


def test_tokenizer(tmp_path):
    pattern = make_set(tmp_path, [batch(EXAMPLE)])
    file = tmp_path / "x.tokenizer.txt"
    file.write_bytes(b"another")
    assert verify(pattern).faults == [f"{file}: is not the tokenizer of these records (its sha256 differs)"]
    file.unlink()
    assert verify(pattern).faults == [f"{file}: missing; the meta file names it as the tokenizer"]


def test_damaged_files(tmp_path):
    pattern = make_set(tmp_path, [batch(EXAMPLE)] * 2)
    file = tmp_path / "x.tfrecord-00000-of-00002"
    data, starts = file.read_bytes(), RecordFile(file).starts
    changed = bytearray(data)
    changed[starts[6] + 40] ^= 4
    file.write_bytes(changed)
    report = verify(pattern)
    assert report.counts == {"file checksum": 1, "record checksum": 1}
    assert report.faults[1] == f"{file}, record 6: the data fails its checksum"
    assert report.records == 20

    file.write_bytes(data[:-7])
    report = verify(pattern)
    assert report.counts == {"file checksum": 1, "framing": 1}
    at = starts[9] - 12
    assert report.faults[1] == f"{file}: record 9 at byte {at} is cut off: 7 of its bytes are missing"

    changed = bytearray(data)
    changed[starts[6] - 12] ^= 4
    file.write_bytes(changed)
    assert "is damaged at record 6, byte" in verify(pattern).faults[1]
    assert verify(pattern).records == 10  # the other file is read all the same


def frame(data: bytes) -> bytes:
    header = len(data).to_bytes(8, "little")
    return header + masked_crc(header).to_bytes(4, "little") + data + masked_crc(data).to_bytes(4, "little")


def test_records_that_are_no_examples(tmp_path):
    make_set(tmp_path, [batch(EXAMPLE)])
    file = RecordFile(tmp_path / "x.tfrecord")
    good = [file.record(i) for i in range(10)]
    records = [good[0], b"hello", *good[1:4], b"\x0a\xff", b"", *good[4:]]
    (tmp_path / "y.tfrecord").write_bytes(b"".join(map(frame, records)))
    report = verify(tmp_path / "y.tfrecord")
    assert report.counts == {"not an Example": 2, "shape": 8}
    assert report.faults[0].startswith(f"{tmp_path}/y.tfrecord, record 1: not a tf.train.Example")
    assert report.faults[1].startswith(f"{tmp_path}/y.tfrecord, record 5: not a tf.train.Example")
    assert all("record 6: " in fault for fault in report.faults[2:])
    # Nothing but noise, and every second record noise: reported soon.
    for noise in ([b"hello"] * 1500, [good[0], b"hello"] * 300):
        (tmp_path / "y.tfrecord").write_bytes(b"".join(map(frame, noise)))
        assert verify(tmp_path / "y.tfrecord").counts == {"not an Example": noise.count(b"hello")}


def test_without_a_meta_file(tmp_path):
    columns = batch(EXAMPLE)
    columns["input_ids"][2, 1] = 10**6  # cannot be known to be wrong
    columns["input_ids"][3, 1] = -3
    columns["input_mask"][4, 3] = 0
    make_set(tmp_path, [columns])
    (tmp_path / "x.meta.json").unlink()
    file = tmp_path / "x.tfrecord"
    report = verify(file)
    assert report.faults == [
        f"{file}, record 4: input_mask is not ones followed by zeros",
        f"{file}, record 3: input_ids[1] is -3, expected 0 or more",
    ]
    what = "number of records, file checksums, vocabulary range, special ids, tokenizer"
    assert report.not_checked == [f"{file}: {what} (there is no meta file next to it)"]
    assert f"not checked: {file}: " in str(report)
    write_meta(tmp_path / "x.meta.json", {"task_type": "albert_pretraining", "train_data_size": 10})
    assert "(its meta file is an older tool's)" in verify(file).not_checked[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"shards": [{"file": "x.tfrecord"}]},
        {"shards": 3},
        {"tokenizer": "bert"},
        {"tokenizer": {"special_ids": {"pad": 0}}},
        {"options": {"masking": "sometimes"}},
        {"max_seq_length": "long", "options": 3},
    ],
)
def test_a_meta_file_that_makes_no_sense_is_a_fault(tmp_path, changes):
    make_set(tmp_path, [batch(EXAMPLE)])
    write_meta(tmp_path / "x.meta.json", read_meta(tmp_path / "x.meta.json") | changes)
    report = verify(tmp_path / "x.tfrecord")
    assert report.counts == {"meta file": 1}
    assert str(tmp_path / "x.meta.json") in report.faults[0]
    (tmp_path / "x.meta.json").write_text("{")
    assert verify(tmp_path / "x.tfrecord").counts == {"meta file": 1}


def test_features_that_do_not_belong_together(tmp_path):
    """Records of others may hold these names with other shapes."""
    features = [f for f in pretraining_features(12, 5) if f.name != "input_mask"]
    mask = [f for f in pretraining_features(8, 5) if f.name == "input_mask"]
    write(tmp_path / "x.tfrecord", features + mask, batch(EXAMPLE) | {"input_mask": np.ones((ROWS, 8), int)})
    report = verify(tmp_path / "x.tfrecord")
    assert report.counts == {"shape": ROWS}
    assert "expected numbers, the same count of each" in report.faults[0]


def test_what_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no file matches"):
        verify(tmp_path / "x*")
    pattern = make_set(tmp_path, [batch(EXAMPLE)])
    committing_marker(tmp_path / "x").touch()
    with pytest.raises(DataError, match="is being replaced"):
        verify(pattern)


def test_two_sets_and_an_empty_file(tmp_path):
    make_set(tmp_path, [batch(EXAMPLE)])
    (tmp_path / "y.tfrecord").touch()
    report = verify([tmp_path / "x.tfrecord", tmp_path / "y.tfrecord"])
    assert (report.files, report.records) == (2, 10)
    assert report.faults == [f"{tmp_path}/y.tfrecord: holds no records"]
    assert [text.split(":")[0] for text in report.not_checked] == [str(tmp_path / "y.tfrecord")]


def test_an_empty_split_that_the_meta_file_promises(tmp_path):
    make_set(tmp_path, [batch(EXAMPLE, 0)])
    assert verify(tmp_path / "x.tfrecord").faults == []


def test_what_is_not_a_file(tmp_path):
    os.mkfifo(tmp_path / "fifo.tfrecord")
    for path in (tmp_path / "fifo.tfrecord", "/dev/zero"):
        report = verify(path)
        assert report.faults == [f"{path}: is a device or a pipe, not a file"]
        with pytest.raises(DataError, match="is a device or a pipe, not a file"):
            RecordFile(path)


@pytest.mark.parametrize("content", ["{}", '{"a": 1}'])
def test_a_meta_file_that_says_nothing(content, tmp_path):
    make_set(tmp_path, [batch(EXAMPLE)])
    (tmp_path / "x.meta.json").write_text(content)
    report = verify(tmp_path / "x.tfrecord")
    assert report.counts == {"meta file": 1}
    assert "is not a meta file of records: it has none of task_type, " in report.faults[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": 17}, "has vocab_size 16, the meta file says 17"),
        ({"vocab_size": 15}, "has vocab_size 16, the meta file says 15"),
        (
            {"special_ids": SPECIAL | {"mask": 5}},
            "the meta file says {'cls': 2, 'mask': 5, 'pad': 0, 'sep': 3, 'unk': 1}",
        ),
    ],
)
def test_what_the_tokenizer_itself_says(changes, words, tmp_path):
    make_set(tmp_path, [batch(EXAMPLE)])
    meta = read_meta(tmp_path / "x.meta.json")
    write_meta(tmp_path / "x.meta.json", meta | {"tokenizer": meta["tokenizer"] | changes})
    faults = verify(tmp_path / "x.tfrecord").faults
    assert faults[0].startswith(f"{tmp_path}/x.tokenizer.txt: ")
    assert words in faults[0]


def test_numbers_of_the_meta_file_that_disagree(tmp_path):
    make_set(tmp_path, [batch(EXAMPLE), batch(EXAMPLE, 3)])
    meta = read_meta(tmp_path / "x.meta.json")
    write_meta(tmp_path / "x.meta.json", meta | {"split": "train", "train_data_size": 13})
    assert verify(f"{tmp_path}/x.tfrecord*").faults == []
    write_meta(tmp_path / "x.meta.json", meta | {"split": "train", "train_data_size": 20})
    where = f"{tmp_path}/x.tfrecord"
    assert verify(f"{where}*").faults == [f"{where}: the meta file's train_data_size is 20, its shards have 13 records"]


def test_what_the_meta_file_says_twice(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n" + "the house,yes\na river,no\n" * 5)
    vocab = ROOT / "tests/nlpdata/golden/vocab.txt"
    options = {"task": "classification", "max_seq_length": 8, "workers": 1, "accept_loss": True}
    nlpdata.create_finetuning(input=tmp_path / "a.csv", output=tmp_path / "ft", tokenizer=vocab, **options)
    file, path = tmp_path / "ft/train.tfrecord", tmp_path / "ft/meta.json"
    assert verify(file).faults == []
    meta = read_meta(path)
    for changes, words in (
        ({"num_labels": 3}, "num_labels is 3, its label_names are 2"),
        ({"label_names": ["no"]}, "num_labels is 2, its label_names are 1"),
        ({"label_names": ["no", "no"]}, "label_names no, no names a class twice"),
        ({"max_seq_length": 16}, "max_seq_length is 16, its splits.train.features have 8"),
        ({"train_data_size": 9}, "train_data_size is 9, its splits have 10 records"),
    ):
        write_meta(path, meta | changes)
        assert verify(file).faults == [f"{file}: the meta file's {words}"]
    write_meta(path, meta | {"shards": [meta["shards"][0] | {"file": "other.tfrecord"}]})
    assert verify(file).not_checked[0].endswith(f"tokenizer ({path} does not list it)")


def without_meta(folder, shards):
    make_set(folder, shards)
    (folder / "x.meta.json").unlink()
    return str(folder / "x.tfrecord*")


def test_shards_without_a_meta_file(tmp_path):
    pattern = without_meta(tmp_path, [batch(EXAMPLE, rows) for rows in (3, 4, 3)])
    (tmp_path / "x.tfrecord-00000-of-00002").write_bytes((tmp_path / "x.tfrecord-00001-of-00003").read_bytes())
    where = f"{tmp_path}/x.tfrecord"
    assert verify(pattern).faults == [
        f"{where}: shards of 2 and 3 files are there; those of one set are left over. Remove them",
        f"{where}: 1 of 2 shards are there; 00001 is missing",
        f"{where}-00001-of-00003: has the content of x.tfrecord-00000-of-00002; each shard has its own records",
        f"{where}-00002-of-00003: has the content of x.tfrecord-00000-of-00003; each shard has its own records",
    ]


def test_records_of_two_settings_without_a_meta_file(tmp_path):
    """Of two tokenizers, in one file and in two; of two lengths. Records whose texts have no [CLS] are not taken for a mixture."""
    other = EXAMPLE | {"input_ids": [101, *EXAMPLE["input_ids"][1:8], 102, 0, 0, 0]}
    both = {name: np.concatenate([batch(EXAMPLE)[name], batch(other)[name]]) for name in EXAMPLE}
    report = verify(without_meta(tmp_path, [both]))
    assert report.faults == [
        "x.tfrecord: texts begin and end with different ids (10 of 2 ... 3, 10 of 101 ... 102): records of different tokenizers"
    ]
    for name, example in (("a", EXAMPLE), ("b", other), ("c", EXAMPLE)):
        without_meta(tmp_path, [batch(example)])
        (tmp_path / "x.tfrecord").rename(tmp_path / f"{name}.tfrecord")
    assert verify([tmp_path / "a.tfrecord", tmp_path / "c.tfrecord"]).faults == []
    assert (
        "a.tfrecord, b.tfrecord: texts begin and end"
        in verify([tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"]).faults[0]
    )
    write(
        tmp_path / "d.tfrecord",
        pretraining_features(12, 4),
        {n: v[:, :4] if "masked" in n else v for n, v in batch(EXAMPLE).items()},
    )
    assert verify([tmp_path / "a.tfrecord", tmp_path / "d.tfrecord"]).faults == [
        f"{tmp_path}/d.tfrecord: is of another setting than a.tfrecord (masked_lm_ids is int64[4], there int64[5]), and no meta "
        "file says why. If that is right, verify each by itself"
    ]
    free = batch(EXAMPLE, 40)
    free["input_ids"][:, 0] = np.arange(40) + 5
    assert verify(without_meta(tmp_path, [free])).faults == []


@pytest.fixture
def questions(tmp_path):
    """Records of six SQuAD questions with their examples file."""
    source = ROOT / "tests/nlpdata/golden"
    article = {"title": "t", "paragraphs": [{"context": "The house is old.", "qas": [
        {"id": f"q{i}", "question": "What is old?", "answers": [{"text": "house", "answer_start": 4}]} for i in range(6)
    ]}]}  # fmt: skip
    (tmp_path / "in").mkdir()
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        (tmp_path / "in" / name).write_text(json.dumps({"version": "1.1", "data": [article]}))
    nlpdata.create_finetuning(
        task="squad", input=str(tmp_path / "in"), output=str(tmp_path / "out"), tokenizer=source / "vocab.txt",
        do_lower_case=True, max_seq_length=48, max_query_length=16, doc_stride=16, workers=1,
    )  # fmt: skip
    return tmp_path / "out"


def test_questions(questions):
    (file,) = questions.glob("*.examples.jsonl.gz")
    records = str(questions / "*.tfrecord*")
    assert verify(records).faults == []
    lines = gzip.decompress(file.read_bytes()).decode().splitlines(keepends=True)
    whole = file.read_bytes()
    for content, words in (
        (whole[: len(whole) // 2], "cannot be read as questions: EOFError"),
        (whole[:20] + bytes([whole[20] ^ 255]) + whole[21:], "cannot be read as questions"),
        (gzip.compress(b"{}\n"), ", after line 1: cannot be read as questions: KeyError: 'example_id'"),
        (gzip.compress("".join(lines[1:]).encode()), "1 questions of the records, such as 'q0', are not in "),
        (gzip.compress("".join([*lines, lines[2]]).encode()), f"{file}, line 7: question 'q2' is there twice"),
    ):
        file.write_bytes(content)
        faults = verify(records).faults
        assert len(faults) == 1
        assert words in faults[0]
    file.unlink()
    assert "cannot be read as questions: No such file or directory" in verify(records).faults[0]


def test_damaged_records_raise_nothing(tmp_path):
    """Random bytes in records whose checksums are right: verification reports or accepts them."""
    make_set(tmp_path, [batch(EXAMPLE, 1)])
    record = RecordFile(tmp_path / "x.tfrecord").record(0)
    generator = np.random.default_rng(1)
    records = []
    for _ in range(700):
        changed = bytearray(record)
        for _ in range(generator.integers(1, 4)):
            changed[generator.integers(len(changed))] = generator.integers(256)
        records.append(bytes(changed[: generator.integers(len(changed))] if generator.random() < 0.2 else changed))
    meta = read_meta(tmp_path / "x.meta.json")
    for number, with_meta in ((0, True), (1, False), (2, False)):
        part = records if with_meta else records[number * 7 :]
        (tmp_path / "x.tfrecord").write_bytes(b"".join(map(frame, part)))
        if with_meta:
            meta["shards"][0] |= {"records": len(part), "crc32c": file_crc(tmp_path / "x.tfrecord")}
            write_meta(tmp_path / "x.meta.json", meta)
        else:
            (tmp_path / "x.meta.json").unlink(missing_ok=True)
        report = verify(tmp_path / "x.tfrecord")
        assert report.records == len(part)
        assert report.counts["not an Example"] > 70


def test_progress_is_in_bytes_also_within_a_file(tmp_path):
    path, packed, broken = (tmp_path / name for name in ("a.tfrecord", "a.tfrecord.gz", "b.tfrecord"))
    with ShardWriter(path) as writer:
        for _ in range(4):
            writer.write(
                encode_examples(pretraining_features(12, 5, True, "static", "v1"), batch(EXAMPLE, 1024))[0], 1024
            )
    packed.write_bytes(gzip.compress(path.read_bytes()))
    broken.write_bytes(path.read_bytes()[:-1])
    for file in (path, packed, broken):
        done: list[int] = []
        verify(file, done.append)
        assert min(done) >= 0, file
        assert sum(done) == file.stat().st_size, file
        assert len(done) > 5 or file is broken, file  # four batches of records, and the passes before
        opened: list[int] = []
        if file is not broken:
            nlpdata.open_records(file, opened.append)
            assert sum(opened) == file.stat().st_size, file
