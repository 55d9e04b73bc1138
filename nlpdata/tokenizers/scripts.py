"""Which vocabulary entries begin a word, and what its characters tell about that.

Whole-word masking hides all pieces of a word together. In scripts with spaces the tokenizer marks where words begin;
in scripts without, every piece counts as a word, as it does in google-research/bert (Chinese characters) and
google-research/albert (everything outside ASCII letters).
"""

import unicodedata

WORD_MARK = "\u2581"  # SentencePiece's sign for a space

# Blocks of scripts written without spaces between words, with their punctuation: first and last code point.
UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19FF),  # Tai Le, New Tai Lue, Khmer symbols
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x312F),  # CJK radicals and punctuation, Hiragana, Katakana, Bopomofo
    (0x3190, 0x4DBF),  # Kanbun, Bopomofo and Katakana extensions, enclosed CJK, Han extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA000, 0xA4CF),  # Yi
    (0xA980, 0xA9FF),  # Javanese, Myanmar extension B
    (0xAA60, 0xAADF),  # Myanmar extension A, Tai Viet
    (0xF900, 0xFAFF),  # Han, compatibility
    (0xFE30, 0xFE4F),  # CJK compatibility forms
    (0xFF61, 0xFF9F),  # half-width CJK punctuation and Katakana
    (0x1AFF0, 0x1B16F),  # kana extensions
    (0x20000, 0x3FFFF),  # Han extensions
)


def is_unspaced(character: str) -> bool:
    """True for letters and punctuation of scripts that are written without spaces between words."""
    code = ord(character)
    return code >= 0x0E00 and any(first <= code <= last for first, last in UNSPACED)


def begins_word(piece: str) -> bool:
    """True if a SentencePiece piece begins a word.

    It does if it starts with U+2581 or "<" (special pieces), if it holds a digit or a letter of a script without
    spaces, or if it is punctuation and symbols only, in ASCII or not. Letters of scripts with spaces continue the
    word: Latin with all its accents, Cyrillic, Greek, Arabic, Hebrew, Devanagari, Hangul. So do combining marks
    and joiners by themselves, which belong to the character before them.

    On purpose different from `_is_start_piece_sp` of google-research/albert, which takes every piece with
    a character outside ASCII letters and punctuation as a start (an accented, Cyrillic or Arabic word falls apart),
    and which kamalkraj/ALBERT-TF2.0's copy further cuts at every "x" for want of that letter in its alphabet.
    """
    if piece.startswith((WORD_MARK, "<")):
        return True
    if piece.isascii() and piece.isalpha():
        return False
    categories = [unicodedata.category(c) for c in piece]
    core = [(c, kind) for c, kind in zip(piece, categories, strict=True) if kind[0] != "M" and kind != "Cf"]
    if any(kind[0] == "N" or is_unspaced(c) for c, kind in core):
        return True
    return bool(core) and all(kind[0] in "PS" for _, kind in core)


def byte_begins_word(byte: int) -> bool:
    """True if a byte-fallback piece (<0x00> to <0xFF>) begins a word, as far as one byte of UTF-8 can tell.

    An ASCII byte counts as its character. A lead byte starts a word where it begins mostly symbols (C2, E2),
    scripts without spaces (E1, E3 to E9), full-width forms (EF), and emoji and Han extensions (F0 and up). The other
    lead bytes (Latin to Arabic, Indic, Hangul) and continuation bytes continue it.
    """
    if byte < 0x80:
        return begins_word(chr(byte))
    return byte in (0xC2, 0xE1, 0xE2, 0xEE, 0xEF) or 0xE3 <= byte <= 0xE9 or byte >= 0xF0
