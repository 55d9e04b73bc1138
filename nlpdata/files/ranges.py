"""Remote files that are read in parts: blocks of them are fetched when they are first needed, and kept up to a number of bytes.

cache = BlockCache(8 << 30)
file = cache.open(RemotePath("s3://bucket/train.tfrecord"))
cache.read([(file, 0, 12), (file, 70_000, 72_000)])    # what is missing is fetched side by side
"""

import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import IO

from nlpdata.errors import DataError
from nlpdata.files.remote import RemotePath, read_ranges
from nlpdata.files.temporary import file_of

BLOCK = 1 << 16  # bytes that are fetched together: a record at a random place takes one
RECHECK_SECONDS = 30.0  # between two looks at whether a file that is read from has changed
_LONGEST = 64  # adjacent blocks in one request
_AT_ONCE = 8  # such requests of a file that is read from its beginning to its end

Block = tuple[int, int]  # (number of a file, number of a block in it)


class BlockCache:
    """Blocks of remote files, in one temporary file; the least recently used go where there are too many.

    Args:
      most_bytes: of the blocks that are kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = max(1, most_bytes // BLOCK)
        # Block -> its place in the temporary file; the last used last.
        self._slots: OrderedDict[Block, int] = OrderedDict()
        self._paths: list[RemotePath] = []
        self._states: list[tuple[int, str]] = []
        self._checked: list[float] = []  # when each file was last looked at
        self._file: IO[bytes] | None = None
        self._lock = threading.RLock()

    def open(self, path: RemotePath) -> int:
        """The number by which a file is read from then on. FileNotFoundError where there is none."""
        self._states.append(path.state())
        self._paths.append(path)
        self._checked.append(time.monotonic())
        return len(self._paths) - 1

    def state(self, file: int) -> tuple[int, str]:
        """(size in bytes, the store's mark of the content) of a file when it was opened."""
        return self._states[file]

    def read(self, ranges: Sequence[tuple[int, int, int]]) -> list[bytes]:
        """The bytes [start, stop) of files, (file, start, stop) each.

        DataError where a file cannot be read, or has changed since it was opened.
        """
        with self._lock:
            needed = [_blocks(*each) for each in ranges]
            missing = {block for blocks in needed for block in blocks} - self._slots.keys()
            fetched = self._fetch(sorted(missing)) if missing else {}
            found = [
                self._joined(blocks, start, stop, fetched)
                for blocks, (_, start, stop) in zip(needed, ranges, strict=True)
            ]
            for block, data in fetched.items():
                self._keep(block, data)
            return found

    def stream(self, file: int) -> Iterator[tuple[int, bytes]]:
        """All of a file in windows of some MiB, (where it begins, its bytes); they are kept as long as there is room.

        DataError as in read.
        """
        size, step = self._states[file][0], BLOCK * _LONGEST * _AT_ONCE
        for start in range(0, size, step):
            with self._lock:
                fetched = self._fetch(_blocks(file, start, min(start + step, size)))
                for block, data in fetched.items():
                    if len(self._slots) < self._most:
                        self._keep(block, data)
            yield start, b"".join(fetched.values())
        self.check(file)

    def check(self, file: int) -> None:
        """DataError where a file is not the one that was opened."""
        path, (size, mark) = self._paths[file], self._states[file]
        try:
            now = path.state()
        except FileNotFoundError:
            raise DataError(f"{path}: was removed while it was read. Restore it") from None
        if now != (size, mark):
            what = f"{size} bytes before, {now[0]} now" if now[0] != size else "its content is another"
            raise DataError(
                f"{path}: has changed since it was opened ({what}). Records must stay as they are while they are read: restore the "
                "file, or start again"
            )
        self._checked[file] = time.monotonic()

    def _fetch(self, blocks: Sequence[Block]) -> dict[Block, bytes]:
        """The content of blocks, which are in order."""
        runs: list[list[Block]] = []
        for block in blocks:
            if runs and len(runs[-1]) < _LONGEST and block == (runs[-1][-1][0], runs[-1][-1][1] + 1):
                runs[-1].append(block)
            else:
                runs.append([block])
        ends = [min((run[-1][1] + 1) * BLOCK, self._states[run[0][0]][0]) for run in runs]
        try:
            parts = read_ranges(
                [(self._paths[run[0][0]], run[0][1] * BLOCK, end) for run, end in zip(runs, ends, strict=True)]
            )
        except DataError:
            for file in sorted({file for file, _ in blocks}):
                self.check(file)  # a better reason, if there is one
            raise
        for file in sorted({file for file, _ in blocks}):
            if time.monotonic() - self._checked[file] >= RECHECK_SECONDS:
                self.check(file)
        return {
            block: part[i * BLOCK : (i + 1) * BLOCK]
            for run, part in zip(runs, parts, strict=True)
            for i, block in enumerate(run)
        }

    def _joined(self, blocks: Sequence[Block], start: int, stop: int, fetched: dict[Block, bytes]) -> bytes:
        edges = [start, *(block * BLOCK for _, block in blocks[1:]), stop] if blocks else [start]
        return b"".join(
            self._part(block, first - block[1] * BLOCK, last - block[1] * BLOCK, fetched)
            for block, (first, last) in zip(blocks, pairwise(edges), strict=True)
        )

    def _part(self, block: Block, start: int, stop: int, fetched: dict[Block, bytes]) -> bytes:
        if block in fetched:
            return fetched[block][start:stop]
        self._slots.move_to_end(block)
        assert self._file is not None  # something was kept
        self._file.seek(self._slots[block] * BLOCK + start)
        return self._file.read(stop - start)

    def _keep(self, block: Block, data: bytes) -> None:
        if block in self._slots:
            return
        try:
            if self._file is None:
                self._file = file_of(self)
            slot = len(self._slots) if len(self._slots) < self._most else self._slots.popitem(last=False)[1]
            self._file.seek(slot * BLOCK)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise DataError(
                f"{self._paths[block[0]]}: blocks of it cannot be kept in {tempfile.gettempdir()}: {error.strerror or error}. Set "
                "TMPDIR to a folder with more room, or keep fewer"
            ) from None
        self._slots[block] = slot


def _blocks(file: int, start: int, stop: int) -> list[Block]:
    return [(file, block) for block in range(start // BLOCK, -(-stop // BLOCK))] if start < stop else []
