"""Lines of files of rows: any encoding, plain, gzip or Zstandard, with their numbers. Lines end at LF or CRLF.

A file is opened once and read from its start to its end, a line at a time: it may be a pipe without end.
"""

import codecs
import io
from collections.abc import Iterator
from contextlib import ExitStack
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files import Readable
from nlpdata.files.compression import DAMAGE, detect_compression, open_stream
from nlpdata.finetuning.datasets import BadRow
from nlpdata.text.encoding import HEAD_BYTES, check_is_text, unicode_encoding

MAX_LINE_BYTES = 16 << 20
UTF_8 = "utf-8"


def read_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[int, str] | BadRow]:
    """(line number from 1, text without its end) of every line that is not blank; a BadRow for a blank one before others.

    encoding: of the file; None: UTF-8, or UTF-16 or UTF-32 where its first bytes say so, and no option names another one.
    Raises DataError for a file that is not lines of text.
    """
    waiting: list[BadRow] = []  # blank lines, until another line shows that the file does not end there
    for item in all_lines(path, encoding):
        if not isinstance(item, BadRow) and not item[1].strip():
            waiting.append(blank_line(path, item[0]))
            continue
        yield from waiting
        waiting.clear()
        yield item


def blank_line(path: Path, line: int) -> BadRow:
    return BadRow("blank_line", f"{path}:{line}: blank line. Correct the row")


def all_lines(path: Path, encoding: str | None = None) -> Iterator[tuple[int, str] | BadRow]:
    """The same, with blank lines as they are."""
    remedy = "" if encoding is None else f", or name its encoding, e.g. {opt('encoding', 'cp1252')} (Windows, Latin-1)"
    file, encoding = _open(path, encoding)
    with file:
        plain = _has_plain_line_ends(encoding)
        lines = _lines(file, path, encoding, remedy) if plain else _wide_lines(file, path, encoding)
        for item in lines:
            if not isinstance(item, BadRow) and item[0] == 1:
                first = item[1].removeprefix("\ufeff")
                _refuse_other_kinds(path, first)
                item = 1, first
            yield item


def file_encoding(path: Path) -> str:
    """The encoding that read_lines recognises: "utf-8", or e.g. "utf-16". DataError for a file that is not text."""
    file, encoding = _open(path, None)
    file.close()
    return encoding


def count_lines(path: Path) -> int:
    """The lines of a file, an unfinished last one not among them. DataError where it cannot be read."""
    lines, (file, _) = 0, _open(path, None)
    with file:
        try:
            while block := file.read(1 << 20):
                lines += block.count(b"\n")
        except DAMAGE as error:
            raise _unreadable(path, error, lines) from None
    return lines


def check_encoding(name: str) -> None:
    """UsageError for what is not an encoding of text."""
    try:
        b"a,b\n".decode(name, "replace")
    except (LookupError, ValueError):  # also of codecs that are not for text, such as base64
        raise UsageError(
            f"{opt('encoding')} must be the name of an encoding, e.g. utf-8, utf-16, cp1252 or latin-1. Received: {name!r}."
        ) from None


def _has_plain_line_ends(encoding: str) -> bool:
    """Whether a line ends at the byte 0A and nowhere else."""
    return "a\n".encode(encoding, "replace") == b"a\n"


def _lines(file: BufferedReader, path: Path, encoding: str, remedy: str) -> Iterator[tuple[int, str] | BadRow]:
    number = 0
    while line := _next_line(file, path, number):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise _overlong(path, number)
        try:
            text = line.decode(encoding)
        except UnicodeError as error:
            yield _undecodable(path, number, encoding, getattr(error, "start", 0), remedy)
            continue
        yield number, text.removesuffix("\n").removesuffix("\r")


def _wide_lines(file: BufferedReader, path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Of an encoding with more bytes in a character. What is damaged is the rest of the file."""
    number = 0
    with io.TextIOWrapper(file, encoding, newline="\n") as text:
        while line := _next_line(text, path, number):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise _overlong(path, number)
            yield number, line.removesuffix("\n").removesuffix("\r")


def _open(path: Path, encoding: str | None) -> tuple[BufferedReader, str]:
    """The file, unpacked where it is compressed, and its encoding. DataError for another kind of file than text."""
    try:
        with ExitStack() as opened:  # which closes the file where it is not returned
            file = opened.enter_context(open(path, "rb"))
            kind = detect_compression(file.peek(4))
            if kind != "none":
                file = opened.enter_context(
                    BufferedReader(_Unpacked(open_stream(file, kind, str(path)), file), 1 << 16)
                )
            head = file.peek(HEAD_BYTES)[:HEAD_BYTES]
            encoding = encoding or unicode_encoding(head) or UTF_8
            if _has_plain_line_ends(encoding):
                check_is_text(str(path), head, kind)
            opened.pop_all()
            return file, encoding
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


def _next_line(file: Any, path: Path, number: int) -> Any:
    try:
        return file.readline(MAX_LINE_BYTES + 1)
    except DAMAGE as error:
        raise _unreadable(path, error, number) from None
    except UnicodeError as error:
        name = getattr(file, "encoding", "the encoding")
        raise DataError(
            f"{path}: after line {number}: not {name}: {getattr(error, 'reason', error)}. Is the file cut off, or its "
            f"{opt('encoding')} another one?"
        ) from None


def _unreadable(path: Path, error: Exception, line: int) -> DataError:
    if isinstance(error, OSError) and error.errno:
        return DataError(f"{path}: cannot be read: {error.strerror}")
    return DataError(
        f"{path}: the compressed data are damaged or cut off after line {line} ({error or type(error).__name__}). Fetch or "
        "compress it again"
    )


def _overlong(path: Path, number: int) -> DataError:
    return DataError(
        f"{path}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MiB. Expected one row a line; are the line ends missing, "
        "or is this another kind of file?"
    )


def _undecodable(path: Path, number: int, encoding: str, start: int, remedy: str) -> BadRow:
    where = f"{path}:{number}: byte {start + 1} of the line is not"
    if codecs.lookup(encoding).name != UTF_8:
        return BadRow("invalid_encoding", f"{where} {encoding}. Name the file's {opt('encoding')}")
    return BadRow("invalid_utf8", f"{where} UTF-8. Convert the file to UTF-8{remedy}")


def _refuse_other_kinds(path: Path, first: str) -> None:
    if first[:200].lstrip().lower().startswith(("<!doctype", "<html", "<?xml", "<head")):
        raise DataError(
            f"{path}:1: this is a web page, not data (it begins {first[:40]!r}): the download went wrong. Download it again"
        )
    if "\0" in first[:4096]:
        raise DataError(f"{path}:1: NUL bytes: this is not a text file. Expected rows of text")
