"""Serialized tf.train.Examples -> numpy arrays, a batch at a time.

A batch takes the first of three ways that fits it:

1. Records that share their layout, the same features in the same order, as ours do, are walked in lockstep, all records
   at once, and each feature's values are decoded in one pass.
2. Records with the features in any order (protobuf keeps no order in maps), some absent or empty, are walked one by one
   to find where the values are; decoding is as before.
3. Anything else that is a valid Example (unpacked lists, unknown fields, merged messages) is parsed value by value.

Wire format: protobuf.dev, "Encoding"; messages: tensorflow/core/example/{example,feature}.proto.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlpdata.protobuf import BYTES, FIXED32, VARINT, fields, read_varint, signed

_KINDS = {0x0A: "bytes", 0x12: "float32", 0x1A: "int64"}  # tag of Feature's one field -> dtype


class MalformedExample(ValueError):
    """Bytes that are not an Example; `record` is its index in the batch."""

    def __init__(self, record: int, reason: str) -> None:
        super().__init__(reason)
        self.record, self.reason = record, reason


class _Irregular(Exception):
    """A batch is not as this way of decoding wants it."""


@dataclass(frozen=True)
class Column:
    """One feature of a batch: values of all records one after the other, and how many each record has.

    Attributes:
      dtype: "int64", "float32" or "bytes" (values is then a list).
      counts: int64 (n,).
    """

    dtype: str
    values: np.ndarray | list[bytes]
    counts: np.ndarray

    def rows(self) -> np.ndarray:
        """(n, width) if every record has the same number of values; ValueError if not."""
        width = int(self.counts[0]) if len(self.counts) else 0
        if (self.counts != width).any():
            raise ValueError("records of different lengths")
        values = np.array(self.values, object if self.dtype == "bytes" else None)
        return values.reshape(len(self.counts), width)


def decode_examples(data: bytes | np.ndarray, starts: np.ndarray, stops: np.ndarray) -> dict[str, Column]:
    """Decodes records data[starts[i] : stops[i]]; MalformedExample where one is not an Example."""
    buffer = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    for decode in (_decode_in_lockstep, _decode_any_order):
        try:
            return decode(buffer, starts.astype(np.int64), stops.astype(np.int64))
        except (_Irregular, IndexError, ValueError):  # malformed bytes are named on the last way
            continue
    return _decode_one_by_one(buffer, starts, stops)


# ----------------------------------------------------------------------------------------------- 1: records in lockstep


def _decode_in_lockstep(buffer: np.ndarray, at: np.ndarray, stops: np.ndarray) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    if not len(at):
        return columns
    at = _expect(buffer, at, 0x0A)
    size, at = _lengths(buffer, at)
    _require((at + size == stops).all())
    while (at < stops).all():
        size, at = _lengths(buffer, _expect(buffer, at, 0x0A))
        end = at + size
        name, at = _name(buffer, _expect(buffer, at, 0x0A))
        size, at = _lengths(buffer, _expect(buffer, at, 0x12))
        _require((at + size == end).all() and (end <= stops).all() and (size > 0).all() and name not in columns)
        kind = _KINDS.get(int(buffer[at[0]]))
        _require(kind in ("int64", "float32"))
        size, at = _lengths(buffer, _expect(buffer, at, int(buffer[at[0]])))
        _require((at + size == end).all() and (size > 0).all())
        size, at = _lengths(buffer, _expect(buffer, at, 0x0A))
        _require((at + size == end).all())
        columns[name] = (_floats if kind == "float32" else _varints)(_join(buffer, at, size), size)
        at = end
    _require((at == stops).all())
    return columns


def _require(condition: bool | np.bool) -> None:
    if not condition:
        raise _Irregular


def _expect(buffer: np.ndarray, at: np.ndarray, tag: int) -> np.ndarray:
    _require((buffer[at] == tag).all())
    return at + 1


def _lengths(buffer: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reads one length varint of each record: values and the positions behind them."""
    byte = buffer[at]
    value = (byte & 0x7F).astype(np.int64)
    at = at + 1
    for shift in (7, 14, 21, 28):
        more = byte >= 0x80
        if not more.any():
            return value, at
        byte = np.where(more, buffer[np.minimum(at, len(buffer) - 1)], 0)
        value += (byte & 0x7F).astype(np.int64) << shift
        at = at + more
    raise _Irregular


def _name(buffer: np.ndarray, at: np.ndarray) -> tuple[str, np.ndarray]:
    """Reads the feature name, which all records must share."""
    size, at = _lengths(buffer, at)
    _require((size == size[0]).all() and (at + size <= len(buffer)).all())
    names = buffer[at[:, None] + np.arange(int(size[0]))]
    _require((names == names[0]).all())
    return names[0].tobytes().decode(), at + size


def _join(buffer: np.ndarray, at: np.ndarray, size: np.ndarray) -> np.ndarray:
    """buffer[at[i] : at[i] + size[i]] of all records, one after the other."""
    if (size == size[0]).all():
        return buffer[at[:, None] + np.arange(int(size[0]))].reshape(-1)
    before = np.cumsum(size) - size
    return buffer[np.arange(int(size.sum())) + np.repeat(at - before, size)]


