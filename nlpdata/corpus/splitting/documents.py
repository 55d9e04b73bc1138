"""Passages of raw documents to sentences: a pure function over what a reader gives, one document after the other."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from nlpdata.corpus.splitting.filters import count_letters
from nlpdata.corpus.splitting.languages import SAMPLE, identify
from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.splitting.passages import DOCUMENT, SAME, Notice, Passage
from nlpdata.corpus.splitting.sentences import ParagraphSplitter, cut

DIGEST_BYTES = 16
LONGEST = "longest_document"
"""The counter that does not add up: the most sentences of a document."""
_HELD = 1 << 16  # characters of sentences that are given on together


class Sentences(NamedTuple):
    """Sentences of the present document: UTF-8, each with a line end."""

    data: bytes


@dataclass
class Document:
    """The end of the present document, and what it was.

    Attributes:
      sentences, text_bytes, characters: of its sentences, without line ends.
      cut: sentences that were longer than allowed.
      language: as identified; None where nobody asked.
      left_out: why it is not to be written; None where it is.
      digest: hash of its sentences, 16 bytes.
    """

    sentences: int = 0
    text_bytes: int = 0
    characters: int = 0
    cut: int = 0
    letters: int = 0
    letters_of_scripts: int = 0
    language: str | None = None
    left_out: str | None = None
    digest: bytes = field(default=b"", repr=False)


def split_documents(
    items: Iterable[Passage | Notice], options: SplittingOptions, line_breaks: str
) -> Iterator[Sentences | Document | Notice]:
    """Yields the sentences of each document as they come, then the document; notices as they are.

    Args:
      items: what a reader gives; see nlpdata.corpus.splitting.passages.
      line_breaks: "join" or "end": what the options say, or the format.
    """
    current: _Current | None = None
    for item in items:
        if isinstance(item, Notice):
            yield item
            continue
        if item.begins == DOCUMENT:
            if current is not None:
                yield from current.end()
            current = _Current(options, line_breaks)
        assert current is not None  # readers begin with a document
        yield from current.add(item)
    if current is not None:
        yield from current.end()


class _Current:
    """The document that is being read."""

    def __init__(self, options: SplittingOptions, line_breaks: str) -> None:
        self._options, self._joins = options, line_breaks == "join"
        self._about = Document()
        self._hash = blake2b(digest_size=DIGEST_BYTES)
        self._waiting: list[Passage] | None = [] if options.identifies_languages else None  # for the language
        self._characters = 0  # of them
        self._splitter = ParagraphSplitter(options.language)
        self._held: list[str] = []
        self._size = 0  # of them, in characters

    def add(self, passage: Passage) -> Iterator[Sentences]:
        if self._waiting is None:
            self._hold(self._split(passage))
            if self._size > _HELD:
                yield self._made()
            return
        self._waiting.append(passage)
        self._characters += sum(map(len, passage.lines)) + len(passage.lines)
        if self._characters > SAMPLE:
            yield from self._identified()

    def _identified(self) -> Iterator[Sentences]:
        """What has waited for the language to be known."""
        waiting, self._waiting = self._waiting or [], None
        sample = "\n".join(line for passage in waiting for line in passage.lines)[:SAMPLE]
        self._about.language = identify(sample) if sample.strip() else None
        if self._options.language == "auto":
            self._splitter = ParagraphSplitter(self._about.language or "en")
        for passage in waiting:
            yield from self.add(passage)

    def _split(self, passage: Passage) -> list[str]:
        splitter = self._splitter
        found = [] if passage.begins == SAME else splitter.end()
        if self._joins:
            return found + splitter.add(passage.lines)
        found += splitter.end()
        for line in passage.lines:
            found += splitter.add([line]) + splitter.end()
        return found

    def _hold(self, sentences: Sequence[str]) -> None:
        """Keeps sentences, of which long ones are cut."""
        most = self._options.max_sentence_bytes
        for sentence in sentences:
            self._size += len(sentence)
            if 4 * len(sentence) <= most:
                self._held.append(sentence)
                continue
            pieces = cut(sentence, most)
            self._about.cut += len(pieces) > 1
            self._held += pieces

    def _made(self) -> Sentences:
        """The sentences that are held, counted."""
        about, lines = self._about, self._held
        self._held, self._size = [], 0
        text = "\n".join(lines)
        data = text.encode("utf-8") + b"\n"
        about.sentences += len(lines)
        about.text_bytes += len(data) - len(lines)
        about.characters += len(text) + 1 - len(lines)
        if self._options.scripts:
            letters, wanted = count_letters(text, self._options.scripts)
            about.letters += letters
            about.letters_of_scripts += wanted
        self._hash.update(data)
        return Sentences(data)

    def end(self) -> Iterator[Sentences | Document]:
        if self._waiting is not None:
            yield from self._identified()
        self._hold(self._splitter.end())
        if self._held:
            yield self._made()
        self._about.digest = self._hash.digest()
        self._about.left_out = reason_to_leave_out(self._about, self._options)
        yield self._about


def reason_to_leave_out(document: Document, options: SplittingOptions) -> str | None:
    """The first filter that a document does not pass; None where it passes all."""
    if not document.sentences:
        return "no_text"
    if document.characters < options.min_characters:
        return "too_short"
    if options.max_characters is not None and document.characters > options.max_characters:
        return "too_long"
    if options.scripts and document.letters_of_scripts < options.min_script_share * max(document.letters, 1):
        return "script"
    if options.keep_languages and document.language not in options.keep_languages:
        return "language"
    return None


def tally(counters: Counter, item: Document | Notice) -> None:
    """Adds a document or a notice to counters: of what was read, and of what is left out by reason."""
    if isinstance(item, Notice):
        for what, left_out in (("sentences", item.lines), ("documents", item.documents)):
            for reason, count in left_out.items():
                counters[f"{what}_read"] += count
                counters[f"{what}_dropped/{reason}"] += count
        return
    for what, count in (("documents", 1), ("sentences", item.sentences), ("bytes", item.text_bytes)):
        counters[f"{what}_read"] += count
        if item.left_out:
            counters[f"{what}_dropped/{item.left_out}"] += count
    counters["sentences_cut"] += item.cut
    counters[LONGEST] = max(counters[LONGEST], item.sentences)
