"""ALBERT's text normalisation, on whole blocks of lines.

The rule is `preprocess_text` of kamalkraj/ALBERT-TF2.0's tokenization.py, in its order:

1. strip, and collapse every run of `str.split()` whitespace to one space;
2. two backticks, then two apostrophes, become one double quote;
3. NFKD, and drop every character with a canonical combining class (skipped altogether by keep_accents);
4. lower-case, if do_lower_case.

It is XLNet's rule too. google-research/albert's own `preprocess_text` is the same without step 2 (as of its commit
b772393); `''` and two backticks are rare outside text from the Penn Treebank.

The tests hold this definition as it stands. `normalize_lines` gives the same strings several times faster: it joins
lines to blocks, leaves steps out that a cheap search shows to be without effect, and does steps 3 and 4 with a table.
NFKD creates spaces (U+00A8 becomes space and diaeresis) after step 1, and, as in the original, they stay.

The table works because step 3 is a function of single characters: canonical reordering moves only characters with a
combining class, and just these are dropped. Lower-casing depends on its surroundings for one character, U+03A3
(a sigma at the end of a word), so lines with one, and lines with characters above U+FFFF, go through `unicodedata`.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from operator import itemgetter

import numpy as np

# str.split() whitespace without LF (a line holds none) and the space itself.
_ASCII_SPACES = b"\t\x0b\x0c\r\x1c\x1d\x1e\x1f"
_SPACES_ONLY = bytes.maketrans(_ASCII_SPACES, b" " * len(_ASCII_SPACES))
_SPACES_AND_CASE = _SPACES_ONLY.translate(bytes(range(256)).lower())

# What the table holds for a character: it is whitespace; it or its block must leave the table; it becomes several
# characters; it is dropped; it changes; it may be part of a quotation mark.
_SPACE, _LEAVES, _GROWS, _DROPPED, _CHANGES, _QUOTE = 1, 2, 4, 8, 16, 32


def normalize_lines(lines: Sequence[str], *, do_lower_case: bool = True, keep_accents: bool = False) -> list[str]:
    """What `preprocess_text` returns for every line, in order: len(lines) strings, each possibly empty.

    Lines with an LF inside are allowed: it is whitespace.
    """
    if not lines:
        return []
    if any("\n" in line for line in lines):
        lines = [line.replace("\n", " ") for line in lines]
    options = {"do_lower_case": do_lower_case, "keep_accents": keep_accents}
    # One accented letter would send a megabyte of English down the slower road: take such lines out, unless they
    # are most of the block.
    wide = [i for i, line in enumerate(lines) if not line.isascii()]
    if 2 * len(wide) > len(lines):
        result = _wide_block("\n".join(lines), **options).split("\n")
    else:
        rest = lines
        if wide:
            rest = list(lines)
            for i in wide:
                rest[i] = ""
        result = _ascii_block("\n".join(rest), do_lower_case).split("\n")
        if wide:
            done = _wide_block("\n".join([lines[i] for i in wide]), **options).split("\n")
            for i, line in zip(wide, done, strict=True):
                result[i] = line
    return result


def _ascii_block(block: str, do_lower_case: bool) -> str:
    data = block.encode("ascii").translate(_SPACES_AND_CASE if do_lower_case else _SPACES_ONLY)
    codes = np.frombuffer(data, dtype=np.uint8)
    block = data.decode("ascii")
    if _uncollapsed(codes):
        block = _collapse(block)
    return block.replace("``", '"').replace("''", '"')


def _uncollapsed(codes: np.ndarray) -> bool:
    """True if a block has spaces side by side, or at an end of a line; `codes` are its characters, with no other
    whitespace than space and LF."""
    space = codes == 0x20
    blank = space | (codes == 0x0A)
    return bool((space[:1] | space[-1:]).any() or (space[1:] & blank[:-1]).any() or (space[:-1] & blank[1:]).any())


def _collapse(block: str) -> str:
    """Step 1 on such a block."""
    while "  " in block:  # each pass halves the runs
        block = block.replace("  ", " ")
    return block.replace("\n ", "\n").replace(" \n", "\n").strip(" ")


def _wide_block(block: str, *, do_lower_case: bool, keep_accents: bool) -> str:
    """All steps on a block with characters outside ASCII."""
    table = _table(do_lower_case)
    codes = _utf16(block)
    flags = table.flags.take(codes)
    seen = np.bitwise_or.reduce(flags)
    if seen & _SPACE:
        codes = np.where(flags & _SPACE, np.uint16(0x20), codes)
        block = _text(codes)
    quotes = flags & _QUOTE
    if _uncollapsed(codes) or (seen & _QUOTE and (quotes[1:] & quotes[:-1]).any()):
        block = _collapse(block).replace("``", '"').replace("''", '"')
        codes = _utf16(block)
        flags = table.flags.take(codes)
    if keep_accents:
        return block.lower() if do_lower_case else block
    return table.apply(block, codes, flags) if seen & (_CHANGES | _LEAVES) else block


_SEPARATOR = "\U0010ffff"  # not a character: nothing changes it, and it changes nothing next to it


class _Table:
    """What steps 3 and 4 make of each UTF-16 code unit.

    flags: uint8 (65536,), see above. first: uint16 (65536,), its replacement where that is one code unit.
    replacement: code unit -> uint16 array, where it is several.
    """

    def __init__(self, do_lower_case: bool) -> None:
        self.do_lower_case = do_lower_case
        self.flags = np.zeros(0x10000, dtype=np.uint8)
        self.first = np.arange(0x10000, dtype=np.uint16)
        self.replacement: dict[int, np.ndarray] = {}
        texts = _decomposed()
        done = _SEPARATOR.join(texts).lower().split(_SEPARATOR) if do_lower_case else texts
        for code, text in enumerate(done):
            if text != chr(code):
                self._change(code, text)
        if do_lower_case:
            self.flags[[code for code, text in enumerate(texts) if "\u03a3" in text]] = _LEAVES
        self.flags[0xD800:0xE000] = _LEAVES
        self.flags[[code for code in range(0x10000) if chr(code).isspace() and code not in (0x0A, 0x20)]] |= _SPACE
        self.flags[[ord("`"), ord("'")]] |= _QUOTE

    def _change(self, code: int, text: str) -> None:
        if not text:
            self.flags[code] = _CHANGES | _DROPPED
        elif len(text) > 1 or text > "\uffff":
            self.flags[code] = _CHANGES | _GROWS
            self.replacement[code] = _utf16(text)
        else:
            self.flags[code] = _CHANGES
            self.first[code] = ord(text)

    def apply(self, block: str, codes: np.ndarray, flags: np.ndarray) -> str:
        """Steps 3 and 4. `codes` are the block's code units, `flags` their entries in the table."""
        seen = np.bitwise_or.reduce(flags)
        nothing = np.zeros(0, np.int64)
        grown = np.flatnonzero(flags & _GROWS) if seen & _GROWS else nothing
        if grown.size > 0.02 * codes.size:  # Hangul
            return self._fold(block)
        parts = [(i, i + 1, self.replacement[codes[i]]) for i in grown.tolist()]
        if seen & _LEAVES:
            leaves = np.flatnonzero(flags & _LEAVES)
            lines = self._fold_lines(codes, leaves)
            inside = np.searchsorted([stop for _, stop, _ in lines], grown, side="right")
            starts = np.array([start for start, _, _ in lines] + [codes.size])
            outside = starts[inside] > grown
            parts = sorted(lines + [part for part, keep in zip(parts, outside, strict=True) if keep], key=itemgetter(0))
        folded = self.first.take(codes)
        dropped = nothing
        if seen & _DROPPED:
            dropped = np.flatnonzero(flags & _DROPPED) if parts else nothing
            folded = folded[flags & _DROPPED == 0]
        return _text(_splice(folded, parts, dropped) if parts else folded)

    def _fold_lines(self, codes: np.ndarray, leaves: np.ndarray) -> list[tuple[int, int, np.ndarray]]:
        """(start, stop, replacement) of the lines with characters, at `leaves`, that the table cannot do."""
        breaks = np.flatnonzero(codes == 0x0A)
        lines = np.unique(np.searchsorted(breaks, leaves))
        starts = np.append(0, breaks + 1)[lines].tolist()
        stops = np.append(breaks, codes.size)[lines].tolist()
        texts = [_text(codes[start:stop]) for start, stop in zip(starts, stops, strict=True)]
        folded = self._fold("\n".join(texts)).split("\n")
        return list(zip(starts, stops, map(_utf16, folded), strict=True))

    def _fold(self, block: str) -> str:
        """Steps 3 and 4 without a table."""
        block = unicodedata.normalize("NFKD", block)
        marks = "".join(sorted(c for c in set(block) if unicodedata.combining(c)))
        if marks:
            block = re.sub(f"[{marks}]", "", block)
        return block.lower() if self.do_lower_case else block


