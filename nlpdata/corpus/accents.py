"""How many marks of a text a normalisation drops: accents, and signs of scripts whose letters they are parts of."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SIGNS = re.compile("[\u0900-\u17ff\u3099\u309a]")  # Devanagari to Khmer, voicing of kana: parts of letters
ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u17ff\u3099\u309a]")  # and all others

Normalize = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class LostMarks:
    """How many marks are lost of how many characters, and a letter with such a mark and without it."""

    count: int
    characters: int
    letter: str
    without: str


def lost_marks(lines: Sequence[str], normalize: Normalize, marks: re.Pattern[str]) -> LostMarks | None:
    """The marks of a kind (SIGNS, ACCENTS) that lines lose; None where they lose none."""
    counts = [_count(line, marks) for line in lines]
    marked = [line for line, count in zip(lines, counts, strict=True) if count]
    lost = sum(counts) - _count("\n".join(normalize(marked)), marks) if marked else 0
    if lost <= 0:
        return None
    return LostMarks(lost, sum(map(len, lines)), *_example("\n".join(marked), normalize, marks))


def _count(text: str, marks: re.Pattern[str]) -> int:
    return sum(unicodedata.category(mark) == "Mn" for mark in marks.findall(unicodedata.normalize("NFD", text)))


def _example(text: str, normalize: Normalize, marks: re.Pattern[str]) -> tuple[str, str]:
    text = unicodedata.normalize("NFD", text)
    letters = (text[found.start() - 1 : found.end()] for found in marks.finditer(text) if found.start())
    for letter in dict.fromkeys(letters):
        (without,) = normalize([letter])
        if _count(without, marks) < _count(letter, marks):
            return unicodedata.normalize("NFC", letter), without
    return "", ""
