"""The texts that compete in a row of a table: in a column each, or in one column with a list of them."""

from collections.abc import Sequence
from pathlib import Path

from nlpdata.errors import UsageError, opt
from nlpdata.finetuning.datasets import BadRow
from nlpdata.finetuning.tables import shown, text_fault
from nlpdata.records.meta_types import LEAST_CHOICES, MOST_CHOICES


def choice_columns(given: str) -> tuple[str, ...]:
    """The names in a value of --choice-columns. UsageError where they are not one, or several different ones."""
    names = tuple(name.strip() for name in given.split(","))
    if "" in names or len(set(names)) != len(names) or len(names) > MOST_CHOICES:
        expected = f"one name, or up to {MOST_CHOICES} different ones with commas between them"
        raise UsageError(f"{opt('choice_columns')}: expected {expected}. Received: {given!r}.")
    return names


def choice_texts(
    path: Path, line: int, columns: Sequence[str | int], values: Sequence[object]
) -> tuple[str, ...] | BadRow:
    """The texts that compete in a row; a BadRow where there are not 2 to 64, or where one is empty or not text.

    Args:
      path, line: where the row is, for messages.
      columns: those of the choices, or the one with a list of them.
      values: what the row has in these columns.
    """
    texts, first = values, columns[0]
    if len(columns) == 1:
        (texts,) = values  # type: ignore[assignment]
        if not isinstance(texts, list):
            what = f"{first!r} is {shown(texts)}, expected a list of texts"
            return BadRow("choices", f"{path}:{line}: {what}. Correct the row")
        columns = [first] * len(texts)
    if not LEAST_CHOICES <= len(texts) <= MOST_CHOICES:
        what = f"{first!r}: expected {LEAST_CHOICES} to {MOST_CHOICES} choices, found {len(texts)}"
        return BadRow("choices", f"{path}:{line}: {what}. Correct the row")
    found = []
    for number, (column, text) in enumerate(zip(columns, texts, strict=True)):
        if fault := text_fault(path, line, column, text):
            return fault
        if not str(text).strip():
            return BadRow("choices", f"{path}:{line}: choice {number} ({column!r}) is empty. Correct the row")
        found.append(str(text))
    return tuple(found)
