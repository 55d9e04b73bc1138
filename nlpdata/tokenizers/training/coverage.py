"""Text that a vocabulary does not learn from, or cannot spell: lines left out, and rare characters."""

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from nlpdata.errors import opt
from nlpdata.text import loss

LINES_REPORTED = 0.05  # of the characters, in lines that are left out
UNCOVERED_REPORTED = 0.001  # of the characters; the default character_coverage leaves 0.00005 out
_FLUSH = 1 << 20  # characters counted together
_CODES = 0x110000
_SHOWN = 8


class CharacterCounts:
    """Counts the characters of lines that pass through, white space left out; some nanoseconds per character.

    spelt: the lines as the vocabulary spells them (SentencePiece composes what normalisation took apart).
    """

    def __init__(self, spelt: Callable[[list[str]], list[str]]) -> None:
        self._spelt = spelt
        self._counts = np.zeros(_CODES, np.int64)

    def of(self, lines: Iterator[str]) -> Iterator[str]:
        """The lines, counted."""
        held, size = [], 0
        for line in lines:
            held.append(line)
            size += len(line)
            if size > _FLUSH:
                self._add(held)
                held, size = [], 0
            yield line
        self._add(held)

    def _add(self, lines: list[str]) -> None:
        text = "".join(lines)
        if not text.isascii():
            text = "".join(self._spelt(lines))
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        self._counts += np.bincount(codes, minlength=_CODES)

    def uncovered(self, can_spell: Callable[[str], bool]) -> tuple[int, Counter]:
        """(all characters, those that cannot be spelt with their counts)."""
        found = {chr(code): int(self._counts[code]) for code in np.flatnonzero(self._counts).tolist()}
        found = {
            character: count for character, count in found.items() if not character.isspace() and character != "\u2581"
        }
        lost = {character: count for character, count in found.items() if not can_spell(character)}
        return sum(found.values()), Counter(lost)


def lost_lines(counts: Counter, max_line_bytes: int) -> list[loss.Loss]:
    """Lines that training cannot use; counts: see nlpdata.tokenizers.training.train.LineReader."""
    return [
        loss.of(
            counts["characters_too_long"],
            counts["characters"],
            LINES_REPORTED,
            f"characters are in lines of more than {max_line_bytes} bytes, which are left out",
            "a line should be a sentence. Is each line a whole document? Split the text into sentences, or raise "
            f"{opt('max_line_bytes')}",
            counts["read"] >= loss.FEW_UNITS and counts["too_long"] * 2 > counts["read"],
        ),
        loss.of(
            counts["invalid"],
            counts["read"],
            LINES_REPORTED,
            "lines are not UTF-8, and are left out",
            "is the text in another encoding? Convert it, e.g. with iconv",
            counts["read"] >= loss.FEW_UNITS,
        ),
    ]


def uncovered_characters(total: int, lost: Counter, coverage: float) -> loss.Loss:
    """Characters of the text that the vocabulary lacks: words with them have an unknown piece, or are [UNK]."""
    shown = ", ".join(f"{character!r} ({count:,})" for character, count in lost.most_common(_SHOWN))
    return loss.of(
        lost.total(),
        total,
        UNCOVERED_REPORTED,
        "characters are not in the vocabulary",
        f"{len(lost)} different, most often {shown}. Raise {opt('character_coverage')} (now {coverage})",
    )
