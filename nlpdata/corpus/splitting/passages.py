"""What readers give of raw documents, and the readers of text and of JSON lines.

A reader is a function of a byte range and the options. It yields passages in the order of the file, and notices between them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nlpdata.corpus.reading import read_blocks, read_json_texts, read_line_blocks
from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.types import Block, ByteRange
from nlpdata.errors import DataError

DOCUMENT, PARAGRAPH, SAME = "document", "paragraph", "same"
"""What begins with a passage: a document, a paragraph of the same document, or nothing."""


class Passage(NamedTuple):
    """Lines of one paragraph."""

    begins: str
    lines: Sequence[str]


class Notice(NamedTuple):
    """What is not text.

    Attributes:
      bytes_read: input bytes since the last notice, for progress.
      lines: lines and parts of documents that are left out, by reason.
      documents: whole documents that are left out unread, by reason.
    """

    bytes_read: int = 0
    lines: Mapping[str, int] = {}
    documents: Mapping[str, int] = {}


def read_text(byte_range: ByteRange, options: SplittingOptions) -> Iterator[Passage | Notice]:
    """Plain text: a file, a line, or what blank lines enclose is a document."""
    if options.documents == "line":
        return _of_blocks(read_line_blocks(byte_range, invalid_utf8=options.invalid_utf8), False)
    blocks = read_blocks(byte_range, invalid_utf8=options.invalid_utf8)
    return _of_blocks(blocks, options.documents != "blank-lines")


def _of_blocks(blocks: Iterable[Block], in_one: bool) -> Iterator[Passage | Notice]:
    """in_one: all of them are paragraphs of one document."""
    begins = DOCUMENT
    for block in blocks:
        at = 0
        for number, count in enumerate(block.line_counts):
            inside = number == 0 and block.starts_inside
            yield Passage(SAME if inside else begins, block.lines[at : at + count])
            at += count
            begins = PARAGRAPH if in_one else DOCUMENT
        yield Notice(block.bytes_read, lines=block.dropped)


def read_json_lines(byte_range: ByteRange, options: SplittingOptions) -> Iterator[Passage | Notice]:
    """JSON lines: the text of each object is a document, with blank lines between paragraphs."""
    try:
        for texts in read_json_texts(byte_range, text_key=options.text_field, invalid_utf8=options.invalid_utf8):
            for lines in texts.documents:
                yield from passages_of(lines)
            yield Notice(texts.bytes_read, lines=texts.dropped_lines, documents=texts.dropped)
    except DataError as error:
        raise DataError(error.message.renamed({"text_key": "text_field"})) from None


def passages_of(lines: Iterable[str]) -> Iterator[Passage]:
    """The paragraphs of a document whose text has these lines."""
    begins, paragraph = DOCUMENT, []
    for line in lines:
        if line and not line.isspace():
            paragraph.append(line)
        elif paragraph:
            yield Passage(begins, paragraph)
            begins, paragraph = PARAGRAPH, []
    if paragraph or begins == DOCUMENT:
        yield Passage(begins, paragraph)
