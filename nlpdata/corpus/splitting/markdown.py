"""Markdown as raw documents, by the library markdown-it-py (CommonMark, and tables).

Headings, paragraphs, items of lists and quotations are paragraphs. Code blocks, tables, blocks of HTML and front matter are left
out and counted. Of marks in a line the text stays: that of emphasis, links and code; images and tags go.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.splitting.passages import DOCUMENT, PARAGRAPH, Notice, Passage
from nlpdata.corpus.splitting.whole import decode, read_bytes
from nlpdata.corpus.types import ByteRange

_FRONT_MATTER = re.compile(r"---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_LEFT_OUT = {"fence": "code_block", "code_block": "code_block", "html_block": "html_block", "table_open": "table"}
_KEPT = {"text", "code_inline", "text_special"}
_BREAKS = {"softbreak", "hardbreak"}


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    # Deeper text is left out without a word: with the library's 20 that in the tenth list within a list.
    return MarkdownIt("commonmark", {"maxNesting": 60}).enable("table")


def read_markdown(byte_range: ByteRange, options: SplittingOptions) -> Iterator[Passage | Notice]:
    """A Markdown file, one document."""
    file = byte_range.file
    content = read_bytes(file)
    if content is None:
        yield Notice(file.size, documents={"file_too_large": 1})
        return
    text = decode(file, content, options.invalid_utf8)
    if text is None:
        yield Notice(file.size, documents={"invalid_utf8": 1})
        return
    paragraphs, left_out = paragraphs_of(text.replace("\r\n", "\n").replace("\r", "\n"))
    if text.strip():
        yield Passage(DOCUMENT, ())
    for lines in paragraphs:
        yield Passage(PARAGRAPH, lines)
    yield Notice(file.size, lines=left_out)


def paragraphs_of(text: str) -> tuple[list[list[str]], Counter]:
    """(the lines of each paragraph, counts of what is left out)"""
    left_out: Counter[str] = Counter()
    if front := _FRONT_MATTER.match(text):
        left_out["front_matter"] += 1
        text = text[front.end() :]
    paragraphs, in_table = [], False
    for token in _parser().parse(text):
        if reason := _LEFT_OUT.get(token.type):
            left_out[reason] += 1
        in_table = token.type == "table_open" or (in_table and token.type != "table_close")
        if token.type == "inline" and not in_table:
            paragraphs.append(_lines(token.children))
    return paragraphs, left_out


def _lines(children: list[Any]) -> list[str]:
    parts = ["\n" if each.type in _BREAKS else each.content if each.type in _KEPT else "" for each in children]
    return [line for line in "".join(parts).split("\n") if line.strip()]
