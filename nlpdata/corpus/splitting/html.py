"""HTML as raw documents: the main text of each page, by the library trafilatura, without menus, comments and tables."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.splitting.passages import Notice, Passage, passages_of
from nlpdata.corpus.splitting.whole import read_bytes
from nlpdata.corpus.types import ByteRange

_ITEM = "- "  # the library's mark of an item of a list
_ROOTS = re.compile(rb"<(html|body)\b|\0", re.IGNORECASE)  # a NUL: two bytes a character, or no text


@cache
def _settings() -> Any:
    from trafilatura.settings import use_config

    settings = use_config()
    # Of a main text shorter than that the library makes one line, headings, tables and all.
    settings.set("DEFAULT", "MIN_EXTRACTED_SIZE", "1")
    return settings


def read_html(byte_range: ByteRange, options: SplittingOptions) -> Iterator[Passage | Notice]:
    """A page, one document. Its encoding is that which it names, else UTF-8 or what the bytes look like."""
    content = read_bytes(byte_range.file)
    if content is None:
        yield Notice(byte_range.file.size, documents={"file_too_large": 1})
        return
    if content.strip():
        yield from passages_of(text_of(content).split("\n"))
    yield Notice(byte_range.file.size)


def text_of(page: bytes) -> str:
    """The main text of a page or of a part of one, a paragraph a line; empty where there is none."""
    import trafilatura

    if not _ROOTS.search(page):  # in some parts of pages, such as text with few tags or none, the library finds nothing
        page = b"<html><body>" + page + b"</body></html>"
    text = trafilatura.extract(page, include_comments=False, include_tables=False, config=_settings()) or ""
    return "\n".join(line.removeprefix(_ITEM) for line in text.split("\n"))
