"""How many things are equal to an earlier one, of their hashes in key files (nlpdata.corpus.splitting.repeats)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nlpdata.corpus.splitting import repeats

DIGEST_BYTES = 16


def count_repeats(folder: Path, files: Sequence[tuple[int, str]]) -> int:
    """The things of all key files that are equal to an earlier one; files: (unit, key file) in the order of the things."""
    return sum(len(numbers) for _, numbers in _repeats(folder, files))


def some_repeats(folder: Path, files: Sequence[tuple[int, str]], most: int, most_units: int) -> list[tuple[int, int]]:
    """(unit, number) of at most `most` things that are equal to an earlier one, of the first units that have such."""
    found: dict[int, list[int]] = {}
    for units, numbers in _repeats(folder, files):
        for unit in np.unique(units).tolist():
            if unit in found or len(found) < most_units:
                own = [*found.get(unit, []), *numbers[units == unit].tolist()]
                found[unit] = own[:: max(1, len(own) * most_units // most)]
    return sorted((unit, number) for unit, numbers in found.items() for number in numbers)[:most]


def _repeats(folder: Path, files: Sequence[tuple[int, str]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for unit, name in files:
        own = repeats.own_repeats(folder, name)
        yield np.full(len(own), unit), own
    for slots in repeats.plan_ranges(folder, [name for _, name in files]):
        yield repeats.find_repeats(folder, files, slots)
