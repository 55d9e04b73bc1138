"""Tar archives, plain or compressed, and .zip archives, read to their end: damage is an error, never a shorter archive.

tarfile takes a header that fails its checksum, and a file that ends between two members, for the end of the archive; the
decompressors of bz2 and lzma take what follows a stream and is not one for the end of the file. Here an archive ends with
two blocks of zeros, with nothing but zeros after them, and its compressed data end with the file.

A tar archive has checksums for its headers, not for what its members hold: those are in the compressed data around it.
"""

import bz2
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import IO, cast

from nlpdata.errors import DataError, NlpdataError
from nlpdata.files import Readable
from nlpdata.files.compression import DAMAGE, FrameStream, detect_compression, open_stream
from nlpdata.files.pointers import refuse_pointer

_BLOCK = tarfile.BLOCKSIZE
_STEP = 1 << 20
_ENCRYPTED = 1  # bit of a member's flags in a .zip
_NAMES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")


def read_tar(path: Path, take: Callable[[tarfile.TarFile, tarfile.TarInfo], None]) -> None:
    """Calls take(archive, member) for the members of an archive in their order; it may read the member.

    The archive is known to be whole only when this returns. DataError, with the file and the byte of the unpacked
    data, where it is damaged, and for a TarError or OSError of `take`.
    """
    position = 0
    try:
        with open(path, "rb") as raw:
            stream = _Forward(_decompressed(raw, str(path)))
            try:
                with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r:") as archive:
                    for member in archive:
                        take(archive, member)
                    _check_end(stream, archive.offset)
            finally:
                position = stream.position
    except (tarfile.TarError, *DAMAGE, ValueError, OverflowError) as error:  # numbers of PAX headers
        if isinstance(error, OSError) and error.errno:  # the system's, not the decompressor's
            raise DataError(f"{path}: cannot be unpacked: {error.strerror} ({error.filename or path})") from None
        reason = str(error).splitlines()[0].rstrip(":") if str(error) else "it ends too early"
        raise DataError(f"{path}: not a whole tar archive: {reason} (near byte {position} unpacked)") from None


def is_tar(path: Path) -> bool:
    """Whether a file is a tar archive, plain or compressed, by its first bytes, or by its name where it is damaged."""
    if path.name.endswith(_NAMES):
        return True
    try:
        with open(path, "rb") as raw:
            return _decompressed(raw, str(path)).read(_BLOCK)[257:262] == b"ustar"
    except (*DAMAGE, NlpdataError):
        return False


def read_zip(path: Path, take: Callable[[zipfile.ZipFile, zipfile.ZipInfo], None]) -> None:
    """Calls take(archive, member) for the members of a .zip in their order; it may read the member, which checks it.

    DataError where it is damaged or encrypted, and for a BadZipFile or OSError of `take`.
    """
    try:
        with open(path, "rb") as raw:
            refuse_pointer(path, raw.read(32))
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.flag_bits & _ENCRYPTED:
                    raise DataError(f"{path}: {member.filename} in it is encrypted: make an archive without a password")
                take(archive, member)
    except (
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        OSError,
    ) as error:
        if isinstance(error, OSError) and error.errno:
            raise DataError(f"{path}: cannot be unpacked: {error.strerror} ({error.filename or path})") from None
        raise DataError(f"{path}: not a whole .zip archive: {error or 'it ends too early'}") from None


def _decompressed(raw: BufferedReader, path: str) -> Readable:
    """The unpacked data of an open file, by its first bytes."""
    head = raw.read(32)
    raw.seek(0)
    refuse_pointer(path, head)
    if head.startswith(b"BZh"):
        return FrameStream(raw, bz2.BZ2Decompressor, OSError, _STEP)
    if head.startswith(b"\xfd7zXZ\0"):
        return FrameStream(raw, lzma.LZMADecompressor, lzma.LZMAError, _STEP)
    return open_stream(raw, detect_compression(head), path)


class _Forward:
    """What tarfile needs of a file that is read from front to back, and the block that it read last."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self.position, self.last = 0, b""

    def read(self, size: int) -> bytes:
        parts = []
        while size and (data := self._stream.read(size)):
            parts.append(data)
            size -= len(data)
            self.position += len(data)
        self.last = b"".join(parts)
        return self.last

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> None:
        if position < self.position:
            raise tarfile.StreamError("its members are not in order")
        while self.position < position and self.read(min(position - self.position, _STEP)):
            pass


def _check_end(stream: _Forward, offset: int) -> None:
    """TarError where the header at `offset`, after the last member, is not the end; reads the rest of the file."""
    stream.seek(offset + _BLOCK)  # the header was read, unless a member's data ended before it
    block = stream.last if stream.position == offset + _BLOCK else b""
    if len(block) == _BLOCK and block.count(0) < _BLOCK:
        raise tarfile.ReadError(f"the header at byte {offset} is damaged")
    zeros = len(block)
    while data := stream.read(_STEP):
        if data.count(0) < len(data):
            raise tarfile.ReadError(f"data after the end of the archive, which is at byte {offset}")
        zeros += len(data)
    if zeros < 2 * _BLOCK:
        raise tarfile.ReadError(f"it is cut off: no end of the archive at byte {offset}")
