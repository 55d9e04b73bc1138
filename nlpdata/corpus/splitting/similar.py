"""Similar documents, by MinHash with the library datasketch: what a document shares with another are runs of five words.

The signatures of documents are made apart; comparing them, in the order of the documents, holds all that stay in memory: some
three kilobytes each.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from nlpdata.files.paths import AnyPath
from nlpdata.tokenizers.scripts import is_unspaced

PERMUTATIONS = 128
WORDS = 5  # of a run
_SEED, _SCHEME = 1, "affine32"
_WORD = re.compile(r"\w+")
_BATCH = 1 << 14  # runs that are hashed at once


class Signatures:
    """Makes the signature of one document after the other."""

    def __init__(self) -> None:
        from datasketch import MinHash

        self._new = MinHash(num_perm=PERMUTATIONS, seed=_SEED, scheme=_SCHEME).copy
        self._begin()

    def _begin(self) -> None:
        self._made: Any = self._new()
        self._words: list[str] = []
        self._runs = 0

    def add(self, data: bytes) -> None:
        """More sentences of the document, UTF-8, each with a line end."""
        self._words += words_of(data.decode("utf-8"))
        if len(self._words) > _BATCH:
            self._update()

    def _update(self) -> None:
        words = self._words
        runs = {" ".join(words[i : i + WORDS]).encode() for i in range(len(words) - WORDS + 1)}
        if runs:
            self._made.update_batch(sorted(runs))
        self._runs += len(runs)
        self._words = words[len(words) - WORDS + 1 :] if len(words) >= WORDS else words

    def end(self) -> np.ndarray:
        """Its signature, uint32 (PERMUTATIONS,); the next document begins."""
        if not self._runs and len(self._words) < WORDS:
            self._made.update(" ".join(self._words).encode())
        else:
            self._update()
        values = self._made.hashvalues.astype("<u4")
        self._begin()
        return values

    def drop(self) -> None:
        """Forgets what was added of a document."""
        self._begin()


def words_of(text: str) -> list[str]:
    """The words of a text in lower case; of scripts without spaces each character is one."""
    words = _WORD.findall(text.lower())
    if text.isascii():
        return words
    found: list[str] = []
    for word in words:
        found += word if any(map(is_unspaced, word)) else [word]
    return found


def find_similar(documents: Iterable[np.ndarray], threshold: float) -> Iterator[bool]:
    """Whether each document is similar to an earlier one that stays.

    Args:
      documents: their signatures.
      threshold: least similarity, as the signatures estimate it.
    """
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=threshold, num_perm=PERMUTATIONS)
    kept: list[np.ndarray] = []
    for values in documents:
        signature = MinHash(num_perm=PERMUTATIONS, seed=_SEED, scheme=_SCHEME, hashvalues=values)
        least = threshold * PERMUTATIONS
        similar = any((kept[number] == values).sum() >= least for number in index.query(signature))
        if not similar:
            index.insert(len(kept), signature, check_duplication=False)
            kept.append(values)
        yield similar


def read_signatures(path: AnyPath) -> np.ndarray:
    """Those of a unit's documents: uint32 (documents, PERMUTATIONS)."""
    return np.frombuffer(path.read_bytes(), "<u4").reshape(-1, PERMUTATIONS)
