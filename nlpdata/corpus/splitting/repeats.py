"""Equal things among many, in bounded memory: by 128-bit hashes, sorted in ranges. The first one in the order stays.

Each unit of work writes the hashes of its things (documents or lines) into key files, sorted, each hash once. A range of the
hashes of all key files is then sorted at a time; what is equal to an earlier one is noted in a file of numbers, by unit.

    key file: magic, rows, repeats | first row of each slot int64 (SLOTS + 1,) | rows uint64 (rows, 3): hash, hash, number |
              numbers of things that are equal to an earlier one of this very file, int64 (repeats,)
    numbers:  magic, units | first number of each unit int64 (units + 1,) | numbers int64, ascending in each unit

A slot is a range of hashes: those with the same upper bits.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from nlpdata.files.paths import AnyPath
from nlpdata.files.writing import write_whole

SLOTS = 1024
RANGE_ROWS = 1 << 20  # that are sorted at once: about 50 MB
_FILE_ROWS = 1 << 20  # of a key file, at most
_KEY_MAGIC, _NUMBER_MAGIC = 0x3159454B5F4C4E, 0x314D554E5F4C4E
_SHIFT = np.uint64(54)
_HEAD = 8 * 3


class KeyWriter:
    """Collects the hashes of numbered things and leaves them as key files.

    Args:
      folder: where the key files go.
      prefix: of their names.

    Attributes:
      files: their base names so far.
    """

    def __init__(self, folder: AnyPath, prefix: str) -> None:
        self._folder, self._prefix = folder, prefix
        self._digests: list[bytes] = []
        self._numbers: list[int] = []
        self._number = 0
        self.files: list[str] = []

    def add(self, digest: bytes) -> None:
        """The hash of the next thing: 16 bytes."""
        self._digests.append(digest)
        self._numbers.append(self._number)
        self._number += 1
        if len(self._digests) == _FILE_ROWS:
            self._flush()

    def skip(self) -> None:
        """Counts a thing that is like no other."""
        self._number += 1

    def finish(self) -> list[str]:
        if self._digests:
            self._flush()
        return self.files

    def _flush(self) -> None:
        hashes = np.frombuffer(b"".join(self._digests), "<u8").reshape(-1, 2)
        rows = np.column_stack([hashes, np.array(self._numbers, np.uint64)])
        self._digests, self._numbers = [], []
        is_first, order = _first_of_each(rows[:, 0], rows[:, 1])
        kept, repeats = rows[order[is_first]], np.sort(rows[order[~is_first], 2]).astype("<i8")
        firsts = np.searchsorted(kept[:, 0] >> _SHIFT, np.arange(SLOTS + 1, dtype=np.uint64)).astype("<i8")
        head = np.array([_KEY_MAGIC, len(kept), len(repeats)], "<i8")
        name = f"{self._prefix}-{len(self.files)}.keys"
        parts = (head, firsts, kept.astype("<u8"), repeats)
        write_whole(self._folder / name, b"".join(part.tobytes() for part in parts), durable=False)
        self.files.append(name)


def _first_of_each(high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(whether the first of equal ones, order) of hashes, sorted, equal ones as they stand."""
    order = np.lexsort((low, high))
    high, low = high[order], low[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return is_first, order


def _heads(path: AnyPath) -> np.ndarray:
    """Magic, rows and repeats of a key file, then the first row of each slot."""
    with path.open("rb") as file:
        head = np.frombuffer(file.read(_HEAD + 8 * (SLOTS + 1)), "<i8")
    if len(head) != 3 + SLOTS + 1 or head[0] != _KEY_MAGIC:
        raise OSError(f"{path} is damaged: it does not begin as a key file does")
    return head


def plan_ranges(folder: AnyPath, files: Iterable[str]) -> list[tuple[int, int]]:
    """Ranges of slots, (first, last + 1), that have about RANGE_ROWS rows each in all key files together."""
    rows = np.zeros(SLOTS, np.int64)
    for name in files:
        rows += np.diff(_heads(folder / name)[3:])
    ranges, first, held = [], 0, 0
    for slot, count in enumerate(rows.tolist()):
        if held and held + count > RANGE_ROWS:
            ranges.append((first, slot))
            first, held = slot, 0
        held += count
    return [*ranges, (first, SLOTS)] if held else ranges


def find_repeats(
    folder: AnyPath, files: Sequence[tuple[int, str]], slots: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """(units, numbers) of the things in a range of slots that are equal to an earlier one in another key file.

    files: (unit, key file) in the order of the things.
    """
    parts, units = [np.empty((0, 3), np.uint64)], [np.empty(0, np.int64)]
    for unit, name in files:
        head = _heads(folder / name)
        first, stop = head[3 + slots[0]], head[3 + slots[1]]
        if first == stop:
            continue
        with (folder / name).open("rb") as file:
            file.seek(_HEAD + 8 * (SLOTS + 1) + 24 * int(first))
            parts.append(np.frombuffer(file.read(24 * int(stop - first)), "<u8").reshape(-1, 3))
        units.append(np.full(len(parts[-1]), unit))
    rows, unit_of = np.concatenate(parts), np.concatenate(units)
    is_first, order = _first_of_each(rows[:, 0], rows[:, 1])
    found = order[~is_first]
    return unit_of[found], rows[found, 2].astype(np.int64)


def own_repeats(folder: AnyPath, name: str) -> np.ndarray:
    """The numbers of things that are equal to an earlier one of their key file: int64, ascending."""
    rows, repeats = _heads(folder / name)[1:3].tolist()
    with (folder / name).open("rb") as file:
        file.seek(_HEAD + 8 * (SLOTS + 1) + 24 * rows)
        return np.frombuffer(file.read(8 * repeats), "<i8")


def write_numbers(path: AnyPath, units: np.ndarray, numbers: np.ndarray, count: int) -> None:
    """Writes numbers by unit; `count`: of all units."""
    order = np.lexsort((numbers, units))
    firsts = np.searchsorted(units[order], np.arange(count + 1))
    parts = (np.array([_NUMBER_MAGIC, count]), firsts, numbers[order])
    write_whole(path, b"".join(part.astype("<i8").tobytes() for part in parts), durable=False)


def read_numbers(path: AnyPath, unit: int) -> np.ndarray:
    """The numbers of a unit: int64, ascending."""
    with path.open("rb") as file:
        magic, count = np.frombuffer(file.read(16), "<i8").tolist()
        if magic != _NUMBER_MAGIC:
            raise OSError(f"{path} is damaged: it does not begin as a file of numbers does")
        file.seek(16 + 8 * unit)
        first, stop = np.frombuffer(file.read(16), "<i8").tolist()
        file.seek(16 + 8 * (count + 1 + first))
        return np.frombuffer(file.read(8 * (stop - first)), "<i8")
