"""Which rows of evaluation sets a corpus holds: n-grams of words that both have.

Words are those of the text without punctuation, whatever their case and form in Unicode; a character of a script without spaces
is a word. A row counts as contaminated where the corpus has one of its n-grams, of 13 words by default, of 8 in texts that are
shorter, as in the appendix C of the paper on GPT-3 (Brown et al. 2020). Texts of fewer words cannot be told from chance, and are
counted.

Memory: 24 bytes for each n-gram of the evaluation sets, at most MOST_GRAMS, however large the corpus is. N-grams are compared
by 64-bit hashes.
"""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlpdata.corpus.types import Block
from nlpdata.errors import DataError, opt
from nlpdata.finetuning.datasets import BadRow
from nlpdata.reports.evaluation import EvaluationSet
from nlpdata.tokenizers.scripts import is_unspaced

SHORT_GRAM = 8
MOST_GRAMS = 50_000_000
_MOST_WORDS = 1 << 20  # whose hashes are kept
_BASE = 0x9E3779B97F4A7C15  # odd, and so it has an inverse modulo 2**64
_INVERSE = pow(_BASE, -1, 1 << 64)
_SCREEN_BITS = 24


class _Marks(dict[int, str]):
    """str.translate's table: what is not part of a word to a space, what is not seen to nothing; kept for each character."""

    def __missing__(self, code: int) -> str:
        character, category = chr(code), unicodedata.category(chr(code))
        made = f" {character} " if is_unspaced(character) else character
        is_kept = category[0] in "LMN" or character == "\n"
        self[code] = made if is_kept else "" if category == "Cf" else " "  # Cf: soft hyphens, joiners, directions
        return self[code]


class _WordHashes(dict[str, int]):
    def __missing__(self, word: str) -> int:
        if len(self) == _MOST_WORDS:
            self.clear()
        self[word] = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
        return self[word]


_marks, _hashes = _Marks(), _WordHashes()


