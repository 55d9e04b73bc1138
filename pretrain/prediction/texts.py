"""The texts that predictions are made for: read from a file of lines, a table or JSON lines."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nlpdata.errors import DataError, UsageError
from nlpdata.files import PathName

FIRST_COLUMNS = ("text", "text_a", "question", "sentence", "sentence1", "question1", "#1 String", "premise")
SECOND_COLUMNS = ("text_b", "sentence2", "question2", "#2 String", "hypothesis")
_OTHER_SUFFIXES = (".json", ".csv", ".parquet", ".gz", ".zip", ".tar")  # whose lines are not texts


@dataclass(frozen=True)
class Texts:
    """The texts to predict for, in order; the lists are equally long.

    Attributes:
      names: the index of each row.
      first: the text, or the first of a pair.
      second: the second text of a pair; "" where there is none.
    """

    names: list[str]
    first: list[str]
    second: list[str]


def read_texts(path: PathName) -> Texts:
    """The texts of a file: .tsv with a header and .jsonl by column names, any other one text a line, white space kept.

    Raises UsageError where the file is missing or of another kind, or columns are missing; DataError, with the line, where
    it is not text.
    """
    if "tfrecord" in Path(path).name or "tf_record" in Path(path).name:
        raise UsageError(f"{path}: records do not hold texts. Give the texts, as .txt, .tsv or .jsonl.")
    suffix = Path(path).suffix.lower()
    if suffix in _OTHER_SUFFIXES:
        raise UsageError(f"{path}: texts come as .txt, one a line, .tsv with a header, or .jsonl. Received: {suffix}.")
    lines = _lines(Path(path))
    if suffix not in (".tsv", ".jsonl"):
        return Texts([str(i) for i in range(len(lines))], lines, [""] * len(lines))
    rows = _jsonl(lines, path) if suffix == ".jsonl" else _tsv(lines, path)
    first, second, name = _columns(rows, path)
    for number, row in enumerate(rows, 1 if suffix == ".jsonl" else 2):
        for column in filter(None, (first, second)):
            if not isinstance(row.get(column), str):
                raise DataError(f"{path}:{number}: no text {column!r} in this row. Received: {str(row)[:80]}")
        if not all(_is_unicode(value) for value in row.values() if isinstance(value, str)):
            raise DataError(
                f"{path}:{number}: half of a surrogate pair, which is not a character. Received: {row!a:.80}"
            )
    return Texts(
        [str(row[name]) if name and row.get(name) is not None else str(i) for i, row in enumerate(rows)],
        [row[first] for row in rows],
        [row[second] if second else "" for row in rows],
    )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    try:
        if b"\0" in data:
            raise ValueError(f"byte {data.index(0)} is 0")
        text = data.decode("utf-8-sig")
    except ValueError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}. Give texts, or records of create-finetuning.") from None
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def _jsonl(lines: list[str], path: PathName) -> list[dict]:
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number}: expected an object such as {{'text': ...}}. Received: {line[:80]}")
        rows.append(row)
    return rows


def _tsv(lines: list[str], path: PathName) -> list[dict]:
    header, *body = [line.split("\t") for line in lines] or [[]]
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise UsageError(
            f"{path}: two columns are called {twice[0]!r}: which one is meant? Rename one in the first line."
        )
    for number, cells in enumerate(body, 2):
        if len(cells) != len(header):
            raise DataError(f"{path}:{number}: {len(cells)} columns, the header has {len(header)}: {', '.join(header)}")
    return [dict(zip(header, cells, strict=True)) for cells in body]


def _columns(rows: Sequence[Mapping], path: PathName) -> tuple[str, str | None, str | None]:
    known = list(dict.fromkeys(name for row in rows for name in row))
    first = next((name for name in FIRST_COLUMNS if name in known), None)
    if first is None:
        raise UsageError(
            f"{path}: no column of texts. It needs one of {', '.join(FIRST_COLUMNS)}, and for pairs one of "
            f"{', '.join(SECOND_COLUMNS)}; it has {', '.join(known) or 'no rows'}."
        )
    pair = ("sentence", *SECOND_COLUMNS) if first == "question" else SECOND_COLUMNS
    second = next((name for name in pair if name in known), None)
    return first, second, next((name for name in ("index", "id") if name in known), None)
