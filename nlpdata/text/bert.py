"""BERT's basic tokenization: cleaned, optionally lower-cased words and punctuation.

Rules of BasicTokenizer in google-research/bert (tokenization.py): NUL, U+FFFD and control characters (Cc, Cf) go;
whitespace (Zs, tab, line ends) separates; CJK ideographs stand alone; lower-casing, then accents (Mn after NFD) go;
punctuation (ASCII that is no letter, digit or space, and Unicode P*) stands alone.

All of it is local to a word of `split_words`, so words can be remembered.
"""

import re
import unicodedata
from collections.abc import Sequence

# Control characters that str.split takes for whitespace and the original removes.
_SPLITTING_CONTROLS = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
_REMOVE_CONTROLS = dict.fromkeys(map(ord, _SPLITTING_CONTROLS))
_IDEOGRAPH = re.compile(
    "([\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f])"
)
_ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
_ASCII_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f]")


def split_words(lines: Sequence[str]) -> list[list[str]]:
    """The words of each line: ideographs are words of their own, control characters never separate."""
    text = "\n".join(lines)
    if any(character in text for character in _SPLITTING_CONTROLS):
        lines = [line.translate(_REMOVE_CONTROLS) for line in lines]
    return [
        line.split() if line.isascii() else " ".join(_IDEOGRAPH.split(line)).split()  # split keeps the ideographs
        for line in lines
    ]


def basic_tokens(word: str, do_lower_case: bool, keep_accents: bool) -> list[str]:
    """The basic tokens of one word of `split_words`; may be empty."""
    if word.isascii():
        word = _ASCII_CONTROLS.sub("", word)
        return _ASCII_TOKEN.findall(word.lower() if do_lower_case else word)
    word = "".join([c for c in word if not _is_removed(c)])
    if do_lower_case:
        word = word.lower()
    if not keep_accents:
        word = "".join([c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn"])
    spaced = "".join([f" {c} " if _is_punctuation(c) else c for c in word])
    return spaced.split()


def _is_removed(character: str) -> bool:
    if character in "\0\ufffd":
        return True
    return unicodedata.category(character) in ("Cc", "Cf") and character not in "\t\n\r"


def _is_punctuation(character: str) -> bool:
    code = ord(character)
    if code < 128:
        return 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return unicodedata.category(character).startswith("P")
