"""Tokens of SentencePiece models with their places in the text.

Two steps lead from a text to its pieces: ALBERT's normalisation (nlpdata.text.albert) and the model's own (NFKC as a
rule). The model tells the places in the text that it is given; here they are carried back through the first step,
as the range of original characters that each normalised one comes from.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from nlpdata.tokenizers.offsets import OffsetEncoder, Tokens
from nlpdata.tokenizers.sentencepiece import SentencePieceTokenizer

_QUOTES = re.compile("``|''")


class SentencePieceOffsets(OffsetEncoder):
    """See nlpdata.tokenizers.offsets."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, texts: Sequence[str]) -> Tokens:
        normal = self._tokenizer.normalize(texts)
        ids, lengths, starts, ends = self._tokenizer.encode_normalized_with_offsets(normal)
        starts, ends = _without_space(normal, lengths, starts, ends)
        stops = np.cumsum(lengths)
        options = self._tokenizer.spec
        for i, (text, line) in enumerate(zip(texts, normal, strict=True)):
            if len(text) == len(line) and text.isascii():  # nothing but case has changed
                continue
            begin, end = source_ranges(text, bool(options.do_lower_case), bool(options.keep_accents))
            own = slice(int(stops[i] - lengths[i]), int(stops[i]))
            empty = starts[own] == ends[own]
            low = np.append(begin, len(text))[starts[own]]
            high = np.append(end, 0)[ends[own] - 1]
            starts[own], ends[own] = low, np.where(empty, low, high)
        return Tokens(ids, lengths, starts, ends)


def _without_space(
    normal: list[str], lengths: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Offsets without the space in front of a word; a piece that is a space only keeps it."""
    text = "\n".join(normal)
    space = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) == 0x20
    sizes = np.fromiter(map(len, normal), np.int64, len(normal)) + 1
    if not len(space) or not len(starts):
        return starts, ends
    places = starts + np.repeat(np.cumsum(sizes) - sizes, lengths)
    return starts + (space[np.minimum(places, len(space) - 1)] & (ends - starts > 1)), ends


def source_ranges(text: str, do_lower_case: bool, keep_accents: bool) -> tuple[np.ndarray, np.ndarray]:
    """For each character of the normalised text, the range of characters of `text` that it comes from.

    Returns (begin, end), int64 (m,) each, m the length of nlpdata.text.albert.normalize_lines([text], ...).
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    space = _spaces()[np.minimum(codes, len(_spaces()) - 1)]
    kept = np.flatnonzero(~space | ~np.append(True, space[:-1]))  # of a run of white space its first
    if len(kept) and space[kept[-1]]:
        kept = kept[:-1]
    begin, end = kept, kept + 1
    if _QUOTES.search(text):
        seconds = [match.start() + 1 for match in _QUOTES.finditer("".join([text[i] for i in kept.tolist()]))]
        end[np.array(seconds) - 1] = end[seconds]
        begin, end = np.delete(begin, seconds), np.delete(end, seconds)
    counts = np.ones(len(begin), np.int64)
    wide = np.flatnonzero((codes[begin] > 0x7F) & ~space[begin])
    counts[wide] = [_size(text[i], do_lower_case, keep_accents) for i in begin[wide].tolist()]
    for i in wide[counts[wide] == 0][::-1].tolist():  # a mark belongs to the letter before it
        if i and begin[i] == end[i - 1]:
            end[i - 1] = end[i]
    return np.repeat(begin, counts), np.repeat(end, counts)


@cache
def _spaces() -> np.ndarray:
    """bool (0x3002,): which characters are white space; none above U+3000 is."""
    return np.array([chr(code).isspace() for code in range(0x3002)])


@lru_cache(maxsize=1 << 16)
def _size(character: str, do_lower_case: bool, keep_accents: bool) -> int:
    """How many characters normalisation makes of one."""
    if not keep_accents:
        character = "".join(c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c))
    return len(character.lower() if do_lower_case else character)
