"""A memo of words: word -> ids, computed for many new words at a time and looked up for many words at a time."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

import numpy as np

from nlpdata.text.bert import SEPARATOR


class WordMemo:
    """Remembers the ids of words. What it returns never depends on what it remembers.

    All ids are in one growing array, so that the ids of a whole block of words take two array operations. Per word, Python
    does one dict look-up, and for a new word its share of one call of `compute`.

    Bounded: when it holds more than `max_words` words, or words with more than `max_characters` characters together,
    it forgets all but the oldest eighth, which holds the frequent words of the language, before the next block. A
    block of n words can exceed the bound by those n words until it is done.
    """

    def __init__(
        self,
        compute: Callable[[list[str]], tuple[np.ndarray, np.ndarray]],
        max_words: int,
        max_characters: int | None = None,
    ) -> None:
        """compute(words) -> ids int32 (sum of lengths,), lengths int64 (len(words),); words are distinct."""
        self._compute = compute
        self.max_words = max_words
        self.max_characters = max_characters or 16 * max_words
        self.clear()

    def clear(self) -> None:
        """Forgets every word."""
        self._index = WordNumbers()
        self._index[SEPARATOR] = 0  # a word without ids
        self._characters = 0
        self._ids = array("i", [0])  # position 0 belongs to no word: an empty buffer would have no address
        self._bounds = array("q", [1, 1])  # word w has ids[bounds[w]:bounds[w + 1]]

    def _forget(self) -> None:
        kept = list(islice(self._index, 1 + self.max_words // 8))  # in order of insertion, the SEPARATOR first
        characters = sum(map(len, kept))
        if characters > self.max_characters // 4:
            self.clear()
            return
        self._index = WordNumbers(zip(kept, range(len(kept)), strict=True))
        self._characters = characters
        del self._bounds[len(kept) + 1 :]
        del self._ids[self._bounds[-1] :]

    def __len__(self) -> int:
        """How many words it remembers."""
        return len(self._index) - 1

    def encode(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all words, int32; and the number of ids before, between and after the SEPARATORs among the words,
        int64 (number of SEPARATORs + 1,)."""
        try:
            which = np.fromiter(map(self._index.__getitem__, words), dtype=np.int64, count=len(words))
            if self._index.new:
                self._learn(self._index.new)
                self._index.new = []
        except BaseException:  # words with an index and no ids would be found next time
            self.clear()
            raise
        bounds = np.frombuffer(self._bounds, dtype=np.int64)
        starts = bounds[which]
        lengths = bounds[which + 1] - starts
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if ends.size else 0
        # Output position p, in the word that ends at ends[i], is ids[starts[i] + p - (ends[i] - lengths[i])].
        source = np.repeat(starts - (ends - lengths), lengths)
        source += np.arange(total)
        ids = np.frombuffer(self._ids, dtype=np.int32)[source]
        group_ends = np.append(ends[which == 0], total)
        del bounds  # the array cannot grow while a view of it exists
        if len(self._index) > self.max_words or self._characters > self.max_characters:
            self._forget()
        return ids, np.diff(group_ends, prepend=0)

    def _learn(self, words: list[str]) -> None:
        ids, lengths = self._compute(words)
        self._characters += sum(map(len, words))
        bounds = np.cumsum(lengths, dtype=np.int64) + len(self._ids)
        self._ids.frombytes(np.ascontiguousarray(ids, dtype=np.int32).tobytes())
        self._bounds.frombytes(bounds.tobytes())


class WordNumbers(dict):
    """word -> its number; a word that is not there gets the next one and is put down in `new`."""

    def __init__(self, numbers: Iterable[tuple[str, int]] | Mapping[str, int] = ()) -> None:
        super().__init__(numbers)
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        self.new.append(word)
        return number