def word_hashes(lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The words of all lines as hashes, uint64 (words,), and the number of words of each line, int64 (lines,)."""
    text = _folded("\n".join(line.replace("\n", " ") for line in lines))
    words = [line.split() for line in text.translate(_marks).split("\n")] if lines else []
    counts = np.fromiter(map(len, words), np.int64, len(words))
    return np.fromiter(map(_hashes.__getitem__, chain.from_iterable(words)), np.uint64, int(counts.sum())), counts


def _folded(text: str) -> str:
    """A text in which letters are equal whatever their case and however Unicode writes them (NFKC_Casefold)."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def gram_hashes(words: np.ndarray, size: int) -> np.ndarray:
    """The hash of each run of `size` words: uint64 (len(words) - size + 1,); empty where there are fewer words."""
    if len(words) < size:
        return np.empty(0, np.uint64)
    with np.errstate(over="ignore"):
        sums = np.zeros(len(words) + 1, np.uint64)
        np.add.accumulate(words * _powers(_BASE, len(words)), out=sums[1:])
        return (sums[size:] - sums[:-size]) * _powers(_INVERSE, len(words) - size + 1)


def _powers(base: int, count: int) -> np.ndarray:
    """1, base, base squared, ... modulo 2**64."""
    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    return np.multiply.accumulate(factors)


@dataclass(frozen=True)
class Index:
    """The n-grams of evaluation sets.

    Attributes:
      size: words of an n-gram, and `short` of those in shorter texts.
      grams: for each of the two sizes, hashes: uint64, ascending, each once.
      postings: for each of the two sizes, (gram, row): int64 (n, 2), by gram; gram is a place in `grams`.
      names: of the evaluation sets.
      firsts: the number of the first row of each set, and of all rows: int64 (sets + 1,).
      wheres: of each row.
      texts: of each row the beginning, as an example.
      told: whether a row has an n-gram.
      bad: rows that cannot be used, by set and reason.
    """

    size: int
    short: int
    grams: tuple[np.ndarray, np.ndarray]
    postings: tuple[np.ndarray, np.ndarray]
    names: tuple[str, ...]
    firsts: np.ndarray
    wheres: tuple[str, ...]
    texts: tuple[str, ...]
    told: np.ndarray
    bad: Mapping[str, Counter]

    def save(self, folder: Path) -> "IndexFiles":
        """Writes the n-grams into files that workers map into memory."""
        for number, grams in enumerate(self.grams):
            np.save(folder / f"grams-{number}.npy", grams)
        return IndexFiles(folder, (self.size, self.short))


class IndexFiles(NamedTuple):
    """Where the n-grams of an index are, and of how many words they are."""

    folder: Path
    sizes: tuple[int, int]


def make_index(sets: Sequence[EvaluationSet], size: int) -> Index:
    """Reads evaluation sets. DataError where they hold more n-grams than memory is meant for, or nothing at all."""
    short = min(size, SHORT_GRAM)
    found: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    firsts, told = [0], list[bool]()
    wheres, texts = list[str](), list[str]()
    bad: dict[str, Counter] = {each.name: Counter() for each in sets}
    total = 0
    for each in sets:
        for row in each.rows():
            if isinstance(row, BadRow):
                bad[each.name][row.reason] += 1
                continue
            number, before = len(wheres), total
            for text in row.texts:
                words, _ = word_hashes([text])
                kind = 0 if len(words) >= size else 1
                grams = gram_hashes(words, (size, short)[kind])
                found[kind].append(np.stack([grams, np.full(len(grams), number, np.uint64)], axis=1))
                total += len(grams)
            wheres.append(row.where)
            texts.append(" | ".join(row.texts)[:200])
            told.append(total > before)
            if total > MOST_GRAMS:
                raise DataError(
                    f"{opt('evaluation')}: more than {MOST_GRAMS:,} n-grams, for which memory is not meant, at {row.where}. "
                    "Name fewer files at a time"
                )
        firsts.append(len(wheres))
    if not wheres:
        raise DataError(f"{opt('evaluation')}: {', '.join(each.name for each in sets)}: no row can be read")
    grams, postings = zip(*map(_sorted_grams, found), strict=True)
    names = tuple(each.name for each in sets)
    return Index(
        size, short, grams, postings, names, np.array(firsts), tuple(wheres), tuple(texts), np.array(told, bool), bad
    )


def _sorted_grams(found: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.unique(np.concatenate([np.empty((0, 2), np.uint64), *found]), axis=0)
    grams, places = np.unique(pairs[:, 0], return_inverse=True)
    return grams, np.stack([places.reshape(-1), pairs[:, 1].astype(np.int64)], axis=1)


class Place(NamedTuple):
    """Where an n-gram begins: the file's number, the byte at which its document begins, and the line there, from 0."""

    file: int
    offset: int
    line: int


Places = dict[tuple[int, int], Place]
"""(0 or 1 for the size, place in an index's `grams`) -> where the corpus has this n-gram first."""


def add_places(places: Places, other: Places) -> None:
    """Adds what another part of a corpus has."""
    for gram, place in other.items():
        places[gram] = min(place, places.get(gram, place))


class Matcher:
    """Looks for the n-grams of an index in the blocks of one portion, in their order.

    Attributes:
      found: what the blocks have.
    """

    def __init__(self, files: IndexFiles) -> None:
        self._sizes = files.sizes
        self._grams = [np.load(files.folder / f"grams-{number}.npy", mmap_mode="r") for number in (0, 1)]
        self._screens = [_screen(grams) for grams in self._grams]
        self.found: Places = {}
        self._tail: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # of a document that continues
        self._lines_before = 0  # of a document that began in an earlier block

    def add(self, block: Block) -> None:
        """Looks at the next block."""
        words, counts = word_hashes(block.lines)
        documents = np.repeat(np.arange(len(block.line_counts)), block.line_counts)  # of each line
        starts = np.concatenate([[0], np.cumsum(block.line_counts)[:-1]])
        lines = np.arange(len(counts)) - starts[documents]
        if block.starts_inside:
            lines[documents == 0] += self._lines_before
        document, line = np.repeat(documents, counts), np.repeat(lines, counts)
        if block.starts_inside and self._tail is not None:
            words, line, document = (
                np.concatenate(pair) for pair in zip(self._tail, (words, line, document), strict=True)
            )
        for kind, size in enumerate(self._sizes):
            self._look(kind, size, words, document, line, block)
        last = len(block.line_counts) - 1
        own = document == last
        keep = max(self._sizes) - 1
        self._tail = None
        if block.ends_inside:
            self._tail = words[own][-keep:], line[own][-keep:], np.zeros(min(keep, int(own.sum())), np.int64)
        self._lines_before = block.line_counts[last] + (self._lines_before if last == 0 and block.starts_inside else 0)

    def _look(
        self, kind: int, size: int, words: np.ndarray, document: np.ndarray, line: np.ndarray, block: Block
    ) -> None:
        hashes, grams = gram_hashes(words, size), self._grams[kind]
        if not len(hashes) or not len(grams):
            return
        inside = document[: len(hashes)] == document[size - 1 :]
        candidates = np.flatnonzero(self._screens[kind][hashes >> np.uint64(64 - _SCREEN_BITS)] & inside)
        places = np.minimum(np.searchsorted(grams, hashes[candidates]), len(grams) - 1)
        hit = grams[places] == hashes[candidates]
        for at, gram in zip(candidates[hit].tolist(), places[hit].tolist(), strict=True):
            if (kind, gram) not in self.found:
                own = int(document[at])
                self.found[kind, gram] = Place(block.files[own].number, block.offsets[own], int(line[at]))


def _screen(grams: np.ndarray) -> np.ndarray:
    """Which upper bits some n-gram has: most of a corpus needs no search."""
    screen = np.zeros(1 << _SCREEN_BITS, bool)
    screen[grams >> np.uint64(64 - _SCREEN_BITS)] = True
    return screen


@dataclass
class RowMatch:
    """A contaminated row.

    Attributes:
      row: its number.
      found, total: its n-grams that the corpus has, and all.
      first: where the corpus has the first of them.
    """

    row: int
    found: int
    total: int
    first: Place


@dataclass(frozen=True)
class Contamination:
    """What was found of an evaluation set.

    Attributes:
      name: of the set.
      rows: all that can be read, `told` those that have n-grams, `bad` those that cannot be read, by reason.
      matches: the contaminated rows, in their order.
    """

    name: str
    rows: int
    told: int
    bad: Mapping[str, int]
    matches: Sequence[RowMatch] = field(default_factory=list)


def contaminated(index: Index, places: Places) -> list[Contamination]:
    """What a corpus has of the evaluation sets, by set."""
    totals = np.zeros(len(index.wheres), np.int64)
    rows: dict[int, RowMatch] = {}
    for kind, postings in enumerate(index.postings):
        totals += np.bincount(postings[:, 1], minlength=len(totals))
        gone = np.array([gram for size, gram in places if size == kind], np.int64)
        for gram, row in postings[np.isin(postings[:, 0], gone)].tolist():
            match = rows.setdefault(row, RowMatch(row, 0, 0, places[kind, gram]))
            match.found += 1
            match.first = min(match.first, places[kind, gram])
    for row, match in rows.items():
        match.total = int(totals[row])
    made = []
    for number, name in enumerate(index.names):
        first, stop = int(index.firsts[number]), int(index.firsts[number + 1])
        matches = [rows[row] for row in sorted(rows) if first <= row < stop]
        made.append(Contamination(name, stop - first, int(index.told[first:stop].sum()), index.bad[name], matches))
    return made
