"""What a corpus holds, counted in one pass over its portions, which workers do in any order.

Memory is bounded: a worker holds a block of text and counts; hashes of lines and documents, by which repeated ones are found, go to
a temporary folder, 24 bytes each.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np

from nlpdata.corpus import Portion, read_portion
from nlpdata.corpus.splitting.repeats import KeyWriter
from nlpdata.corpus.types import Block
from nlpdata.execution.executor import Report
from nlpdata.reports.contamination import IndexFiles, Matcher, Places, add_places
from nlpdata.reports.counting import add_counts
from nlpdata.reports.repeated import DIGEST_BYTES
from nlpdata.tokenizers import Tokenizer, TokenizerSpec, load_tokenizer
from nlpdata.tokenizers.interface import count_unknown

_CODES = 0x110000
EXAMPLES = 8
_EXAMPLE_CHARACTERS, _EXAMPLE_LINES = 250, 40

Example = tuple[bytes, int, int, str]
"""(hash, number of the file, byte, beginning) of a document."""


@dataclass(frozen=True)
class Setup:
    """What a worker is sent once; picklable.

    Attributes:
      folder: where key files go.
      text_key: of JSON lines.
      tokenizer: whose tokens are counted; None: none are.
      evaluation: the n-grams that are looked for; None: none are.
    """

    folder: Path
    text_key: str | None
    tokenizer: TokenizerSpec | None
    evaluation: IndexFiles | None


@dataclass
class Counts:
    """What a part of a corpus holds.

    Attributes:
      documents, sentences: how many there are.
      one_sentence: documents of a single sentence.
      sentence_characters, document_sentences, document_characters: length -> how many have it.
      characters: code point -> how often it occurs.
      dropped: lines that no command can read, by reason.
      tokens, unknown: how many there are, and those that stand for text the vocabulary cannot spell.
      empty: sentences of which normalisation leaves nothing.
      sentence_tokens: length in tokens -> sentences.
      pieces: how often each piece of the vocabulary occurs, int64; empty without a tokenizer.
      examples: (hash, file's number, byte, beginning) of documents: see chosen_examples.
      line_keys, document_keys: (portion, key file).
      found: what an evaluation set has, too: see Matcher.
    """

    documents: int = 0
    sentences: int = 0
    one_sentence: int = 0
    sentence_characters: Counter[int] = field(default_factory=Counter)
    document_sentences: Counter[int] = field(default_factory=Counter)
    document_characters: Counter[int] = field(default_factory=Counter)
    characters: Counter[int] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    tokens: int = 0
    unknown: int = 0
    empty: int = 0
    sentence_tokens: Counter[int] = field(default_factory=Counter)
    pieces: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    examples: list[Example] = field(default_factory=list)
    line_keys: list[tuple[int, str]] = field(default_factory=list)
    document_keys: list[tuple[int, str]] = field(default_factory=list)
    found: Places = field(default_factory=dict)

    def add(self, other: "Counts") -> None:
        """Adds what another part holds; the order of parts shows in lists alone."""
        add_counts(self, other)
        add_places(self.found, other.found)
        self.examples = chosen_examples(self.examples)


def chosen_examples(found: Sequence[Example]) -> list[Example]:
    """At most EXAMPLES: of each file the one with the smallest hash, then the second ones; of many files those with small hashes.

    What is chosen of parts, and then of all that, is what is chosen of the whole, in whatever order the parts come.
    """
    ranked, seen = [], Counter[int]()
    for each in sorted(found):
        ranked.append((seen[each[1]], each))
        seen[each[1]] += 1
    return [each for _, each in sorted(ranked)[:EXAMPLES]]


_setup: Setup  # of a worker process
_tokenizer: Tokenizer | None


def set_up(setup: Setup) -> None:
    """Sets up this process, before its first unit."""
    global _setup, _tokenizer
    _setup = setup
    _tokenizer = load_tokenizer(setup.tokenizer) if setup.tokenizer else None


def survey_portion(portion: Portion, report: Report) -> Counts:
    """Counts what a portion holds. Lines that are not UTF-8 are left out and counted."""
    made, codes = Counts(), np.zeros(_CODES, np.int64)
    if _tokenizer is not None:
        made.pieces = np.zeros(_tokenizer.vocab_size, np.int64)
    lines = KeyWriter(_setup.folder, f"lines-{portion.index}")
    documents = _Documents(made, KeyWriter(_setup.folder, f"documents-{portion.index}"))
    matcher = Matcher(_setup.evaluation) if _setup.evaluation else None
    for block in read_portion(portion, invalid_utf8="skip", text_key=_setup.text_key):
        raw = [line.encode("utf-8", "surrogatepass") for line in block.lines]
        for line in raw:
            lines.add(blake2b(line, digest_size=DIGEST_BYTES).digest())
        documents.add(block, raw)
        _count_lines(made, codes, block)
        if _tokenizer is not None:
            _count_tokens(made, block.lines, _tokenizer)
        if matcher is not None:
            matcher.add(block)
        report(block.bytes_read)
    documents.end()
    made.characters = Counter({code: int(codes[code]) for code in np.flatnonzero(codes).tolist()})
    made.line_keys = [(portion.index, name) for name in lines.finish()]
    made.document_keys = [(portion.index, name) for name in documents.keys.finish()]
    made.found = matcher.found if matcher is not None else {}
    return made


def _count_lines(made: Counts, codes: np.ndarray, block: Block) -> None:
    made.sentences += len(block.lines)
    made.sentence_characters.update(map(len, block.lines))
    made.dropped.update(block.dropped)
    found = np.frombuffer("".join(block.lines).encode("utf-32-le", "surrogatepass"), "<u4")
    counted = np.bincount(found)
    codes[: len(counted)] += counted


def _count_tokens(made: Counts, lines: Sequence[str], tokenizer: Tokenizer) -> None:
    ids, lengths = tokenizer.encode(lines)
    made.tokens += len(ids)
    made.unknown += count_unknown(ids, tokenizer)
    made.empty += int((lengths == 0).sum())
    made.sentence_tokens.update(lengths.tolist())
    made.pieces += np.bincount(ids, minlength=tokenizer.vocab_size)


class _Documents:
    """Follows documents through blocks."""

    def __init__(self, made: Counts, keys: KeyWriter) -> None:
        self.keys = keys
        self._made = made
        self._digest, self._sentences, self._characters = blake2b(digest_size=DIGEST_BYTES), 0, 0
        self._open = False
        self._example = (0, 0, "")  # the number of the file, the byte, and the beginning of the document

    def add(self, block: Block, raw: Sequence[bytes]) -> None:
        at = 0
        for number, count in enumerate(block.line_counts):
            if number or not block.starts_inside:
                self.end()
                self._open = True
                lines = islice(block.lines, at, at + min(count, _EXAMPLE_LINES))
                self._example = block.files[number].number, block.offsets[number], " ".join(lines)[:_EXAMPLE_CHARACTERS]
            for line in raw[at : at + count]:
                self._digest.update(line + b"\n")
            self._sentences += count
            self._characters += sum(map(len, block.lines[at : at + count]))
            at += count

    def end(self) -> None:
        """Counts the document that was followed, if there is one."""
        if not self._open:
            return
        made = self._made
        made.documents += 1
        made.one_sentence += self._sentences == 1
        made.document_sentences[self._sentences] += 1
        made.document_characters[self._characters] += 1
        if self._sentences:
            digest = self._digest.digest()
            self.keys.add(digest)
            self._made.examples = chosen_examples([*self._made.examples, (digest, *self._example)])
        else:
            self.keys.skip()
        self._digest, self._sentences, self._characters = blake2b(digest_size=DIGEST_BYTES), 0, 0
        self._open = False


def lines_at(portions: Sequence[Portion], places: Sequence[tuple[int, int]], text_key: str | None) -> list[str]:
    """The lines of places (portion, number of a line in it): only these portions are read again, and as far as it takes."""
    found = []
    by_portion: dict[int, list[int]] = {}
    for index, number in places:
        by_portion.setdefault(index, []).append(number)
    for portion in (each for each in portions if each.index in by_portion):
        wanted, first = sorted(by_portion[portion.index]), 0
        for block in read_portion(portion, invalid_utf8="skip", text_key=text_key):
            found += [block.lines[number - first] for number in wanted if first <= number < first + len(block.lines)]
            first += len(block.lines)
            if first > wanted[-1]:
                break
    return found
