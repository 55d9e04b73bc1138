"""The index of a TensorFlow checkpoint, looked through before TensorFlow reads it: entries that it does not expect end the process.

The file is a table of LevelDB's form: blocks of entries, each with a type and a checksum behind it, which TensorFlow checks; a
block with the places of the others; a footer.
"""

import math
import struct
from collections.abc import Iterator

from nlpdata.protobuf import read_varint

_FOOTER, _MAGIC, _TRAILER = 48, 0xDB4775248B80FB57, 5
_MOST_KEYS = 1 << 26  # bytes of all names; each may repeat those before it in one byte
_MOST_DIMENSIONS, _MOST_VALUES = 254, 1 << 62  # of a tensor in TensorFlow


def check_index(table: bytes) -> None:
    """ValueError, or IndexError where it ends too early, for a table with an entry that is not that of a tensor."""
    if len(table) < _FOOTER or struct.unpack("<Q", table[-8:])[0] != _MAGIC:
        raise ValueError("the index does not end as a table does")
    _, at = _place(table, len(table) - _FOOTER)
    listed, _ = _place(table, at)
    read = names = 0
    seen: set[tuple] = set()
    for _, place in _entries(_block(table, *listed)):
        (begin, size), _ = _place(place, 0)
        read += size
        if read > len(table):
            raise ValueError("the index lists more blocks than it has")
        for key, value in _entries(_block(table, begin, size)):
            names += len(key)
            if names > _MOST_KEYS:
                raise ValueError("the names in the index are too long")
            if key:  # the other one is about the checkpoint
                _check_entry(key, value, seen)


def _place(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    """((begin, size) of a block, where the next number is)."""
    begin, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return (begin, size), at


def _block(table: bytes, begin: int, size: int) -> bytes:
    """The entries of a block, without the numbers at its end that searches use."""
    stop = begin + size
    if stop + _TRAILER > len(table) or size < 4:
        raise ValueError("a block of the index is cut off")
    if table[stop]:
        raise ValueError("the index is compressed, which TensorFlow's never are")
    restarts = struct.unpack("<I", table[stop - 4 : stop])[0]
    return table[begin : max(begin, stop - 4 - 4 * restarts)]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(key, value); a key repeats the beginning of the one before it."""
    at, key = 0, b""
    while at < len(block):
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if shared > len(key) or at + own + size > len(block):
            raise ValueError("an entry of the index is cut off")
        key = key[:shared] + block[at : at + own]
        yield key, block[at + own : at + own + size]
        at += own + size


def _check_entry(key: bytes, value: bytes, seen: set[tuple]) -> None:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto

    entry = BundleEntryProto()
    try:
        entry.ParseFromString(value)
    except DecodeError:
        raise ValueError(f"the entry of {key[:100]!r} is damaged") from None
    shape = [dimension.size for dimension in entry.shape.dim]
    if (
        len(shape) > _MOST_DIMENSIONS
        or min(shape, default=0) < 0
        or math.prod(map(max, shape, [1] * len(shape))) > _MOST_VALUES
    ):
        raise ValueError(f"{key[:100]!r} has the shape {shape[:8]}")
    parts = [(key, *((each.start, each.length) for each in part.extent)) for part in entry.slices]
    for name in parts or [(key,)]:
        if name in seen:
            raise ValueError(f"{key[:100]!r} is there twice")
        seen.add(name)
