"""Rows of tables, as files have them: TSV without quoting, CSV, JSON lines, Parquet.

Every reader yields (line, values) or a BadRow; `values` are those of the wanted columns, in their order. Blank lines at
the end of a file are nothing; one in the middle is a bad row. Lines end at LF or CRLF, gzip and Zstandard are read as they
are. A file is opened once and read from its start to its end, a line at a time: it may be a pipe without end.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

from nlpdata.errors import DataError, closest, missing_package, opt
from nlpdata.files import Readable
from nlpdata.files.compression import DAMAGE, detect_compression, open_stream
from nlpdata.finetuning.datasets import BadRow
from nlpdata.text.encoding import HEAD_BYTES, check_is_text

MAX_LINE_BYTES = 16 << 20
_REPAIR = f"Correct the row, or use {opt('on_bad_row', 'skip')}"
_SURROGATE = re.compile("[\ud800-\udfff]")

Wanted = Sequence[str | int] | Callable[[Sequence[str]], Sequence[str | int]]
"""The columns that a reader gives: names or numbers, or what chooses them from the header (the first object's keys)."""


def read_lines(path: Path) -> Iterator[tuple[int, str] | BadRow]:
    """(line number from 1, text without its end) of every line that is not blank."""
    waiting: list[BadRow] = []  # blank lines, until another line shows that the file does not end there
    for item in _all_lines(path):
        if not isinstance(item, BadRow) and not item[1].strip():
            waiting.append(_blank(path, item[0]))
            continue
        yield from waiting
        waiting.clear()
        yield item


def _blank(path: Path, line: int) -> BadRow:
    return BadRow("blank_line", f"{path}:{line}: blank line. {_REPAIR}")


def _all_lines(path: Path) -> Iterator[tuple[int, str] | BadRow]:
    """Every line. DataError for a file that is not rows of text."""
    with _open(path) as file:
        number = 0
        while line := _next_line(file, path, number):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise DataError(
                    f"{path}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MiB. Expected one row a line; are the "
                    "line ends missing, or is this another kind of file?"
                )
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
                _refuse_other_kinds(path, line)
            try:
                yield number, line.decode("utf-8")
            except UnicodeDecodeError as error:
                yield BadRow(
                    "invalid_utf8",
                    f"{path}:{number}: byte {error.start + 1} of the line is not UTF-8. Convert the file to UTF-8, or "
                    f"use {opt('on_bad_row', 'skip')}",
                )


def _open(path: Path) -> BufferedReader:
    """The file, unpacked where it is compressed. DataError for another kind of file than text."""
    try:
        with ExitStack() as opened:  # which closes the file where it is not returned
            file = opened.enter_context(open(path, "rb"))
            kind = detect_compression(file.peek(4))
            if kind != "none":
                file = opened.enter_context(
                    BufferedReader(_Unpacked(open_stream(file, kind, str(path)), file), 1 << 16)
                )
            check_is_text(str(path), file.peek(HEAD_BYTES)[:HEAD_BYTES], kind)
            opened.pop_all()
            return file
    except DAMAGE as error:
        raise _unreadable(path, error, 0) from None


class _Unpacked(RawIOBase):
    """A stream of decompressed bytes as a file; closing it closes the packed one."""

    def __init__(self, unpacked: Readable, packed: BufferedReader) -> None:
        self._unpacked, self._packed = unpacked, packed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._unpacked.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._packed.close()
        super().close()


def _next_line(file: BufferedReader, path: Path, number: int) -> bytes:
    try:
        return file.readline(MAX_LINE_BYTES + 1)
    except DAMAGE as error:
        raise _unreadable(path, error, number) from None


def _unreadable(path: Path, error: Exception, line: int) -> DataError:
    if isinstance(error, OSError) and error.errno:
        return DataError(f"{path}: cannot be read: {error.strerror}")
    return DataError(
        f"{path}: the compressed data are damaged or cut off after line {line} ({error or type(error).__name__}). Fetch or "
        "compress it again"
    )


def _refuse_other_kinds(path: Path, first: bytes) -> None:
    head = first[:200].lstrip().lower()
    if head.startswith((b"<!doctype", b"<html", b"<?xml", b"<head")):
        raise DataError(
            f"{path}:1: this is a web page, not data (it begins {first[:40].decode('utf-8', 'replace')!r}): the download "
            "went wrong. Download it again"
        )
    if b"\0" in first[:4096]:
        raise DataError(f"{path}:1: NUL bytes: this is not a text file. Expected rows of text")


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
            hint = closest(column, header)
            why = "is twice in" if column in header else "is missing from"
            shown = ", ".join(name[:40] for name in header[:12]) + (" ..." if len(header) > 12 else "")
            raise DataError(f"{path}:{line}: column {column!r} {why} the header, which has: {shown}.{hint}")
    return places


def _row_fault(path: Path, line: int, found: int, expected: int) -> BadRow:
    kind, why = ("short_row", "is a tab or a line lost?") if found < expected else ("long_row", "a separator too many?")
    return BadRow(kind, f"{path}:{line}: {found} columns, expected {expected} as in the first line ({why}). {_REPAIR}")


def read_tsv(path: Path, wanted: Wanted, header: bool = True) -> Iterator:
    """Tab-separated rows in which a quotation mark is a character like any other (GLUE's files have stray ones)."""
    places: list[int] | None = None
    width = 0
    for item in read_lines(path):
        if isinstance(item, BadRow):
            yield item
            continue
        line, text = item
        values = text.split("\t")
        if places is None:
            places, width = _pick(path, values, wanted, line), len(values)
            if header:
                continue
        if len(values) != width:
            yield _row_fault(path, line, len(values), width)
            continue
        yield line, [values[place] for place in places]
    if places is None:
        raise DataError(f"{path}: empty. Expected {'a header and ' if header else ''}rows with tabs between columns")


def read_csv(path: Path, wanted: Wanted, header: bool = True) -> Iterator:
    """Comma-separated rows, RFC 4180: a field in double quotes may hold commas, line breaks and doubled quotes."""
    source = _CsvLines(path)
    reader = _csv_reader(source)
    places: list[int] | None = None
    blank: list[BadRow] = []
    width = 0
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
            blank.append(_blank(path, start))
            continue
        yield from blank
        blank.clear()
        if places is None:
            places, width = _pick(path, values, wanted, start), len(values)
            if header:
                continue
        if len(values) != width:
            yield _row_fault(path, start, len(values), width)
            continue
        yield start, [values[place] for place in places]
    if places is None:
        raise DataError(f"{path}: empty. Expected {'a header and ' if header else ''}comma-separated rows")


def _csv_reader(lines: Iterable[str]) -> Iterator[list[str]]:
    csv.field_size_limit(MAX_LINE_BYTES)  # of the whole module, which has no other way
    return csv.reader(lines, strict=True)


class _CsvLines:
    """Lines for the csv module, without those that are not text, which are kept apart.

    line: number of the last one. first: of the first one since it was set to 0, where the row begins.
    """

    def __init__(self, path: Path) -> None:
        self._lines = _all_lines(path)
        self._bad: list[BadRow] = []
        self.line = self.first = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while isinstance(item := next(self._lines), BadRow):
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
        f"{path}:{start}: {error}: a stray quotation mark. Quote the whole field and double the marks inside, or use "
        f"{opt('on_bad_row', 'skip')}",
    )


