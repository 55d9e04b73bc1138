"""Random access to record files: ours, foreign ones, and damaged ones."""

import gzip
import os
import pickle
import random
import struct

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import Feature, committing_marker, write_meta
from nlpdata.records.encoding import encode_examples, masked_crc
from nlpdata.records.reader import RecordFile, file_crc, find_records, open_records
from nlpdata.records.writer import ShardWriter
from tests.shared import shared

FEATURES = [Feature("ids", "int64", 4), Feature("name", "bytes", 1), Feature("score", "float32", 2)]


def columns(start: int, stop: int, width: int = 4) -> dict:
    numbers = np.arange(start, stop)
    names = np.array([[b"record %d" % i] for i in numbers], object).reshape(-1, 1)
    ids = numbers[:, None] * [1, 100, 10_000, 3][:width]
    return {"ids": ids, "name": names, "score": np.stack([numbers, -numbers], axis=1).astype(np.float32)}


def write(path, start, stop, width=4, compression="none"):
    features = [Feature("ids", "int64", width), *FEATURES[1:]]
    with ShardWriter(path, compression) as writer:
        writer.write(encode_examples(features, columns(start, stop, width))[0], stop - start)
    return path


def frame(data: bytes) -> bytes:
    header = struct.pack("<Q", len(data))
    return header + struct.pack("<I", masked_crc(header)) + data + struct.pack("<I", masked_crc(data))


@pytest.fixture
def three(tmp_path):
    """1000 records in three shards, one of them empty."""
    for index, (start, stop) in enumerate([(0, 400), (400, 400), (400, 1000)]):
        write(tmp_path / f"x.tfrecord-{index:05d}-of-00003", start, stop)
    return str(tmp_path / "x.tfrecord*")


def assert_equal(rows, expected):
    assert list(rows) == ["ids", "name", "score"]
    for name, values in rows.items():
        assert values.dtype == expected[name].dtype
        np.testing.assert_array_equal(values, expected[name])


def test_random_access_equals_sequential(three):
    records = open_records(three)
    assert len(records) == 1000
    assert records.features == tuple(FEATURES)
    assert records.meta is None
    assert_equal(records[:], columns(0, 1000))
    order = np.random.default_rng(1).integers(0, 1000, 700)
    whole = records[:]
    assert_equal(records[order], {name: values[order] for name, values in whole.items()})
    assert_equal(records[order.tolist()], {name: values[order] for name, values in whole.items()})
    for i in (0, 399, 400, 999, np.int32(7), -1, -1000):
        assert_equal(records[i], {name: values[i] for name, values in whole.items()})


def test_slices(three):
    records, whole = open_records(three), columns(0, 1000)
    for part in (slice(390, 410), slice(None, None, -7), slice(-5, None), slice(990, 2000), slice(5, 5), slice(9, 3)):
        assert_equal(records[part], {name: values[part] for name, values in whole.items()})
    assert_equal(records[[]], columns(0, 0))
    assert_equal(records[[-1, 0]], {name: values[[-1, 0]] for name, values in whole.items()})


def test_wrong_indices(three):
    records = open_records(three)
    for index in (1000, -1001, [0, 1000], np.array([-1001])):
        with pytest.raises(IndexError, match="of 1000"):
            records[index]
    for index in (np.ones(1000, bool), [0.5], [[1, 2]], "ids"):
        with pytest.raises(TypeError, match="whole numbers"):
            records[index]


def test_pickle_carries_paths_only(three):
    records = open_records(three)
    data = pickle.dumps(records)
    assert len(data) < 1000
    assert_equal(pickle.loads(data)[395:405], columns(395, 405))


def test_gzip(tmp_path):
    write(tmp_path / "x.tfrecord", 0, 300, compression="gzip")
    records = open_records(tmp_path / "x.tfrecord")
    assert records._files[0].compression == "gzip"
    assert_equal(records[:], columns(0, 300))
    assert_equal(pickle.loads(pickle.dumps(records))[7], {name: v[7] for name, v in columns(0, 300).items()})


@pytest.mark.parametrize("damage", ["cut", "flip", "tail"])
def test_damaged_gzip(tmp_path, damage):
    path = write(tmp_path / "x.tfrecord", 0, 300, compression="gzip")
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-7:]
    elif damage == "flip":
        data[len(data) // 2] ^= 0xFF
    else:
        data += b"more"
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"x.tfrecord: damaged gzip file"):
        open_records(path)


