"""Paths of files: on this machine, or on a remote file system.

path_of("out/train.tfrecord")          # a pathlib.Path
path_of("s3://bucket/train.tfrecord")  # a RemotePath, with the part of Path's interface that is used here
"""

import errno
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

import google_crc32c

from nlpdata.errors import closest
from nlpdata.files import PathName
from nlpdata.files.remote import BLOCK_BYTES, RemoteFile, RemotePath

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

MOST_BYTES = 256 << 20
"""Of a file that is read whole, unless more is expected: a meta file, a configuration, a vocabulary."""

_LONGEST_NAME = 255  # bytes, in all usual file systems

AnyPath = Path | RemotePath


def is_remote(path: object) -> bool:
    """True for a URL, of a known scheme or not."""
    return _URL.match(str(path)) is not None


def path_of(path: PathName | AnyPath) -> AnyPath:
    """A path with pathlib's interface, local or remote. UsageError for a scheme that is not known."""
    return RemotePath(path) if isinstance(path, RemotePath) or is_remote(path) else Path(path)


def open_binary(path: PathName | AnyPath) -> "IO[bytes] | RemoteFile":
    """Opens a file for reading; read, seek, tell and close are there. For many small files, faster than path_of."""
    place = path_of(path) if is_remote(path) else path
    return place.open() if isinstance(place, RemotePath) else open(place, "rb")


def read_file(path: PathName | AnyPath, most: int = MOST_BYTES) -> bytes:
    """The content of a file or a pipe. OSError where it cannot be read, also for a device, which may have no end, and for a file
    of more than `most` bytes, which may have holes, and no room in memory."""
    place = path_of(path)
    if isinstance(place, RemotePath):
        start = place.read_start(BLOCK_BYTES)
        if len(start) < BLOCK_BYTES and len(start) <= most:  # all of it: of a small file the size is not asked for
            return start
        if (place.size() or 0) > most:
            raise _too_large(path, most)
        return place.read_bytes()
    with open(place, "rb") as file:
        facts = os.fstat(file.fileno())
        if stat.S_ISCHR(facts.st_mode):
            raise OSError(errno.EINVAL, "it is a device, not a file", os.fspath(place))
        if facts.st_size > most:
            raise _too_large(path, most)
        # Asked for the bound, Python would take memory for all of it. A pipe has no size, and a file may grow.
        parts = [file.read(facts.st_size + 1)]
        while (got := sum(map(len, parts))) <= most and (part := file.read(BLOCK_BYTES)):
            parts.append(part)
    if got > most:
        raise _too_large(path, most)
    return b"".join(parts)


def _too_large(path: PathName | AnyPath, most: int) -> OSError:
    bound = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most:,} bytes"
    reason = f"it has more than {bound}, the most that such a file may have. Is it another file?"
    return OSError(errno.EFBIG, reason, str(path))


def absent(path: Path) -> str:
    """That a local file does not exist, and which one next to it may be meant, for messages."""
    there: list[str] = []
    with suppress(OSError):
        there = sorted(entry.name for entry in path.parent.iterdir())
    return f"{path} does not exist.{closest(path.name, there)}"


def file_size(path: PathName | AnyPath) -> int:
    """Bytes of a file. FileNotFoundError where there is none."""
    place = path_of(path) if is_remote(path) else path
    if not isinstance(place, RemotePath):
        return os.path.getsize(place)
    size = place.size()
    if size is None:
        raise FileNotFoundError(f"{path}: no such file")
    return size


def file_checksum(path: PathName | AnyPath, on_bytes: Callable[[int], None] = lambda count: None) -> str:
    """CRC-32C of a file as stored: 8 hexadecimal digits. on_bytes: is told how many bytes each block had."""
    crc = 0
    with open_binary(path) as file:
        while block := file.read(BLOCK_BYTES):
            crc = google_crc32c.extend(crc, block)
            on_bytes(len(block))
    return f"{crc:08x}"


def is_device(path: PathName | AnyPath) -> bool:
    """Whether a path leads to what takes data but is not a file, such as /dev/null: it is written to, never replaced."""
    if isinstance(path, RemotePath) or is_remote(path):
        return False
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def is_plain_name(name: object) -> bool:
    """Whether a name that a file holds is that of a file next to it: text, without a path, as long as names of files may be."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and not re.search(r"[/\0]", name)
        and name == os.path.basename(name)
        and len(name.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME
    )


def shown_name(name: str) -> str:
    """A file's name as text: bytes of it that are not UTF-8 are shown as \\xff, each."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
