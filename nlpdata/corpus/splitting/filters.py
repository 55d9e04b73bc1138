"""Which documents are left out: by length, by script, by language."""

import unicodedata
from collections import Counter
from collections.abc import Container, Sequence
from functools import lru_cache

from nlpdata.errors import UsageError, closest, opt

SCRIPTS = tuple(
    "Arabic Armenian Bengali Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul Hebrew Hiragana Kannada "
    "Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan".split()
)
"""Unicode's names of scripts, as far as its names of characters begin with them; Han is that of Chinese characters."""

_WIDTHS = ("FULLWIDTH", "HALFWIDTH")


def check_scripts(names: Sequence[str]) -> None:
    """UsageError for a name that is not a script's."""
    for name in names:
        if name not in SCRIPTS:
            raise UsageError(
                f"{opt('scripts')} must be one of {', '.join(SCRIPTS)}. Received: {name!r}.{closest(name, SCRIPTS)}"
            )


@lru_cache(1 << 16)
def script_of(character: str) -> str | None:
    """The script of a letter or of a sign that belongs to letters; "" of another script than those known, None of all else."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    words = unicodedata.name(character, "").split()
    first = next((word for word in words if word not in _WIDTHS), "")
    name = "Han" if first in ("CJK", "IDEOGRAPHIC") else first.partition("-")[0].capitalize()
    return name if name in SCRIPTS else ""


def count_letters(text: str, scripts: Container[str]) -> tuple[int, int]:
    """(letters of a text, those of them that are of the scripts)"""
    found = [(script_of(character), count) for character, count in Counter(text).items()]
    letters = sum(count for script, count in found if script is not None)
    return letters, sum(count for script, count in found if script is not None and script in scripts)
