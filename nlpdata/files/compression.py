"""Compressed files, read as the bytes they hold: a file that is cut off or damaged is an error, never a shorter file."""

import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

from nlpdata.errors import missing_package
from nlpdata.files import Readable

DAMAGE = (EOFError, OSError, zlib.error)
"""What decompressing damaged data raises, in addition to the errors of the system."""

COMPRESSED = (".gz", ".zst")  # how names of such files end
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def detect_compression(first_bytes: bytes) -> str:
    """ "none", "gzip" or "zstd", by the magic number at the start of a file."""
    return next((name for magic, name in _COMPRESSIONS.items() if first_bytes.startswith(magic)), "none")


def open_stream(raw: Readable, compression: str, path: str) -> Readable:
    """An object whose `read(size)` gives the decompressed bytes of the open binary file `raw`."""
    if compression == "gzip":
        return gzip.GzipFile(fileobj=cast(IO[bytes], raw), mode="rb")
    if compression == "zstd":
        return _zstd_stream(raw, path)
    return raw


def plain_file_name(name: str) -> str:
    """What a compressed file is called once it is unpacked: train.tsv of train.tsv.gz; other names stay as they are."""
    return next((name.removesuffix(suffix) for suffix in COMPRESSED if name.endswith(suffix) and name != suffix), name)


def find_file(folder: Path, *names: str) -> Path | None:
    """The first of these files that a folder has, as it is or compressed (train.tsv.gz); None where it has none."""
    paths = (folder / (name + suffix) for name in names for suffix in ("", *COMPRESSED))
    return next((path for path in paths if path.exists()), None)


def decompressed(content: bytes, path: str) -> bytes:
    """What a file holds, given its bytes, which may be compressed. Raises what `DAMAGE` lists where they are damaged."""
    kind = detect_compression(content)
    if kind == "none":
        return content
    stream = open_stream(io.BytesIO(content), kind, path)
    return b"".join(iter(lambda: stream.read(1 << 20), b""))


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

    def __init__(
        self, raw: Readable, new_frame: Callable[[], Any], fault: type[Exception], limit: int | None = None
    ) -> None:
        self._raw, self._new_frame, self._fault = raw, new_frame, fault
        self._limit = () if limit is None else (limit,)
        self._frame: Any = None
        self._pending = b""  # compressed bytes after a frame's end
        self._ready = bytearray()

    def read(self, size: int, /) -> bytes:
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


def _zstd_stream(raw: Readable, path: str) -> FrameStream:
    try:
        import zstandard
    except ImportError as error:
        raise missing_package(f"{path}: reading Zstandard", "zstandard") from error
    return FrameStream(raw, zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj, zstandard.ZstdError)
