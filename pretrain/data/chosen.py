"""Some of the records of a set, in their order: those that can be used."""

from collections.abc import Callable
from typing import Any

import numpy as np

_BLOCK = 4096  # records looked at together


class Chosen:
    """records[numbers], with the interface of `nlpdata.open_records` that batches use. `all`: the records."""

    def __init__(self, records: Any, numbers: np.ndarray):
        self.all, self.numbers = records, numbers
        self.features, self.paths = records.features, records.paths
        stops = np.cumsum(records.counts)
        self.counts = np.diff(np.searchsorted(numbers, np.concatenate([[0], stops])))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return self.all[self.numbers[rows]]

    def where(self, row: int) -> str:
        """A record's place, for messages."""
        return self.all.where(int(self.numbers[row]))


def usable(records: Any, is_usable: Callable[[dict[str, np.ndarray]], np.ndarray]) -> np.ndarray:
    """The numbers of the records, int64, of which is_usable(rows) (bool (n,)) is true; reads them all once."""
    found = []
    for first in range(0, len(records), _BLOCK):
        numbers = np.arange(first, min(first + _BLOCK, len(records)))
        found.append(numbers[is_usable(records[numbers])])
    return np.concatenate(found)
