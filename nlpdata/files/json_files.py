"""JSON files: read as one object, or a DataError that names file and fault, or line by line; written whole or not at all."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nlpdata.errors import DataError
from nlpdata.files.disk import reading
from nlpdata.files.paths import read_file
from nlpdata.files.pointers import refuse_pointer
from nlpdata.files.writing import write_whole

JSON_FAULTS = (ValueError, RecursionError)
"""What json.loads raises for what it does not read; see json_fault."""

MOST_LINES_BYTES = 1 << 30
"""Of a file of JSON lines: a run's metrics have a few MiB, and a file with holes takes hours."""

_LONGEST_LINE = 1 << 20


def read_object(path: Path) -> dict:
    """The JSON object in a file. DataError where there is no such file, or something else in it."""
    with reading(path):
        raw = read_file(path)
    return parse_object(raw, str(path))


def parse_object(raw: bytes, source: str) -> dict:
    """The JSON object that UTF-8 text, with or without a byte order mark, describes; `source` is its name in messages.

    DataError for anything else, and where a name has two values: readers differ in which one they take.
    """
    refuse_pointer(source, raw)
    try:
        values = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_once)
    except JSON_FAULTS as error:
        raise DataError(f"{source}: not JSON: {json_fault(error)}") from None
    if not isinstance(values, dict):
        raise DataError(f"{source}: expected a JSON object, {{...}}, found {raw[:40].decode('utf-8', 'replace')!r}")
    return values


def json_lines(path: Path) -> Iterator[tuple[int, dict | None]]:
    """(number from 1, JSON object) of each line of a file; None for a line that is anything else. Without a file there are none.

    Of a last line without an end only an object counts: a process is writing it, or was killed at it. A line of a megabyte or more
    is not an object, so that memory is bounded. DataError where the file cannot be read, or is too large.
    """
    with reading(path), suppress(FileNotFoundError), open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > MOST_LINES_BYTES:
            raise DataError(f"{path}: has more than {MOST_LINES_BYTES >> 20} MiB. Is it another file?")
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            is_long = len(line) == _LONGEST_LINE
            ended = line.endswith(b"\n")
            found = None if is_long else _object_in(line)
            while line and not line.endswith(b"\n"):
                line = file.readline(_LONGEST_LINE)
            if ended or is_long or found is not None:
                yield number, found


def _object_in(line: bytes) -> dict | None:
    if not line.lstrip().startswith(b"{"):  # a look takes a tenth of the time of an exception
        return None
    try:
        value = json.loads(line)
    except JSON_FAULTS:
        return None
    return value if isinstance(value, dict) else None


def json_fault(error: ValueError | RecursionError) -> str:
    """Why json.loads refuses a text, without Python's advice to those who write programs."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "it has a number of thousands of digits" if "int_max_str_digits" in str(error) else str(error)


def _once(pairs: list[tuple[str, object]]) -> dict:
    values = dict(pairs)
    if len(values) < len(pairs):
        for name, value in pairs:
            if value != values[name]:
                raise ValueError(f"{name!r} has two values")
    return values


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file, indented, with a line break at the end, and moves it into place. DataError where it cannot."""
    write_file(path, json_bytes(content))


def json_bytes(content: object) -> bytes:
    """JSON for people: indented, with a line break at the end. Lone surrogates are written as JSON's \\udcff."""
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def write_file(path: Path, content: bytes) -> None:
    """Writes a file whole (nlpdata.files.writing.write_whole). DataError where the disk refuses."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None
