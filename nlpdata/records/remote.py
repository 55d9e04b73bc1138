"""Records of remote files without a copy of them: where each begins is found once, and kept in the user's cache folder.

    $XDG_CACHE_HOME/nlpdata/records/<hash of path, size and the store's mark>     lengths of the records, uint32, zlib

A file of another content has another name there. What is in the folder is data: whatever does not fit the file is not used.
"""

import logging
import os
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np

from nlpdata.files.ranges import BlockCache
from nlpdata.files.remote import RemotePath
from nlpdata.files.writing import write_whole
from nlpdata.records.framing import FOOTER, HEADER, Framing

_log = logging.getLogger(__name__)

REPORTED_BYTES = 16 << 20  # a file that takes its time is named
CACHE_GIGABYTES = 8.0  # of remote records that stay on this machine's disk, unless it is given
_FRAME = HEADER + FOOTER


def remote_records(
    path: RemotePath, file: int, cache: BlockCache, on_bytes: Callable[[int], None]
) -> tuple[np.ndarray, np.ndarray]:
    """Where the data of each record of a remote file starts and stops, int64 (n,) each.

    Args:
      path: the file.
      file: its number in the cache.
      on_bytes: is told how many bytes were looked through: none where their places are known from an earlier time.

    Raises DataError where the framing is broken, or the file changes meanwhile.
    """
    size, mark = cache.state(file)
    place = _folder() / sha256(f"{path}\0{size}\0{mark}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    lengths = _stored(place, size) if mark else None
    if lengths is not None:
        stops = np.cumsum(lengths + _FRAME) - FOOTER
        return stops - lengths, stops
    if size >= REPORTED_BYTES:
        _log.info(f"{path}: is read once, to find where its records begin ({size >> 20} MiB)")
    framing, tail, begin = Framing(path), b"", 0
    for start, window in cache.stream(file):
        data, begin = tail + window, start - len(tail)
        framing.look(data, begin, start + len(window))
        on_bytes(len(window))
        tail = data[max(0, framing.position - begin) :] if framing.position < start + len(window) else b""
    starts, stops = framing.records(size)
    if mark:
        _store(place, stops - starts)
    return starts, stops


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "nlpdata", "records")


def _stored(place: Path, size: int) -> np.ndarray | None:
    """The lengths of the records of a file of `size` bytes, int64 (n,); None where they are not there, or not its."""
    most = size // _FRAME * 4
    try:
        with open(place, "rb") as file:
            raw = zlib.decompressobj().decompress(file.read(most + 1024), most + 1)
    except (OSError, zlib.error):
        return None
    if len(raw) > most or len(raw) % 4:
        return None
    lengths = np.frombuffer(raw, "<u4").astype(np.int64)
    return lengths if int(np.sum(lengths + _FRAME)) == size else None


def _store(place: Path, lengths: np.ndarray) -> None:
    if len(lengths) and lengths.max() >= 1 << 32:
        return
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, zlib.compress(lengths.astype("<u4").tobytes(), 1), durable=False)
    except OSError as error:
        _log.info(f"{place}: {error.strerror or error}; where the records begin is found anew each time")
