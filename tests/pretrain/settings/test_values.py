"""Text of files and overrides -> the declared types."""

import re
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain.settings.values import parse_duration, parse_value


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (int, "12", 12),
        (int, "2.5e4", 25000),
        (int, 1e6, 1000000),
        (int, "1_000", 1000),
        (int, "-1", -1),
        (int, "010", 10),
        (int, "9007199254740993", 9007199254740993),  # beyond a float's whole numbers
        (float, "1e-4", 1e-4),
        (float, "2.5e4", 25000.0),
        (float, ".01", 0.01),
        (float, 3, 3.0),
        (bool, "off", False),
        (bool, "True", True),
        (bool, "1", True),
        (str, "off", "off"),
        (str, "010", "010"),
        (str, "12:30", "12:30"),
        (str, "null", "null"),  # quoted in the file; the bare word arrives as None
        (str, None, ""),
        (int | None, None, None),
        (int | None, "", None),
        (int | None, "7", 7),
        (str | None, None, None),
        (str | list[str], "a,b", "a,b"),
        (str | list[str], ["a", "b"], ["a", "b"]),
        (list[str] | None, ["1", "2"], ["1", "2"]),
        (list[int], ["1", "2e1"], [1, 20]),
        (tuple[str, ...], ["a"], ("a",)),
        (dict[str, float], {"a": "1e-1"}, {"a": 0.1}),
        (Literal["off", "tpu"], "off", "off"),
        (Literal["dynamic"] | float, "dynamic", "dynamic"),
        (Literal["dynamic"] | float, "1024", 1024.0),
        (Literal[1, 2], "2", 2),
        (Any, "2.5e4", 25000),
        (Any, "x", "x"),
        (Any, {"a": ["1", "true"]}, {"a": [1, True]}),
    ],
)
def test_value(hint, value, expected):
    result = parse_value(hint, value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (int, "ten", "expected a whole number. Received: 'ten'"),
        (int, "2.5", "expected a whole number"),
        (int, True, "expected a whole number"),
        (int, None, "expected a whole number. Received: null"),
        (int, "", "expected a whole number"),
        (int, ["1"], "expected a whole number"),
        (float, "nan", "expected a number"),
        (float, "inf", "expected a number"),
        (float, "1e-4x", "expected a number"),
        (float, True, "expected a number"),
        (bool, "maybe", "expected true or false"),
        (bool, 1, "expected true or false"),
        (Literal["auto"] | bool, "maybe", "expected auto, true or false. Received: 'maybe'."),
        (str, ["a"], "expected text"),
        (str, 3, "expected text"),
        (int | None, "x", "expected a whole number"),
        (list[str], "a", "expected a list, e.g. [a, b]"),
        (dict[str, int], "a", "expected names with values"),
        (Literal["higher", "lower"], "highr", "must be one of higher, lower. Received: 'highr'. Did you mean higher"),
        (Literal["dynamic"] | float, "dynmic", "expected dynamic or a number. Received: 'dynmic'"),
    ],
)
def test_wrong_value_says_what_is_expected(hint, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_value(hint, value)


def test_bounds_hold_for_numbers_and_not_for_null():
    assert parse_value(int | None, None, (1, 9)) is None
    assert [parse_value(int | None, text, (1, 9)) for text in "19"] == [1, 9]
    with pytest.raises(ValueError, match=r"must be at least 1\. Received: 0\."):
        parse_value(int | None, "0", (1, 9))
    with pytest.raises(ValueError, match=r"must be at least 1\. Received: 0\."):
        parse_value(float | None, "0", (1, 9))
    with pytest.raises(ValueError, match=r"must be at most 9\. Received: 10\."):
        parse_value(list[int], ["1", "10"], (1, 9))


@given(st.integers())
def test_whole_numbers_survive_as_text(number):
    assert parse_value(int, str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive_as_text(number):
    assert parse_value(float, repr(number)) == number


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("1d12h", 129600),
        ("1h30m5s", 5405),
        ("90", 90),
        ("1e2", 100),
        (7, 7),
        (None, None),
    ],
)
def test_times(given, seconds):
    assert parse_duration(given) == seconds


@pytest.mark.parametrize("given", ["soon", "2 h", "h", "1m2h", "1:30", "-1h", "9" * 400 + "h", "1.5h"])
def test_what_is_not_a_time(given):
    with pytest.raises(ValueError, match=f"expected seconds, or a time such as 90s.* Received: {given[:40]!r}"[:-1]):
        parse_duration(given)
