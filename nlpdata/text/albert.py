"""ALBERT's text normalisation, on whole blocks of lines.

The rule is `preprocess_text` of google-research/albert's tokenization.py, in its order:

1. strip, and collapse every run of `str.split()` whitespace to one space;
2. two backticks, then two apostrophes, become one double quote;
3. NFKD, and drop every character with a canonical combining class (skipped altogether by keep_accents);
4. lower-case, if do_lower_case.

`normalize_line` is that definition and nothing else. `normalize_lines` gives the same strings several times faster:
it joins lines to blocks, leaves steps out that a cheap search shows to be without effect, and does steps 3 and 4 of
non-ASCII lines with a table. NFKD creates spaces (U+00A8 becomes space and diaeresis) after step 1, and, as in the
original, they stay.

The table works because step 3 is a function of single characters: canonical reordering moves only characters with a
combining class, and just these are dropped. Lower-casing depends on its surroundings for one character, U+03A3
(a sigma at the end of a word), so lines with one, and lines with characters above U+FFFF, go through `unicodedata`.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np

# str.split() whitespace, without LF (a line holds none) and the space itself.
_ASCII_SPACES = "\t\x0b\x0c\r\x1c\x1d\x1e\x1f"
_IS_SPACE, _NOT_SIMPLE = 1, 2


def normalize_line(line: str, *, do_lower_case: bool = True, keep_accents: bool = False) -> str:
    """The definition, for one line: what `preprocess_text` of google-research/albert returns for it."""
    line = " ".join(line.strip().split())
    line = line.replace("``", '"').replace("''", '"')
    if not keep_accents:
        line = "".join(c for c in unicodedata.normalize("NFKD", line) if not unicodedata.combining(c))
    return line.lower() if do_lower_case else line


def normalize_lines(lines: Sequence[str], *, do_lower_case: bool = True, keep_accents: bool = False) -> list[str]:
    """`normalize_line` of every line, in order: len(lines) strings, none with whitespace at its ends or runs of it.

    A line may be empty or become so. Lines with an LF inside are allowed (it is whitespace), but slow.
    """
    lines = list(lines)
    if not lines:
        return []
    options = {"do_lower_case": do_lower_case, "keep_accents": keep_accents}
    block = "\n".join(lines)
    if block.isascii():
        return _resplit(_ascii_block(block, do_lower_case), lines, options)
    # One accented letter would send a megabyte of English down the slow road: sort the lines out first.
    wide = [i for i, line in enumerate(lines) if not line.isascii()]
    out = lines
    if len(wide) < len(lines):
        narrow = [i for i, line in enumerate(lines) if line.isascii()]
        out = [""] * len(lines)
        plain = [lines[i] for i in narrow]
        for i, line in zip(
            narrow, _resplit(_ascii_block("\n".join(plain), do_lower_case), plain, options), strict=True
        ):
            out[i] = line
        lines = [lines[i] for i in wide]
        block = "\n".join(lines)
    result = _resplit(_wide_block(block, **options), lines, options)
    if len(wide) == len(out):
        return result
    for i, line in zip(wide, result, strict=True):
        out[i] = line
    return out


def _resplit(block: str, lines: list[str], options: dict) -> list[str]:
    """The lines of a normalised block; line by line where an LF inside a line has made them more."""
    result = block.split("\n")
    if len(result) != len(lines):
        return [normalize_line(line, **options) for line in lines]
    return result


def _ascii_block(block: str, do_lower_case: bool) -> str:
    for character in _ASCII_SPACES:
        block = block.replace(character, " ")
    block = _collapse_and_quote(block)
    return block.lower() if do_lower_case else block


def _collapse_and_quote(block: str) -> str:
    """Steps 1 and 2 on a block whose only whitespace are LF, between the lines, and spaces."""
    while "  " in block:  # each pass halves the runs
        block = block.replace("  ", " ")
    block = block.replace("\n ", "\n").replace(" \n", "\n").strip(" ")
    return block.replace("``", '"').replace("''", '"')


def _wide_block(block: str, *, do_lower_case: bool, keep_accents: bool) -> str:
    """All steps on a block with characters outside ASCII."""
    table = _table(do_lower_case)
    codes = _utf16(block)
    spaces = table.flags[codes] & _IS_SPACE
    if spaces.any():
        block = _text(np.where(spaces, np.uint16(0x20), codes))
    block = _collapse_and_quote(block)
    if keep_accents:
        return block.lower() if do_lower_case else block
    return table.apply(block)


class _Table:
    """What steps 3 and 4 make of each character up to U+FFFF: `lengths` (0 where it is dropped) and `flat`, in which
    its replacement stands from `starts` on (UTF-16 code units); `first` is the replacement where the length is 1."""

    def __init__(self, do_lower_case: bool):
        self.do_lower_case = do_lower_case
        self.flags = np.zeros(0x10000, dtype=np.uint8)
        self.flags[[c for c in range(0x10000) if chr(c).isspace() and c not in (0x0A, 0x20)]] = _IS_SPACE

    @cached_property
    def _replacements(self) -> list[str]:
        def fold(code: int) -> str:
            text = unicodedata.normalize("NFKD", chr(code))
            text = "".join(c for c in text if not unicodedata.combining(c))
            return text.lower() if self.do_lower_case else text

        return [chr(c) if 0xD800 <= c < 0xE000 else fold(c) for c in range(0x10000)]

    @cached_property
    def lengths(self) -> np.ndarray:
        units = (len(text) + sum(c > "\uffff" for c in text) for text in self._replacements)
        return np.fromiter(units, dtype=np.uint8, count=0x10000)

    @cached_property
    def starts(self) -> np.ndarray:
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

    @cached_property
    def flat(self) -> np.ndarray:
        return _utf16("".join(self._replacements))

    @cached_property
    def simple(self) -> np.ndarray:
        """bool (65536,): the table holds for this code unit, wherever it stands."""
        simple = np.ones(0x10000, dtype=bool)
        simple[0xD800:0xE000] = False
        if self.do_lower_case:  # U+03A3, and whatever decomposes to it
            simple[[c for c in range(0x10000) if "\u03a3" in unicodedata.normalize("NFKD", chr(c))]] = False
        return simple

    @cached_property
    def first(self) -> np.ndarray:
        return np.append(self.flat, np.uint16(0))[self.starts]

    def apply(self, block: str) -> str:
        codes = _utf16(block)
        simple = self.simple[codes]
        if simple.all():
            return self._apply_simple(codes)
        # Only the lines that need it leave the table.
        breaks = np.flatnonzero(codes == 0x0A)
        hard = np.unique(np.searchsorted(breaks, np.flatnonzero(~simple)))
        lines = block.split("\n")
        done = _strip_accents("\n".join([lines[i] for i in hard]))
        done = (done.lower() if self.do_lower_case else done).split("\n")
        for i in hard:
            lines[i] = ""
        out = self._apply_simple(_utf16("\n".join(lines))).split("\n")
        for i, line in zip(hard, done, strict=True):
            out[i] = line
        return "\n".join(out)

    def _apply_simple(self, codes: np.ndarray) -> str:
        lengths = self.lengths[codes]
        if lengths.max(initial=0) <= 1:
            folded = self.first[codes]
            return _text(folded if lengths.min(initial=1) else folded[lengths != 0])
        ends = np.cumsum(lengths, dtype=np.int64)
        # The replacement of character i fills the output up to ends[i]; its text stands in `flat` from starts on.
        shift = self.starts[codes] - (ends - lengths)
        return _text(self.flat[np.repeat(shift, lengths) + np.arange(ends[-1])])


@cache
def _table(do_lower_case: bool) -> _Table:
    return _Table(do_lower_case)


def _utf16(text: str) -> np.ndarray:
    """uint16 code units; a lone surrogate (JSON can hold one) passes."""
    return np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")


def _text(codes: np.ndarray) -> str:
    return codes.tobytes().decode("utf-16-le", "surrogatepass")


def _strip_accents(block: str) -> str:
    block = unicodedata.normalize("NFKD", block)
    low, high = _combining()
    return high.sub("", low.sub("", block))


@cache
def _combining() -> tuple[re.Pattern, re.Pattern]:
    """Combining characters up to U+FFFF, and above: one class of both is matched range by range, 50 times slower."""
    found = [chr(c) for c in range(0x110000) if unicodedata.combining(chr(c))]
    return tuple(
        re.compile(f"[{''.join(part)}]")
        for part in (
            [c for c in found if c <= "\uffff"],
            [c for c in found if c > "\uffff"],
        )
    )
