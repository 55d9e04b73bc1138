"""The kind of value that each key of a meta file has: the file is data that anybody may have written, or damaged.

Readers rely on these kinds, and on the bounds, which keep what they make of a value within memory.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

_DTYPES = ("int64", "float32", "bytes")
_MOST = 1 << 62
_WIDEST = 1 << 20  # values of a feature
_MOST_PIECES = 1 << 24  # of a vocabulary
_SURROGATE = re.compile("[\ud800-\udfff]")  # alone, no character


class _Kind(NamedTuple):
    expected: str
    fits: Callable[[object], bool]


def _whole(most: int) -> _Kind:
    return _Kind(f"a whole number from 0 to {most}", lambda value: type(value) is int and 0 <= value <= most)


def _is_feature(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], str)
        and value[1] in _DTYPES
        and _whole(_WIDEST).fits(value[2])
    )


def _is_range(value: object) -> bool:
    ids = _whole(_MOST_PIECES)
    return isinstance(value, list) and len(value) == 2 and all(map(ids.fits, value)) and value[0] <= value[1]


_TEXT = _Kind("text", lambda value: isinstance(value, str))
_FLAG = _Kind("true or false", lambda value: isinstance(value, bool))
_OBJECT = _Kind("an object", lambda value: isinstance(value, dict))
_TEXTS = _Kind("a list of texts", lambda value: isinstance(value, list) and all(map(_TEXT.fits, value)))
_SPECIAL = _Kind(
    "a list of five texts or more",
    lambda value: (
        isinstance(value, list) and _TEXTS.fits(value) and len(value) >= 5 and not any(map(_SURROGATE.search, value))
    ),
)
_FEATURES = _Kind(
    f"a list of [name, {' or '.join(_DTYPES)}, width up to {_WIDEST}]",
    lambda value: isinstance(value, list) and all(map(_is_feature, value)),
)
_RANGES = _Kind(
    f"a list of at most 65536 [first, behind the last], up to {_MOST_PIECES}",
    lambda value: (
        isinstance(value, list)
        and len(value) <= 1 << 16
        and all(map(_is_range, value))
        and sum(stop - start for start, stop in value) <= _MOST_PIECES
    ),
)

_KINDS = {  # dotted path, "*" standing for every name -> kind of the value, where there is one
    "task_type": _TEXT,
    "objective": _TEXT,
    "label_names": _TEXTS,
    "num_labels": _whole(_MOST_PIECES),
    "max_seq_length": _whole(_WIDEST),
    "max_predictions_per_seq": _whole(_WIDEST),
    "train_data_size": _whole(_MOST),
    "eval_data_size": _whole(_MOST),
    "splits": _OBJECT,
    "splits.*": _OBJECT,
    "splits.*.features": _FEATURES,
    "tokenizer": _OBJECT,
    "tokenizer.type": _TEXT,
    "tokenizer.sha256": _TEXT,
    "tokenizer.vocab_size": _whole(_MOST_PIECES),
    "tokenizer.special_tokens": _SPECIAL,
    "tokenizer.ordinary_ids": _RANGES,
    "tokenizer.do_lower_case": _FLAG,
    "tokenizer.keep_accents": _FLAG,
    "tokenizer.digit_comma": _FLAG,
    "tokenizer.tokenize_chinese_chars": _FLAG,
}


def type_fault(meta: Mapping) -> str | None:
    """A value of another kind than its key expects: key, value and kind, for a message; None where all are right."""
    for path, kind in _KINDS.items():
        for place, value in _values(meta, path.split(".")):
            if not kind.fits(value):
                return f"{place} is {str(value)[:80]}, expected {kind.expected}"
    return None


def _values(value: Any, path: list[str], place: str = "") -> Iterator[tuple[str, object]]:
    """(dotted path, value) of all values under a path; the objects on the way were checked before."""
    if not path:
        yield place, value
        return
    for name in list(value) if path[0] == "*" else [path[0]] if path[0] in value else []:
        yield from _values(value[name], path[1:], f"{place}.{name}" if place else name)
