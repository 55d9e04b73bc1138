"""Sorting more records than fit into memory: sorted runs on disk, merged by ranges of the sort key.

A writer collects records with a 64-bit key and a tie-breaking tuple; whenever its buffer is full it sorts it and writes
one run file. A merge reads one range of keys from all runs, so its memory is that of the range. Keys are hashes, so
equal ranges hold about equally many records.

    run file: magic, count, bytes | keys uint64 (n,) | ties uint64 (n, 3) | ends int64 (n,) | records, in key order
"""

import contextlib
import itertools
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

BUFFER_BYTES = 16 << 20  # records that a writer holds before it sorts and writes them
MERGE_BYTES = 16 << 20  # records that a merge holds at a time

_MAGIC = 0x315F4E55525F4C4E
_TIE = 3


class SpillWriter:
    """Collects keyed records and writes them as sorted runs `<prefix>-<number>.run`.

    Args:
      prefix: path of the run files, without number and suffix.
      buffer_bytes: payload to hold in memory.
    """

    def __init__(self, prefix: str | os.PathLike, buffer_bytes: int = BUFFER_BYTES):
        self._prefix, self._limit = os.fspath(prefix), buffer_bytes
        self.runs: list[str] = []
        self._clear()

    def _clear(self):
        self._keys, self._ties, self._lengths, self._payload, self._held = [], [], [], [], 0

    def add(self, sort_keys: np.ndarray, ties: np.ndarray, payload: bytes, lengths: np.ndarray) -> None:
        """Adds n records that stand one after the other in `payload`.

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
        self._held += len(payload)
        if self._held >= self._limit:
            self.flush()

    def flush(self) -> None:
        """Writes what is held as one run (under a temporary name first)."""
        if not self._keys:
            return
        sort_keys, ties = np.concatenate(self._keys), np.concatenate(self._ties)
        lengths = np.concatenate(self._lengths)
        payload = self._payload[0] if len(self._payload) == 1 else b"".join(self._payload)
        self._clear()
        order = _order(sort_keys, ties)
        path = f"{self._prefix}-{len(self.runs)}.run"
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "wb", buffering=1 << 20) as file:
                file.write(np.array([_MAGIC, len(order), len(payload)], np.uint64).tobytes())
                file.write(sort_keys[order].tobytes())
                file.write(ties[order].tobytes())
                file.write(np.cumsum(lengths[order]).tobytes())
                file.writelines(_in_order(payload, lengths, order))
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self.runs.append(path)


def _order(sort_keys, ties) -> np.ndarray:
    order = np.argsort(sort_keys, kind="stable")
    ordered = sort_keys[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = np.lexsort((*(ties[:, i] for i in reversed(range(_TIE))), sort_keys))
    return order


def _in_order(payload: bytes, lengths: np.ndarray, order: np.ndarray) -> list[memoryview]:
    """The records of `payload` in another order."""
    ends = np.cumsum(lengths)
    stops, starts = ends[order].tolist(), (ends - lengths)[order].tolist()
    view = memoryview(payload)
    return [view[start:stop] for start, stop in zip(starts, stops, strict=True)]


class _Run:
    """One run file; its keys are mapped, not read."""

    def __init__(self, path):
        self.path = path
        head = np.fromfile(path, np.uint64, 3).tolist()
        if len(head) < 3 or head[0] != _MAGIC:
            raise OSError(f"{path} is damaged: it does not begin as a run file does")
        _, self.count, self.bytes = head
        expected = 24 + self.count * (8 + 8 * _TIE + 8) + self.bytes
        if os.path.getsize(path) != expected:
            raise OSError(f"{path} is damaged: {os.path.getsize(path)} bytes instead of {expected}")

    @cached_property
    def keys(self) -> np.ndarray:
        """All keys, ascending: uint64 (count,)."""
        return np.memmap(self.path, np.uint64, "r", 24, (self.count,)) if self.count else np.zeros(0, np.uint64)

    def between(self, low: int, high: int) -> tuple[int, int]:
        """The rows with low <= key < high."""
        first = int(np.searchsorted(self.keys, np.uint64(low)))
        return first, self.count if high >= 1 << 64 else int(np.searchsorted(self.keys, np.uint64(high)))

    def bytes_of(self, first: int, last: int) -> int:
        """Payload bytes of rows first : last."""
        if last <= first:
            return 0
        at = 24 + self.count * 8 * (1 + _TIE)
        with open(self.path, "rb") as file:
            begin, end = (
                int(self._array(file, at + 8 * (row - 1), np.int64, 1)[0]) if row else 0 for row in (first, last)
            )
        return end - begin

    def read_rows(self, first: int, last: int):
        """Keys, ties, lengths and payload of rows first : last."""
        count = last - first
        with open(self.path, "rb") as file:
            found = self._array(file, 24 + 8 * first, np.uint64, count)
            at = 24 + 8 * self.count
            ties = self._array(file, at + 8 * _TIE * first, np.uint64, count * _TIE).reshape(count, _TIE)
            at += 8 * _TIE * self.count
            ends = self._array(file, at + 8 * max(first - 1, 0), np.int64, count + (first > 0))
            begin = int(ends[0]) if first else 0
            lengths = np.diff(ends) if first else np.diff(ends, prepend=0)
            file.seek(at + 8 * self.count + begin)
            payload = file.read(int(lengths.sum()))
        return found, ties, lengths, payload

    @staticmethod
    def _array(file, offset, dtype, count):
        file.seek(offset)
        return np.frombuffer(file.read(8 * count), dtype)


class Merge:
    """The records of many runs in the order of (key, tie)."""

    def __init__(self, runs: Sequence[str | Path]):
        self._runs = [_Run(path) for path in runs]
        self.count = sum(run.count for run in self._runs)
        self.bytes = sum(run.bytes for run in self._runs)

    def histogram(self, shift: int) -> dict[int, int]:
        """Number of records by the upper bits of their key: {key >> shift: count}, ascending."""
        total: dict[int, int] = {}
        for run in self._runs:
            slots, counts = np.unique(run.keys >> np.uint64(shift), return_counts=True)
            for slot, count in zip(slots.tolist(), counts.tolist(), strict=True):
                total[slot] = total.get(slot, 0) + count
        return dict(sorted(total.items()))

    def read(
        self, low: int = 0, high: int = 1 << 64, merge_bytes: int = MERGE_BYTES
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, bytes]]:
        """Yields (keys, ties, lengths, payload) of the records with low <= key < high, in order, piece by piece."""
        within = sum(run.bytes_of(*run.between(low, high)) for run in self._runs)
        pieces = max(1, -(-within // merge_bytes))
        borders = [low + (high - low) * i // pieces for i in range(pieces + 1)]
        for begin, end in itertools.pairwise(borders):
            parts = [part for part in (run.read_rows(*run.between(begin, end)) for run in self._runs) if len(part[0])]
            if not parts:
                continue
            sort_keys, ties, lengths, payload = _join(parts)
            del parts
            order = _order(sort_keys, ties)
            yield sort_keys[order], ties[order], lengths[order], b"".join(_in_order(payload, lengths, order))

    def scan(self, low: int, high: int, piece_bytes: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, bytes]]:
        """Yields what `read` does, in no particular order, in pieces of about piece_bytes however equal the keys are."""
        parts, size = [], 0
        for run in self._runs:
            first, last = run.between(low, high)
            step = max(1, (last - first) * piece_bytes // max(run.bytes_of(first, last), 1))
            for at in range(first, last, step):
                parts.append(run.read_rows(at, min(at + step, last)))
                size += len(parts[-1][3])
                if size >= piece_bytes:
                    yield _join(parts)
                    parts, size = [], 0
        if parts:
            yield _join(parts)


def _join(parts) -> tuple[np.ndarray, np.ndarray, np.ndarray, bytes]:
    """Pieces one after the other, as one."""
    return *(np.concatenate([part[i] for part in parts]) for i in range(3)), b"".join([part[3] for part in parts])
