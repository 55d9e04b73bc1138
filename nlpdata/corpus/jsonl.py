"""JSON lines as a corpus: one object a line is one document, its text under `text_key`."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from nlpdata.corpus.scan import SPACE, Part, Scanner, Window, skip_line
from nlpdata.corpus.source import Source, place
from nlpdata.corpus.types import MAX_LINE_BYTES, ByteRange, CorpusFile
from nlpdata.errors import DataError, opt
from nlpdata.files.json_files import JSON_FAULTS, json_fault
from nlpdata.files.json_kinds import SURROGATE

_LINE = re.compile(rb"[^\r\n]++")
_LINE_BREAK = re.compile(r"\r\n?|\n")


def _open_window(source: Source, start: int) -> Window:
    """A window at the first line that begins at or after `start`."""
    if start <= source.origin:
        return Window(source, source.head[source.origin :], source.origin)
    around = source.read_at(start - 1, start + 1)
    source.seek(start)
    window = Window(source, b"", start)
    if around[:1] not in (b"\n", b"\r") or around == b"\r\n":
        window.fill(1)
        skip_line(window)
    return window


class JsonScanner(Scanner):
    """Iterates over the lines of a byte range that are not blank, each a span of a part; like `TextScanner`.

    The offset of a document is that of its line.
    """

    def __init__(self, source: Source, byte_range: ByteRange, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        self.stop = sys.maxsize if byte_range.stop is None else byte_range.stop
        self.remaining = sys.maxsize if byte_range.max_documents is None else byte_range.max_documents
        self.window = _open_window(source, byte_range.start)
        self.mark: int | None = None if byte_range.start else 0  # input used by earlier parts
        self.done = self.remaining == 0

    def _next(self) -> Part | None:
        window, data = self.window, self.window.data
        complete = 1 + max(data.rfind(b"\n"), data.rfind(b"\r"))
        if not complete:
            return self._overlong() if len(data) > MAX_LINE_BYTES else None
        spans = [
            (left, right)
            for left, right in (line.span() for line in _LINE.finditer(data, 0, complete))
            if SPACE.match(data, left, right).end() < right
        ]
        allowed = min(self.remaining, len(spans))
        while allowed and window.base + spans[allowed - 1][0] >= self.stop:
            allowed -= 1
        self.done = window.final or allowed < len(spans) or window.base + complete >= self.stop
        if allowed:
            return self._part(data, spans[:allowed], spans[allowed][0] if allowed < len(spans) else complete)
        window.advance(complete)
        return None

    def _part(self, data: bytes, spans: list[tuple[int, int]], used: int) -> Part:
        window, base = self.window, self.window.base
        if self.mark is None:
            self.mark = base + spans[0][0]
        window.advance(used)
        mark, self.mark = self.mark or 0, window.position()
        self.remaining -= len(spans)
        self.done = self.done or not self.remaining
        return Part(data, base, spans, [base + left for left, _ in spans], False, False, self.mark - mark)

    def _overlong(self) -> Part | None:
        window, offset = self.window, self.window.base
        if offset >= self.stop:
            self.done = True
            return None
        if skip_line(window):
            return None
        if self.mark is None:
            self.mark = offset
        mark, self.mark = self.mark or 0, window.position()
        self.remaining -= 1
        self.done = not self.remaining
        return Part(b"", 0, [(0, 0)], [offset], False, False, self.mark - mark, overlong=1)


@dataclass
class JsonDecoder:
    """Takes the sentences out of JSON lines. `dropped` counts what the last call left out."""

    file: CorpusFile
    text_key: str
    invalid_utf8: str
    dropped: Counter = field(default_factory=Counter)

    def __call__(self, part: Part) -> tuple[list[str], list[int], Counter]:
        """Lines of all documents of `part`, their number in each document, and counts of lines left out."""
        lines, counts = [], []
        for document in self.documents(part):
            kept = [line for line in document if line and not line.isspace()]
            lines += kept
            counts.append(len(kept))
        return lines, counts, self.dropped

    def documents(self, part: Part) -> Iterator[list[str]]:
        """The lines of each document of `part`, blank ones among them; none of a document that is left out."""
        self.dropped = Counter(line_too_long=part.overlong) if part.overlong else Counter()
        for (left, right), offset in zip(part.spans, part.offsets, strict=True):
            yield self._document(part.data[left:right], offset)

    def _document(self, raw: bytes, offset: int) -> list[str]:
        if not raw:
            return []  # an overlong line, counted already
        if len(raw) > MAX_LINE_BYTES:
            self.dropped["line_too_long"] += 1
            return []
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if self.invalid_utf8 == "fail":
                raise invalid_utf8_error(self.file, offset + error.start, raw[error.start : error.end]) from None
            if self.invalid_utf8 == "skip":
                self.dropped["invalid_utf8"] += 1
                return []
            text = raw.decode("utf-8", "replace")
        value = self._value(text, offset)
        if isinstance(value, str):
            lines = _LINE_BREAK.split(value) if "\r" in value else value.split("\n")
        else:
            lines = [_LINE_BREAK.sub(" ", sentence) for sentence in value] or [""]
        return self._without_surrogates(lines, offset) if "\\u" in text else lines

    def _value(self, text: str, offset: int) -> str | list[str]:
        """`object[text_key]`, checked."""
        try:
            record = json.loads(text)
        except JSON_FAULTS as error:
            start = text if len(text) <= 60 else text[:60] + "..."
            raise self._error(offset, f"not valid JSON ({json_fault(error)}); the line begins {start!r}") from None
        if not isinstance(record, dict):
            found = type(record).__name__
            raise self._error(offset, f"expected one JSON object with the key {self.text_key!r}, found a {found}")
        if self.text_key not in record:
            keys = ", ".join(map(repr, list(record)[:20])) or "none"
            raise self._error(offset, f"no key {self.text_key!r} ({opt('text_key')}); the keys here: {keys}")
        value = record[self.text_key]
        wrong = value
        if isinstance(value, list):
            wrong = next((item for item in value if not isinstance(item, str)), "")
        if not isinstance(wrong, str):
            where = "" if wrong is value else f" in the list, at index {value.index(wrong)}"
            others = [key for key, other in record.items() if isinstance(other, str)][:20]
            raise self._error(
                offset,
                f"{self.text_key!r} ({opt('text_key')}) must be a string or a list of strings, found "
                f"{type(wrong).__name__}{where}; keys with a string here: {', '.join(map(repr, others)) or 'none'}",
            )
        return value

    def _without_surrogates(self, lines: list[str], offset: int) -> list[str]:
        """An escape such as \\ud800 without its other half is not a character, and could not be written as UTF-8."""
        halves = [found[0] for line in lines if (found := SURROGATE.search(line))]
        if not halves:
            return lines
        if self.invalid_utf8 == "fail":
            raise self._error(
                offset,
                f"\\u{ord(halves[0]):04x} is half of a surrogate pair, which is not a character. Choose what to do with such "
                f"text: {opt('invalid_utf8', 'replace')} or {opt('invalid_utf8', 'skip')}",
            )
        if self.invalid_utf8 == "replace":
            return [SURROGATE.sub("\ufffd", line) for line in lines]
        self.dropped["invalid_utf8"] += len(halves)
        return [line for line in lines if not SURROGATE.search(line)]

    def _error(self, offset: int, what: str) -> DataError:
        return DataError(f"{place(self.file, offset)}: {what}")


def invalid_utf8_error(file: CorpusFile, offset: int, found: bytes) -> DataError:
    """The error for bytes that are not UTF-8, at `offset` of the decompressed stream."""
    return DataError(
        f"{place(file, offset)}: not valid UTF-8: found the bytes {found[:8].hex(' ')}. Convert the file (for example "
        f"with `iconv -f WINDOWS-1252 -t UTF-8`), or choose: {opt('invalid_utf8', 'replace')} (U+FFFD in its place) or "
        f"{opt('invalid_utf8', 'skip')} (leave such lines out, and count them)"
    )