def _floats(data: np.ndarray, size: np.ndarray) -> Column:
    _require((size % 4 == 0).all())
    return Column("float32", data.view("<f4").astype(np.float32, copy=False), size // 4)


def _varints(data: np.ndarray, size: np.ndarray) -> Column:
    last = data < 0x80
    if last.all():
        return Column("int64", data.astype(np.int64), size)
    ends = np.flatnonzero(last)
    borders = np.cumsum(size)
    _require(last[borders[size > 0] - 1].all())  # no varint continues in the next record
    counts = np.diff(np.searchsorted(ends, borders), prepend=0)
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    lengths = ends - starts
    longest = int(lengths.max())
    _require(longest < 10)
    values = (data[starts] & 0x7F).astype(np.int64)
    for i in range(1, longest + 1):
        which = np.flatnonzero(lengths >= i)
        values[which] |= (data[starts[which] + i] & 0x7F).astype(np.int64) << (7 * i)
    return Column("int64", values, counts)


# ------------------------------------------------------------------------------------------- 2: features in any order


def _decode_any_order(buffer: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> dict[str, Column]:
    data, records = buffer.tobytes(), []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        records.append(_find_values(data, start, stop))
    columns = {}
    for name in dict.fromkeys(name for record in records for name in record):
        found, firsts, sizes = zip(*[record.get(name, (None, 0, 0)) for record in records], strict=True)
        kinds = set(found) - {None}
        _require(len(kinds) <= 1)
        if "bytes" in kinds:
            columns[name.decode()] = _byte_strings(data, firsts, sizes)
            continue
        at, size = np.array(firsts), np.array(sizes)
        columns[name.decode()] = (_floats if "float32" in kinds else _varints)(_join(buffer, at, size), size)
    return columns


def _byte_strings(data: bytes, starts: Sequence[int], sizes: Sequence[int]) -> Column:
    values: list[bytes] = []
    counts = []
    for at, size in zip(starts, sizes, strict=True):
        stop, before = at + size, len(values)
        while at < stop:
            end, at = _block(data, at, 0x0A)
            _require(end <= stop)
            values.append(data[at:end])
            at = end
        counts.append(len(values) - before)
    return Column("bytes", values, np.array(counts, np.int64))


def _find_values(data: bytes, at: int, stop: int) -> dict[bytes, tuple[str | None, int, int]]:
    """Feature name -> (dtype or None for an empty feature, first byte of its values, number of bytes)."""
    found: dict[bytes, tuple[str | None, int, int]] = {}
    if at == stop:
        return found
    end, at = _block(data, at, 0x0A)
    _require(end == stop)
    while at < stop:
        end, at = _block(data, at, 0x0A)
        name_end, name_at = _block(data, at, 0x0A)
        name = data[name_at:name_end]
        feature_end, at = _block(data, name_end, 0x12)
        _require(feature_end == end <= stop and name not in found)
        kind, list_end = None, at
        if at < end:
            kind = _KINDS.get(data[at])
            _require(kind is not None)
            list_end, at = _block(data, at, data[at])
            if at < list_end and kind != "bytes":
                list_end, at = _block(data, at, 0x0A)
        _require(list_end == end)
        found[name] = (kind, at, end - at)
        at = end
    return found


def _block(data: bytes, at: int, tag: int) -> tuple[int, int]:
    """Where the content of the field at `at` ends and starts; the field must have this tag."""
    _require(data[at] == tag)
    size = data[at + 1]
    if size < 0x80:
        return at + 2 + size, at + 2
    size, at = read_varint(data, at + 1)
    return at + size, at


# ------------------------------------------------------------------------------------------------ 3: any valid Example


def _decode_one_by_one(buffer: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> dict[str, Column]:
    parsed = []
    for i, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        try:
            parsed.append(parse_example(buffer[start:stop].tobytes()))
        except (ValueError, IndexError) as error:
            raise MalformedExample(i, f"not a tf.train.Example ({error})") from None
    columns: dict[str, Column] = {}
    absent: tuple[str | None, list] = (None, [])
    for name in dict.fromkeys(name for record in parsed for name in record):
        kinds = [record.get(name, absent)[0] for record in parsed]
        dtype = next(filter(None, kinds), "int64")
        for i, kind in enumerate(kinds):
            if kind not in (None, dtype):
                raise MalformedExample(i, f"feature {name!r} is {kind} here and {dtype} in a record before")
        values = [value for record in parsed for value in record.get(name, absent)[1]]
        counts = np.array([len(record.get(name, absent)[1]) for record in parsed], np.int64)
        columns[name] = Column(dtype, values if dtype == "bytes" else np.array(values, dtype), counts)
    return columns


def parse_example(record: bytes) -> dict[str, tuple[str | None, list]]:
    """Any valid Example: name -> (dtype or None for an empty feature, values). ValueError for anything else."""
    features = {}
    for number, form, body in fields(record):
        if number != 1 or form != BYTES:
            continue
        for entry, entry_form, pair in fields(body):
            if entry != 1 or entry_form != BYTES:
                continue
            name, feature = "", b""
            for part, part_form, value in fields(pair):
                if part == 1 and part_form == BYTES:
                    name = value.decode()
                elif part == 2 and part_form == BYTES:
                    feature += value  # a message that occurs twice is merged, and so are its bytes
            features[name] = _parse_feature(feature)
    return features


def _parse_feature(body: bytes) -> tuple[str | None, list]:
    dtype: str | None = None
    values: list = []
    for number, form, content in fields(body):
        if form != BYTES or number not in (1, 2, 3):
            continue
        if dtype != ("bytes", "float32", "int64")[number - 1]:  # a later kind replaces an earlier one
            dtype, values = ("bytes", "float32", "int64")[number - 1], []
        for item, item_form, value in fields(content):
            if item != 1:
                continue
            if dtype == "bytes" and item_form == BYTES:
                values.append(value)
            elif dtype == "float32" and item_form in (BYTES, FIXED32):
                values += np.frombuffer(value, "<f4").tolist()
            elif dtype == "int64" and item_form == VARINT:
                values.append(signed(value))
            elif dtype == "int64" and item_form == BYTES:
                at = 0
                while at < len(value):
                    packed, at = read_varint(value, at)
                    values.append(signed(packed))
    return dtype, values
