"""Tokens of WordPiece vocabularies with their places in the text.

Words repeat: the pieces of a word and their places inside it are computed once and remembered, as the tokenizer
remembers ids; what is left of a text is to find its words and to look them up.
"""

import threading
import unicodedata
from array import array
from collections.abc import Sequence

import numpy as np

from nlpdata.text.bert import IDEOGRAPHS, SEPARATOR, SPLIT_BUT_DROPPED, BasicTokenizer, is_dropped, space_ideographs
from nlpdata.tokenizers import Tokenizer
from nlpdata.tokenizers.offsets import OffsetEncoder, Tokens
from nlpdata.tokenizers.word_memo import WordNumbers

MEMO_WORDS = 1 << 18  # words remembered: about 80 MB when full

_LETTER, _SPACE, _ALONE = 0, 1, 2  # kinds of characters: in a word, between words, a word by itself


class WordPieceOffsets(OffsetEncoder):
    """See nlpdata.tokenizers.offsets."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._basic = BasicTokenizer(**tokenizer.options())
        self._kinds = _kinds(self._basic.tokenize_chinese_chars)
        self._sizes: dict[str, int] = {}
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._words = WordNumbers()
        # Ids, starts and ends of all remembered words; position 0 is of none, as an empty buffer would have no address.
        self._table = [array("i", [0]) for _ in range(3)]
        self._lengths = array("q")

    def encode(self, texts: Sequence[str]) -> Tokens:
        block = "\n".join(texts)
        words, first = self._find_words(block)
        counts = np.zeros(len(texts), np.int64)
        if not words:
            return Tokens(np.zeros(0, np.int32), counts, counts[:0], counts[:0])
        with self._lock:
            sizes, ids, starts, stops = self._look_up(words)
        text_sizes = np.fromiter(map(len, texts), np.int64, len(texts)) + 1
        text_ends = np.cumsum(text_sizes)
        owner = np.searchsorted(text_ends, first, "right")
        base = np.repeat(first - (text_ends - text_sizes)[owner], sizes)
        counts += np.bincount(owner, weights=sizes, minlength=len(texts)).astype(np.int64)
        return Tokens(ids, counts, starts + base, stops + base)

    def _look_up(self, words: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Number of pieces of each word, int64; ids of all pieces, and where in their words they start and end, int32."""
        if len(self._words) > MEMO_WORDS:
            self._forget()
        try:
            numbers = np.fromiter(map(self._words.__getitem__, words), np.int64, len(words))
            self._learn()
        except BaseException:  # words with a number and no ids would be found next time
            self._forget()
            raise
        # A copy: the array cannot grow while there is a view of it, and profilers keep the variables of a call for a while.
        lengths = np.array(self._lengths, np.int64)
        sizes = lengths[numbers]
        ends = np.cumsum(sizes)
        at = np.arange(int(ends[-1])) + np.repeat((1 + np.cumsum(lengths) - lengths)[numbers] - (ends - sizes), sizes)
        ids, starts, stops = (np.frombuffer(column, np.int32)[at] for column in self._table)
        return sizes, ids, starts, stops

    def _learn(self) -> None:
        new, self._words.new = self._words.new, []
        if not new:
            return
        ids, lengths = self._tokenizer.encode(new)
        pieces = self._tokenizer.pieces(ids)
        unknown = self._tokenizer.pieces([self._tokenizer.unk_id])[0]
        self._table[0].extend(ids.tolist())
        self._lengths.extend(lengths.tolist())
        at = 0
        for word, count in zip(new, lengths.tolist(), strict=True):
            ranges = self._piece_ranges(word, pieces[at : at + count], unknown)
            self._table[1].extend([start for start, _ in ranges])
            self._table[2].extend([end for _, end in ranges])
            at += count

    def _find_words(self, block: str) -> tuple[list[str], np.ndarray]:
        """The words of a text, and where they begin: int64 (words,)."""
        if block.isascii():
            codes: np.ndarray = np.frombuffer(block.encode("ascii"), np.uint8)
        else:
            codes = np.frombuffer(block.encode("utf-32-le", "surrogatepass"), np.uint32)
        kinds = np.full(len(block) + 2, _SPACE, np.uint8)
        np.take(self._kinds, codes, out=kinds[1:-1])
        inside = kinds != _SPACE
        border = inside[1:] != inside[:-1]
        alone = kinds == _ALONE
        if alone.any():
            border |= alone[1:] | alone[:-1]
        first = np.flatnonzero(border & inside[1:])
        if not any(character in block for character in SPLIT_BUT_DROPPED):
            return (space_ideographs(block) if alone.any() else block).split(), first
        behind = np.flatnonzero(border & inside[:-1])
        return [block[a:b] for a, b in zip(first.tolist(), behind.tolist(), strict=True)], first

    def _piece_ranges(self, word: str, pieces: list[str], unknown: str) -> list[tuple[int, int]]:
        """(start, end) of each piece in its word, before normalisation."""
        basic = self._basic.tokens([word.replace(SEPARATOR, "")])
        begin, end = self._source_ranges(word)
        ranges, at, tokens, left = [], 0, iter(basic), 0
        for piece in pieces:
            if not left:
                left = len(next(tokens))
                size = left if piece == unknown else len(piece)
            else:
                size = len(piece) - 2  # "##"
            ranges.append((begin[at], end[at + size - 1]))
            at, left = at + size, left - size
        return ranges

    def _source_ranges(self, word: str) -> tuple[list[int], list[int]]:
        """For each character of the word's basic tokens, the range of characters of the word that it comes from."""
        if word.isascii() and word.isprintable():
            return list(range(len(word))), list(range(1, len(word) + 1))
        begin, end = [], []
        for i, character in enumerate(word):
            size = self._size(character)
            begin += [i] * size
            end += [i + 1] * size
            if not size and end and end[-1] == i and unicodedata.combining(character):
                last = begin[-1]
                for k in range(len(end) - 1, -1, -1):  # all that comes from the letter before the mark
                    if begin[k] != last:
                        break
                    end[k] = i + 1
        return begin, end

    def _size(self, character: str) -> int:
        """How many characters cleaning and lower-casing make of one."""
        size = self._sizes.get(character)
        if size is None:
            size = sum(map(len, self._basic.tokens(["" if character == SEPARATOR else character])))
            self._sizes[character] = size
        return size


def _kinds(ideographs_alone: bool) -> np.ndarray:
    """uint8 (0x110000,): what each character is to BasicTokenizer.words."""
    kinds = np.full(0x110000, _LETTER, np.uint8)
    for code in range(0x3001):
        if chr(code).isspace() and not is_dropped(chr(code)):
            kinds[code] = _SPACE
    if ideographs_alone:
        for first, last in IDEOGRAPHS:
            kinds[first : last + 1] = _ALONE
    return kinds
