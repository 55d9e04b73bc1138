"""tf.train.Example, a batch of records at a time: numpy columns -> framed TFRecord bytes.

Encoding is byte for byte what protobuf's `SerializeToString(deterministic=True)` writes. A serialized Example is

    0A <length> { 0A <length of entry> 0A <length of name> name 12 <length> <tag> <length> list }  each feature, by name

and most of those bytes are the same in all records of a set. So a batch is encoded by column: neighbouring features
whose values always take the same room (floats, and integers below 128) become one byte matrix with a constant header; a
column of larger integers becomes one stream of varints, cut by record, with a header that depends only on the length of
the cut. Per record, what remains is to join a handful of slices and to take a checksum.

Where a feature's name begins another's, runtimes of protobuf differ: upb (Python's) puts the shorter last, we put it
first. No names of ours do. Decoding is in decoding.py.
"""

from collections.abc import Callable, Mapping, Sequence

import google_crc32c
import numpy as np

from nlpdata.protobuf import varint
from nlpdata.records.contract import Feature

_LIST_TAG = {"bytes": b"\x0a", "float32": b"\x12", "int64": b"\x1a"}
_TILE_VALUES = 1 << 16  # values of the widest feature in work at a time: fewer cost calls, more leave the cache

_MASK_DELTA = 0xA282EAD8


def masked_crc(data: bytes) -> int:
    """The checksum of a TFRecord: CRC32C, rotated and shifted, so that data with a CRC inside needs no special case."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def mask_crcs(crcs: np.ndarray) -> np.ndarray:
    """`masked_crc` of many: plain CRC32C uint32 (n,) -> masked uint32 (n,)."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(_MASK_DELTA)


def record_header(length: int) -> bytes:
    """The 12 bytes before a record of `length` bytes: the length and its masked checksum, little-endian."""
    header = length.to_bytes(8, "little")
    return header + masked_crc(header).to_bytes(4, "little")


def _entry_header(feature: Feature, payload: int) -> bytes:
    """The bytes of a map entry before the `payload` bytes of the feature's values."""
    packed = feature.dtype != "bytes" and payload > 0  # an empty list is not written, not even its length
    head = b"\x0a" + varint(payload) if packed else b""
    head = _LIST_TAG[feature.dtype] + varint(len(head) + payload) + head
    name = feature.name.encode("utf-8")
    head = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(head) + payload) + head
    return b"\x0a" + varint(len(head) + payload) + head


class _Headers(dict):
    """payload length -> header bytes; a set of records has few distinct lengths."""

    def __init__(self, make: Callable[[int], bytes]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, length: int) -> bytes:
        if len(self) > 1 << 16:
            self.clear()
        self[length] = header = self.make(length)
        return header


# Across batches: the header of a frame costs a checksum, and lengths repeat.
_FRAME_HEADERS = _Headers(record_header)
_EXAMPLE_HEADERS = _Headers(lambda length: b"\x0a" + varint(length))


