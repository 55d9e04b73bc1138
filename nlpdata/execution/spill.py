"""Sorting more records than fit into memory: sorted runs on disk, merged by ranges of the sort key.

A writer collects records with a 64-bit key and a tie-breaking tuple; whenever its buffer is full it sorts it and writes
one run file. A merge reads one range of keys from all runs, so its memory is that of the range. Keys are hashes, so
equal ranges hold about equally many records; where many records have one key, it goes by their ties. A merge has one run
file open at a time, however many there are; many short reads are slow, so more than MAX_RUNS are made fewer first.

    run file: magic, count, bytes | keys uint64 (n,) | ties uint64 (n, 3) | ends int64 (n,) | records, in key order
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO
from pathlib import Path

import numpy as np

from nlpdata.files.writing import new_file

BUFFER_BYTES = 16 << 20  # records that a writer holds before it sorts and writes them
MERGE_BYTES = 16 << 20  # records that a merge holds at a time
MAX_RUNS = 512  # of one kind; a range of more is read in pieces too short for the disk

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, bytes]
"""Keys uint64 (n,), ties uint64 (n, 3), lengths int64 (n,) and payload of n records."""
Bounds = Sequence[Sequence[int]]
"""(first row, last row + 1) of each run."""

_MAGIC = 0x315F4E55525F4C4E
_TIE = 3
_HEAD_BYTES = 24
_ROW_BYTES = 8 * (1 + _TIE + 1)  # of a record, without its payload
_SEARCH_ROWS = 512  # keys that are read at once
_SCAN_ROWS = 1 << 16


class SortBuffer:
    """Collects keyed records in memory, and gives them back as one sorted run."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._keys: list[np.ndarray] = []
        self._ties: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._payload: list[bytes | memoryview] = []
        self.held = 0

    def add(self, sort_keys: np.ndarray, ties: np.ndarray, payload: bytes | memoryview, lengths: np.ndarray) -> None:
        """Adds n records, which follow each other in `payload`; `held` counts its bytes.

        Args:
          sort_keys: uint64 (n,).
          ties: uint64 (n, 3), the order of records with equal keys.
          payload: the records' bytes.
          lengths: int64 (n,), sums to len(payload).
        """
        self._keys.append(sort_keys)
        self._ties.append(ties)
        self._lengths.append(lengths)
        self._payload.append(payload)
        self.held += len(payload)

    def take(self) -> list[bytes | memoryview]:
        """The parts of a run file with all that was added since the last call; empty where nothing was."""
        if not self._keys:
            return []
        sort_keys, ties = np.concatenate(self._keys), np.concatenate(self._ties)
        lengths = np.concatenate(self._lengths)
        payload = self._payload[0] if len(self._payload) == 1 else b"".join(self._payload)
        self._clear()
        order = _order(sort_keys, ties)
        records = _in_order(payload, lengths, order)
        return _run_parts(sort_keys[order], ties[order], np.cumsum(lengths[order]), records)


def _run_parts(
    sort_keys: np.ndarray, ties: np.ndarray, ends: np.ndarray, records: Sequence[memoryview]
) -> list[bytes | memoryview]:
    head = np.array([_MAGIC, len(sort_keys), int(ends[-1]) if len(ends) else 0], np.uint64)
    return [head.tobytes(), sort_keys.tobytes(), ties.tobytes(), ends.tobytes(), *records]


def read_run(run: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray, memoryview]:
    """Keys, ties, lengths and payload of a run in memory."""
    count = int(np.frombuffer(run, np.uint64, 1, 8)[0])
    sort_keys = np.frombuffer(run, np.uint64, count, 24)
    ties = np.frombuffer(run, np.uint64, count * _TIE, 24 + 8 * count).reshape(count, _TIE)
    ends = np.frombuffer(run, np.int64, count, 24 + 8 * count * (1 + _TIE))
    return sort_keys, ties, np.diff(ends, prepend=0), memoryview(run)[24 + 8 * count * (2 + _TIE) :]


