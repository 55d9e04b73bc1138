"""Decoding, random access, verification and inspection of records."""

import contextlib
import json
import pickle
import re
import struct
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.decoding import MalformedExample, decode_examples, parse_example
from nlpdata.errors import DataError, UsageError
from nlpdata.example import encode_examples, masked_crc
from nlpdata.inspection import inspect_records
from nlpdata.reading import open_records
from nlpdata.records import Feature, committing_marker, pretraining_features, write_meta
from nlpdata.tfrecord import ShardWriter
from nlpdata.verification import verify
from tests.shared import shared

L, P, N = 16, 3, 40
SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


def framed(*examples: bytes) -> bytes:
    parts = []
    for example in examples:
        head = struct.pack("<Q", len(example))
        parts += [head, struct.pack("<I", masked_crc(head)), example, struct.pack("<I", masked_crc(example))]
    return b"".join(parts)


def columns(n=N, seed=0):
    """Correct records by hand: `[CLS] a a a [SEP] b b ... [SEP]`, two masks."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(9, L + 1, n)
    ids = rng.integers(5, 200, (n, L))
    position = np.arange(L)
    real = position < lengths[:, None]
    ids[:, 0], ids[:, 4] = 2, 3
    ids[np.arange(n), lengths - 1] = 3
    ids[~real] = 0
    positions = np.tile([1, 6, 0], (n, 1))
    labels = np.take_along_axis(ids, positions, axis=1)
    labels[:, 2] = 0
    ids[:, 1] = 4
    return {
        "input_ids": ids,
        "input_mask": real.astype(np.uint8),
        "segment_ids": ((position > 4) & real).astype(np.uint8),
        "token_boundary": real.astype(np.uint8),
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": np.tile(np.float32([1, 1, 0]), (n, 1)),
        "next_sentence_labels": rng.integers(0, 2, (n, 1)),
    }


def write_set(folder, data=None, name="t.tfrecord", meta=True):
    data = columns() if data is None else data
    payload, lengths = encode_examples(pretraining_features(L, P, "sop"), data)
    (folder / "t.tokenizer.txt").write_text("x\n")
    with ShardWriter(folder / name) as writer:
        writer.write(payload, len(lengths))
    if meta:
        digest = sha256(b"x\n").hexdigest()
        tokenizer = {"file": "t.tokenizer.txt", "sha256": digest, "vocab_size": 200, "special_ids": SPECIAL}
        shards = [{"file": name, "records": writer.info.records, "crc32c": writer.info.crc32c}]
        options = {"objective": "sop", "masking": "static", "feature_names": "v1"}
        content = {"task_type": "albert_pretraining", "objective": "sop", "max_seq_length": L, "options": options}
        content |= {"max_predictions_per_seq": P, "tokenizer": tokenizer, "shards": shards}
        write_meta(folder / "t.meta.json", content | {"label_names": ["in_order", "swapped"]})
    return folder / name


# ------------------------------------------------------------------------------------------------------------ decoding


def test_encoded_columns_come_back(tmp_path):
    data = columns()
    records = open_records(write_set(tmp_path, data))
    assert len(records) == N
    assert {f.name: (f.dtype, f.width) for f in records.features} == {
        f.name: (f.dtype, f.width) for f in pretraining_features(L, P, "sop")
    }
    batch = records[:]
    for name, values in data.items():
        np.testing.assert_array_equal(batch[name], values)
        assert batch[name].dtype == ("float32" if name == "masked_lm_weights" else "int64")
    np.testing.assert_array_equal(records[np.array([3, -1])]["input_ids"], data["input_ids"][[3, -1]])
    np.testing.assert_array_equal(records[-2]["input_ids"], data["input_ids"][-2])
    assert records[5:5]["input_ids"].shape == (0, L)
    assert len(pickle.loads(pickle.dumps(records))) == N
    with pytest.raises(IndexError):
        records[N]


VALUES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)


@settings(max_examples=150, deadline=None)
@given(batch=st.lists(st.dictionaries(st.sampled_from("abcé"), VALUES, max_size=4), min_size=1, max_size=4))
def test_any_layout_is_decoded(batch):
    """Features in any order, absent or empty, negative values, packed and not: against a hand-made wire format."""

    def varint(value):
        value &= (1 << 64) - 1
        out = b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    def field(number, body):
        return varint(number << 3 | 2) + varint(len(body)) + body

    def int64_list(values, packed):
        if packed:
            return field(1, b"".join(map(varint, values)))
        return b"".join(varint(1 << 3) + varint(value) for value in values)

    def example(features, packed):
        entries = [
            field(1, field(1, name.encode()) + field(2, field(3, int64_list(values, packed))))
            for name, values in features.items()
        ]
        return field(1, b"".join(entries))

    for packed in (True, False):
        parts = [example(features, packed) for features in batch]
        stops = np.cumsum([len(part) for part in parts])
        found = decode_examples(b"".join(parts), stops - [len(part) for part in parts], stops)
        for name, column in found.items():
            rows = np.split(np.array(column.values, object), np.cumsum(column.counts)[:-1])
            assert [row.tolist() for row in rows] == [features.get(name, []) for features in batch]
        assert {name for features in batch for name in features} == set(found)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_examples_are_refused_or_read(data):
    payload, lengths = encode_examples(pretraining_features(L, P, "sop"), columns(1))
    record = bytearray(payload[12 : lengths[0] - 4])
    for _ in range(data.draw(st.integers(1, 4))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    record = bytes(record[: data.draw(st.integers(0, len(record)))])
    with contextlib.suppress(MalformedExample):  # and nothing else
        decode_examples(record, np.array([0]), np.array([len(record)]))


def test_floats_and_bytes():
    payload, lengths = encode_examples([Feature("f", "float32", 3)], {"f": np.float32([[0.5, -1, 3e38]])})
    assert parse_example(payload[12 : lengths[0] - 4]) == {"f": ("float32", np.float32([0.5, -1, 3e38]).tolist())}


def test_records_of_the_original_tools():
    for name, width in (("bert_wp", 64), ("albert_spm_randomnext_False", 64), ("kamalkraj_spm", 64)):
        records = open_records(shared("oracle", "create_pretraining", f"{name}.tfrecord"))
        batch = records[:]
        assert batch["input_ids"].shape == (len(records), width)
        assert batch["masked_lm_weights"].dtype == np.float32
        assert set(np.unique(batch["next_sentence_labels"])) <= {0, 1}


# ------------------------------------------------------------------------------------------------------- damaged files


def test_truncated_shard_is_named(tmp_path):
    path = write_set(tmp_path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(DataError, match=rf"t\.tfrecord: record {N - 1} at byte \d+ is cut off"):
        open_records(path)
    assert any("cut off" in fault for fault in verify(path).faults)


def test_wild_length_is_refused(tmp_path):
    path = write_set(tmp_path)
    data = bytearray(path.read_bytes())
    data[4] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(DataError, match="is not a TFRecord file"):
        open_records(path)


def test_text_is_no_tfrecord(tmp_path):
    (tmp_path / "a.txt").write_text("hello world, this is text\n" * 9)
    with pytest.raises(DataError, match="is not a TFRecord file"):
        open_records(tmp_path / "a.txt")


def test_no_match_names_pattern_and_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no file matches 'x\*' \(current folder: "):
        open_records("x*")


def test_record_of_another_length_is_named(tmp_path):
    write_set(tmp_path, columns(3), "t.tfrecord-00000-of-00002", meta=False)
    other = {name: values[:, : max(1, values.shape[1] // 2)] for name, values in columns(2).items()}
    features = [Feature(f.name, f.dtype, max(1, f.width // 2)) for f in pretraining_features(L, P, "sop")]
    payload, lengths = encode_examples(features, other)
    with ShardWriter(tmp_path / "t.tfrecord-00001-of-00002") as writer:
        writer.write(payload, len(lengths))
    records = open_records(str(tmp_path / "t.tfrecord*"))
    with pytest.raises(DataError, match=r"00001-of-00002, record 0: feature 'input_ids' holds 8 .*holds 16"):
        records[:]


def test_readers_refuse_while_a_set_is_replaced(tmp_path):
    path = write_set(tmp_path)
    committing_marker(path).touch()
    with pytest.raises(DataError, match="being replaced"):
        open_records(path)


def test_gzip_is_recognised(tmp_path):
    payload, lengths = encode_examples(pretraining_features(L, P, "sop"), columns())
    with ShardWriter(tmp_path / "z.tfrecord", "gzip") as writer:
        writer.write(payload, len(lengths))
    np.testing.assert_array_equal(open_records(tmp_path / "z.tfrecord")[:]["input_ids"], columns()["input_ids"])
    (tmp_path / "z.tfrecord").write_bytes((tmp_path / "z.tfrecord").read_bytes()[:-20])
    with pytest.raises(DataError, match="damaged gzip file"):
        open_records(tmp_path / "z.tfrecord")


# -------------------------------------------------------------------------------------------------------- verification


def test_a_correct_set_has_no_faults(tmp_path):
    report = verify(write_set(tmp_path))
    assert report.faults == []
    assert report.not_checked == []
    assert report.records == N
    assert "no faults" in str(report)


BREAKS = {
    "input_mask is not ones": ("input_mask", 3, 1),
    r"input_ids\[2\] is 200, expected 0 to 199": ("input_ids", 2, 200),
    r"starts with id 9, expected \[CLS\]": ("input_ids", 0, 9),
    r"holds \[SEP\] 1 times": ("input_ids", 4, 9),
    "segment_ids are not": ("segment_ids", 0, 1),
    "token_boundary is not": ("token_boundary", 1, 2),
    "masked_lm_weights is not": ("masked_lm_weights", 0, 0.5),
    "do not ascend": ("masked_lm_positions", 1, 1),
    r"masks position 99 of a sequence": ("masked_lm_positions", 1, 99),
    "a special id or not": ("masked_lm_ids", 0, 3),
    r"masks \[CLS\] or \[SEP\]": ("masked_lm_positions", 0, 0),
    "next_sentence_labels is 7": ("next_sentence_labels", 0, 7),
    "behind the last are not 0": ("masked_lm_ids", 2, 9),
}


@pytest.mark.parametrize("words", BREAKS)
def test_each_broken_rule_is_found(tmp_path, words):
    name, column, value = BREAKS[words]
    data = columns()
    data[name] = data[name].astype(np.float32 if name == "masked_lm_weights" else np.int64)
    if name == "input_mask":
        value = 0
    data[name][17, column] = value
    report = verify(write_set(tmp_path, data))
    assert any(fault.startswith(f"{tmp_path / 't.tfrecord'}, record 17: ") for fault in report.faults)
    assert all("record 17" in fault for fault in report.faults)
    assert any(re.search(words, fault) for fault in report.faults), report.faults


def test_no_prediction_is_found(tmp_path):
    data = columns()
    for name in ("masked_lm_weights", "masked_lm_positions", "masked_lm_ids"):
        data[name][5] = 0
    assert verify(write_set(tmp_path, data)).faults == [f"{tmp_path / 't.tfrecord'}, record 5: has no masked position"]


def test_flipped_bit_is_found(tmp_path):
    path = write_set(tmp_path)
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    faults = "\n".join(verify(path).faults)
    assert "record 0: the data fails its checksum" in faults
    assert "the meta file says" in faults


def test_many_faults_are_counted(tmp_path):
    data = columns()
    data["next_sentence_labels"][:] = 5
    report = verify(write_set(tmp_path, data))
    assert report.counts["label"] == N
    assert len(report.faults) == 20
    assert "... 20 more: label" in str(report)


def test_meta_file_promises(tmp_path):
    path = write_set(tmp_path)
    meta = json.loads((tmp_path / "t.meta.json").read_text())
    meta["shards"][0]["records"] = 7
    meta["shards"].append({"file": "t.tfrecord-lost", "records": 1, "crc32c": "0"})
    meta["tokenizer"]["sha256"] = "0" * 64
    (tmp_path / "t.meta.json").write_text(json.dumps(meta))
    faults = "\n".join(verify(path).faults)
    assert "40 records, the meta file says 7" in faults
    assert "t.tfrecord-lost: missing" in faults
    assert "is not the tokenizer of these records" in faults


def test_without_a_meta_file_it_says_what_it_could_not_check(tmp_path):
    report = verify(write_set(tmp_path, meta=False))
    assert report.faults == []
    assert "vocabulary range" in report.not_checked[0]


def test_foreign_records_verify():
    report = verify(shared("oracle", "create_pretraining", "bert_wp.tfrecord"))
    assert report.faults == []
    assert report.records == 35


# ---------------------------------------------------------------------------------------------------------- inspection


def test_inspect_without_tokenizer_shows_ids(tmp_path):
    data = columns(2)
    text = inspect_records(write_set(tmp_path, data, meta=False), limit=1)
    assert "2 records in 1 file" in text
    assert f"[4:{data['masked_lm_ids'][0, 0]}]" in text
    assert f"[={data['masked_lm_ids'][0, 1]}]" in text
    with pytest.raises(UsageError, match="numbered from 0"):
        inspect_records(tmp_path / "t.tfrecord", first=2)
