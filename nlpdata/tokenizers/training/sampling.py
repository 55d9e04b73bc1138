"""Which lines of a corpus train a vocabulary: an exact sample, keyed, the same however the corpus is divided."""

from collections.abc import Sequence

import numpy as np

from nlpdata.keys import ROOT, draw, fold

_PURPOSE = 0x73616D706C65  # "sample", in the key of a draw


class LineSampler:
    """Selects `used` of `usable` lines in their order: every subset is as likely (selection sampling; Knuth, The Art of
    Computer Programming 2, 3.4.2, algorithm S). Line i is decided by draw i of the seed and the number taken before it.

    Attributes:
      seen, taken: lines decided and selected so far; a sampler that begins with those of another continues from there.
    """

    def __init__(self, usable: int, used: int, seed: int, seen: int = 0, taken: int = 0) -> None:
        self._usable, self._used = usable, used
        self._key = fold(fold(ROOT, seed), _PURPOSE)
        self.seen, self.taken = seen, taken

    def select(self, count: int) -> Sequence[int]:
        """Decides about the next `count` lines; the positions among them of those that are selected."""
        start = self.seen
        self.seen += count
        if self._used == self._usable:
            self.taken += count
            return range(count)
        draws = draw(self._key, np.arange(start, start + count, dtype=np.uint64)) >> np.uint64(32)
        selected = []
        for i, number in enumerate(draws.tolist()):
            if number * (self._usable - start - i) >> 32 < self._used - self.taken:
                self.taken += 1
                selected.append(i)
        return selected
