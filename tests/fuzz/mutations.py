"""What is done to intact input: bytes damaged, values of JSON replaced, texts and numbers that nobody expects."""

import copy
import random
from typing import Any

NUMBERS = (
    *"-1 0 -0 1 2 7 1.5 -0.5 1e9 1e-9 1e308 1e999 nan inf -inf 127 128 255 256 32767 32768 65535 65536 65537".split(),
    *"2147483647 2147483648 4294967295 4294967296 9223372036854775807 9223372036854775808 18446744073709551616".split(),
    *"99999999999999999999 0x10 1_000 007 +3 ² ٣ 𝟙 ½ 1,5 true".split(),
    *("9" * 400, "9" * 5000, " 5 ", ""),
)
"""Values of numeric options and fields."""

TEXTS = (
    *"\t \n \0 \r a\0b \x1e \x1f \x7f \ufeff \ufffe \u2028 \u0085 \u200b".split(" "),
    *("", " ", "\ud800", "\udfff", "a\udc80b", "x" * 300, "x" * 3000, "é" * 300, "e\u0301", "👩‍👩‍👧"),
    *"² ٣ é ß İ 漢字 .. / ../../x /dev/null /dev/zero /dev/stdin ~ ~nobody/x * ** [ [a {a,b} @ @2 a@1e9".split(),
    *"a,b , ; = : a:b os:system json:loads - -- -x %s {} {0} $HOME ` ' \" \\ None null true False nan".split(),
    *"[PAD] [MASK] ## ▁ <unk> s3:// gs://x http://x/y file:///etc".split(),
)
"""Values of options and fields that are texts."""

VALUES = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        1.5,
        -0.5,
        1e308,
        float("inf"),
        float("nan"),
        1 << 31,
        1 << 63,
        1 << 64,
        -(1 << 63),
        10**30,
    ),
    *([], {}, [[]], [None], [1, "a"], {"a": None}, {"": ""}, [{}], "0", "1", "-1", "2147483648"),
)
"""Values of other types for fields of JSON."""

_BYTES = (
    *(
        b"\x00",
        b"\xff",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x80",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\r",
        b"\n",
        b"\r\n",
    ),
    *(
        b"\t",
        b",",
        b";",
        b"|",
        b'"',
        b'""',
        b"'",
        b"\\",
        b"\\ud800",
        b"\\u0000",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b"- ",
        b"&a ",
        b"*a",
    ),
    *(
        b"-1",
        b"99999999999999999999",
        b"1e999",
        b"NaN",
        "²".encode(),
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"PK\x03\x04",
        b"\n\n\n",
    ),
    *(b"\xff" * 8, b"\x00" * 512, b"a" * 5000, b"[" * 3000, b"\xe2\x80\xa8", b"\x0c", b"\x85"),
)


def number(draw: random.Random) -> str:
    return draw.choice(NUMBERS)


def text(draw: random.Random) -> str:
    return draw.choice(TEXTS)


def damaged(draw: random.Random, data: bytes, most: int = 3) -> bytes:
    """Bytes after one to `most` of the changes below."""
    for _ in range(draw.randint(1, most)):
        data = draw.choice(_CHANGES)(draw, data)
    return data


def _span(draw: random.Random, data: bytes) -> tuple[int, int]:
    start = draw.randrange(len(data) + 1)
    return start, min(len(data), start + draw.choice((1, 2, 4, 8, 16, 64, 256, 4096)))


def _flip(draw: random.Random, data: bytes) -> bytes:
    if not data:
        return data
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]


def _set(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + bytes([draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))]) + data[at + 1 :]


def _cut(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _without(draw: random.Random, data: bytes) -> bytes:
    start, stop = _span(draw, data)
    return data[:start] + data[stop:]


def _twice(draw: random.Random, data: bytes) -> bytes:
    start, stop = _span(draw, data)
    return data[:stop] + data[start:stop] * draw.choice((1, 2, 100)) + data[stop:]


def _insert(draw: random.Random, data: bytes) -> bytes:
    at = draw.choice((0, len(data), draw.randrange(len(data) + 1)))
    return data[:at] + draw.choice(_BYTES) + data[at:]


def _overwrite(draw: random.Random, data: bytes) -> bytes:
    at, odd = draw.randrange(len(data) + 1), draw.choice(_BYTES)
    return data[:at] + odd + data[at + len(odd) :]


def _exchange(draw: random.Random, data: bytes) -> bytes:
    (a, b), (c, d) = sorted((_span(draw, data), _span(draw, data)))
    return data if b > c else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _lines(draw: random.Random, data: bytes) -> bytes:
    """One line left out, repeated, emptied, or joined with the next one."""
    lines = data.split(b"\n")
    at = draw.randrange(len(lines))
    lines[at : at + 1] = draw.choice(([], [lines[at]] * 2, [b""], [lines[at] + b" "], [lines[at][:-1]]))
    return b"\n".join(lines)


def _nothing(draw: random.Random, data: bytes) -> bytes:
    return draw.choice((b"", b"\n", b" ", data, data, data))


_CHANGES = (_flip, _flip, _set, _cut, _without, _twice, _insert, _insert, _overwrite, _exchange, _lines, _nothing)


def odd_value(draw: random.Random) -> Any:
    return copy.deepcopy(draw.choice((draw.choice(VALUES), text(draw), draw.choice(VALUES))))


def odd_json(draw: random.Random, value: Any, most: int = 2) -> Any:
    """A copy of JSON content in which one to `most` values, wherever they are, are replaced, left out, renamed or wrapped."""
    value = copy.deepcopy(value)
    for _ in range(draw.randint(1, most)):
        places = list(_places(value))
        if not places:
            return odd_value(draw)
        parent, key = draw.choice(places)
        change = draw.randrange(6)
        if change == 0:
            del parent[key]
        elif change == 1:
            parent[key] = [parent[key]] if draw.random() < 0.5 else {"x": parent[key]}
        elif change == 2 and isinstance(parent, dict):
            parent[f"{key}{text(draw)[:20]}"] = parent.pop(key)
        else:
            parent[key] = odd_value(draw)
    return value


def _places(value: Any) -> Any:
    """(container, key) of all values below."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])
