"""What classes are called, whatever format their labels come from, and what looks odd about the classes of a dataset.

A label is text, a number or a boolean; its class has the name that `label_name` gives:

    1, 1.0, "1", "1.0", "+1", " 1 " -> "1"      numbers that are equal are one class, spelt as JSON spells a number
    "01", "1_000", "Pos", "pos"     -> as they are, without white space around
    true (JSON, Parquet)            -> "true"
    bytes in UTF-8 (Parquet)        -> as their text
    null, NaN (not the text)        -> None: no label
    lists, objects, other bytes     -> None: not a label, see `is_label`
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence

from nlpdata.errors import Message, UsageError, opt

_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,39})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")
_DIGITS = re.compile(r"-?\d+")
_BOOLEANS = ("true", "false")
# What stands for "no label" in the datasets of others; SNLI has "-", TensorFlow Datasets -1.
MARKERS = frozenset(
    "- -- --- _ ? ?? * ** . .. # / \\ n/a na #n/a nan null nil <na> unk <unk> [unk] unk. hidden missing undefined undef -1 "
    "-100 -999 unlabeled unlabelled unannotated no_label nolabel tbd todo xxx invalid error".split()
) | {"no label", "not labeled", "not labelled", "no annotation"}
_MARKERS_WHERE_RARE = frozenset({"none", "unknown", "unclear", "undetermined", "undecided", "other?"})
_RARE = 0.05  # of the rows: a class of one of these names is taken for a marker below it
_VERY_RARE = 0.01  # of the rows of the median class
_SHOWN = 5


def is_label(label: object) -> bool:
    """Whether a value may name a class: a list or an object does not, nor do bytes that are not text."""
    if isinstance(label, bytes):
        try:
            label.decode()
        except UnicodeDecodeError:
            return False
    return not isinstance(label, list | tuple | dict | set)


def label_name(label: object) -> str | None:
    """The name of a label's class (see the top of this file); None where there is no label."""
    if not is_label(label):
        return None
    if isinstance(label, bytes):
        label = label.decode()
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return None
    if isinstance(label, bool):
        return str(label).lower()
    text = str(label).strip()
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    if found[1] is None and found[2] is None:
        return str(int(text))
    value = float(text)
    if not math.isfinite(value):
        return text
    return str(int(value)) if value.is_integer() else str(value)


def label_parts(label: object, separator: str) -> list[str]:
    """The label names of a multilabel row: a list, or text with separators; no label and empty text are none."""
    parts = label.split(separator) if isinstance(label, str) else label
    parts = parts if isinstance(parts, list | tuple) else [parts]
    return [name for name in map(label_name, parts) if name]


def given_labels(text: str | None, option: str = "labels") -> tuple[str, ...]:
    """The names of a comma-separated option; () where it is not given. UsageError where two are one class."""
    if text is None:
        return ()
    names = tuple(label_name(part) or "" for part in text.split(","))
    if len(set(names)) != len(names) or "" in names:
        raise UsageError(f"{opt(option)}: names must be different and not empty. Received: {text!r}.")
    return names


def sorted_labels(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Classes in id order: numbers by size, else in alphabetical order; the spellings of a boolean are one class."""
    kept = dict(counts)
    for spellings in (_spellings(word) for word in _BOOLEANS):
        found = [name for name in spellings if name in kept]
        for name in sorted(found, key=lambda name: -kept[name])[1:]:
            del kept[name]
    numeric = all(_NUMBER.fullmatch(name) or _DIGITS.fullmatch(name) for name in kept)  # "01" is a number, too
    return tuple(sorted(kept, key=lambda name: (float(name), name)) if numeric else sorted(kept))


def label_ids(names: Sequence[str]) -> dict[str, int]:
    """Class name -> id, with the other spellings of "true" and "false"."""
    ids = {name: i for i, name in enumerate(names)}
    for name in names:
        if name.lower() in _BOOLEANS and name in _spellings(name.lower()):
            for spelling in _spellings(name.lower()):
                ids.setdefault(spelling, ids[name])
    return ids


def _spellings(word: str) -> tuple[str, ...]:
    return word, word.title(), word.upper()


def class_warnings(
    names: Sequence[str], counts: Mapping[str, int], rows: int, confirmed: Collection[str], skips: bool = False
) -> list[str]:
    """What looks odd about the classes of training rows.

    Args:
      names: the classes.
      counts: name -> rows that have it.
      rows: all of them.
      confirmed: names that the user gave: these are meant.
      skips: whether bad rows are left out.
    """
    open_names = [name for name in names if counts.get(name) and name not in confirmed]
    markers = [name for name in open_names if _is_marker(name, names, counts[name] / rows)]
    warnings = [
        f"{counts[name]} of {rows} rows ({counts[name] / rows:.2%}) have the label {name!r}, which looks like a marker for "
        f"rows without a label and became a class. Leave them out with {opt('drop_labels', name)}, or name the classes "
        f"with {opt('labels')}" + ("" if skips else f" and use {opt('on_bad_row', 'skip')}")
        for name in markers
    ]
    used = sorted(counts[name] for name in names if counts.get(name))
    median = used[len(used) // 2] if used else 0
    limit = max(1, _VERY_RARE * median)
    rare = [name for name in open_names if counts[name] <= limit and name not in markers]
    if rare and median >= 20:
        shown = ", ".join(f"{name!r} ({counts[name]})" for name in rare[:_SHOWN])
        more = f" and {len(rare) - _SHOWN} more" if len(rare) > _SHOWN else ""
        warnings.append(
            f"very rare classes (rows of {rows}): {shown}{more}. Are they misspelt? Correct them, or leave them out with "
            f"{opt('drop_labels', ','.join(rare[:_SHOWN]))}"
        )
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(re.sub(r"^0+(?=[0-9])", "", " ".join(name.casefold().split())), []).append(name)
    for group in alike.values():
        if len(group) > 1:
            shown = " and ".join(f"{name!r} ({counts.get(name, 0)})" for name in group)
            warnings.append(
                f"the labels {shown} differ only in case, white space or leading zeros, and are different classes: if "
                "they are one class, spell them alike in the input"
            )
    missing = [name for name in names if not counts.get(name)]
    if missing and counts:
        shown = ", ".join(map(repr, missing[:_SHOWN])) + (" ..." if len(missing) > _SHOWN else "")
        warnings.append(f"no training row has the label {shown}")
    return [str(Message(line)) for line in warnings]


def _is_marker(name: str, names: Sequence[str], share: float) -> bool:
    plain = name.casefold()
    if plain.startswith("-") and _NUMBER.fullmatch(plain):  # a scale such as -1, 0, 1 is its own mirror image
        is_scale = {name.lstrip("-") if name.startswith("-") else f"-{name}" for name in names} - {"-0"} <= set(names)
        return plain in MARKERS and (not is_scale or share < _RARE)
    return plain in MARKERS or (plain in _MARKERS_WHERE_RARE and share < _RARE)
