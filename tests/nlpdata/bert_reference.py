"""BERT's tokenization once more, one character at a time, from its published description: nothing is shared with
nlpdata, nothing is remembered, and nothing is fast."""

import unicodedata

CJK = [
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
]


def clean(text):
    out = []
    for c in text:
        if ord(c) in (0, 0xFFFD):
            continue
        if c in "\t\n\r":
            out.append(" ")
        elif unicodedata.category(c) in ("Cc", "Cf"):
            continue
        elif unicodedata.category(c) == "Zs":
            out.append(" ")
        else:
            out.append(c)
    return "".join(out)


def space_cjk(text):
    out = ""
    for c in text:
        out += f" {c} " if any(a <= ord(c) <= b for a, b in CJK) else c
    return out


def is_punctuation(c):
    n = ord(c)
    if 33 <= n <= 47 or 58 <= n <= 64 or 91 <= n <= 96 or 123 <= n <= 126:
        return True
    return unicodedata.category(c).startswith("P")


def basic(text, lower=True, keep_accents=None, chinese=True):
    strip = lower if keep_accents is None else not keep_accents
    text = clean(text)
    if chinese:
        text = space_cjk(text)
    tokens = []
    for word in text.strip().split():
        if lower:
            word = word.lower()
        if strip:
            word = "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")
        parts, open_word = [], False
        for c in word:
            if is_punctuation(c):
                parts.append(c)
                open_word = False
            elif open_word:
                parts[-1] += c
            else:
                parts.append(c)
                open_word = True
        tokens += parts
    return " ".join(tokens).split()


def wordpiece(word, vocabulary, unk="[UNK]", longest=200):
    if len(word) > longest:
        return [unk]
    pieces, start = [], 0
    while start < len(word):
        for stop in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:stop]
            if piece in vocabulary:
                break
        else:
            return [unk]
        pieces.append(piece)
        start = stop
    return pieces


def tokenize(text, vocabulary, **options):
    """vocabulary: entry -> id."""
    return [piece for word in basic(text, **options) for piece in wordpiece(word, vocabulary)]
