"""The wire format of protocol buffers, against worked examples of its documentation and against what was written."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlpdata import protobuf
from nlpdata.protobuf import bytes_field, double_field, fields, float32, float_field, int_field, read_varint, varint


@pytest.mark.parametrize(
    ("written", "expected"),
    [  # protobuf.dev/programming-guides/encoding
        (int_field(1, 150), "089601"),
        (bytes_field(2, b"testing"), "120774657374696e67"),
        (bytes_field(3, int_field(1, 150)), "1a03089601"),
        (int_field(1, -2), "08feffffffffffffffff01"),
        (float_field(2, 1.5), "150000c03f"),
        (double_field(1, 1.5), "09000000000000f83f"),
    ],
)
def test_worked_examples(written, expected):
    assert written.hex() == expected


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=4))
def test_a_varint_is_read_as_it_was_written(value, rest):
    assert read_varint(b"\xff" + varint(value) + rest, 1) == (value, 1 + len(varint(value)))


@given(st.lists(st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=200), st.floats(width=32))))
def test_fields_are_read_as_they_were_written(values):
    write = {int: int_field, bytes: bytes_field, float: float_field}
    message = b"".join(write[type(value)](i, value) for i, value in enumerate(values, 1))
    read = {protobuf.VARINT: protobuf.signed, protobuf.BYTES: bytes, protobuf.FIXED32: float32}
    found = [(number, read[form](value)) for number, form, value in fields(message)]
    assert [number for number, _ in found] == list(range(1, len(values) + 1))
    for value, (_, other) in zip(values, found, strict=True):
        assert value == other or (math.isnan(value) and math.isnan(other))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\x08", "index out of range"),
        (b"\x12\x05ab", "a field goes beyond its message"),
        (b"\x0d\x00\x00", "a field goes beyond its message"),
        (b"\x08" + b"\xff" * 11, "a varint of more than 10 bytes"),
        (b"\x00\x01", "field number 0"),
        (b"\x0b", "a field of the unknown form 3"),
    ],
)
def test_damaged_messages(message, reason):
    with pytest.raises((ValueError, IndexError), match=reason):
        list(fields(message))
