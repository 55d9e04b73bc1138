"""The wire format of protocol buffers, as far as SentencePiece models need it.

A field is a varint of its number and form, then a varint (form 0), 8 or 4 bytes (1, 5), or a length and so many bytes (2).
"""

import struct
from collections.abc import Iterator


def varint(value: int) -> bytes:
    """One non-negative integer as protobuf writes it: seven bits a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """(number, value) of each field: an int, a float of 4 bytes, or bytes. IndexError where the message is cut short."""
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        if tag & 7 == 0:
            value, position = read_varint(message, position)
        elif tag & 7 == 5:
            value, position = struct.unpack_from("<f", message, position)[0], position + 4
        else:
            size, position = (8, position) if tag & 7 == 1 else read_varint(message, position)
            value, position = message[position : position + size], position + size
        yield tag >> 3, value


def read_varint(message: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and the position behind it."""
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def int_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(int(value) & (1 << 64) - 1)  # negative numbers are of 64 bits


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def float_field(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", value)
