"""How a file holds its rows: its format by its name, delimiter, quoting and encoding by its content, or as given.

What another program has written is told from the file itself: semicolons between columns (spreadsheets of many countries),
UTF-16 (Excel's "Unicode text"), and tab-separated rows with quoted fields (pandas).
"""

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nlpdata.errors import DataError, Message, UsageError, opt
from nlpdata.finetuning.datasets import BadRow
from nlpdata.finetuning.lines import UTF_8, all_lines, check_encoding, file_encoding, read_lines
from nlpdata.finetuning.tables import DELIMITERS, TableForm, csv_reader, form_of

_USUAL = {"csv": ",", "tsv": "\t"}
_NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}
_ROWS = 200  # that tell the delimiter
_CHARACTERS = 1 << 20  # at most, but for the last line
_SAME = 0.9  # of them: have as many columns as the first one


def check_table_options(delimiter: str | None, encoding: str | None) -> None:
    """UsageError for a delimiter or an encoding that no file can have."""
    if delimiter is not None:
        mark = _NAMES.get(delimiter, delimiter)
        if len(mark) != 1 or mark in '"\r\n\0\ufeff' or mark.isalnum():
            raise UsageError(
                f"{opt('delimiter')} must be one character, or one of {', '.join(_NAMES)}; letters, digits and quotation marks "
                f"are text. Received: {delimiter!r}."
            )
    if encoding is not None:
        check_encoding(encoding)


def recognise(
    path: Path,
    wanted: Sequence[str | int],
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
) -> tuple[TableForm, Message | None]:
    """How a file holds its rows, and a line about what is not as its name says (None where all is).

    Args:
      path: the file; of a pipe, what is not given is as its name says.
      wanted: the columns that are read, as for read_table: a delimiter that gives these is preferred.
      format: csv, tsv, jsonl or parquet; None: by its name. A given "csv" has quoted fields, a given "tsv" has none.
      delimiter, encoding: as given; None: by its content.
      header: whether the first line names the columns.

    Raises UsageError where the format cannot be told or has no such option, DataError where the file cannot be read.
    """
    check_table_options(delimiter, encoding)
    name = format or form_of(path)
    if name is None:
        raise UsageError(
            f"{path}: cannot tell its format; expected a name ending in .csv, .tsv, .jsonl or .parquet, or a {opt('format')}."
        )
    for option, value in (("delimiter", delimiter), ("encoding", encoding)):
        if value is not None and (name == "parquet" or (name == "jsonl" and option == "delimiter")):
            raise UsageError(
                f"{opt(option)}: {path} is read as {name}, which has none. Leave it out, or give a {opt('format')}."
            )
    mark = _NAMES.get(delimiter, delimiter) if delimiter else None
    if name == "parquet" or not path.is_file():  # a pipe is read once
        return TableForm(name, mark or _USUAL.get(name, ""), encoding), None
    found = encoding or file_encoding(path)
    if name == "jsonl":
        return TableForm(name, encoding=found), _note(path, [] if encoding else [found])
    if mark is None and format == "tsv":
        mark = "\t"
    mark = mark or _delimiter(_sample(path, found), name, wanted if header else ())
    quoted = name == "csv" or (format is None and (mark != "\t" or _has_quoted_fields(path, found, mark, header)))
    said = [] if encoding else [found]
    if delimiter is None and mark != _USUAL[name]:
        said.append(f"{DELIMITERS[mark]} between columns")
    if quoted and name == "tsv":
        said.append("fields in quotation marks")
    return TableForm("csv" if quoted else "tsv", mark, found), _note(path, said)


def _note(path: Path, said: list[str]) -> Message | None:
    said = [each for each in said if each != UTF_8]
    return Message(f"{path}: read as {', '.join(said)}") if said else None


def _sample(path: Path, encoding: str) -> list[str]:
    """The first lines of a file that are text: _ROWS, or fewer long ones."""
    lines: list[str] = []
    size = 0
    for item in itertools.islice(read_lines(path, encoding), _ROWS):
        if not isinstance(item, BadRow):
            lines.append(item[1])
            size += len(item[1])
        if size > _CHARACTERS:
            break
    return lines


def _delimiter(lines: Sequence[str], name: str, wanted: Sequence[str | int]) -> str:
    """The delimiter that gives most of the wanted columns, then one that gives rows of one width; the usual one if in doubt."""
    usual = _USUAL[name]
    return max([usual, *(mark for mark in DELIMITERS if mark != usual)], key=lambda mark: _fit(lines, mark, wanted))


def _fit(lines: Sequence[str], mark: str, wanted: Sequence[str | int]) -> tuple[int, bool]:
    """(how many of the wanted columns the first row names, whether nearly all rows have its width)"""
    readings = [list(_rows_until_fault(lines, mark))]
    if mark == "\t":  # between which quotation marks may be text
        readings.append([line.split(mark) for line in lines])
    return max(_fit_of(rows, wanted) for rows in readings)


def _fit_of(rows: Sequence[Sequence[str]], wanted: Sequence[str | int]) -> tuple[int, bool]:
    if not rows:
        return 0, False
    width = len(rows[0])
    same = sum(len(row) == width for row in rows)
    return sum(column in rows[0] for column in wanted), width > 1 and same >= _SAME * len(rows)


def _rows_until_fault(lines: Iterable[str], mark: str) -> Iterator[list[str]]:
    rows = csv_reader((f"{line}\n" for line in lines), mark)
    while True:
        try:
            row = next(rows, None)
        except csv.Error:
            return
        if row is None:
            return
        yield row


def _has_quoted_fields(path: Path, encoding: str, mark: str, header: bool) -> bool:
    """Whether a quotation mark at the start of a field opens a quoted one, by the first row that tells.

    Pandas quotes a field that needs it: one with a delimiter, a line break, or quotation marks, which it doubles. Such a row
    has another number of columns if it is split at every delimiter. A row that cannot be read with quoted fields, or only
    with another number of columns, tells that the marks are text. Names of columns in quotation marks are quoted.
    """
    raw: list[str] = []

    def noted() -> Iterator[str]:
        for item in all_lines(path, encoding):
            if not isinstance(item, BadRow):
                raw.append(item[1])
                yield f"{item[1]}\n"

    width = 0
    try:
        for row in csv_reader(noted(), mark):
            if header and not width and row != raw[0].split(mark):
                return True
            width = width or len(row)
            if any('"' in line for line in raw):
                told = _tells(row, [line.split(mark) for line in raw], width)
                if told is not None:
                    return told
            raw.clear()
    except csv.Error:
        return False
    except DataError:  # reading the rows meets it again, and says where it is
        return False
    return False


def _tells(row: list[str], plain: list[list[str]], width: int) -> bool | None:
    """Whether a row has quoted fields; None: it may be either. row: with them; plain: the fields of its lines without."""
    several = len(plain) > 1
    if len(row) != width or (several and all(len(fields) == width for fields in plain)):
        return False
    if several or len(plain[0]) != width:
        return True
    return any(field[:1] == '"' and '""' in field[1:-1] for field in plain[0]) or None
