"""Finding documents in a stream of bytes, in bounded memory, by compiled patterns rather than line by line.

Whitespace is that of `str.isspace`, in its UTF-8 encoding. A lead byte starts a new character whatever comes
before it, so the patterns agree with the decoder on invalid text as well.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

from nlpdata.corpus.source import Source
from nlpdata.corpus.types import MAX_LINE_BYTES, ByteRange

_WIDE = rb"\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|\xe3\x80\x80"
_WIDE_REVERSED = rb"[\x85\xa0]\xc2|\x80\x9a\xe1|[\x80-\x8a\xa8\xa9\xaf]\x80\xe2|\x9f\x81\xe2|\x80\x80\xe3"
# Groups repeat greedily, not possessively: Python 3.11 (3.11.2 at least) takes part of an alternative for a match there.
_IN_LINE = rb"(?:[\t\x0b\x0c\x1c-\x20]++|" + _WIDE + rb")*"  # whitespace that ends no line
_ANY = rb"(?:[\t-\r\x1c-\x20]++|" + _WIDE + rb")*"
_REST_OF_SEPARATOR = _IN_LINE + rb"[\r\n]" + _ANY


class _Always(Protocol):
    """A pattern that matches everywhere, if only the empty string."""

    def match(self, data: bytes, start: int = 0, stop: int = sys.maxsize, /) -> re.Match[bytes]: ...


WIDE_SPACE = re.compile(_WIDE)
IN_LINE_SPACE = cast(_Always, re.compile(_IN_LINE))
SPACE = cast(_Always, re.compile(_ANY))
SPACE_REVERSED = cast(_Always, re.compile(rb"(?:[\t-\r\x1c-\x20]++|" + _WIDE_REVERSED + rb")*"))
BLANK_LINES = re.compile(_REST_OF_SEPARATOR)  # at the start of a line
LINE_END = re.compile(rb"\r\n?|\n")
SEPARATOR = re.compile(rb"(?:\r\n?+|\n)" + _REST_OF_SEPARATOR)  # whitespace that holds two line ends or more
# The same where each CR has its LF; eight times as fast, as it begins with a literal. It may leave a CR in front.
SEPARATOR_FROM_LF = re.compile(rb"\n" + _REST_OF_SEPARATOR)
_PART_OF_WIDE = re.compile(rb"(?:\xc2|\xe1\x9a?|\xe2[\x80\x81]?|\xe3\x80?)\Z")

_LOOK_BACK_BYTES = 1 << 16
_SKIP_BYTES = 1 << 18


class Window:
    """The bytes of a stream from offset `base` on, as far as they are read: `data`.

    The end of the file acts as two line ends, which are appended: what comes before it needs no special case.
    """

    def __init__(self, source: Source, data: bytes, base: int) -> None:
        self.source, self.data, self.base = source, data, base
        self.final = False
        self.end = base + len(data)  # offset that reading has reached

    def fill(self, size: int) -> None:
        """Reads until `data` holds `size` bytes or the file ends."""
        if self.final or len(self.data) >= size:
            return
        wanted = size - len(self.data)
        more = self.source.read(wanted)
        self.end += len(more)
        if len(more) < wanted:
            self.final = True
            more += b"\n\n"
        self.data += more

    def more_than_now(self, size: int) -> int:
        """What to ask of `fill` where `data` does not hold one line: twice as much, so that the work stays linear."""
        return max(size, len(self.data) + min(len(self.data), MAX_LINE_BYTES))

    def advance(self, count: int) -> None:
        """Drops the first `count` bytes."""
        self.data = self.data[count:]
        self.base += count

    def position(self) -> int:
        """Input bytes used so far, on disk where the file is compressed."""
        if self.source.compression != "none":
            return self.source.disk_position()
        return min(self.base, self.end)


def undecided(data: bytes, position: int) -> bool:
    """Whether it takes more bytes to tell if there is a whitespace character at `position`."""
    return position == len(data) or _PART_OF_WIDE.match(data, position) is not None


def separator_pattern(data: bytes) -> re.Pattern:
    """The faster of the two patterns that are right for `data`."""
    carriage_returns = data.count(b"\r")
    return SEPARATOR if carriage_returns and carriage_returns != data.count(b"\r\n") else SEPARATOR_FROM_LF


def find_separators(data: bytes, start: int) -> list[tuple[int, int]]:
    """The spans of all separators from `start` on; each ends where the next document starts."""
    pattern = separator_pattern(data)
    spans = [found.span() for found in pattern.finditer(data, start)]
    if pattern is SEPARATOR_FROM_LF and b"\r" in data:
        spans = [(left - (left > start and data[left - 1] == 13), right) for left, right in spans]
    return spans


def count_line_ends(data: bytes, start: int, stop: int) -> int:
    """Line ends in data[start:stop], which must not cut a CRLF in two."""
    return data.count(b"\n", start, stop) + data.count(b"\r", start, stop) - data.count(b"\r\n", start, stop)


def last_line_end(data: bytes, start: int) -> tuple[int, int] | None:
    """The span of the last line end in data[start:] after which a line with text is known to begin.

    `data[start:]` holds no separator, so of the last two line ends at least one is known to be such.
    """
    stop = len(data)
    for _ in range(2):
        last = max(data.rfind(b"\n", start, stop), data.rfind(b"\r", start, stop))
        if last < 0:
            return None
        left = last - (data[last] == 10 and last > start and data[last - 1] == 13)
        if not undecided(data, IN_LINE_SPACE.match(data, last + 1).end()):
            return left, last + 1
        stop = left
    return None


def skip_line(window: Window) -> bool:
    """Advances behind the next line end, holding little; True if all in front of it was whitespace."""
    blank = True
    while True:
        data = window.data
        found = LINE_END.search(data)
        if found and found.end() == len(data) and data.endswith(b"\r") and not window.final:
            window.fill(len(data) + 1)  # an LF may follow
            continue
        stop = found.start() if found else len(data)
        if blank:
            first = IN_LINE_SPACE.match(data, 0, stop).end()
            blank = first == stop or (not found and undecided(data, first))
        if found:
            window.advance(found.end())
            return blank
        window.advance(first if blank else stop)
        window.fill(len(window.data) + _SKIP_BYTES)


def skip_to_separator(window: Window, stop: int) -> bool:
    """Advances behind the next separator; False if none starts before `stop`. Holds little, however far it is."""
    while True:
        window.fill(len(window.data) + _SKIP_BYTES)
        data = window.data
        found = SEPARATOR.search(data) if b"\r" in data else SEPARATOR_FROM_LF.search(data)
        if found:
            window.advance(found.end())
            return True
        if window.final or window.base >= stop:
            return False
        # A separator may have begun. Of it only a line end, and the bytes of a cut character, matter.
        last = max(data.rfind(b"\n"), data.rfind(b"\r"))
        rest = b""
        if last >= 0:
            after = IN_LINE_SPACE.match(data, last + 1).end()
            if undecided(data, after):
                rest = data[last : last + 1] + data[after:] if last + 1 == after else b"\n" + data[after:]
        window.advance(len(data) - len(rest))
        window.data = rest


def open_window(source: Source, start: int, stop: int) -> Window | None:
    """A window that begins between documents, such that the first one in it is the first at or after `start`.

    None where no document starts in [start, stop).
    """
    if start <= source.origin:
        return Window(source, source.head[source.origin :], source.origin)
    start = _character_start(source, start)
    line_ends = _line_ends_before(source, start)
    source.seek(start)
    window = Window(source, b"", start)
    if line_ends < 2:  # inside of a document that an earlier byte range owns
        window.data, window.base = b"\n" * line_ends, start - line_ends
        if not skip_to_separator(window, stop):
            return None
    return window


def _character_start(source: Source, start: int) -> int:
    """`start`, or the next offset where a document could start if it cuts a CRLF or a whitespace character."""
    first = max(source.origin, start - 2)
    data, here = source.read_at(first, start + 2), start - first
    if data[here - 1 : here + 1] == b"\r\n":
        return start + 1
    for lead in range(here):
        found = WIDE_SPACE.match(data, lead)
        if found and found.end() > here:
            return first + found.end()
    return start


def _line_ends_before(source: Source, start: int) -> int:
    """Line ends in the whitespace right before `start`, up to 2; 2 also where the text begins with it."""
    count, stop, begins_with_lf = 0, start, False
    while stop > source.origin:
        first = max(source.origin, stop - _LOOK_BACK_BYTES)
        data = source.read_at(first, stop)
        blank = SPACE_REVERSED.match(data[::-1]).end()
        run = data[len(data) - blank :]
        count += count_line_ends(run, 0, len(run)) - (begins_with_lf and run.endswith(b"\r"))
        if count >= 2:
            return 2
        begins_with_lf = run.startswith(b"\n") or (not run and begins_with_lf)
        stop -= blank
        if blank < len(data) - 2:  # a rest of up to two bytes may be a cut character: look again
            return count
        if not blank:
            return count
    return 2


@dataclass(frozen=True)
class Part:
    """Documents, or parts of them, found in one window: `spans` in `data`, whose first byte has offset `base`."""

    data: bytes
    base: int
    spans: list[tuple[int, int]]
    offsets: list[int]
    starts_inside: bool
    ends_inside: bool
    bytes_read: int
    overlong: int = 0


class Scanner:
    """Iterates over the parts of a byte range: what `_next` finds in the window, which is filled as far as it takes.

    Attributes:
      window: what is read and not used yet.
      block_bytes: about how much a part holds.
      done: nothing is left.
    """

    window: Window
    block_bytes: int
    done: bool

    def __iter__(self) -> Iterator[Part]:
        wanted = self.block_bytes
        while not self.done:
            self.window.fill(wanted)
            part = self._next()
            if part:
                yield part
                wanted = self.block_bytes
            else:
                wanted = self.window.more_than_now(self.block_bytes)

    def _next(self) -> Part | None:
        """The next part; None where it takes more data, or none is left (`done`)."""
        raise NotImplementedError


class TextScanner(Scanner):
    """Iterates over the documents of a byte range, in parts of about `block_bytes`.

    A document that ends in the next block moves there whole if what is here of it is under half a block. Between
    parts, the window begins at a line with text inside of a document (`inside`), or between documents.
    """

    def __init__(self, source: Source, byte_range: ByteRange, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        self.stop = sys.maxsize if byte_range.stop is None else byte_range.stop
        self.remaining = sys.maxsize if byte_range.max_documents is None else byte_range.max_documents
        window = open_window(source, byte_range.start, self.stop)
        self.window = window or Window(source, b"", self.stop)
        self.inside = False
        self.document = 0  # offset of the document that `inside` is about
        self.done = window is None or self.remaining == 0
        # Input used by earlier parts; a later byte range's whitespace in front belongs to the byte range before it.
        self.mark: int | None = None if byte_range.start else 0

    def _next(self) -> Part | None:
        window, data = self.window, self.window.data
        separators, first = [], 0
        if self.inside:
            # Only after an overlong line is it not known that the line here has text.
            found = BLANK_LINES.match(data)
            separators = [(0, found.end())] if found else []
        else:
            first = SPACE.match(data).end()
        if not self.inside and undecided(data, first):
            self.done = window.final or window.base + first >= self.stop
            window.advance(first)
            return None
        if self.mark is None:
            self.mark = window.base + first
        separators += find_separators(data, separators[0][1] if separators else first)
        starts = [first, *(right for _, right in separators)]
        allowed = self._allowed(starts)
        spans = list(zip(starts[:-1], [left for left, _ in separators], strict=True))[:allowed]
        if allowed < len(starts):
            self.done = True
            return self._part(spans, False, starts[allowed]) if spans else None
        if undecided(data, starts[-1]):
            self.done = window.final
            return self._part(spans, False, starts[-1]) if spans else None
        return self._tail(spans, starts[-1])

    def _allowed(self, starts: list[int]) -> int:
        """How many of the documents that begin at `starts` belong to the byte range."""
        allowed = len(starts)
        while allowed and self.window.base + starts[allowed - 1] >= self.stop:
            allowed -= 1
        if self.inside:
            return max(1, min(allowed, self.remaining + 1))
        return min(allowed, self.remaining)

    def _tail(self, spans: list[tuple[int, int]], start: int) -> Part | None:
        """Decides about the document that begins at `start` and does not end in this window."""
        data = self.window.data
        size = len(data) - start
        if spans and size <= self.block_bytes // 2:
            return self._part(spans, False, start)
        cut = last_line_end(data, start)
        if cut:
            return self._part([*spans, (start, cut[0])], True, cut[1])
        if spans:
            return self._part(spans, False, start)
        if size <= MAX_LINE_BYTES:
            self.window.advance(start)
            return None
        return self._overlong(start)

    def _overlong(self, start: int) -> Part | None:
        """The window holds a line of more than MAX_LINE_BYTES whose end is not in sight, or nearly so."""
        window = self.window
        found = LINE_END.search(window.data, start)
        if found and found.end() == len(window.data):
            window.advance(start)
            return None
        if found:  # and then megabytes of whitespace, of which it is not known yet if they are a blank line
            return self._part([(start, found.start())], True, found.end())
        offset = self.document if self.inside else window.base + start
        window.advance(start)
        blank = skip_line(window)
        mark, self.mark = self.mark or 0, window.position()
        part = Part(b"", 0, [(0, 0)], [offset], self.inside, not blank, self.mark - mark, int(not blank))
        self.remaining -= not self.inside
        self.inside, self.document = not blank, offset
        return part

    def _part(self, spans: list[tuple[int, int]], ends_inside: bool, used: int) -> Part:
        window, data, base = self.window, self.window.data, self.window.base
        offsets = [base + start for start, _ in spans]
        if self.inside:
            offsets[0] = self.document
        self.remaining -= len(spans) - self.inside
        window.advance(used)
        mark, self.mark = self.mark or 0, window.position()
        part = Part(data, base, spans, offsets, self.inside, ends_inside, self.mark - mark)
        self.inside, self.document = ends_inside, offsets[-1]
        return part
