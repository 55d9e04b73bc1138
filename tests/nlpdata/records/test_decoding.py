"""Decoding equals protobuf's parsing, on each of its ways, and refuses everything else in one way."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nlpdata.records.decoding as decoding
from nlpdata.protobuf import varint
from nlpdata.records.contract import Feature, pretraining_features
from nlpdata.records.decoding import MalformedExample, decode_examples, parse_example
from nlpdata.records.encoding import encode_examples
from nlpdata.records.reader import RecordFile
from tests.shared import shared

KINDS = {"bytes": 1, "float32": 2, "int64": 3}  # field numbers in Feature


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def packed(dtype: str, values) -> bytes:
    """The content of a Feature, as protobuf writes it."""
    if dtype == "bytes":
        content = b"".join(field(1, value) for value in values)
    elif not len(values):
        content = b""
    elif dtype == "float32":
        content = field(1, np.array(values, "<f4").tobytes())
    else:
        content = field(1, b"".join(varint(value % (1 << 64)) for value in values))
    return field(KINDS[dtype], content)


def unpacked(dtype: str, values) -> bytes:
    if dtype == "float32":
        return field(2, b"".join(b"\x0d" + np.array(value, "<f4").tobytes() for value in values))
    return field(3, b"".join(b"\x08" + varint(value % (1 << 64)) for value in values))


def entry(name: str, content: bytes) -> bytes:
    return field(1, field(1, name.encode()) + field(2, content))


def example(*entries: bytes) -> bytes:
    return field(1, b"".join(entries))


def decode(records: list[bytes]):
    stops = np.cumsum([len(record) for record in records])
    return decode_examples(b"".join(records), stops - [len(record) for record in records], stops)


def plain(column, row):
    """The values of one record as Python objects; floats as bits, so that NaN equals NaN."""
    end = int(column.counts[: row + 1].sum())
    values = column.values[end - int(column.counts[row]) : end]
    if column.dtype == "float32":
        return values.view(np.uint32).tolist()
    return list(values) if column.dtype == "bytes" else values.tolist()


def assert_decodes(records, expected):
    """expected: one dict a record, name -> (dtype, values)."""
    columns = decode(records)
    assert set(columns) == {name for record in expected for name in record}
    for row, record in enumerate(expected):
        for name, column in columns.items():
            dtype, values = record.get(name, (column.dtype, []))
            values = np.array(values, np.float32).view(np.uint32).tolist() if dtype == "float32" else list(values)
            assert plain(column, row) == values, (row, name)
            assert not values or column.dtype == dtype


@pytest.fixture(scope="module")
def tf():
    return pytest.importorskip("tensorflow")


def protobuf(tf, record: bytes) -> dict:
    """What protobuf reads in a record: name -> (dtype, values)."""
    found = {}
    for name, feature in tf.train.Example.FromString(record).features.feature.items():
        which = feature.WhichOneof("kind")
        dtype = {"bytes_list": "bytes", "float_list": "float32", "int64_list": "int64", None: "int64"}[which]
        found[name] = (dtype, list(getattr(feature, which).value) if which else [])
    return found


VALUES = {
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300),
    "float32": st.floats(width=32, allow_nan=False),
    "bytes": st.binary(max_size=4) | st.just(b"x" * 200),
}
NAMES = ["a", "b", "größe", "n" * 130, ""]


@st.composite
def batches(draw):
    """Records of one set of features, written in every way that protobuf may read."""
    dtypes = {name: draw(st.sampled_from(list(VALUES))) for name in draw(st.sets(st.sampled_from(NAMES)))}
    records = []
    regular = draw(st.booleans())
    for _ in range(draw(st.integers(1, 4))):
        entries = []
        for name, dtype in draw(st.permutations(sorted(dtypes.items()))):
            values = draw(st.lists(VALUES[dtype], max_size=4))
            ways = ["packed"] if regular else ["packed", "unpacked", "twice", "absent", "empty", "split", "unknown"]
            way = draw(st.sampled_from(ways))
            other = packed(dtype, draw(st.lists(VALUES[dtype], max_size=2)))
            content = packed(dtype, values)
            if way == "unpacked" and dtype != "bytes":
                content = unpacked(dtype, values)
            elif way == "twice":  # a map entry of the same name: the last one counts
                entries.append(entry(name, other))
            elif way == "empty":
                content = b""
            elif way == "split":  # one message in two parts: lists are joined
                content = other + content
            elif way == "unknown":
                content += field(9, b"later") + b"\x50\x01"
            if way != "absent":
                entries.append(entry(name, content))
        records.append(example(*entries))
    return records


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(batches())
def test_equals_protobuf(tf, records):
    assert_decodes(records, [protobuf(tf, record) for record in records])


def test_what_protobuf_writes(tf):
    generator = random.Random(1)
    records = []
    for count in range(40):
        message = tf.train.Example()
        names = ["ids", "weights", "text", "label"]
        generator.shuffle(names)
        for name in names:
            slot = message.features.feature[name]
            if name == "ids":
                slot.int64_list.value.extend(generator.choice([0, 5, 127, 128, 30000, -1, -(2**63)]) for _ in range(9))
            elif name == "weights":
                odd = [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan")]
                slot.float_list.value.extend(generator.sample(odd, count % 6))
            elif name == "text":
                slot.bytes_list.value.extend([b"", b"x" * count])
            else:
                slot.int64_list.SetInParent()
        records.append(message.SerializeToString(deterministic=count % 2 == 0))
    assert_decodes(records, [protobuf(tf, record) for record in records])


@pytest.mark.parametrize(("length", "predictions"), [(16, 3), (128, 20), (512, 77)])
def test_pretraining_layout(length, predictions):
    generator = np.random.default_rng(length)
    count = 300
    columns = {
        name: generator.integers(0, high, (count, width))
        for name, high, width in (
            ("input_ids", 30000, length),
            ("input_mask", 2, length),
            ("segment_ids", 2, length),
            ("token_boundary", 2, length),
            ("masked_lm_positions", length, predictions),
            ("masked_lm_ids", 30000, predictions),
            ("next_sentence_labels", 2, 1),
        )
    }
    columns["masked_lm_weights"] = generator.integers(0, 2, (count, predictions)).astype(np.float32)
    data, lengths = encode_examples(pretraining_features(length, predictions), columns)
    stops = np.cumsum(lengths) - 4
    decoded = decode_examples(data, stops - lengths + 16, stops)
    assert list(decoded) == sorted(columns)
    for name, column in decoded.items():
        np.testing.assert_array_equal(column.rows(), columns[name], name)


def test_the_ways_agree(monkeypatch):
    """Regular records, and those of the oracle, whose features come in another order in each record."""
    batches = [
        [example(entry("a", packed("int64", [i, 300, -i])), entry("b", packed("float32", [i]))) for i in range(9)]
    ]
    for path in sorted(shared("oracle", "create_pretraining").glob("*.tfrecord")):
        file = RecordFile(path)
        batches.append([file.record(i) for i in range(len(file))])
    for records in batches:
        expected = [parse_example(record) for record in records]
        assert_decodes(records, expected)
        with monkeypatch.context() as patch:
            patch.setattr(decoding, "_decode_in_lockstep", decoding._decode_any_order)
            patch.setattr(decoding, "_decode_one_by_one", None)
            assert_decodes(records, expected)


def test_no_records_and_empty_records():
    assert decode([]) == {}
    assert decode([b"", b""]) == {}
    columns = decode([b"", example(entry("a", packed("int64", [7])))])
    assert columns["a"].counts.tolist() == [0, 1]
    with pytest.raises(ValueError, match="different lengths"):
        columns["a"].rows()


def test_a_feature_of_two_kinds_names_the_record():
    whole = example(entry("a", packed("int64", [1])))
    other = example(entry("a", packed("float32", [1])))
    with pytest.raises(MalformedExample, match="'a' is float32 here and int64 in a record before") as error:
        decode([whole, whole, other])
    assert error.value.record == 2


GOOD = example(
    entry("a", packed("int64", [1, 2000, 3])),
    entry("b", packed("float32", [1, 2])),
    entry("c", packed("bytes", [b"x"])),
)


@pytest.mark.parametrize(
    "bad",
    [
        b"\x0a",
        b"\x0a\x05",
        b"hello world",
        GOOD[:-1],
        GOOD + b"\x00",
        b"\x0a" + b"\xff" * 9 + b"\x01",  # a length of almost 2**64
        b"\x0a" + b"\xff" * 11,
        field(1, field(1, b"\x0a\xff\xff\xff\xff\x07")),  # a name of 2 GB
        example(field(1, field(1, b"\xff\xfe") + field(2, packed("int64", [1])))),  # a name that is not UTF-8
        example(entry("a", field(2, field(1, b"abc")))),  # three quarters of a float
        example(entry("a", field(3, field(1, b"\x80")))),  # half a varint
        example(entry("a", field(3, field(1, b"\xff" * 11)))),
    ],
)
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_malformed(bad, batch):
    with pytest.raises(MalformedExample) as error:
        decode([GOOD] * batch + [bad] + [GOOD])
    assert error.value.record == batch
    assert "not a tf.train.Example" in error.value.reason


def test_wrong_wire_types_are_unknown_fields(tf):
    odd = [
        example(entry("a", field(2, b"\x08\x05"))),
        example(entry("a", field(1, b"\x08\x05"))),
        example(entry("a", field(3, b"\x0d\x01\x00\x00\x00"))),
        example(entry("a", field(3, b"\x09" + bytes(8)))),
    ]
    for record in odd:
        assert_decodes([record], [protobuf(tf, record)])


@pytest.mark.parametrize("copies", [1, 3])
def test_damaged_records_raise_nothing_else(copies):
    """Flipped bytes and cuts: either a MalformedExample or some columns; never another error."""
    generator = random.Random(copies)
    refused = 0
    for _ in range(4000):
        record = bytearray(GOOD)
        for _ in range(generator.randint(1, 3)):
            record[generator.randrange(len(record))] = generator.randrange(256)
        if generator.random() < 0.3:
            del record[generator.randrange(len(record)) :]
        try:
            decode([bytes(record)] * copies if generator.random() < 0.5 else [GOOD, bytes(record), GOOD])
        except MalformedExample:
            refused += 1
    assert refused > 500


def test_columns_of_bytes():
    columns = decode([example(entry("id", packed("bytes", [b"q%d" % i]))) for i in range(3)])
    assert columns["id"].rows().tolist() == [[b"q0"], [b"q1"], [b"q2"]]
    assert Feature("id", columns["id"].dtype, 1).dtype == "bytes"
