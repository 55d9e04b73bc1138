"""The kinds of value that a JSON file must have where it is read: it is data that anybody may have written, or damaged.

KINDS = {"model": OBJECT, "model.vocab.*": whole(1 << 24), "normalizer": or_null(OBJECT)}
fault(json.loads(text), KINDS)          # "model.vocab.the is [], expected a whole number from 0 to 16777216", or None
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

SURROGATE = re.compile("[\ud800-\udfff]")  # alone, no character


class Kind(NamedTuple):
    """What a value must be: in words, and as a test."""

    expected: str
    fits: Callable[[object], bool]


def whole(most: int) -> Kind:
    return Kind(f"a whole number from 0 to {most}", lambda value: type(value) is int and 0 <= value <= most)


def or_null(kind: Kind) -> Kind:
    return Kind(f"{kind.expected} or null", lambda value: value is None or kind.fits(value))


def is_characters(value: object) -> bool:
    """Whether it is text without half of a surrogate pair."""
    return isinstance(value, str) and not SURROGATE.search(value)


TEXT = Kind("text", lambda value: isinstance(value, str))
CHARACTERS = Kind("text without half of a surrogate pair", is_characters)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
LIST = Kind("a list", lambda value: isinstance(value, list))
TEXTS = Kind("a list of texts", lambda value: isinstance(value, list) and all(map(TEXT.fits, value)))


def fault(value: Mapping, kinds: Mapping[str, Kind]) -> str | None:
    """A value of another kind than its path expects: path, value and kind, for a message; None where all are right.

    Args:
      value: the JSON object.
      kinds: dotted path, "*" standing for every name or item -> kind of the value, where there is one. A path comes after
        those that lead to it.
    """
    for path, kind in kinds.items():
        for place, found in _values(value, path.split(".")):
            if not kind.fits(found):
                return f"{place} is {as_written(found)[:80]}, expected {kind.expected}"
    return None


def as_written(value: Any, depth: int = 4) -> str:
    """A value in a message, as a file or a flag writes it: null, not None; true, not True. Below `depth` lists it is left out."""
    if isinstance(value, dict | list | tuple) and not depth:
        return "..."
    if isinstance(value, dict):
        items = (f"{as_written(key, depth - 1)}: {as_written(each, depth - 1)}" for key, each in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(as_written(each, depth - 1) for each in value)}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _values(value: Any, path: list[str], place: str = "") -> Iterator[tuple[str, object]]:
    """(dotted path, value) of all values under a path."""
    if not path:
        yield place, value
    elif isinstance(value, dict):
        for name in list(value) if path[0] == "*" else [path[0]] if path[0] in value else []:
            yield from _values(value[name], path[1:], f"{place}.{name}" if place else name)
    elif isinstance(value, list) and path[0] == "*":
        for number, item in enumerate(value):
            yield from _values(item, path[1:], f"{place}[{number}]")