def read_jsonl(path: Path, wanted: Wanted, header: bool = True) -> Iterator:
    """One JSON object a line."""
    empty = True
    keys = None if callable(wanted) else wanted
    for item in read_lines(path):
        if isinstance(item, BadRow):
            yield item
            continue
        line, text = item
        empty = False
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield BadRow("not_json", f"{path}:{line}: not JSON: {error}. Expected one object a line. {_REPAIR}")
            continue
        if not isinstance(value, dict):
            kind = type(value).__name__
            yield BadRow("not_an_object", f"{path}:{line}: a JSON {kind}, expected an object. {_REPAIR}")
            continue
        if keys is None:
            assert callable(wanted)
            keys = wanted(list(value))
        missing = [key for key in keys if key not in value]
        if missing:
            hint = closest(missing[0], value)
            message = f"{path}:{line}: no key {missing[0]!r} among {', '.join(list(value)[:12])}.{hint} {_REPAIR}"
            yield BadRow("missing_key", message)
            continue
        yield line, [value[key] for key in keys]
    if empty:
        raise DataError(f"{path}: empty. Expected one JSON object a line")


def read_parquet(path: Path, wanted: Wanted, header: bool = True) -> Iterator:
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
            for batch in file.iter_batches(batch_size=4096, columns=list(dict.fromkeys(columns))):
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


def read_text(path: Path, wanted: Wanted = (), header: bool = False) -> Iterator:
    """One text a line, its white space kept; a blank line is an empty text."""
    for item in _all_lines(path):
        yield item if isinstance(item, BadRow) else (item[0], [item[1]])


READERS = {"tsv": read_tsv, "csv": read_csv, "jsonl": read_jsonl, "parquet": read_parquet}
_FORMS = {".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}


def form_of(path: Path) -> str | None:
    """The reader that fits a file's name, compressed or not; None where no name is known."""
    name = Path(path.name.removesuffix(".gz").removesuffix(".zst"))
    return _FORMS.get(name.suffix.lower())


def text_fault(path: Path, line: int, column: str | int, value: object) -> BadRow | None:
    """What is wrong about the value of a column of texts."""
    if not isinstance(value, str):
        what = f"{column!r} is {value!r} ({type(value).__name__}), expected a string"
        return BadRow("text_type", f"{path}:{line}: {what}. {_REPAIR}")
    if _SURROGATE.search(value):
        what = f"{column!r} has half of a surrogate pair, which is not a character: {ascii(value)[:80]}"
        return BadRow("surrogate", f"{path}:{line}: {what}. {_REPAIR}")
    return None


def column_names(path: Path, form: str) -> list[str]:
    """The columns of a file's header, or the keys of its first object."""
    if form == "parquet":
        return [name for name in _parquet_names(path)]
    for item in read_lines(path):
        if isinstance(item, BadRow):
            continue
        if form == "jsonl":
            try:
                value = json.loads(item[1])
            except (ValueError, RecursionError):
                return []
            return list(value) if isinstance(value, dict) else []
        if form == "tsv":
            return item[1].split("\t")
        try:
            return next(_csv_reader([item[1]]), [])
        except csv.Error:  # reading the rows says what is wrong
            return []
    return []


def _parquet_names(path: Path) -> list[str]:
    try:
        import pyarrow.parquet

        return list(pyarrow.parquet.read_schema(path).names)
    except (ImportError, OSError, ValueError):
        return []
