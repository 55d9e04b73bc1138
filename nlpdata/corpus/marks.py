"""What the marks in lines tell: how many sentences a line holds, whether lines are wrapped. For a look, not to split text."""

import re
from collections.abc import Sequence

_CLOSING, _OPENING = "\"'\u2019\u201d\u00bb)\\]", "\"'\u2018\u201c\u00ab(\\["
# A stop behind a word of four letters or more: shorter ones are often abbreviations.
_STOP = re.compile(rf"(?<=[^\W\d_]{{4}})[ ]?[.!?\u2026\u061f]+[{_CLOSING}]*\s+[{_OPENING}]*([^\W\d_])")
_WIDE_STOP = re.compile("[\u3002\uff01\uff1f\u0964][\u300d\u300f\u201d\uff09]*\\s*(?=[^\\s\u300d\u300f\u201d\uff09])")
_ENDS = tuple(".!?:;\u2026\u061f\u3002\uff01\uff1f\u0964" + "\"'\u2019\u201d\u00bb)]\u300d\u300f\uff09")
_NEAR_FULL = 0.7  # of the longest lines


def inner_ends(line: str) -> int:
    """How many sentences end inside a line, before others in it: of one sentence 0. Scripts without such marks have 0, too."""
    stops = sum(1 for found in _STOP.finditer(line) if not found[1].islower())
    return stops + sum(1 for _ in _WIDE_STOP.finditer(line))


def continued(lines: Sequence[str]) -> float:
    """The share of lines that continue in the next one: without a mark at their end, before one that begins with a small letter.

    0 for lines of such different lengths that nothing has wrapped them, and for text whose lines do not begin with capital letters:
    there small ones tell nothing.
    """
    if len(lines) < 2 or not _is_wrapped(lines):
        return 0.0
    begins = [line.lstrip()[:1] for line in lines]
    if sum(begin.isupper() for begin in begins) * 20 < len(lines):
        return 0.0
    pairs = zip(lines, begins[1:], strict=False)
    return sum(not line.rstrip().endswith(_ENDS) and begin.islower() for line, begin in pairs) / (len(lines) - 1)


def _is_wrapped(lines: Sequence[str]) -> bool:
    """Whether half of the lines are nearly as long as the longest ones."""
    lengths = sorted(len(line.rstrip()) for line in lines)
    return lengths[len(lengths) // 2] >= _NEAR_FULL * lengths[-1 - len(lengths) // 50]
