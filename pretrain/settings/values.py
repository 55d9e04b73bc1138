"""A value of a configuration file, flag or override -> the type that a dataclass field declares.

YAML's own typing depends on its version and surprises (`off` is false, 010 is 8, 1e-4 is text), so files are read as
text and the field's type decides: `off` is text for a text field, false for a switch. Values from Python keep their type.
"""

import math
import re
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, Union

from nlpdata.errors import closest
from nlpdata.files.json_kinds import as_written

_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1", "t", "y"), True),
    **dict.fromkeys(("false", "no", "off", "0", "f", "n"), False),
}
_MOST_DIGITS = 4000  # Python reads no more
_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_DURATION = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")

Bounds = tuple[float, float]


class _OutOfBounds(ValueError):
    """The type fits, the number is not within its bounds."""


def parse_value(hint: Any, value: Any, bounds: Bounds | None = None) -> Any:
    """The value as the type `hint`: bool, int, float, str, None, Literal, list, tuple, dict, a union of these, or Any.

    Args:
      hint: the declared type.
      value: text (of a file or an override), or a Python value.
      bounds: the least and the largest value of a number.

    Raises:
      ValueError: the value is not of that type; the message says what was expected and received.
    """
    if value is not None and hint in _SCALARS:
        result = _SCALARS[hint](value)
        if bounds is not None and not result >= bounds[0]:
            raise _OutOfBounds(f"must be at least {bounds[0]:g}. Received: {_plain(result)}.")
        if bounds is not None and result > bounds[1]:
            raise _OutOfBounds(f"must be at most {bounds[1]}. Received: {_plain(result)}.")
        return result
    if hint is str and value is None:
        return ""  # the unset value of a text field
    if hint is Any:
        return plain_value(value)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _union(arguments, value, bounds)
    if origin is Literal:
        found = [word for word in arguments if word == value or str(word) == value]
        if found:
            return found[0]
        raise ValueError(
            f"must be one of {', '.join(map(str, arguments))}. Received: {as_written(value)}.{closest(value, arguments)}"
        )
    if (origin or hint) in (list, tuple):
        if not isinstance(value, list | tuple):
            raise ValueError(f"expected a list, e.g. [a, b]. Received: {as_written(value)}.")
        item = arguments[0] if arguments else Any
        return (origin or hint)(parse_value(item, each, bounds) for each in value)
    if (origin or hint) is dict:
        if not isinstance(value, dict):
            raise ValueError(f"expected names with values, e.g. {{a: 1}}. Received: {as_written(value)}.")
        key_hint, value_hint = arguments or (str, Any)
        return {parse_value(key_hint, k): parse_value(value_hint, v, bounds) for k, v in value.items()}
    raise ValueError(f"expected {describe(hint)}. Received: {as_written(value)}.")


def _plain(number: float) -> str:
    return str(number).removesuffix(".0")


def describe(*hints: Any) -> str:
    """A type, or several of which one must fit, in words, e.g. "a whole number or null"."""
    *others, last = [words for hint in hints for words in _alternatives(hint)]
    return f"{', '.join(others)} or {last}" if others else last


def _alternatives(hint: Any) -> list[str]:
    names = {int: "a whole number", float: "a number", str: "text", type(None): "null"}
    if hint is bool:
        return ["true", "false"]
    if hint in names:
        return [names[hint]]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return [words for each in arguments for words in _alternatives(each)]
    if origin is Literal:
        return [str(each) for each in arguments]
    return [{list: "a list", tuple: "a list", dict: "names with values"}.get(origin or hint, str(hint))]


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise ValueError(f"expected true or false. Received: {as_written(value)}.")


def parse_duration(value: object) -> object:
    """The seconds of a time such as 90s, 30m, 2h or 1d12h; a number is one already, and null stays. ValueError for other text."""
    if not isinstance(value, str) or not value:
        return value
    parts = _DURATION.fullmatch(value.strip())
    if parts and any(parts.groups()):
        return float(sum(int(n or 0) * size for n, size in zip(parts.groups(), (86400, 3600, 60, 1), strict=True)))
    try:
        return _number(value)
    except ValueError:
        raise ValueError(
            f"expected seconds, or a time such as 90s, 30m, 2h or 1d12h. Received: {as_written(value)}."
        ) from None


def _integer(value: object) -> int:
    if isinstance(value, str) and len(value) < _MOST_DIGITS and _WHOLE.fullmatch(value.strip()):
        return int(value)
    try:
        number = _number(value)
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise ValueError(f"expected a whole number. Received: {as_written(value)}.")
    return int(value) if isinstance(value, int) else int(number)


def _number(value: object) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            return number
    raise ValueError(f"expected a number, e.g. 0.001 or 1e-3. Received: {as_written(value)}.")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"expected text. Received: {as_written(value)}.")


_SCALARS: dict[type, Callable[[Any], Any]] = {bool: _boolean, int: _integer, float: _number, str: _text}


def _union(members: tuple, value: Any, bounds: Bounds | None) -> Any:
    """The first member that fits; text is tried last, since it fits everything."""
    if type(None) in members and (value is None or (value == "" and str not in members)):
        return None
    tried = [member for member in members if member is not type(None)]
    for member in sorted(tried, key=lambda member: member is str):
        try:
            return parse_value(member, value, bounds)
        except _OutOfBounds:
            raise
        except ValueError:
            if len(tried) == 1:
                raise
    raise ValueError(f"expected {describe(*members)}. Received: {as_written(value)}.")


def plain_value(value: Any) -> Any:
    """Text that reads as a number, true or false as that; everything else as it is."""
    if isinstance(value, dict):
        return {key: plain_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    if not isinstance(value, str):
        return value
    for parse in (_integer, _number):
        try:
            return parse(value)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(value.lower(), value)
