"""Files that are read as a whole, each a document: their bytes, and their text."""

from nlpdata.corpus.jsonl import invalid_utf8_error
from nlpdata.corpus.source import Source
from nlpdata.corpus.types import CorpusFile

MOST_BYTES = 16 << 20
"""A larger file is left out and counted as `file_too_large`: it is held in memory, with all that its parser makes of it."""


def read_bytes(file: CorpusFile) -> bytes | None:
    """The content without a byte order mark; None where that is more than MOST_BYTES."""
    with Source(file) as source:
        content = source.head
        while len(content) <= MOST_BYTES and (more := source.read(1 << 20)):
            content += more
        return content[source.origin :] if len(content) <= MOST_BYTES else None


def decode(file: CorpusFile, content: bytes, invalid_utf8: str) -> str | None:
    """The text; None where it is not UTF-8, and such files are skipped. DataError where they are not."""
    try:
        return content.decode("utf-8", "replace" if invalid_utf8 == "replace" else "strict")
    except UnicodeDecodeError as error:
        if invalid_utf8 == "fail":
            raise invalid_utf8_error(file, error.start, content[error.start : error.end]) from None
        return None
