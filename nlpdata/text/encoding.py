"""Whether a file is UTF-8 text, by its first bytes: what else it may be has a name and a remedy."""

import re
from codecs import getincrementaldecoder
from shlex import quote

from nlpdata.errors import DataError, opt

HEAD_BYTES = 4096
"""How much of a file `check_is_text` wants to see."""

# Longest first, so that UTF-32-LE is not taken for UTF-16-LE.
_UNICODE_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}

_OTHER_FORMATS = {
    b"PK\x03\x04": ("a zip archive (or an Office document)", "extract its text first"),
    b"BZh": ("bzip2 data", "decompress it, or recompress it with gzip or zstd"),
    b"\xfd7zXZ\x00": ("xz data", "decompress it, or recompress it with gzip or zstd"),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "extract it first"),
    b"\x04\x22\x4d\x18": ("lz4 data", "decompress it, or recompress it with gzip or zstd"),
    b"%PDF-": ("a PDF document", "extract its text first"),
    b"PAR1": (
        "a Parquet file",
        f"nlpdata split-sentences {opt('format', 'parquet')} makes a corpus of its column of text",
    ),
    b"ARROW1": ("an Arrow file", "write its text column to text or JSON lines first"),
    b"\x89HDF": ("an HDF5 file", "it is not text"),
    b"\x93NUMPY": ("a NumPy array", "it is not text"),
    b"SQLite format 3\x00": ("an SQLite database", "write its text to a file first"),
    b"\x89PNG": ("a PNG image", "it is not text"),
    b"\x7fELF": ("a program", "it is not text"),
    b"version https://git-lfs": ("a pointer of Git LFS, not the file itself", "fetch it with `git lfs pull`"),
}
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # but blanks, and ESC, which is in ISO-2022


def check_is_text(path: str, head: bytes, compression: str = "none") -> None:
    """Raises DataError where `head`, the first bytes of the decompressed file, cannot be UTF-8 text."""
    if found := _unicode(head):
        raise _wrong_encoding(path, *found, compression)
    if other := _other_format(head):
        raise DataError(f"{path}: expected UTF-8 text, found {other[0]}: {other[1]}")
    if _is_binary(head):
        raise DataError(f"{path}: expected UTF-8 text, found binary data: {_share(head)}")
    if (controls := len(_CONTROLS.findall(head))) * 20 >= max(len(head), 640) and not _is_utf8(head):
        raise DataError(
            f"{path}: expected UTF-8 text, found binary data: {controls} of its first {len(head)} bytes are control characters"
        )


def unicode_encoding(head: bytes) -> str | None:
    """The encoding of UTF-16 or UTF-32 text, as Python knows it, by its mark or its NUL bytes; None for all else."""
    found = _unicode(head)
    return found[0] if found else None


def _unicode(head: bytes) -> tuple[str, str] | None:
    """(UTF-16 or UTF-32, with the order of bytes where no mark says it; how it was recognised)"""
    for mark, encoding in _UNICODE_MARKS.items():
        if head.startswith(mark):
            return encoding, f"its first bytes are the {encoding} mark"
    if not _is_binary(head) or _other_format(head):
        return None
    shares = [head[place::4].count(0) * 4 / len(head) for place in range(4)]  # of NULs, by byte of a 4-byte unit
    even, odd = shares[0] + shares[2], shares[1] + shares[3]
    if min(shares[2:]) > 0.9 and shares[0] < 0.1:
        return "UTF-32LE", _share(head)
    if min(shares[:2]) > 0.9 and shares[3] < 0.1:
        return "UTF-32BE", _share(head)
    if max(even, odd) > 9 * min(even, odd):
        return "UTF-16LE" if odd > even else "UTF-16BE", _share(head)
    return None


def _is_binary(head: bytes) -> bool:
    """Whether it is not text of one byte a letter: a stray NUL is text, a tenth of all bytes is not."""
    nuls = head.count(0)
    return nuls >= 4 and nuls * 10 >= len(head)


def _is_utf8(head: bytes) -> bool:
    """Whether these are UTF-8, but for a character that is cut at the end."""
    try:
        getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _share(head: bytes) -> str:
    return f"{head.count(0)} of its first {len(head)} bytes are NUL"


def _other_format(head: bytes) -> tuple[str, str] | None:
    """(what a file is that is not text, what to do)"""
    for magic, found in _OTHER_FORMATS.items():
        if head.startswith(magic):
            return found
    if head[257:262] == b"ustar":
        return "a tar archive", "extract it first"
    if _is_sentencepiece(head):
        return "a SentencePiece model", f"{opt('tokenizer')} takes it"
    if head[5:9] == b"\x00\x00\x00{" and head[9:10] in (b'"', b"}"):
        return "a safetensors file", "it is not text"
    # A TFRecord begins with a uint64 length and its checksum; an Example then begins with the tag of its one field.
    if len(head) > 12 and head[4:8] == bytes(4) and head[12:13] == b"\n":
        return "what looks like a TFRecord file", "give the text it came from"
    return None


def _is_sentencepiece(head: bytes) -> bool:
    """Whether it begins as a SentencePiece model: with a piece, whose text is followed by its score or its type."""
    text = re.match(rb"\n.\n(.)", head, re.DOTALL)
    return text is not None and head[4 + text[1][0] :][:1] in (b"\x15", b"\x18")


def _wrong_encoding(path: str, encoding: str, why: str, compression: str) -> DataError:
    if compression == "none":
        command = f"iconv -f {encoding} -t UTF-8 {quote(path)} > {quote(path + '.utf8.txt')}"
    else:
        tool = {"gzip": "gzip -dc", "zstd": "zstd -dc"}[compression]
        command = f"{tool} {quote(path)} | iconv -f {encoding} -t UTF-8 > {quote(path + '.utf8.txt')}"
    return DataError(f"{path}: expected UTF-8 text, found {encoding} ({why}): convert it with: {command}")