def _splice(folded: np.ndarray, parts: list, dropped: np.ndarray) -> np.ndarray:
    """Puts the `parts` (start, stop, replacement), ascending, into `folded`, from which the characters at `dropped`
    are gone; all positions are of before that."""
    out, done = [], 0
    bounds = np.array([part[:2] for part in parts])
    bounds -= np.searchsorted(dropped, bounds)
    for (start, stop), (_, _, replacement) in zip(bounds.tolist(), parts, strict=True):
        out += [folded[done:start], replacement]
        done = stop
    return np.concatenate([*out, folded[done:]])


@cache
def _table(do_lower_case: bool) -> _Table:
    return _Table(do_lower_case)


@cache
def _decomposed() -> list[str]:
    """Step 3 for every code unit; surrogates stay."""
    # All at once, each between separators: that takes half the time of one by one.
    text = unicodedata.normalize("NFKD", _SEPARATOR.join(map(chr, range(0x10000))))
    combining = dict.fromkeys(code for code in range(0x10000) if unicodedata.combining(chr(code)))
    return text.translate(combining).split(_SEPARATOR)


def _utf16(text: str) -> np.ndarray:
    """uint16 code units; a lone surrogate (JSON can hold one) passes."""
    return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")


def _text(codes: np.ndarray) -> str:
    return codes.tobytes().decode("utf-16-le", "surrogatepass")
