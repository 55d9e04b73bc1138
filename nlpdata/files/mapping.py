"""Files as bytes in memory, mapped rather than read; few at a time, however many a process reads from.

Each mapping counts as a file that the process has open. The files used last stay mapped; others are mapped again.
"""

import errno
import mmap
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import IO

from nlpdata.errors import DataError
from nlpdata.files import PathName, Readable
from nlpdata.files.temporary import file_of

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_MOST = 4096  # mappings, where the system allows any number of open files
_mapped: OrderedDict[int, mmap.mmap] = OrderedDict()  # id of a MappedFile -> its mapping, the last used last
_lock = threading.Lock()


def most_mappings() -> int:
    """The number of files that stay mapped: half of those that this process may open."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource else 512
    return max(4, min(allowed // 2 if allowed > 0 else _MOST, _MOST))  # no limit is -1


class MappedFile:
    """A file of this machine. It must not change; DataError where it did."""

    def __init__(self, path: PathName) -> None:
        self._path, self._found = path, _identity(os.stat(path))
        weakref.finalize(self, _mapped.pop, id(self), None)

    def data(self) -> mmap.mmap | bytes:
        """All its bytes; valid as long as the caller holds what it received."""
        with _lock:
            if id(self) in _mapped:
                _mapped.move_to_end(id(self))
                return _mapped[id(self)]
            found = self._map_making_room()
            if found is None:
                return b""
            _mapped[id(self)] = found
            while len(_mapped) > most_mappings():
                _mapped.popitem(last=False)  # unmapped when nobody reads from it any more
            return found

    def _map_making_room(self) -> mmap.mmap | None:
        """The file, mapped; None where it is empty.

        Half of the other mappings are given up where the rest of the process has most files open.
        """
        while True:
            try:
                return self._map()
            except OSError as error:
                if error.errno != errno.EMFILE or not _mapped:
                    raise DataError(f"{self._path}: cannot be read: {error.strerror or error}") from None
                for _ in range(-(-len(_mapped) // 2)):
                    _mapped.popitem(last=False)

    def _map(self) -> mmap.mmap | None:
        with open(self._path, "rb") as file:
            status = os.fstat(file.fileno())
            if _identity(status) != self._found:
                raise DataError(f"{self._path}: the file has changed since it was opened. Open the records again")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if status.st_size else None


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


class Spool:
    """What comes out of streams (compressed or remote files), one after the other in one temporary file."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._data: mmap.mmap | bytes = b""

    def add(self, source: Readable, on_block: Callable[[], None] = lambda: None) -> tuple[int, int]:
        """Appends all that a stream gives; returns where that begins and ends. on_block: is called after each block."""
        file = self._file
        if file is None:
            file = self._file = file_of(self)
        begin = file.seek(0, os.SEEK_END)
        while block := source.read(1 << 20):
            file.write(block)
            on_block()
        file.flush()
        return begin, file.tell()

    def data(self) -> mmap.mmap | bytes:
        """All that was added."""
        if self._file is not None and os.fstat(self._file.fileno()).st_size > len(self._data):
            self._data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._data