def split_run(run: bytes | str, borders: np.ndarray) -> Iterator[tuple[int, bytes | str]]:
    """Divides a run into ranges of the key: yields (range, run) of those that hold a record.

    Args:
      run: the bytes of a run file, which are cut; or its path, which each range gets as it is, to read from it.
      borders: lowest key of each range but the first, ascending: uint64 (ranges - 1,).
    """
    if isinstance(run, str):
        rows = _rows(_Run(run).keys(), borders)
        yield from ((number, run) for number in np.flatnonzero(np.diff(rows)).tolist())
        return
    sort_keys, ties, lengths, payload = read_run(run)
    rows = _rows(sort_keys, borders)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    for number in np.flatnonzero(np.diff(rows)).tolist():
        part = slice(rows[number], rows[number + 1])
        begin, end = int(ends[part.start]), int(ends[part.stop])
        own = ends[part.start + 1 : part.stop + 1] - begin
        yield number, b"".join(_run_parts(sort_keys[part], ties[part], own, [payload[begin:end]]))


def _rows(sort_keys: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Where ranges begin in ascending keys, and the end of the last: int64 (len(borders) + 2,)."""
    return np.concatenate([[0], np.searchsorted(sort_keys, borders), [len(sort_keys)]]).astype(np.int64)


def write_run(path: str, parts: Sequence[bytes | memoryview]) -> None:
    """Writes a run file in one step; `parts` as SortBuffer.take gives them."""
    with new_file(path, durable=False) as made, open(made, "wb", buffering=1 << 20) as file:
        file.writelines(parts)


class SpillWriter:
    """Collects keyed records and writes them as sorted runs `<prefix>-<number>.run`.

    Args:
      prefix: path of the run files, without number and suffix.
      buffer_bytes: payload to hold in memory.
    """

    def __init__(self, prefix: str | os.PathLike, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._prefix, self._limit = os.fspath(prefix), buffer_bytes
        self._buffer = SortBuffer()
        self.runs: list[str] = []

    def add(self, sort_keys: np.ndarray, ties: np.ndarray, payload: bytes | memoryview, lengths: np.ndarray) -> None:
        """Adds records as SortBuffer.add does."""
        self._buffer.add(sort_keys, ties, payload, lengths)
        if self._buffer.held >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Writes what is held as one run."""
        parts = self._buffer.take()
        if not parts:
            return
        path = f"{self._prefix}-{len(self.runs)}.run"
        write_run(path, parts)
        self.runs.append(path)


def _order(sort_keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
    order = np.argsort(sort_keys, kind="stable")
    ordered = sort_keys[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = np.lexsort((*(ties[:, i] for i in reversed(range(_TIE))), sort_keys))
    return order


def _in_order(payload: bytes | memoryview, lengths: np.ndarray, order: np.ndarray) -> list[memoryview]:
    """The records of `payload` in another order."""
    ends = np.cumsum(lengths)
    stops, starts = ends[order].tolist(), (ends - lengths)[order].tolist()
    view = memoryview(payload)
    return [view[start:stop] for start, stop in zip(starts, stops, strict=True)]


class _Run:
    """One run file, which is open only while it is read."""

    __slots__ = ("bytes", "count", "path")

    def __init__(self, path: str | Path) -> None:
        self.path = os.fspath(path)
        with self._open() as file:
            head = np.frombuffer(file.read(_HEAD_BYTES), np.uint64).tolist()
            size = file.seek(0, os.SEEK_END)
        if len(head) < 3 or head[0] != _MAGIC:
            raise OSError(f"{path} is damaged: it does not begin as a run file does")
        _, self.count, self.bytes = head
        expected = _HEAD_BYTES + self.count * _ROW_BYTES + self.bytes
        if size != expected:
            raise OSError(f"{path} is damaged: {size} bytes instead of {expected}")

    def _open(self) -> FileIO:
        return open(self.path, "rb", buffering=0)

    def keys(self) -> np.ndarray:
        """All keys, ascending: uint64 (count,)."""
        with self._open() as file:
            return self._keys(file, 0, self.count)

    def first_keys(self) -> Iterator[np.ndarray]:
        """The keys of the records whose last tie is 0, in pieces: uint64."""
        with self._open() as file:
            for first in range(0, self.count, _SCAN_ROWS):
                count = min(_SCAN_ROWS, self.count - first)
                yield self._keys(file, first, count)[self._ties(file, first, count)[:, -1] == 0]

    def between(self, borders: Sequence[int]) -> list[int]:
        """The first row whose key is not below each of the ascending borders (ints up to 2**64)."""
        with self._open() as file:
            rows, first = [], 0
            for border in borders:
                first = self.count if border >= 1 << 64 else self._search(file, np.uint64(border), first)
                rows.append(first)
        return rows

    def _search(self, file: FileIO, key: np.uint64, first: int) -> int:
        last = self.count
        while last - first > _SEARCH_ROWS:
            middle = (first + last) // 2
            if self._keys(file, middle, 1)[0] < key:
                first = middle + 1
            else:
                last = middle
        return first + int(np.searchsorted(self._keys(file, first, last - first), key))

    def bytes_of(self, first: int, last: int) -> int:
        """Payload bytes of rows first : last."""
        if last <= first:
            return 0
        with self._open() as file:
            begin = int(self._ends(file, first - 1, 1)[0]) if first else 0
            return int(self._ends(file, last - 1, 1)[0]) - begin

    def read_rows(self, first: int, last: int, with_payload: bool = True) -> Rows:
        """Keys, ties, lengths and payload of rows first : last."""
        count = last - first
        with self._open() as file:
            found, ties = self._keys(file, first, count), self._ties(file, first, count)
            ends = self._ends(file, max(first - 1, 0), count + (first > 0))
            begin = int(ends[0]) if first else 0
            lengths = np.diff(ends) if first else np.diff(ends, prepend=0)
            file.seek(_HEAD_BYTES + _ROW_BYTES * self.count + begin)
            payload = file.read(int(lengths.sum())) if with_payload else b""
        return found, ties, lengths, payload

    def _keys(self, file: FileIO, first: int, count: int) -> np.ndarray:
        return self._array(file, _HEAD_BYTES + 8 * first, np.uint64, count)

    def _ties(self, file: FileIO, first: int, count: int) -> np.ndarray:
        at = _HEAD_BYTES + 8 * (self.count + _TIE * first)
        return self._array(file, at, np.uint64, count * _TIE).reshape(count, _TIE)

    def _ends(self, file: FileIO, first: int, count: int) -> np.ndarray:
        return self._array(file, _HEAD_BYTES + 8 * ((1 + _TIE) * self.count + first), np.int64, count)

    @staticmethod
    def _array(file: FileIO, offset: int, dtype: type, count: int) -> np.ndarray:
        file.seek(offset)
        return np.frombuffer(file.read(8 * count), dtype)


class Merge:
    """The records of many runs in the order of (key, tie)."""

    def __init__(self, runs: Iterable[str | Path]) -> None:
        self._runs = [_Run(path) for path in runs]
        self.count = sum(run.count for run in self._runs)
        self.bytes = sum(run.bytes for run in self._runs)

    def histogram(self, shift: int) -> dict[int, int]:
        """Number of records by the upper bits of their key: {key >> shift: count}, ascending.

        Of the records of one key that are parts of one thing, the first one counts, whose last tie is 0.
        """
        total: dict[int, int] = {}
        for first_keys in itertools.chain.from_iterable(run.first_keys() for run in self._runs):
            slots, counts = np.unique(first_keys >> np.uint64(shift), return_counts=True)
            for slot, count in zip(slots.tolist(), counts.tolist(), strict=True):
                total[slot] = total.get(slot, 0) + count
        return dict(sorted(total.items()))

    def read(self, low: int = 0, high: int = 1 << 64, merge_bytes: int = MERGE_BYTES) -> Iterator[Rows]:
        """Yields (keys, ties, lengths, payload) of the records with low <= key < high, in order, piece by piece.

        A piece has about merge_bytes, however equal the keys are.
        """
        pieces = max(1, -(-self._bytes_of(next(self._between([low, high]))) // merge_bytes))
        for piece in self._between([low + (high - low) * i // pieces for i in range(pieces + 1)]):
            for rows in self._divided(piece, merge_bytes):
                parts = [
                    run.read_rows(first, last)
                    for run, (first, last) in zip(self._runs, rows, strict=True)
                    if first < last
                ]
                if not parts:
                    continue
                sort_keys, ties, lengths, payload = _join(parts)
                del parts
                order = _order(sort_keys, ties)
                yield sort_keys[order], ties[order], lengths[order], b"".join(_in_order(payload, lengths, order))

    def _between(self, borders: Sequence[int]) -> Iterator[list[list[int]]]:
        """For each range between two borders the rows [first, last + 1] of each run."""
        rows = np.array([run.between(borders) for run in self._runs], np.int64).reshape(-1, len(borders))
        return (rows[:, i : i + 2].tolist() for i in range(len(borders) - 1))

    def _bytes_of(self, rows: Bounds) -> int:
        return sum(run.bytes_of(first, last) for run, (first, last) in zip(self._runs, rows, strict=True))

    def _divided(self, rows: Bounds, merge_bytes: int) -> Iterator[Bounds]:
        """The rows (first, last + 1) of each run in pieces, one behind the other in order; in one, if that is small."""
        if self._bytes_of(rows) <= 2 * merge_bytes:
            yield rows
            return
        heads = [run.read_rows(first, last, False) for run, (first, last) in zip(self._runs, rows, strict=True)]
        sort_keys, ties, lengths, _ = _join(heads)
        order = _order(sort_keys, ties)
        piece = np.empty(len(order), np.int64)
        piece[order] = np.maximum(np.cumsum(lengths[order]) - 1, 0) // merge_bytes
        of_run = np.split(piece, np.cumsum([len(head[0]) for head in heads])[:-1])  # each ascends, as its rows do
        for number in range(int(piece.max()) + 1):
            bounds = [np.searchsorted(own, [number, number + 1]).tolist() for own in of_run]
            yield [(first + begin, first + end) for (first, _), (begin, end) in zip(rows, bounds, strict=True)]

    def scan(self, low: int, high: int, piece_bytes: int) -> Iterator[Rows]:
        """Yields what `read` does, in no particular order, in pieces of about piece_bytes however equal the keys are."""
        parts: list[Rows] = []
        size = 0
        for run in self._runs:
            first, last = run.between([low, high])
            step = max(1, (last - first) * piece_bytes // max(run.bytes_of(first, last), 1))
            for at in range(first, last, step):
                parts.append(run.read_rows(at, min(at + step, last)))
                size += len(parts[-1][3])
                if size >= piece_bytes:
                    yield _join(parts)
                    parts, size = [], 0
        if parts:
            yield _join(parts)


def _join(parts: Sequence[Rows]) -> Rows:
    """Pieces one after the other, as one."""
    sort_keys, ties, lengths = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return sort_keys, ties, lengths, b"".join([part[3] for part in parts])


def merge_runs(runs: Iterable[str | Path], path: str) -> int:
    """Writes the records of many runs as one run; returns the payload's bytes. Memory as of Merge.read."""
    merge = Merge(runs)
    head = np.array([_MAGIC, merge.count, merge.bytes], np.uint64).tobytes()
    at = [_HEAD_BYTES + 8 * merge.count * columns for columns in (0, 1, 1 + _TIE, 2 + _TIE)]
    end = 0
    with new_file(path, durable=False) as made, open(made, "wb", buffering=0) as file:
        file.write(head)
        for sort_keys, ties, lengths, payload in merge.read():
            ends = end + np.cumsum(lengths)
            end = int(ends[-1])
            for i, part in enumerate((sort_keys.tobytes(), ties.tobytes(), ends.tobytes(), payload)):
                file.seek(at[i])
                at[i] += file.write(part)
    return end
