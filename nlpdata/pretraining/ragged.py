"""Ragged columns: many slices of flat arrays at once, and rows of several such columns as byte strings.

    row: count of each column uint32 (columns,) | values of column 0 | values of column 1 | ...

Rows follow each other without padding; all of it is in cells of two bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_CELL = np.dtype(np.uint16)


@dataclass(frozen=True)
class Ragged:
    """Row i is values[starts[i] : starts[i] + counts[i]]; starts and counts int64 (n,)."""

    values: np.ndarray
    starts: np.ndarray
    counts: np.ndarray

    @classmethod
    def joined(cls, values: np.ndarray, counts: np.ndarray) -> "Ragged":
        """Rows that follow each other in `values`."""
        return cls(values, np.cumsum(counts) - counts, counts)


def copy_slices(
    source: np.ndarray, start: np.ndarray, length: np.ndarray, target: np.ndarray, offset: np.ndarray
) -> None:
    """Copies source[start[i] : start[i] + length[i]] to the flat `target` from offset[i] on, for all i at once.

    start, length, offset: int64 (n,).
    """
    before = np.cumsum(length) - length
    running = np.arange(int(length.sum()))
    target.reshape(-1)[running + np.repeat(offset - before, length)] = source[
        running + np.repeat(start - before, length)
    ]


def pack_rows(columns: Sequence[Ragged], dtypes: Sequence[np.dtype]) -> tuple[bytes, np.ndarray]:
    """The rows of columns of equal n as bytes: (all rows one after the other, length of each in bytes int64 (n,)).

    Values are written in `dtypes`, one a column, of two bytes or a multiple.
    """
    head = np.stack([column.counts for column in columns], axis=1).astype(np.uint32).view(_CELL)
    widths = [np.dtype(dtype).itemsize // _CELL.itemsize for dtype in dtypes]
    sizes = head.shape[1] + sum(column.counts * width for column, width in zip(columns, widths, strict=True))
    cells = np.empty(int(sizes.sum()), _CELL)
    at = np.cumsum(sizes) - sizes
    cells[at[:, None] + np.arange(head.shape[1])] = head
    at = at + head.shape[1]
    for column, dtype, width in zip(columns, dtypes, widths, strict=True):
        source = np.ascontiguousarray(column.values, dtype).view(_CELL)
        copy_slices(source, column.starts * width, column.counts * width, cells, at)
        at += column.counts * width
    return cells.tobytes(), sizes * _CELL.itemsize


def unpack_rows(payload: bytes, lengths: np.ndarray, dtypes: Sequence[np.dtype]) -> list[Ragged]:
    """The columns of rows that pack_rows has written with the same `dtypes`; in each, rows follow each other."""
    cells = np.frombuffer(payload, _CELL)
    at = (np.cumsum(lengths) - lengths) // _CELL.itemsize
    head = 2 * len(dtypes)
    counts = cells[at[:, None] + np.arange(head)].view(np.uint32).astype(np.int64)
    at = at + head
    columns = []
    for dtype, count in zip(map(np.dtype, dtypes), counts.T, strict=True):
        size = count * (dtype.itemsize // _CELL.itemsize)
        found = np.empty(int(size.sum()), _CELL)
        copy_slices(cells, at, size, found, np.cumsum(size) - size)
        columns.append(Ragged.joined(found.view(dtype), count))
        at = at + size
    return columns
