"""Opening a corpus file, and reading it with errors a user can act on."""

import os
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Self

from nlpdata.corpus.types import CorpusFile
from nlpdata.errors import DataError
from nlpdata.files.compression import open_stream
from nlpdata.files.disk import reading
from nlpdata.files.paths import file_size, open_binary
from nlpdata.text.encoding import HEAD_BYTES, check_is_text

BOM = b"\xef\xbb\xbf"
_SAMPLE_BYTES = 1 << 16
_COUNT_LINES_UP_TO = 1 << 31  # further into a file than this, an error gives the byte offset alone


class Source:
    """An open corpus file: `read` continues in the decompressed stream, in order.

    Opening checks that the head is text. A byte order mark belongs to no document: `origin` (0 or 3) is where
    text begins, and where reading starts. `seek` and `read_at` work on uncompressed files only.
    """

    def __init__(self, file: CorpusFile) -> None:
        self.path = file.path
        self.compression = file.compression
        self.decompressed = 0  # bytes that came out so far
        with reading(self.path):
            self._raw = open_binary(self.path)  # closed by __exit__
        try:
            self._stream = open_stream(self._raw, self.compression, self.path)
            self.head = self.read(HEAD_BYTES)
            check_is_text(self.path, self.head, self.compression)
        except BaseException:
            self._raw.close()
            raise
        self.origin = len(BOM) if self.head.startswith(BOM) else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end of the file."""
        try:
            with reading(self.path):
                data = self._stream.read(size)
        except (DataError, EOFError, zlib.error) as error:
            if self.compression == "none":
                raise
            raise self._broken(error) from error
        self.decompressed += len(data)
        return data

    def _broken(self, error: Exception) -> DataError:
        reason = str(error).removeprefix(f"{self.path}: cannot be read: ")
        what = "is cut off" if isinstance(error, EOFError) else f"is corrupt ({reason})"
        return DataError(
            f"{self.path}: the {self.compression} data {what}, after {self.decompressed} or more decompressed bytes "
            f"and near byte {self.disk_position()} of {file_size(self.path)} on disk: fetch or compress it again"
        )

    def seek(self, position: int) -> None:
        """Goes to a byte of the file."""
        with reading(self.path):
            self._raw.seek(position)

    def read_at(self, start: int, stop: int) -> bytes:
        """The bytes of [start, stop), clipped to the file."""
        self.seek(max(start, 0))
        return self.read(stop - max(start, 0))

    def disk_position(self) -> int:
        """How far the file on disk has been read."""
        return self._raw.tell()


def line_number(file: CorpusFile, offset: int) -> int | None:
    """The number (from 1) of the line that holds byte `offset`; None where counting would take long."""
    return line_numbers(file, [offset])[0]


def line_numbers(file: CorpusFile, offsets: Sequence[int]) -> list[int | None]:
    """The numbers (from 1) of the lines that hold the bytes at `offsets`, which ascend; None where counting would take long."""
    found: list[int | None] = []
    with Source(file) as source:
        data, start, lines, last = source.head, 0, 1, b""
        for offset in offsets:
            if offset > _COUNT_LINES_UP_TO:
                found.append(None)
                continue
            while data and start < offset:
                own = data[: offset - start]
                lines += own.count(b"\n") + own.count(b"\r") - own.count(b"\r\n") - (last + own[:1] == b"\r\n")
                last, start = own[-1:], start + len(own)
                data = data[len(own) :] or source.read(1 << 20)
            found.append(lines)
    return found


def place(file: CorpusFile, offset: int) -> str:
    """ "path:line" (where cheap to tell) with the byte offset, for messages."""
    number = line_number(file, offset)
    decompressed = "" if file.compression == "none" else " of the decompressed stream"
    line = "" if number is None else f":{number}"
    return f"{file.path}{line} (byte {offset}{decompressed})"


def fingerprint(file: CorpusFile) -> str:
    """A hex digest of name, size, and the first, middle and last 64 KiB on disk: the file's part of a work key."""
    digest = blake2b(digest_size=16)
    with reading(file.path), open_binary(file.path) as raw:
        size = raw.seek(0, os.SEEK_END)
        digest.update(f"{file.name}\0{size}\0".encode("utf-8", "surrogateescape"))
        if size <= _SAMPLE_BYTES:
            raw.seek(0)
            digest.update(raw.read(size))
            return digest.hexdigest()
        for start in (0, size // 2 - _SAMPLE_BYTES // 2, size - _SAMPLE_BYTES):
            raw.seek(max(0, start))
            digest.update(raw.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def require_unchanged(files: Sequence[CorpusFile], fingerprints: Sequence[str]) -> None:
    """DataError where a file is not the one of which the fingerprint was taken, or is gone."""
    for file, before in zip(files, fingerprints, strict=True):
        if fingerprint(file) != before:
            raise DataError(
                f"{file.path}: has changed while it was read. Nothing was put in place: run the command again when the input stays "
                "as it is"
            )
