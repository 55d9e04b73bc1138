"""Opening a corpus file: compression, the check that it is UTF-8 text, and reading with errors a user can act on."""

import gzip
import os
import zlib
from contextlib import contextmanager
from hashlib import blake2b
from shlex import quote

from nlpdata.corpus.types import CorpusFile
from nlpdata.errors import DataError
from nlpdata.files import file_size, open_binary

DAMAGE = (EOFError, OSError, zlib.error)
"""What decompressing damaged data raises, besides the errors of the system."""
BOM = b"\xef\xbb\xbf"
HEAD_BYTES = 4096
_SAMPLE_BYTES = 1 << 16
_COUNT_LINES_UP_TO = 1 << 31  # further into a file than this, an error gives the byte offset alone

_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}

# Longest first, so that UTF-32-LE is not taken for UTF-16-LE.
_UNICODE_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}

_OTHER_FORMATS = {
    b"PK\x03\x04": ("a zip archive (or an Office document)", "extract its text first"),
    b"BZh": ("bzip2 data", "decompress it, or recompress it with gzip or zstd"),
    b"\xfd7zXZ\x00": ("xz data", "decompress it, or recompress it with gzip or zstd"),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "extract it first"),
    b"\x04\x22\x4d\x18": ("lz4 data", "decompress it, or recompress it with gzip or zstd"),
    b"%PDF-": ("a PDF document", "extract its text first"),
    b"PAR1": ("a Parquet file", "write its text column to text or JSON lines first"),
    b"ARROW1": ("an Arrow file", "write its text column to text or JSON lines first"),
    b"\x89HDF": ("an HDF5 file", "it is no text"),
    b"\x93NUMPY": ("a NumPy array", "it is no text"),
    b"SQLite format 3\x00": ("an SQLite database", "write its text to a file first"),
    b"\x89PNG": ("a PNG image", "it is no text"),
    b"\x7fELF": ("a program", "it is no text"),
}


def detect_compression(first_bytes: bytes) -> str:
    """ "none", "gzip" or "zstd", by the magic number at the start of a file."""
    return next((name for magic, name in _COMPRESSIONS.items() if first_bytes.startswith(magic)), "none")


def check_is_text(path: str, head: bytes, compression: str = "none") -> None:
    """Raises DataError where `head`, the first bytes of the decompressed file, cannot be UTF-8 text."""
    for mark, encoding in _UNICODE_MARKS.items():
        if head.startswith(mark):
            raise _wrong_encoding(path, encoding, f"its first bytes are the {encoding} mark", compression)
    for magic, (found, advice) in _OTHER_FORMATS.items():
        if head.startswith(magic):
            raise DataError(f"{path}: expected UTF-8 text, found {found}: {advice}")
    if head[257:262] == b"ustar":
        raise DataError(f"{path}: expected UTF-8 text, found a tar archive: extract it first")
    # A TFRecord begins with a uint64 length and its checksum; an Example then begins with the tag of its one field.
    if len(head) > 12 and head[4:8] == bytes(4) and head[12:13] == b"\n":
        raise DataError(
            f"{path}: expected UTF-8 text, found what looks like a TFRecord file: give the text it came from"
        )
    nuls = head.count(0)
    if nuls < 4 or nuls * 10 < len(head):
        return  # a stray NUL is text; a tenth of all bytes is not
    share = f"{nuls} of its first {len(head)} bytes are NUL"
    shares = [head[place::4].count(0) * 4 / len(head) for place in range(4)]  # of NULs, by byte of a 4-byte unit
    even, odd = shares[0] + shares[2], shares[1] + shares[3]
    if min(shares[2:]) > 0.9 and shares[0] < 0.1:
        raise _wrong_encoding(path, "UTF-32LE", share, compression)
    if min(shares[:2]) > 0.9 and shares[3] < 0.1:
        raise _wrong_encoding(path, "UTF-32BE", share, compression)
    if max(even, odd) > 9 * min(even, odd):
        raise _wrong_encoding(path, "UTF-16LE" if odd > even else "UTF-16BE", share, compression)
    raise DataError(f"{path}: expected UTF-8 text, found binary data: {share}")


