"""What is equal to an earlier one, of things whose hashes are in key files (nlpdata.corpus.splitting.repeats)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nlpdata.corpus.splitting import repeats

DIGEST_BYTES = 16
_SOME, _SOME_UNITS = 500, 8


def find_repeated(folder: Path, files: Sequence[tuple[int, str]]) -> tuple[int, list[tuple[int, int]]]:
    """How many things are equal to an earlier one, and (unit, number) of some of these, from few units.

    files: (unit, key file) in the order of the things.
    """
    count, some = 0, dict[int, list[int]]()
    for units, numbers in _repeats(folder, files):
        count += len(numbers)
        for unit in np.unique(units).tolist():
            if unit in some or len(some) < _SOME_UNITS:
                own = [*some.get(unit, []), *numbers[units == unit].tolist()]
                some[unit] = own[:: 1 + len(own) * _SOME_UNITS // _SOME]
    return count, sorted((unit, number) for unit, numbers in some.items() for number in numbers)


def _repeats(folder: Path, files: Sequence[tuple[int, str]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(units, numbers), a part at a time."""
    for unit, name in files:
        own = repeats.own_repeats(folder, name)
        yield np.full(len(own), unit), own
    for slots in repeats.plan_ranges(folder, [name for _, name in files]):
        yield repeats.find_repeats(folder, files, slots)