def test_a_record_that_begins_as_gzip_does(tmp_path):
    """A length of 0x8b1f is not gzip's magic number."""
    name = bytes(0x8B1F - 100)
    data = encode_examples([Feature("n", "bytes", 1)], {"n": np.array([[name]], object)})[0]
    name += bytes(0x8B1F + 16 - len(data))
    data = encode_examples([Feature("n", "bytes", 1)], {"n": np.array([[name]], object)})[0]
    assert data[:2] == b"\x1f\x8b"
    (tmp_path / "x").write_bytes(data)
    assert open_records(tmp_path / "x")[0]["n"][0] == name


def test_no_records(tmp_path):
    (tmp_path / "x.tfrecord").touch()
    records = open_records(tmp_path / "x.tfrecord")
    assert (len(records), records.features, records[:]) == (0, (), {})
    with pytest.raises(IndexError):
        records[0]
    (tmp_path / "y.tfrecord").write_bytes(gzip.compress(b""))
    assert len(open_records(tmp_path / "y.tfrecord")) == 0


def test_what_a_pattern_matches(three, tmp_path, monkeypatch):
    files = sorted(tmp_path.iterdir())
    assert find_records(three) == files
    assert find_records([files[1], three]) == [files[1], files[0], files[2]]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=rf"current folder: .*\)\. Did you mean {files[0].name}\?"):
        find_records(f"x{files[0].name}")
    with pytest.raises(UsageError, match=r"no file matches 'y\*'") as error:
        open_records(["x*", "y*"])
    assert os.getcwd() in str(error.value)
    with pytest.raises(UsageError, match="is a folder"):
        open_records(tmp_path)
    odd = write(tmp_path / "a[1]*.tfrecord", 0, 3)  # a name that exists is not a pattern
    assert len(open_records(odd)) == 3


def test_meta_file(three, tmp_path):
    write_meta(tmp_path / "x.meta.json", {"objective": "sop"})
    assert open_records(three).meta["objective"] == "sop"


def test_a_set_that_is_being_replaced_is_refused(three, tmp_path):
    committing_marker(tmp_path / "x").touch()
    with pytest.raises(DataError, match="is being replaced"):
        open_records(three)


def test_a_record_of_another_length(three, tmp_path):
    second = write(tmp_path / "x.tfrecord-00003-of-00003", 0, 5, width=3)
    records = open_records(three)
    message = rf"{second}, record 0: feature 'ids' holds 3 values of int64; the first record, in .* holds 4 of int64"
    with pytest.raises(DataError, match=message):
        records[1000]
    with pytest.raises(DataError, match=message):
        records[995:]
    assert_equal(records[:1000], columns(0, 1000))


def test_a_record_of_another_kind_or_without_a_feature(tmp_path):
    path = write(tmp_path / "x", 0, 3)
    with open(path, "ab") as file:
        file.write(encode_examples(FEATURES[:2], columns(3, 4))[0])
    with pytest.raises(DataError, match=r"x, record 3: feature 'score' holds (nothing|0 values)"):
        open_records(path)[:]
    with pytest.raises(DataError, match=r"x, record 3: feature 'score' holds (nothing|0 values)"):
        open_records(path)[3]
    other = [Feature("ids", "float32", 4), *FEATURES[1:]]
    write(path, 0, 3)
    with open(path, "ab") as file:
        file.write(encode_examples(other, columns(3, 4) | {"ids": np.zeros((1, 4), np.float32)})[0])
    with pytest.raises(DataError, match="x, record 3: feature 'ids' is float32 here and int64"):
        open_records(path)[:]
    with pytest.raises(DataError, match="x, record 3: feature 'ids' holds 4 values of float32"):
        open_records(path)[3]


def test_not_an_example(tmp_path):
    path = write(tmp_path / "x", 0, 3)
    with open(path, "ab") as file:
        file.write(frame(b"hello"))
    records = open_records(path)
    with pytest.raises(DataError, match=r"x, record 3: not a tf.train.Example"):
        records[1:]


def test_truncated(tmp_path):
    path = write(tmp_path / "x", 0, 10)
    data = path.read_bytes()
    last = len(data) - int(RecordFile(path).starts[-1]) + 12
    for cut in range(1, last):
        path.write_bytes(data[:-cut])
        with pytest.raises(DataError) as error:
            open_records(path)
        if cut == 7:
            assert "record 9 at byte" in str(error.value)
            assert "is cut off: 7 of its bytes are missing" in str(error.value)
        assert str(path) in str(error.value)
        assert "record 9" in str(error.value)
    path.write_bytes(data[:-last])
    assert len(open_records(path)) == 9


