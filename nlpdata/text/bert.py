"""BERT's basic tokenizer: from a line of text to words and punctuation marks, on whole blocks of lines.

The rule is `BasicTokenizer` of google-research/bert's tokenization.py, in its order:

1. drop U+0000, U+FFFD and every control or format character (Cc, Cf) other than tab, LF and CR;
2. every CJK ideograph becomes a word;
3. split at whitespace as `str.split()` knows it;
4. lower-case, if do_lower_case;
5. canonical decomposition (NFD) without nonspacing marks (Mn), unless accents are kept;
6. every punctuation character (category P*, and all of ASCII that is neither letter, digit nor space) becomes a token.

Characters that step 1 drops join what is around them, though `str.split()` would split at some of them (U+000B,
U+000C, U+001C to U+001F, U+0085). Categories are those of this Python's Unicode database.

`BasicTokenizer` takes the rule apart for tables of words: a token depends on nothing but the whitespace-separated word
that it is in, so `words` finds the words of a block of lines (steps 1 to 3, of step 1 only what decides where words
end), and `tokens` the tokens of words (the rest), which need to be known once a word.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

# Between lines in the result of `words`, and between words in that of `tokens`: a character that no text keeps.
SEPARATOR = "\0"

# Step 2: the blocks of CJK ideographs that google-research/bert names, first and last code point.
IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
_ASCII_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ASCII_PUNCTUATION = "".join(c for c in map(chr, range(33, 127)) if not c.isalnum())
_ASCII_SPACED = {c: f" {c} " for c in _ASCII_PUNCTUATION}
# What `str.split` takes for white space, and step 1 drops.
SPLIT_BUT_DROPPED = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
_MANY = 64  # from this number of characters on, one pass with a table is faster than one replacement a character
_BEFORE, _AFTER, _HIGH = 1, 2, 4


def is_ideograph(character: str) -> bool:
    """True for the characters that stand alone (step 2). Kana, Hangul and later extensions of Han do not."""
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in IDEOGRAPHS)


def is_dropped(character: str) -> bool:
    """True for the characters that step 1 drops."""
    if character in "\0\ufffd":
        return True
    return character not in "\t\n\r" and unicodedata.category(character) in ("Cc", "Cf")


def is_punctuation(character: str) -> bool:
    """True for the characters that step 6 makes tokens; "$", "^" and "`" are among them, though Unicode says symbol."""
    return character in _ASCII_PUNCTUATION or unicodedata.category(character)[0] == "P"


class BasicTokenizer:
    """The rule, on blocks of lines.

    tokenize_chinese_chars: False leaves step 2 out, as some models for Japanese and Korean do.
    """

    def __init__(self, *, do_lower_case: bool, keep_accents: bool, tokenize_chinese_chars: bool = True) -> None:
        self.do_lower_case = do_lower_case
        self.keep_accents = keep_accents
        self.tokenize_chinese_chars = tokenize_chinese_chars

    def words(self, lines: Sequence[str]) -> list[str]:
        """The words of all lines, with one SEPARATOR between each two lines; no word is empty or holds whitespace."""
        block = f" {SEPARATOR} ".join(lines)
        if block.count(SEPARATOR) >= max(len(lines), 1):
            block = f" {SEPARATOR} ".join([line.replace(SEPARATOR, "") for line in lines])
        for character in SPLIT_BUT_DROPPED:
            if character in block:
                block = block.replace(character, "")
        if self.tokenize_chinese_chars and not block.isascii():
            block = space_ideographs(block)
        return block.split()

    def tokens(self, words: Sequence[str]) -> list[str]:
        """The basic tokens of all words that `words` found, with one SEPARATOR between each two words."""
        # Spaces and the separator neither continue a word for lower-casing (final sigma) nor combine in NFD, so that
        # the block gives what its words one by one would.
        block = f" {SEPARATOR} ".join(words)
        if not block.isascii() or _ASCII_CONTROL.search(block):
            block = _replace(block, {c: "" for c in set(block) if c != SEPARATOR and is_dropped(c)})
        if self.do_lower_case:
            block = block.lower()
        if block.isascii():
            return _replace(block, _ASCII_SPACED).split()
        if not self.keep_accents:
            block = unicodedata.normalize("NFD", block)
        return _replace(block, self._replacements(set(block))).split()

    def lines(self, lines: Sequence[str]) -> list[str]:
        """The basic tokens of each line, with a space between them."""
        if not lines:
            return []
        spaced = " ".join(self.words(lines)).split(SEPARATOR)
        return [line.strip() for line in " ".join(self.tokens(spaced)).split(SEPARATOR)]

    def _replacements(self, characters: Iterable[str]) -> dict[str, str]:
        """What becomes of those characters that do not stay as they are, in steps 5 and 6."""
        table = {}
        for character in characters:
            if is_punctuation(character):
                table[character] = f" {character} "
            elif not self.keep_accents and unicodedata.category(character) == "Mn":
                table[character] = ""
        return table


def _replace(block: str, table: dict[str, str]) -> str:
    """The block with each character that is a key of the table replaced by its value (which may hold only itself
    and spaces)."""
    if len(table) > _MANY:
        return block.translate({ord(character): replacement for character, replacement in table.items()})
    for character, replacement in table.items():
        if character in block:
            block = block.replace(character, replacement)
    return block


def space_ideographs(block: str) -> str:
    """Step 2: a space before and after every ideograph."""
    try:
        units = np.frombuffer(block.encode("utf-16-le"), dtype="<u2")
    except UnicodeEncodeError:  # a lone surrogate, which JSON escapes can hold
        return "".join(f" {c} " if is_ideograph(c) else c for c in block)
    if units.max() < IDEOGRAPHS[0][0]:
        return block
    kinds = _ideograph_units()[units]
    high = np.flatnonzero(kinds == _HIGH)
    if high.size:  # a pair of surrogates: the second one decides
        code = 0x10000 + ((units[high].astype(np.int32) - 0xD800) << 10) + (units[high + 1].astype(np.int32) - 0xDC00)
        hit = np.zeros(high.size, dtype=bool)
        for first, last in IDEOGRAPHS:
            hit |= (code >= first) & (code <= last)
        kinds[high] = np.where(hit, _BEFORE, 0)
        kinds[high[hit] + 1] = _AFTER
    if not kinds.any():
        return block
    after = kinds & _AFTER != 0
    ends = np.cumsum(1 + (kinds & _BEFORE != 0) + after)
    spaced = np.full(ends[-1], 0x20, dtype="<u2")
    spaced[ends - 1 - after] = units
    return spaced.tobytes().decode("utf-16-le")


@cache
def _ideograph_units() -> np.ndarray:
    """uint8 (65536,): for each UTF-16 code unit, where spaces go (_BEFORE and _AFTER), or _HIGH: ask the next one."""
    kinds = np.zeros(0x10000, dtype=np.uint8)
    for first, last in IDEOGRAPHS:
        if last < 0x10000:
            kinds[first : last + 1] = _BEFORE | _AFTER
        else:
            kinds[0xD800 + ((first - 0x10000) >> 10) : 0xD800 + ((last - 0x10000) >> 10) + 1] = _HIGH
    return kinds
