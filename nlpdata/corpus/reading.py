"""Plans byte ranges and portions of them, and reads them as blocks of decoded sentences."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from nlpdata.corpus.jsonl import JsonDecoder, JsonScanner, invalid_utf8_error
from nlpdata.corpus.scan import LINE_END, Part, TextScanner
from nlpdata.corpus.source import Source
from nlpdata.corpus.types import MAX_LINE_BYTES, Block, ByteRange, CorpusFile, Portion
from nlpdata.errors import UsageError, opt
from nlpdata.options import check_range

INVALID_UTF8_MODES = ("fail", "replace", "skip")
BLOCK_BYTES = 1 << 20
MAX_BYTE_RANGES = 4096  # of a portion: the description of each goes to the worker


def plan_byte_ranges(
    files: Iterable[CorpusFile], size: int, text_key: str | None = None, limit_documents: int | None = None
) -> list[ByteRange]:
    """Cuts files into byte ranges of `size` bytes (a compressed file is one byte range); an empty file gives none.

    With `limit_documents`, the plan covers that many documents, the first ones in file order: their starts are counted,
    only as far as needed. Weights play no part in it.
    """
    check_range("chunk_size", size, 1, None)
    check_range("limit_documents", limit_documents, 1, None)
    byte_ranges: list[ByteRange] = []
    for file in files:
        if file.compression != "none":
            byte_ranges.append(ByteRange(len(byte_ranges), file, 0, None))
            continue
        for start in range(0, file.size, size):
            byte_ranges.append(ByteRange(len(byte_ranges), file, start, min(start + size, file.size)))
    return byte_ranges if limit_documents is None else _first_documents(byte_ranges, text_key, limit_documents)


def plan_portions(
    files: Iterable[CorpusFile], size: int, text_key: str | None = None, limit_documents: int | None = None
) -> list[Portion]:
    """Divides files into portions of about `size` bytes: byte ranges of large files, many small files together.

    So the number of units of work, and of the files that each leaves, depends on the bytes of the corpus, not on its files.
    """
    return portions_of(plan_byte_ranges(files, size, text_key, limit_documents), size)


def portions_of(byte_ranges: Iterable[ByteRange], size: int) -> list[Portion]:
    """Byte ranges in portions of about `size` bytes, in their order."""
    portions: list[Portion] = []
    held: list[ByteRange] = []
    held_bytes = 0
    for byte_range in byte_ranges:
        own = (byte_range.stop or byte_range.file.size) - byte_range.start
        if held and (held_bytes + own > size or len(held) == MAX_BYTE_RANGES):
            portions.append(Portion(len(portions), tuple(held)))
            held, held_bytes = [], 0
        held.append(byte_range)
        held_bytes += own
    return [*portions, Portion(len(portions), tuple(held))] if held else portions


def _first_documents(byte_ranges: list[ByteRange], text_key: str | None, limit: int) -> list[ByteRange]:
    for number, byte_range in enumerate(byte_ranges):
        found = 0
        with Source(byte_range.file) as source:
            for part in _scanner(source, byte_range, BLOCK_BYTES, text_key):
                found += len(part.offsets) - part.starts_inside
                if found >= limit:
                    return [*byte_ranges[:number], replace(byte_range, max_documents=limit)]
        limit -= found
    return byte_ranges


def read_portion(portion: Portion, *, invalid_utf8: str = "fail", text_key: str | None = None) -> Iterator[Block]:
    """Reads the byte ranges of a portion as `read_blocks` does; what small ones hold comes in blocks together."""
    blocks = (
        read_blocks(byte_range, invalid_utf8=invalid_utf8, text_key=text_key) for byte_range in portion.byte_ranges
    )
    return _joined(chain.from_iterable(blocks)) if len(portion.byte_ranges) > 1 else chain.from_iterable(blocks)


def _joined(blocks: Iterable[Block]) -> Iterator[Block]:
    """Joins blocks in their order, where no document continues, up to about BLOCK_BYTES of text."""
    held: list[Block] = []
    size = 0
    for block in blocks:
        own = sum(map(len, block.lines))
        if held and (held[-1].ends_inside or block.starts_inside or size + own > BLOCK_BYTES):
            yield _join(held)
            held, size = [], 0
        held.append(block)
        size += own
    if held:
        yield _join(held)


def _join(blocks: Sequence[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    lines, line_counts, files, offsets = (
        list(chain.from_iterable(getattr(block, name) for block in blocks))
        for name in ("lines", "line_counts", "files", "offsets")
    )
    return Block(
        lines=lines,
        line_counts=line_counts,
        files=files,
        offsets=offsets,
        starts_inside=blocks[0].starts_inside,
        ends_inside=blocks[-1].ends_inside,
        bytes_read=sum(block.bytes_read for block in blocks),
        dropped=dict(sum((Counter(block.dropped) for block in blocks), Counter())),
    )


def read_blocks(
    byte_range: ByteRange, *, block_bytes: int = BLOCK_BYTES, invalid_utf8: str = "fail", text_key: str | None = None
) -> Iterator[Block]:
    """Reads the documents of a byte range, in blocks of about `block_bytes` of text (a longer line makes a longer block).

    `invalid_utf8` is "fail" (DataError), "replace" (U+FFFD) or "skip" (such lines are left out and counted).
    With `text_key`, the file holds JSON lines, and each object has its text under that key.
    """
    if invalid_utf8 not in INVALID_UTF8_MODES:
        modes = ", ".join(INVALID_UTF8_MODES)
        raise UsageError(f"{opt('invalid_utf8')} must be one of {modes}. Received: {invalid_utf8!r}.")
    check_range("block_bytes", block_bytes, 1, None)
    return _read_blocks(byte_range, block_bytes, invalid_utf8, text_key)


def _read_blocks(byte_range: ByteRange, block_bytes: int, invalid_utf8: str, text_key: str | None) -> Iterator[Block]:
    with Source(byte_range.file) as source:
        decode_json = None if text_key is None else JsonDecoder(byte_range.file, text_key, invalid_utf8)
        for part in _scanner(source, byte_range, block_bytes, text_key):
            if decode_json:
                lines, counts, dropped = decode_json(part)
            else:
                lines, counts, dropped = _decode(part, byte_range.file, invalid_utf8)
            yield Block(
                lines=lines,
                line_counts=counts,
                files=[byte_range.file] * len(counts),
                offsets=part.offsets,
                starts_inside=part.starts_inside,
                ends_inside=part.ends_inside,
                bytes_read=part.bytes_read,
                dropped=dict(dropped),
            )


def read_line_blocks(byte_range: ByteRange, *, invalid_utf8: str = "fail") -> Iterator[Block]:
    """As read_blocks, where each line that is not blank is a document."""
    with Source(byte_range.file) as source:
        for part in JsonScanner(source, byte_range, BLOCK_BYTES):
            lines, counts, dropped = _decode(part, byte_range.file, invalid_utf8)
            files = [byte_range.file] * len(counts)
            yield Block(lines, counts, files, part.offsets, False, False, part.bytes_read, dict(dropped))


class JsonTexts(NamedTuple):
    """Texts of a part of a file of JSON lines.

    Attributes:
      documents: the lines of each, blank ones among them.
      dropped, dropped_lines: texts, and lines of texts, that are left out, by reason.
      bytes_read: input bytes, for progress.
    """

    documents: list[list[str]]
    dropped: Counter
    dropped_lines: Counter
    bytes_read: int


def read_json_texts(byte_range: ByteRange, *, text_key: str, invalid_utf8: str = "fail") -> Iterator[JsonTexts]:
    """Reads the texts of JSON lines as they are, where read_blocks leaves out blank lines."""
    with Source(byte_range.file) as source:
        decoder = JsonDecoder(byte_range.file, text_key, invalid_utf8)
        for part in JsonScanner(source, byte_range, BLOCK_BYTES):
            texts = JsonTexts([], Counter(), Counter(), part.bytes_read)
            before: Counter = Counter()
            for lines in decoder.documents(part):
                (texts.dropped_lines if lines else texts.dropped).update(decoder.dropped - before)
                before = Counter(decoder.dropped)
                if lines:
                    texts.documents.append(lines)
            yield texts


def _scanner(source: Source, byte_range: ByteRange, block_bytes: int, text_key: str | None) -> Iterable[Part]:
    return (TextScanner if text_key is None else JsonScanner)(source, byte_range, block_bytes)


def _decode(part: Part, file: CorpusFile, invalid_utf8: str) -> tuple[list[str], list[int], Counter]:
    """Lines of all documents of a part, their number in each, and counts of lines left out.

    All text is decoded at once. No line of it is blank, or the scanner would have ended the document there.
    """
    data, spans = part.data, part.spans
    if part.overlong or (len(data) > MAX_LINE_BYTES and any(right - left > MAX_LINE_BYTES for left, right in spans)):
        return _decode_by_line(part, file, invalid_utf8)
    texts = [data[left:right] for left, right in spans if left < right]
    raw = texts[0] if len(texts) == 1 else b"\n".join(texts)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        if invalid_utf8 != "replace":
            return _decode_by_line(part, file, invalid_utf8)
        text = raw.decode("utf-8", "replace")
    if b"\r" in data:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n") if texts else [], _line_counts(data, spans), Counter()


def _line_counts(data: bytes, spans: list[tuple[int, int]]) -> list[int]:
    """The number of lines in each span; 0 in an empty one."""
    values = np.frombuffer(data, np.uint8)
    ends = values == ord("\n")
    if b"\r" in data:
        returns = values == ord("\r")
        returns[:-1] &= ~ends[1:]  # that of a CRLF is none
        ends |= returns
    bounds = np.fromiter(chain.from_iterable(spans), np.int64, 2 * len(spans)).reshape(-1, 2)
    before = np.searchsorted(np.flatnonzero(ends), bounds)
    return (before[:, 1] - before[:, 0] + (bounds[:, 0] < bounds[:, 1])).tolist()


def _decode_by_line(part: Part, file: CorpusFile, invalid_utf8: str) -> tuple[list[str], list[int], Counter]:
    """`_decode` for parts with lines that are too long or not valid UTF-8. What is too long is not looked at."""
    lines: list[str] = []
    counts: list[int] = []
    dropped = Counter(line_too_long=part.overlong)
    for left, right in part.spans:
        before = len(lines)
        for start, stop in _line_spans(part.data, left, right):
            raw = part.data[start:stop]
            if len(raw) > MAX_LINE_BYTES:
                dropped["line_too_long"] += 1
                continue
            try:
                lines.append(raw.decode("utf-8", "replace" if invalid_utf8 == "replace" else "strict"))
            except UnicodeDecodeError as error:
                if invalid_utf8 == "fail":
                    found = raw[error.start : error.end]
                    raise invalid_utf8_error(file, part.base + start + error.start, found) from None
                dropped["invalid_utf8"] += 1
        counts.append(len(lines) - before)
    return lines, counts, +dropped


def _line_spans(data: bytes, left: int, right: int) -> Iterator[tuple[int, int]]:
    """The spans of the lines in data[left:right], without line ends."""
    if left == right:
        return
    start = left
    for found in LINE_END.finditer(data, left, right):
        yield start, found.start()
        start = found.end()
    yield start, right
