"""The wire format of protocol buffers: reading any message field by field, and writing fields.

A field is a varint of its number and form, then a varint (form VARINT), 8 or 4 bytes (FIXED64, FIXED32), or a length and as
many bytes (BYTES). See protobuf.dev, "Encoding". What reads and writes many records at once is in nlpdata.records.
"""

import struct
from collections.abc import Iterator
from typing import Any

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
_LONGEST = 10  # bytes of a varint


def varint(value: int) -> bytes:
    """One non-negative integer as protobuf writes it: seven bits a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(message: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and the position behind it.

    Raises IndexError where the message ends before the number, ValueError for a number of more than ten bytes.
    """
    value = 0
    for shift in range(0, 7 * _LONGEST, 7):
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError(f"a varint of more than {_LONGEST} bytes")


def fields(message: bytes) -> Iterator[tuple[int, int, Any]]:
    """(number, form, value) of each field; value is an int for VARINT, else bytes.

    Raises ValueError or IndexError where the message is damaged or cut short.
    """
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        number, form = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("field number 0")
        value: int | bytes
        if form == VARINT:
            value, position = read_varint(message, position)
        else:
            size, position = read_varint(message, position) if form == BYTES else (_SIZES.get(form, -1), position)
            if size < 0:
                raise ValueError(f"a field of the unknown form {form}")
            if position + size > len(message):
                raise ValueError("a field goes beyond its message")
            value, position = message[position : position + size], position + size
        yield number, form, value


def signed(value: int) -> int:
    """An int64 of the varint that it is written as."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def float32(value: bytes) -> float:
    """The number of a field of the form FIXED32."""
    return struct.unpack("<f", value)[0]


def int_field(number: int, value: int) -> bytes:
    """A field with an int64, or a non-negative integer."""
    return varint(number << 3) + varint(int(value) & (1 << 64) - 1)  # negative numbers are of 64 bits


def bytes_field(number: int, value: bytes) -> bytes:
    """A field with bytes: text in UTF-8, or a message."""
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def float_field(number: int, value: float) -> bytes:
    """A field with a float of 4 bytes."""
    return varint(number << 3 | FIXED32) + struct.pack("<f", value)


def double_field(number: int, value: float) -> bytes:
    """A field with a float of 8 bytes."""
    return varint(number << 3 | FIXED64) + struct.pack("<d", value)
