"""Rows as a source has them -> rows as the encoder takes them: texts checked, labels turned to ids or numbers."""

import math
from collections.abc import Callable, Collection
from string import ascii_uppercase
from typing import Any

import numpy as np

from nlpdata.errors import HALF, closest, opt
from nlpdata.files.json_kinds import is_characters
from nlpdata.finetuning.datasets import BadRow, Dataset, Row, Split
from nlpdata.finetuning.label_names import is_label, label_ids, label_name, label_parts
from nlpdata.finetuning.tables import shown

DROPPED = object()  # a row with one of --drop-labels
_REPAIR = "Correct the row"
_LARGEST = float(np.finfo(np.float32).max)


class RowReader:
    """Turns the rows of a split into (text_a, text_b, label), a BadRow, or DROPPED for a row with one of `dropped`.

    text_b: the second text or None; of choice all texts that compete.
    label: an id (classification), a number from 0 (choice), a float (regression), a list of ids (multilabel); None without labels.
    """

    def __init__(
        self, dataset: Dataset, split: Split, separator: str, dropped: Collection[str] = (), makes_records: bool = True
    ) -> None:
        self._split, self._separator, self._dropped = split, separator, dropped
        self._makes_records = makes_records  # whether messages may name the options of create-finetuning
        self._labels = dataset.labels or ()
        self._ids = label_ids(self._labels)
        self._one = dataset.kind == "classification"
        self._choices = dataset.choices
        self._convert: Callable = {
            "classification": self._class_id,
            "regression": self._number,
            "multilabel": self._class_ids,
            "choice": self._choice,
        }[dataset.kind]

    def __call__(self, row: Row) -> Any:
        text_a, text_b, label, _, choices = row
        if self._dropped and self._split.labelled and label_name(label) in self._dropped:
            return DROPPED
        if not text_a.strip() or (text_b is not None and not text_b.strip()):
            return self._bad("empty_text", row, "an empty text")
        if self._choices:
            return self._of_choice(row, choices)
        if not self._split.labelled:
            return text_a, text_b, None
        found = self._ids.get(label) if self._one and type(label) is str else None
        if found is None:
            found = self._convert(label, row)
        return found if isinstance(found, BadRow) else (text_a, text_b, found)

    def _of_choice(self, row: Row, choices: tuple[str, ...]) -> tuple | BadRow:
        if len(choices) != self._choices:
            return self._bad("choices", row, f"expected {self._choices} choices, found {len(choices)}")
        if not all(text.strip() for text in choices):
            return self._bad("empty_text", row, "an empty choice")
        found = self._convert(row.label, row) if self._split.labelled else None
        return found if isinstance(found, BadRow) else (row.text_a, choices, found)

    def _bad(self, reason: str, row: Row, what: str, repair: str = _REPAIR) -> BadRow:
        where = f"{self._split.files[0]}:{row.where}" if isinstance(row.where, int) else row.where
        return BadRow(reason, f"{where}: {what}. {repair}")

    def _class_id(self, label: object, row: Row) -> int | BadRow:
        if not is_label(label):
            return self._not_a_label(label, row)
        name = label_name(label)
        if name is None or name == "":
            return self._bad("missing_label", row, f"no label; expected one of {self._known()}")
        if not is_characters(name):
            return self._bad("surrogate", row, f"the label {ascii(name)[:60]} has {HALF}")
        if name in self._ids:
            return self._ids[name]
        what = f"unknown label {name[:60]!r}, expected one of {self._known()}"
        repair = f"{closest(name, self._labels)} {_REPAIR}"
        if self._makes_records:
            repair += f", leave such rows out with {opt('drop_labels', name[:60])}"
        return self._bad("unknown_label", row, what, repair.lstrip())

    def _not_a_label(self, label: object, row: Row) -> BadRow:
        """Of a row whose label is a list, an object or bytes that are not text."""
        expected = "text, a number or true or false"
        hint = (
            f"For several labels a row use {opt('task', 'multilabel')}. "
            if self._one and isinstance(label, list) and self._makes_records
            else ""
        )
        what = f"the label is {shown(label)}, expected {expected}"
        return self._bad("label_type", row, what, f"{hint}{_REPAIR}")

    def _known(self) -> str:
        return ", ".join(self._labels[:12]) + (" ..." if len(self._labels) > 12 else "")

    def _number(self, label: Any, row: Row) -> float | BadRow:
        try:
            value = math.nan if isinstance(label, bool) or "_" in str(label) else float(label)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if not abs(value) <= _LARGEST:  # nor nan
            return self._bad("label_type", row, f"the label is {shown(label)}, expected a number such as 3.8")
        return value

    def _choice(self, label: object, row: Row) -> int | BadRow:
        """The number of the right choice: as it is, or of its letter."""
        name = label_name(label) or ""
        letters = ascii_uppercase[: self._choices]
        if name.isascii() and name.isdigit():
            found = int(name) if len(name) < 10 else -1
        else:
            found = letters.find(name.upper()) if len(name) == 1 else -1
        if 0 <= found < self._choices:
            return found
        is_there = name or not is_label(label)
        reason, what = ("label_type", f"the label is {shown(label)}") if is_there else ("missing_label", "no label")
        expected = f"the number of the right choice, 0 to {self._choices - 1}, or its letter, A to {letters[-1]}"
        return self._bad(reason, row, f"{what}, expected {expected}")

    def _class_ids(self, label: object, row: Row) -> list[int] | BadRow:
        for part in label if isinstance(label, list | tuple) else [label]:
            if not is_label(part):
                return self._not_a_label(part, row)
        ids = []
        for name in label_parts(label, self._separator):
            found = self._class_id(name, row)
            if isinstance(found, BadRow):
                return found
            ids.append(found)
        return ids