def varint_stream(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unsigned integers (any shape) -> (their varints, one after the other: uint8; the end of each: int64 (size,))."""
    rest = values.ravel()
    typed = rest.dtype.type
    long = rest > typed(0x7F)
    sizes = long.astype(np.int64)  # cumsum casts by itself, at ten times the cost
    sizes += 1
    longer = []  # (slot, values with a byte there), from the third byte on: few
    largest = int(rest.max(initial=0))
    for slot in range(2, 10):
        if largest >> 7 * slot:
            longer.append((slot, np.flatnonzero(rest >= typed(1 << 7 * slot))))
            sizes[longer[-1][1]] += 1
    ends = np.cumsum(sizes)
    places = ends - sizes
    out = np.empty((ends[-1] if ends.size else 0) + 1, np.uint8)
    # The second byte is stored of every value, also where it has none: what it hits then is the next value's first byte,
    # and those are stored after it. (A boolean mask would cost more.)
    places += 1
    out[places] = _low_byte(rest >> typed(7))
    places -= 1
    out[places] = _low_byte(rest)
    for slot, indices in longer:
        out[places[indices] + slot] = _low_byte(rest[indices] >> typed(7 * slot))
    return out[:-1], ends


def _low_byte(values: np.ndarray) -> np.ndarray:
    """The byte of a varint that holds the lowest seven bits, with the mark that more follow: uint8."""
    low = values.astype(np.uint8)
    low &= np.uint8(0x7F)
    low |= (values > 0x7F).view(np.uint8) << np.uint8(7)
    return low


class Packed(list):
    """A column of integers that are varints already: for each record the bytes of all its values, as many as `width`."""

    def small(self) -> np.ndarray:
        """The values as uint8 (n, width), where all are below 128."""
        return np.frombuffer(b"".join(self), np.uint8).reshape(len(self), -1)


class VarintRuns:
    """Non-negative integers as varints, of which any run of neighbours is a slice of one byte string."""

    def __init__(self, values: np.ndarray) -> None:
        """values: integers (n,)."""
        stream, ends = varint_stream(_unsigned(values, 0, int(values.max(initial=0))))
        self._data, self._edges = stream.tobytes(), np.append(0, ends)

    def runs(self, first: np.ndarray, size: np.ndarray) -> list[bytes]:
        """The varints of values[first[i] : first[i] + size[i]] for all i; both int64 (runs,)."""
        data = self._data
        edges = zip(self._edges[first].tolist(), self._edges[first + size].tolist(), strict=True)
        return [data[start:stop] for start, stop in edges]


def _check(feature: Feature, column: np.ndarray) -> np.ndarray:
    """The column as an array (n, width) of a fitting dtype; ValueError otherwise (the caller's fault)."""
    column = np.asarray(column, dtype=object if feature.dtype == "bytes" else None)
    if column.ndim != 2 or column.shape[1] != feature.width:
        raise ValueError(f"{feature.name}: received shape {column.shape}, expected (n, {feature.width})")
    kind = {"int64": "iu", "float32": "f", "bytes": "O"}[feature.dtype]
    if column.dtype.kind not in kind or (kind == "f" and column.dtype.itemsize != 4):
        raise ValueError(f"{feature.name}: received dtype {column.dtype}, expected {feature.dtype}")
    return column


def _unsigned(column: np.ndarray, low: int, high: int) -> np.ndarray:
    """The same values in the narrowest of uint16, uint32, uint64 that holds them; negative ones as two's complement."""
    if low < 0:
        return column.astype(np.int64).view(np.uint64)
    return column.astype(np.uint16 if high < 1 << 16 else np.uint32 if high < 1 << 32 else np.uint64, copy=False)


class _Fixed:
    """Neighbouring features whose values take the same bytes in all records: one matrix, headers filled in once."""

    def __init__(self) -> None:
        self.columns: list[tuple[int, int, np.ndarray]] = []  # (first byte, end, values as uint8 (n, bytes))
        self.template = b""

    def add(self, feature: Feature, column: np.ndarray) -> None:
        if feature.dtype == "float32":
            column = np.ascontiguousarray(column.astype("<f4", copy=False)).view(np.uint8)
        payload = column.shape[1]
        self.template += _entry_header(feature, payload)
        self.columns.append((len(self.template), len(self.template) + payload, column))
        self.template += bytes(payload)

    def slices(self, start: int, stop: int) -> list[bytes]:
        rows = np.empty((stop - start, len(self.template)), np.uint8)
        rows[:] = np.frombuffer(self.template, np.uint8)
        for first, end, column in self.columns:
            rows[:, first:end] = column[start:stop]
        data, step = rows.tobytes(), len(self.template)
        return [data[at : at + step] for at in range(0, len(data), step)]


class _Varints:
    """A feature of integers that take one to ten bytes each."""

    def __init__(self, feature: Feature, column: np.ndarray, low: int, high: int) -> None:
        self.column, self.low, self.high = column, low, high
        self.headers = _Headers(lambda payload: _entry_header(feature, payload))

    def slices(self, start: int, stop: int) -> list[bytes]:
        stream, ends = varint_stream(_unsigned(self.column[start:stop], self.low, self.high))
        data, headers, at, out = stream.tobytes(), self.headers, 0, []
        for end in ends[self.column.shape[1] - 1 :: self.column.shape[1]].tolist():
            out.append(headers[end - at] + data[at:end])
            at = end
        return out


class _Packed:
    """A feature of integers that are varints already."""

    def __init__(self, feature: Feature, column: Packed) -> None:
        self.column = column
        self.headers = _Headers(lambda payload: _entry_header(feature, payload))

    def slices(self, start: int, stop: int) -> list[bytes]:
        headers = self.headers
        return [headers[len(payload)] + payload for payload in self.column[start:stop]]


class _Bytes:
    """A feature of byte strings."""

    def __init__(self, feature: Feature, column: np.ndarray) -> None:
        self.feature, self.column = feature, column

    def slices(self, start: int, stop: int) -> list[bytes]:
        out = []
        for row in self.column[start:stop].tolist():
            payload = b"".join(b"\x0a" + varint(len(value)) + bytes(value) for value in row)
            out.append(_entry_header(self.feature, len(payload)) + payload)
        return out


def _plan(features: Sequence[Feature], columns: Mapping[str, np.ndarray]) -> tuple[int, list]:
    """(number of records, what writes them, in the order of the features' names)."""
    parts: list = []
    count = None
    for feature in sorted(features, key=lambda f: f.name.encode("utf-8")):
        column = columns[feature.name]
        packed = isinstance(column, Packed) and feature.dtype == "int64"
        column = column if packed else _check(feature, column)
        if count is not None and len(column) != count:
            raise ValueError(f"{feature.name}: received {len(column)} rows, expected {count} as in the other columns")
        count = len(column)
        if packed or feature.dtype == "bytes":
            parts.append(_Packed(feature, column) if isinstance(column, Packed) else _Bytes(feature, column))
            continue
        if feature.dtype == "int64":
            low, high = (int(column.min()), int(column.max())) if column.size else (0, 0)
            if high >= 1 << 63:
                raise ValueError(f"{feature.name}: received {high}, expected values below 2**63")
            if low < 0 or high > 0x7F:
                parts.append(_Varints(feature, column, low, high))
                continue
        if not parts or not isinstance(parts[-1], _Fixed):
            parts.append(_Fixed())
        parts[-1].add(feature, column)
    return count or 0, parts


def encode_examples(features: Sequence[Feature], columns: Mapping[str, np.ndarray]) -> tuple[bytes, np.ndarray]:
    """Encodes a batch of records as framed TFRecords.

    columns: name -> int array (n, width) of any integer dtype, or Packed, for an int64 feature, float32 (n, width) for a
        float32 one, bytes objects (n, width) for a bytes one. Columns that are not in `features` are ignored.
    Returns (all n framed records one after the other, length of each int64 (n,)). A framed record is the 8-byte
    little-endian length, the masked CRC32C of those 8 bytes, the serialized Example, and the masked CRC32C of that.
    Raises ValueError where a column's shape or dtype does not fit, KeyError where it is missing.
    """
    count, parts = _plan(features, columns)
    tile = max(1, _TILE_VALUES // max([1, *(f.width for f in features)]))
    tiles, lengths = [], np.empty(count, np.int64)
    for start in range(0, count, tile):
        stop = min(start + tile, count)
        data = _encode_tile([part.slices(start, stop) for part in parts], stop - start, lengths[start:stop])
        tiles.append(data)
    return tiles[0] if len(tiles) == 1 else b"".join(tiles), lengths


def _encode_tile(slices: list[list[bytes]], count: int, lengths: np.ndarray) -> bytes:
    """Joins the slices of each record (one list a part), frames it and fills `lengths` in place."""
    if not slices:
        slices = [[b""] * count]
    join, checksum = b"".join, google_crc32c.value
    examples, crcs = [], []
    for row in zip(*slices, strict=True):
        body = join(row)
        example = _EXAMPLE_HEADERS[len(body)] + body
        examples.append(example)
        crcs.append(checksum(example))
    tails = mask_crcs(np.array(crcs, np.uint32)).astype("<u4").tobytes()
    sizes = [len(example) for example in examples]
    out = [b""] * (3 * count)
    out[0::3] = [_FRAME_HEADERS[size] for size in sizes]
    out[1::3] = examples
    out[2::3] = [tails[at : at + 4] for at in range(0, 4 * count, 4)]
    lengths[:] = sizes
    lengths += 16
    return join(out)
