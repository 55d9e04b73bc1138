"""Similar documents, by MinHash with the library datasketch: what a document shares with another are runs of five words.

The signatures of documents are made apart; comparing them, in the order of the documents, holds all that stay in memory: some
three kilobytes each.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import numpy as np

from nlpdata import keys
from nlpdata.files.paths import AnyPath
from nlpdata.tokenizers.scripts import UNSPACED

PERMUTATIONS = 128
WORDS = 5  # of a run
_ALONE = "".join(f"{chr(first)}-{chr(last)}" for first, last in UNSPACED)
_WORD = re.compile(rf"(?=\w)[{_ALONE}]|[^\W{_ALONE}]+")
_MANY_WORDS = 1 << 14  # that are held
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit of a word is lost


def _new_signature() -> Any:
    from datasketch import MinHash

    return MinHash(num_perm=PERMUTATIONS, seed=1, scheme="affine32", hashfunc=int)  # of hashes that are made here


class Signatures:
    """Makes the signature of one document after the other."""

    def __init__(self) -> None:
        self._made = _new_signature()
        self._words: list[str] = []
        self._is_short = True  # no run so far

    def add(self, data: bytes) -> None:
        """More sentences of the document, UTF-8, each with a line end."""
        self._words += words_of(data.decode("utf-8"))
        if len(self._words) > _MANY_WORDS:
            self._update(WORDS)

    def _update(self, length: int) -> None:
        """Takes the runs of so many words that are held, but for the words of runs that may continue."""
        self._made.update_batch(hashes_of_runs(self._words, length).tolist())
        self._words = self._words[len(self._words) - length + 1 :]
        self._is_short = False

    def end(self) -> np.ndarray:
        """Its signature, uint32 (PERMUTATIONS,); the next document begins. One of fewer words is one run."""
        if len(self._words) >= WORDS:
            self._update(WORDS)
        elif self._is_short and self._words:
            self._update(len(self._words))
        values = self._made.digest().astype("<u4")
        self._made.clear()
        self._words, self._is_short = [], True
        return values


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; of scripts without spaces each character is one."""
    return _WORD.findall(text.lower())


def hashes_of_runs(words: list[str], length: int) -> np.ndarray:
    """32-bit hashes of all runs of `length` words, each once, ascending: uint64."""
    codes = np.array([crc32(word.encode()) for word in words], np.uint64)
    count = len(words) - length + 1
    runs = codes[:count]
    for i in range(1, length):
        runs = runs * _FACTOR + codes[i : i + count]
    return np.unique(keys.draw(runs, length) >> np.uint64(32))


def find_similar(documents: Iterable[np.ndarray], threshold: float) -> Iterator[bool]:
    """Whether each document is similar to an earlier one that stays.

    Args:
      documents: their signatures.
      threshold: least similarity, as the signatures estimate it.
    """
    from datasketch import MinHashLSH

    index, probe = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS), _new_signature()
    kept: list[np.ndarray] = []
    for values in documents:
        probe.hashvalues = values
        least = threshold * PERMUTATIONS
        similar = any((kept[number] == values).sum() >= least for number in index.query(probe))
        if not similar:
            index.insert(len(kept), probe, check_duplication=False)
            kept.append(values)
        yield similar


def read_signatures(path: AnyPath) -> np.ndarray:
    """Those of a unit's documents: uint32 (documents, PERMUTATIONS)."""
    return np.frombuffer(path.read_bytes(), "<u4").reshape(-1, PERMUTATIONS)