def _wrong_encoding(path: str, encoding: str, why: str, compression: str) -> DataError:
    if compression == "none":
        command = f"iconv -f {encoding} -t UTF-8 {quote(path)} > {quote(path + '.utf8.txt')}"
    else:
        tool = {"gzip": "gzip -dc", "zstd": "zstd -dc"}[compression]
        command = f"{tool} {quote(path)} | iconv -f {encoding} -t UTF-8 > {quote(path + '.utf8.txt')}"
    return DataError(f"{path}: expected UTF-8 text, found {encoding} ({why}): convert it with: {command}")


@contextmanager
def reading(path: str):
    """Turns what the system or a decompressor raises into a DataError with the path."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(f"{path}: cannot be read: {reason}") from error


class Source:
    """An open corpus file: `read` goes on in the decompressed stream, in order.

    Opening checks that the head is text. A byte order mark belongs to no document: `origin` (0 or 3) is where
    text begins, and where reading starts. `seek` and `read_at` work on uncompressed files only.
    """

    def __init__(self, file: CorpusFile):
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

    def __enter__(self):
        return self

    def __exit__(self, *_):
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
        what = "is cut off" if isinstance(error, EOFError) else f"is corrupt ({error})"
        return DataError(
            f"{self.path}: the {self.compression} data {what}, after {self.decompressed} or more decompressed bytes "
            f"and near byte {self.disk_position()} of {file_size(self.path)} on disk: fetch or compress it again"
        )

    def seek(self, position: int) -> None:
        with reading(self.path):
            self._raw.seek(position)

    def read_at(self, start: int, stop: int) -> bytes:
        """The bytes of [start, stop), clipped to the file."""
        self.seek(max(start, 0))
        return self.read(stop - max(start, 0))

    def disk_position(self) -> int:
        """How far the file on disk has been read."""
        return self._raw.tell()


def open_stream(raw, compression: str, path: str):
    """An object whose `read(size)` gives the decompressed bytes of the open binary file `raw`."""
    if compression == "gzip":
        return gzip.GzipFile(fileobj=raw, mode="rb")
    if compression == "zstd":
        return _zstd_stream(raw, path)
    return raw


class FrameStream:
    """`read(size)` over compressed frames, one after the other to the end of the file.

    The streams of zstandard, bz2 and lzma end silently where a frame is cut off, or where something else follows it: this
    raises EOFError and OSError. Zeros after a frame are padding.

    Args:
      raw: the open file.
      new_frame: makes a decompressor object.
      fault: what that raises for damaged data.
      limit: bytes that it may return at a time, if it takes such a limit.
    """

    # One compressed KiB can hold 256 run-length blocks of 128 KiB each: more at a time would not bound memory.
    _STEP = 1024

    def __init__(self, raw, new_frame, fault: type[Exception], limit: int | None = None):
        self._raw, self._new_frame, self._fault = raw, new_frame, fault
        self._limit = () if limit is None else (limit,)
        self._frame = None
        self._pending = b""  # compressed bytes after a frame's end
        self._ready = bytearray()

    def read(self, size: int) -> bytes:
        while len(self._ready) < size and self._step():
            pass
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def _step(self) -> bool:
        data = b""
        if self._frame is None or getattr(self._frame, "needs_input", True):
            data = self._pending or self._raw.read(self._STEP)
            self._pending = b""
            if not data:
                if self._frame is not None:
                    raise EOFError
                return False
        if self._frame is None:
            data = data.lstrip(b"\0")
            if not data:
                return True
            self._frame = self._new_frame()
        try:
            self._ready += self._frame.decompress(data, *self._limit)
        except self._fault as error:
            raise OSError(str(error)) from error
        if self._frame.eof:
            self._pending = self._frame.unused_data
            self._frame = None
        return True


def _zstd_stream(raw, path: str) -> FrameStream:
    try:
        import zstandard
    except ImportError as error:
        raise DataError(f"{path}: zstd-compressed: reading it needs zstandard: pip install 'nlpdata[zstd]'") from error
    return FrameStream(raw, zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj, zstandard.ZstdError)


def line_number(file: CorpusFile, offset: int) -> int | None:
    """The number (from 1) of the line that holds byte `offset`; None where counting would take long."""
    if offset > _COUNT_LINES_UP_TO:
        return None
    with Source(file) as source:
        data, left, lines, last = source.head, offset, 1, b""
        while data and left > 0:
            data = data[:left]
            left -= len(data)
            lines += data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n") - (last + data[:1] == b"\r\n")
            last = data[-1:]
            data = source.read(min(left, 1 << 20))
    return lines


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
