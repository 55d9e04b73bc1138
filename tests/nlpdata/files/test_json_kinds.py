"""Values of the wrong kind in JSON files are named with their place."""

import pytest

from nlpdata.files.json_kinds import CHARACTERS, FLAG, LIST, OBJECT, fault, or_null, whole

KINDS = {"a": OBJECT, "a.*": whole(9), "b": or_null(LIST), "b.*": OBJECT, "b.*.c": CHARACTERS, "d": FLAG}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({}, None),
        ({"a": {"x": 9}, "b": [{"c": "y"}, {}], "d": True}, None),
        ({"b": None}, None),
        ({"a": []}, "a is [], expected an object"),
        ({"a": {"x": 10}}, "a.x is 10, expected a whole number from 0 to 9"),
        ({"a": {"x": True}}, "a.x is true, expected a whole number from 0 to 9"),
        ({"b": {}}, "b is {}, expected a list or null"),
        ({"b": [{}, None]}, "b[1] is null, expected an object"),
        ({"b": [{}, {"c": "\ud800"}]}, "b[1].c is '\\ud800', expected text without half of a surrogate pair"),
        ({"d": 1}, "d is 1, expected true or false"),
    ],
)
def test_fault(value, found):
    assert fault(value, KINDS) == found
