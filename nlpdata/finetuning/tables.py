"""Rows of tables, as files have them: CSV, TSV without quoting, JSON lines, Parquet.

Every reader yields (line, values) or a BadRow; `values` are those of the wanted columns, in their order. Blank lines at
the end of a file are nothing; one in the middle is a bad row. A file is opened once and read from its start to its end, a
line at a time: it may be a pipe without end.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from nlpdata.errors import HALF, DataError, closest, missing_package, opt
from nlpdata.files.compression import plain_file_name
from nlpdata.files.json_files import JSON_FAULTS, json_fault
from nlpdata.files.json_kinds import as_written, is_characters
from nlpdata.finetuning.datasets import BadRow
from nlpdata.finetuning.lines import MAX_LINE_BYTES, all_lines, blank_line, count_lines, read_lines

Wanted = Sequence[str | int] | Callable[[Sequence[str]], Sequence[str | int]]
"""The columns that a reader gives: names or numbers, or what chooses them from the header, or each object's keys."""

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""The usual delimiters, and what messages call them."""


@dataclass(frozen=True)
class TableForm:
    """How a file holds its rows.

    Attributes:
      name: csv (fields may be quoted), tsv (a quotation mark is a character like any other), jsonl or parquet.
      delimiter: the character between two columns of csv and tsv.
      encoding: of csv, tsv and jsonl; None: UTF-8, or what its first bytes say (nlpdata.finetuning.lines).
    """

    name: str
    delimiter: str = ","
    encoding: str | None = None


_BATCH_ROWS, _BATCH_BYTES = 4096, 16 << 20  # of Parquet, decoded together
_SHOWN = 80  # characters of a value that a message quotes


class MissingColumn(DataError):
    """A wanted column is not in the header, or twice."""


def read_table(path: Path, form: TableForm, wanted: Wanted, header: bool = True) -> Iterator:
    """The rows of a file: (line, values of the wanted columns) or a BadRow.

    Args:
      path: the file.
      form: see nlpdata.finetuning.dialects.recognise.
      wanted: names of columns, or without a header their numbers from 0; or a function that chooses them.
      header: whether the first line names the columns (csv, tsv).

    Raises DataError where it is not such a file or has no such column.
    """
    return READERS[form.name](path, wanted, header, form.delimiter, form.encoding)


def _pick(path: Path, header: Sequence[str], wanted: Wanted, line: int = 1) -> list[int]:
    """Where the wanted columns are."""
    places = []
    for column in wanted(header) if callable(wanted) else wanted:
        if isinstance(column, int):
            if column >= len(header):
                raise DataError(f"{path}:{line}: no column {column}: the row has {len(header)}, counted from 0")
            places.append(column)
        elif header.count(column) == 1:
            places.append(header.index(column))
        else:
            twice = column in header
            hint, why = ("", "is twice in") if twice else (closest(column, header), "is missing from")
            shown = ", ".join(name[:40] for name in header[:12]) + (" ..." if len(header) > 12 else "")
            raise MissingColumn(f"{path}:{line}: column {column!r} {why} the header, which has: {shown}.{hint}")
    return places


def _row_fault(path: Path, line: int, found: int, expected: int) -> BadRow:
    kind, why = (
        ("short_row", "is a separator or a line lost?") if found < expected else ("long_row", "a separator too many?")
    )
    return BadRow(
        kind, f"{path}:{line}: {found} columns, expected {expected} as in the first line ({why}). Correct the row"
    )


def read_tsv(
    path: Path, wanted: Wanted, header: bool = True, delimiter: str = "\t", encoding: str | None = None
) -> Iterator:
    """Tab-separated rows in which a quotation mark is a character like any other (GLUE's files have stray ones)."""
    lines = read_lines(path, encoding)
    rows = (item if isinstance(item, BadRow) else (item[0], item[1].split(delimiter)) for item in lines)
    return _with_columns(path, rows, wanted, header, delimiter)


def read_csv(
    path: Path, wanted: Wanted, header: bool = True, delimiter: str = ",", encoding: str | None = None
) -> Iterator:
    """Rows by RFC 4180: a field in double quotes may hold delimiters, line breaks and doubled quotes."""
    return _with_columns(path, _csv_rows(path, delimiter, encoding), wanted, header, delimiter)


def _with_columns(path: Path, rows: Iterable, wanted: Wanted, header: bool, delimiter: str) -> Iterator:
    """(line, the wanted values) of (line, all values). A row of another width than the first one is a BadRow."""
    places: list[int] | None = None
    width = 0
    for item in rows:
        if isinstance(item, BadRow):
            yield item
            continue
        line, values = item
        if places is None:
            places, width = _pick(path, values, wanted, line), len(values)
            if header:
                continue
        if len(values) != width:
            yield _row_fault(path, line, len(values), width)
            continue
        yield line, [values[place] for place in places]
    if places is None:
        between = DELIMITERS.get(delimiter, repr(delimiter))
        raise DataError(
            f"{path}: empty. Expected {'a header and ' if header else ''}rows with {between} between columns"
        )


def _csv_rows(path: Path, delimiter: str, encoding: str | None) -> Iterator:
    """(line, values) of each row that is not blank; a BadRow for a blank one before others."""
    source = _CsvLines(path, encoding)
    reader = csv_reader(source, delimiter)
    blank: list[BadRow] = []
    while True:
        source.first = 0
        try:
            values = next(reader, None)
        except csv.Error as error:
            yield _csv_fault(path, source.first, source.line, error)
            continue
        start = source.first
        yield from source.take_bad()
        if values is None:
            break
        if not values:
            blank.append(blank_line(path, start))
            continue
        yield from blank
        blank.clear()
        yield start, values


def csv_reader(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """The rows of lines by RFC 4180. csv.Error for a line that does not follow it."""
    csv.field_size_limit(MAX_LINE_BYTES)  # of the whole module, which has no other way
    return csv.reader(lines, delimiter=delimiter, strict=True)


class _CsvLines:
    """Lines for the csv module, without those that are not text, which are kept apart.

    line: number of the last one. first: of the first one since it was set to 0, where the row begins.
    """

    def __init__(self, path: Path, encoding: str | None) -> None:
        self._path = path
        self._lines = all_lines(path, encoding)
        self._bad: list[BadRow] = []
        self.line = self.first = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while True:
            item = next(self._lines)
            if not isinstance(item, BadRow) and "\0" in item[1]:
                what = "a NUL byte, which ends a text for other programs"
                item = BadRow("nul_byte", f"{self._path}:{item[0]}: {what}. Correct the row")
            if not isinstance(item, BadRow):
                break
            self._bad.append(item)
        self.line = item[0]
        self.first = self.first or self.line
        return item[1] + "\n"

    def take_bad(self) -> list[BadRow]:
        bad, self._bad = self._bad, []
        return bad


def _csv_fault(path: Path, start: int, stop: int, error: csv.Error) -> BadRow:
    """What a row is that the csv module refuses. DataError where one quotation mark has swallowed many rows, or all is one."""
    if "new-line character" in str(error):
        raise DataError(
            f"{path}:{start}: lines that end at a lone CR (old Macintosh). Expected LF or CRLF: convert the file with "
            "tr '\\r' '\\n'"
        ) from None
    if "unexpected end" in str(error) or "field larger" in str(error) or stop - start > 1000:
        raise DataError(
            f"{path}:{start}: a quotation mark that opens in this row is not closed. Close it, or, where quotation marks "
            f'are plain characters, double them (""), or use {opt("format", "tsv")} with tabs'
        ) from None
    return BadRow(
        "stray_quote",
        f"{path}:{start}: {error}: a stray quotation mark. Quote the whole field and double the marks inside",
    )


def read_jsonl(
    path: Path, wanted: Wanted, header: bool = True, delimiter: str = "", encoding: str | None = None
) -> Iterator:
    """One JSON object a line."""
    empty = True
    for item in read_lines(path, encoding):
        if isinstance(item, BadRow):
            yield item
            continue
        line, text = item
        if empty and text.lstrip().startswith("["):
            raise DataError(
                f"{path}:{line}: a JSON array, expected one object a line. Make lines of it: jq -c '.[]' {quote(str(path))} > "
                "rows.jsonl"
            )
        empty = False
        try:
            value = json.loads(text)
        except JSON_FAULTS as error:
            yield BadRow(
                "not_json", f"{path}:{line}: not JSON: {json_fault(error)}. Expected one object a line. Correct the row"
            )
            continue
        if not isinstance(value, dict):
            kind = type(value).__name__
            yield BadRow("not_an_object", f"{path}:{line}: a JSON {kind}, expected an object. Correct the row")
            continue
        keys = wanted(list(value)) if callable(wanted) else wanted
        missing = [key for key in keys if key not in value]
        if missing:
            hint = closest(missing[0], value)
            message = f"{path}:{line}: no key {missing[0]!r} among {', '.join(list(value)[:12])}.{hint} Correct the row"
            yield BadRow("missing_key", message)
            continue
        yield line, [value[key] for key in keys]
    if empty:
        raise DataError(f"{path}: empty. Expected one JSON object a line")


def read_parquet(
    path: Path, wanted: Wanted, header: bool = True, delimiter: str = "", encoding: str | None = None
) -> Iterator:
    """Rows of a Parquet file, a block at a time; their "lines" are row numbers from 1."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing_package(f"{path}: reading Parquet", "pyarrow") from None
    line = 0
    try:
        with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            names = list(file.schema_arrow.names)
            columns = [names[place] for place in _pick(path, names, wanted)]
            at_once = _rows_at_once(file.metadata)
            for batch in file.iter_batches(batch_size=at_once, columns=list(dict.fromkeys(columns))):
                for row in batch.to_pylist():
                    line += 1
                    yield line, [row[name] for name in columns]
            rows = file.metadata.num_rows
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        what = f"damaged after row {line}" if line else "not a Parquet file, or damaged"
        raise DataError(f"{path}: {what}: {str(error).splitlines()[0]}") from None
    except (ValueError, OverflowError, NotImplementedError) as error:  # of a type that Python does not have
        types = ", ".join(f"{name!r} ({file.schema_arrow.field(name).type})" for name in dict.fromkeys(columns))
        raise DataError(
            f"{path}: after row {line}: a value cannot be read: {str(error).splitlines()[0]}. Expected texts, and labels "
            f"that are texts, numbers or booleans. Received the columns {types}"
        ) from None
    if line != rows:
        raise DataError(f"{path}: damaged: {line} rows, and its footer says {rows}")


def _rows_at_once(metadata: Any) -> int:
    """The rows of Parquet that are decoded together: fewer where they are long, such as whole books."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    most = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(most, 1)))


def read_text(
    path: Path, wanted: Wanted = (), header: bool = False, delimiter: str = "", encoding: str | None = None
) -> Iterator:
    """One text a line, its white space kept; a blank line is an empty text."""
    for item in all_lines(path, encoding):
        yield item if isinstance(item, BadRow) else (item[0], [item[1]])


READERS = {"tsv": read_tsv, "csv": read_csv, "jsonl": read_jsonl, "parquet": read_parquet, "text": read_text}
_FORMS = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}


def form_of(path: Path) -> str | None:
    """The reader that fits a file's name, compressed or not; None where no name is known."""
    return _FORMS.get(Path(plain_file_name(path.name)).suffix.lower())


def shown(value: object) -> str:
    """A value of a row in a message: as JSON writes it, cut where it is long."""
    text = as_written(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_column_number(name: str) -> bool:
    """Whether it is the number of a column, for files without a header."""
    return name.isascii() and name.isdigit() and len(name) < 10


def text_fault(path: Path, line: int, column: str | int, value: object) -> BadRow | None:
    """What is wrong about the value of a column of texts."""
    if not isinstance(value, str):
        return BadRow("text_type", f"{path}:{line}: {column!r} is {shown(value)}, expected a string. Correct the row")
    if not is_characters(value):
        return BadRow("surrogate", f"{path}:{line}: {column!r} has {HALF}: {ascii(value)[:80]}. Correct the row")
    return None


def column_names(path: Path, form: TableForm) -> list[str]:
    """The columns of a file's header, or the keys of its first object; none where it has no such row."""
    if form.name == "parquet":
        return _parquet_names(path)
    if form.name == "csv":
        try:
            return next(csv_reader(_CsvLines(path, form.encoding), form.delimiter), [])
        except csv.Error:  # reading the rows says what is wrong
            return []
    for item in read_lines(path, form.encoding):
        if isinstance(item, BadRow):
            continue
        if form.name == "tsv":
            return item[1].split(form.delimiter)
        try:
            value = json.loads(item[1])
        except JSON_FAULTS:
            return []
        return list(value) if isinstance(value, dict) else []
    return []


def count_rows(path: Path, form: TableForm) -> int:
    """What the numbers of a file's rows go up to: its lines, or the rows of Parquet. DataError where it is damaged."""
    if form.name != "parquet":
        return count_lines(path)
    import pyarrow.parquet

    return pyarrow.parquet.read_metadata(path).num_rows


def _parquet_names(path: Path) -> list[str]:
    try:
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(path).names)
    except (ImportError, OSError, ValueError):
        return []
