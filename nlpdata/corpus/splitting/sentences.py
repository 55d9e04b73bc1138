"""The sentences of a paragraph, by the library sentencex: rules and abbreviations of 240 languages, no model.

A sentence has its white space collapsed, so that it is one line. Nothing else is changed: the sentences, one after the other,
are the paragraph up to white space.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial

from nlpdata.tokenizers.scripts import is_unspaced

AT_ONCE = 1 << 14  # characters: in some texts the library's time grows with the square of the length
_MOST_MARKS = 32  # combining marks behind a letter; more are not text


class ParagraphSplitter:
    """The sentences of one paragraph after the other, as its lines come in.

        splitter = ParagraphSplitter("en")
        splitter.add(["Mr. Smith went", "home. He"]) + splitter.add(["slept."]) + splitter.end()

    The result does not depend on how the lines are divided among the calls. At most AT_ONCE characters and a line are held.
    """

    def __init__(self, language: str) -> None:
        import sentencex

        self._segment = partial(sentencex.segment, language)
        self._lines: list[str] = []
        self._size = 0

    def add(self, lines: Sequence[str]) -> list[str]:
        """Takes more lines of the paragraph; the sentences that are known to end in what was taken so far."""
        found: list[str] = []
        for line in lines:
            self._lines.append(line)
            self._size += len(line) + 1
            if self._size > AT_ONCE:
                found += self._complete()
        return found

    def _complete(self) -> list[str]:
        """All sentences but the last of each AT_ONCE characters: it may continue in what follows."""
        text, start, found = join_lines(self._lines), 0, []
        while len(text) - start > AT_ONCE:
            part = text[start : _break_before(text, start + AT_ONCE, start)]
            pieces = self._segment(part)
            pieces = pieces[:-1] if len(pieces) > 1 else pieces
            found += pieces
            start += sum(map(len, pieces))
        self._lines, self._size = [text[start:]], len(text) - start
        return _as_lines(found)

    def end(self) -> list[str]:
        """The sentences that are left of the paragraph; the next call of `add` begins another one."""
        if not self._lines:
            return []
        text = join_lines(self._lines)
        self._lines, self._size = [], 0
        return _as_lines(self._segment(text))


def _as_lines(pieces: Iterable[str]) -> list[str]:
    return [line for piece in pieces if (line := piece.strip())]


def join_lines(lines: Sequence[str]) -> str:
    """A paragraph of wrapped lines, with its white space collapsed.

    A line break is a space, and nothing between letters of scripts without spaces.
    """
    text = "\n".join(lines)
    if len(lines) == 1 or text.isascii():
        return " ".join(text.split())
    joined = [lines[0].strip()]
    for line in map(str.strip, lines[1:]):
        before = joined[-1]
        apart = not (line and before and is_unspaced(line[0]) and is_unspaced(before[-1]))
        joined += [" ", line] if apart else [line]
    return " ".join("".join(joined).split())


def cut(sentence: str, most: int) -> list[str]:
    """A sentence in pieces of at most `most` bytes of UTF-8: cut at white space, or where a piece has none between characters.

    A letter keeps its combining marks, unless they alone are longer.
    """
    if 4 * len(sentence) <= most:
        return [sentence]
    raw = sentence.encode("utf-8")
    if len(raw) <= most:
        return [sentence]
    pieces, start = [], 0
    while len(raw) - start > most:
        stop = start + most
        while raw[stop] & 0xC0 == 0x80:  # inside a character
            stop -= 1
        space = raw.rfind(b" ", start + 1, stop + 1)
        stop = space if space > 0 else _before_marks(raw, start, stop)
        pieces.append(raw[start:stop].decode("utf-8").strip(" "))
        start = stop + (raw[stop : stop + 1] == b" ")
    return [*pieces, raw[start:].decode("utf-8")]


def _break_before(text: str, stop: int, start: int) -> int:
    """The last white space in text[start:stop], else stop, moved in front of the marks of a letter."""
    space = text.rfind(" ", start + 1, stop)
    if space > 0:
        return space
    for at in range(stop, max(stop - _MOST_MARKS, start), -1):
        if unicodedata.category(text[at])[0] != "M":
            return at
    return stop


def _before_marks(raw: bytes, start: int, stop: int) -> int:
    """`stop`, moved in front of the letter whose combining marks follow it."""
    text = raw[start:stop].decode("utf-8")
    following = raw[stop : stop + 4].decode("utf-8", "ignore")[:1]
    if not following or unicodedata.category(following)[0] != "M":
        return stop
    kept = len(text)
    while kept and len(text) - kept < _MOST_MARKS and unicodedata.category(text[kept - 1])[0] == "M":
        kept -= 1
    kept -= 1
    return stop if kept <= 0 else start + len(text[:kept].encode("utf-8"))
