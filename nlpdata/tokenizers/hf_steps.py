"""Steps of Hugging Face's tokenizers library that do what BERT's and ALBERT's code does, where its own steps do not.

Its Lowercase knows no final sigma, its StripAccents drops vowel signs as well, its clean_text drops private characters.
Patterns are regular expressions of Oniguruma.
"""

import unicodedata
from collections.abc import Iterable
from functools import cache

from nlpdata.tokenizers.scripts import WORD_MARK


def replace(pattern: str, content: str) -> dict:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}
NFC = {"type": "NFC"}
# Metaspace puts no sign for a space in front of text that begins with one; SentencePiece does.
LEADING_MARK = replace(f"^{WORD_MARK}", WORD_MARK * 2)

# What step 1 of BERT's basic tokenizer drops.
DROP_CONTROL = replace("(?![\t\n\r])[\\p{Cc}\\p{Cf}\ufffd]", "")
# A capital sigma at the end of a word (Unicode's condition Final_Sigma) becomes another letter than elsewhere.
FINAL_SIGMA = replace("(?<=\\p{Cased}\\p{Case_Ignorable}*)\u03a3(?!\\p{Case_Ignorable}*\\p{Cased})", "\u03c2")


@cache
def collapse_spaces() -> dict:
    """One space for each run of what str.split() takes as whitespace."""
    return replace(character_class(filter(str.isspace, map(chr, range(0x110000)))) + "+", " ")


@cache
def drop_combining() -> dict:
    """Drops the characters with a canonical combining class."""
    return replace(character_class(filter(unicodedata.combining, map(chr, range(0x110000)))), "")


def character_class(characters: Iterable[str]) -> str:
    """A regular expression for one of these characters, which ascend: for Oniguruma, and for RE2."""
    ranges: list[list[int]] = []
    for code in map(ord, characters):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges) + "]"