def test_damaged_length(tmp_path):
    path = write(tmp_path / "x", 0, 10)
    data, at = path.read_bytes(), int(RecordFile(path).starts[4]) - 12
    for byte, bit in [(0, 1), (1, 1), (3, 1), (7, 0x80), (8, 1), (11, 0x80)]:
        changed = bytearray(data)
        changed[at + byte] ^= bit
        path.write_bytes(changed)
        with pytest.raises(DataError, match=rf"x is damaged at record 4, byte {at}: the length there fails"):
            open_records(path)


@pytest.mark.parametrize("data", [b"one line\n", b"a line of text\nand another\n", bytes(100_000), b"\xff" * 64, b"{"])
def test_other_files(tmp_path, data):
    (tmp_path / "corpus.txt").write_bytes(data)
    with pytest.raises(DataError, match=r"corpus.txt is not a TFRecord file"):
        open_records(tmp_path / "corpus.txt")


@pytest.mark.parametrize(("data", "shown"), [("sentence\tlabel\n", "'sentence\\\\tlab'"), ("中文" * 9, "'中文中文'")])
def test_text(tmp_path, data, shown):
    (tmp_path / "a.tsv").write_text(data)
    with pytest.raises(
        DataError, match=rf"begins with text, {shown}\. Records are made of text by nlpdata create-pretraining, "
    ):
        open_records(tmp_path / "a.tsv")


def test_a_wild_length_with_a_right_checksum(tmp_path):
    header = struct.pack("<Q", 1 << 62)
    (tmp_path / "x").write_bytes(header + struct.pack("<I", masked_crc(header)) + b"data")
    with pytest.raises(DataError, match="record 0 at byte 0 is cut off: 4611686018427387904 of its bytes are missing"):
        open_records(tmp_path / "x")


def test_unreadable(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        RecordFile(tmp_path / "x")
    with pytest.raises(DataError, match="cannot be read"):
        file_crc(tmp_path / "x")


def test_damaged_files_raise_nothing_else(tmp_path):
    """Flipped bytes and cuts anywhere: a message with the file, or records."""
    path = write(tmp_path / "x", 0, 20)
    data, generator, refused = path.read_bytes(), random.Random(1), 0
    for _ in range(600):
        changed = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            changed[generator.randrange(len(changed))] = generator.randrange(256)
        if generator.random() < 0.3:
            del changed[generator.randrange(len(changed)) :]
        path.write_bytes(changed)
        try:
            open_records(path)[:]
        except DataError as error:
            refused += str(path) in str(error)
    assert refused > 300


@pytest.mark.parametrize(
    "name", ["albert_spm_randomnext_False", "albert_spm_randomnext_True", "bert_wp", "bert_wp_wwm"]
)
def test_records_of_the_originals(name):
    records = open_records(shared("oracle", "create_pretraining", f"{name}.tfrecord"))
    widths = {f.name: (f.dtype, f.width) for f in records.features}
    expected = {name: ("int64", 64) for name in ("input_ids", "input_mask", "segment_ids")}
    expected |= {
        "masked_lm_positions": ("int64", 10),
        "masked_lm_ids": ("int64", 10),
        "next_sentence_labels": ("int64", 1),
    }
    expected |= {"masked_lm_weights": ("float32", 10)}
    assert expected.items() <= widths.items()
    assert set(widths) - set(expected) <= {"token_boundary"}
    rows = records[:]
    assert (rows["input_mask"].sum(axis=1) > 5).all()
    assert set(np.unique(rows["next_sentence_labels"])) == {0, 1}


def test_records_of_kamalkraj():
    records = open_records(shared("oracle", "create_pretraining", "kamalkraj_spm.tfrecord"))
    assert {f.name: f.width for f in records.features}["masked_lm_ids"] == 10
    assert records[::-1]["input_ids"].shape == (len(records), 64)


@pytest.mark.parametrize("folder", ["s[1]", "q,v/run", "b*", "a b, c?"])
def test_names_that_look_like_patterns_or_lists(folder, tmp_path):
    for place in (folder, "s1", "q", "bb"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        for name in ("x.tfrecord-00000-of-00002", "x.tfrecord-00001-of-00002"):
            (tmp_path / place / name).write_bytes(b"")
    shards = [tmp_path / folder / f"x.tfrecord-0000{i}-of-00002" for i in range(2)]
    start = f"{tmp_path}/{folder}/x.tfrecord"
    for given in (
        f"{start}*",
        [f"{start}*"],
        f"{start}-00000-of-00002,{start}-00001-of-00002",
        f"{start}-?000*, {start}-00001*",
    ):
        assert find_records(given) == shards, given
    with pytest.raises(UsageError, match=r"no file matches '"):
        find_records(f"{start}*,{tmp_path}/{folder}/y.tfrecord*")
