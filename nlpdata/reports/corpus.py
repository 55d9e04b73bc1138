"""The report of a corpus: its counts (nlpdata.reports.survey) as a page."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlpdata.corpus.splitting.filters import script_of
from nlpdata.reports.charts import bars, histogram, quantile
from nlpdata.reports.page import Examples, Item, Notes, Report, Section, Table, count_of, percent, size
from nlpdata.reports.survey import Counts

_SHOWN = 16  # files, and characters that cannot be spelt
_REASONS = {
    "invalid_utf8": "lines that are not UTF-8",
    "line_too_long": "lines of more than 16 MiB",
}


@dataclass(frozen=True)
class Vocabulary:
    """What is known of a tokenizer and the text.

    Attributes:
      path, kind, size: of the tokenizer.
      ordinary: ids that text may have, int32.
      unspelt: characters of the corpus that it cannot spell -> how often they occur.
    """

    path: str
    kind: str
    size: int
    ordinary: np.ndarray
    unspelt: Counter[str]


@dataclass(frozen=True)
class CorpusFacts:
    """What is known of a corpus.

    Attributes:
      title: the patterns that name it.
      files: (path, bytes) of each.
      bytes: of all files on disk.
      limit: documents that were to be read at most; None: all were read.
      counts: of what was read.
      vocabulary: of the tokenizer, if one was given.
      repeated_lines, repeated_documents: those that are equal to an earlier one.
      repeated_examples: some repeated lines.
      examples: (place, beginning) of documents.
      warnings: what looks wrong about the text.
      overlap: sections about evaluation sets.
    """

    title: str
    files: Sequence[tuple[str, int]]
    bytes: int
    limit: int | None
    counts: Counts
    vocabulary: Vocabulary | None
    repeated_lines: int
    repeated_documents: int
    repeated_examples: Sequence[str]
    examples: Sequence[tuple[str, str]]
    warnings: Sequence[str]
    overlap: Sequence[Section]


def corpus_report(facts: CorpusFacts) -> Report:
    """The report of a corpus."""
    counts = facts.counts
    characters = sum(counts.characters.values())
    figures: list[tuple[str, str | int]] = [
        ("files", len(facts.files)),
        ("size of the files", size(facts.bytes)),
        ("documents", counts.documents),
        ("sentences", counts.sentences),
        ("characters", characters),
        ("repeated lines", percent(facts.repeated_lines, counts.sentences)),
    ]
    if counts.dropped:
        figures.append(("lines left out", counts.dropped.total()))
    if facts.vocabulary:
        figures += [("tokens", counts.tokens), ("unknown tokens", percent(counts.unknown, counts.tokens))]
    sections = [_text(facts), *_tokens(facts), _repeated(facts), _left_out(facts), *facts.overlap, _examples(facts)]
    return Report(f"Corpus {facts.title}", _what_was_read(facts), tuple(figures), tuple(sections))


def _what_was_read(facts: CorpusFacts) -> str:
    if facts.limit is None:
        return f"{count_of(len(facts.files), 'file')}, read as a whole."
    counts = facts.counts
    return (
        f"A sample: {count_of(counts.documents, 'document')} from places that are spread evenly over "
        f"{count_of(len(facts.files), 'file')} of {size(facts.bytes)}. All other figures are of the sample alone; what is repeated "
        "in the rest of the corpus, or is in an evaluation set too, does not show."
    )


def _text(facts: CorpusFacts) -> Section:
    counts = facts.counts
    scripts: Counter[str] = Counter()
    other = 0
    for code, count in counts.characters.items():
        script = script_of(chr(code))
        if script is None:
            other += count
        else:
            scripts[script or "other scripts"] += count
    rows = tuple(
        (what, *_spread(found))
        for what, found in (
            ("characters of a sentence", counts.sentence_characters),
            ("sentences of a document", counts.document_sentences),
            ("characters of a document", counts.document_characters),
        )
    )
    files = sorted(facts.files, key=lambda file: (-file[1], file[0]))
    more = f", the largest {_SHOWN} of {len(files):,}" if len(files) > _SHOWN else ""
    items: list[Item] = [
        bars(
            "Letters by script",
            {"letters": dict(_by_count(scripts))},
            "script",
            f"{other:,} other characters: digits, punctuation, spaces, signs.",
        )
        if scripts
        else Notes(("There are no letters.",)),
        histogram("Length of sentences", counts.sentence_characters, "characters", "sentences"),
        histogram("Length of documents", counts.document_sentences, "sentences", "documents"),
        Table(("length", "mean", "median", "95% up to", "longest"), rows, "Lengths"),
        Table(("file", "size"), tuple((path, size(count)) for path, count in files[:_SHOWN]), f"Files{more}"),
    ]
    return Section("Text", "", tuple(items))


def _spread(counts: Counter[int]) -> tuple[float, int, int, int]:
    """Mean, median, 95% quantile and maximum."""
    total = sum(counts.values())
    mean = sum(number * count for number, count in counts.items()) / total if total else 0.0
    return mean, quantile(counts, 0.5), quantile(counts, 0.95), max(counts, default=0)


def _by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _tokens(facts: CorpusFacts) -> list[Section]:
    vocabulary, counts = facts.vocabulary, facts.counts
    if vocabulary is None:
        return []
    characters = sum(counts.characters.values())
    rows = (
        ("tokens", counts.tokens),
        ("characters of a token", characters / counts.tokens if counts.tokens else None),
        ("unknown tokens", counts.unknown),
        ("share of unknown tokens", percent(counts.unknown, counts.tokens)),
        *coverage(counts.pieces, vocabulary.ordinary),
    )
    items: list[Item] = [
        Table(("", ""), rows, "Tokens and pieces"),
        histogram("Length of sentences in tokens", counts.sentence_tokens, "tokens", "sentences"),
    ]
    if vocabulary.unspelt:
        shown = dict(_by_count(vocabulary.unspelt)[:_SHOWN])
        note = f"{len(vocabulary.unspelt):,} different characters, {vocabulary.unspelt.total():,} in the text."
        items.append(
            bars(
                "Characters that are unknown",
                {"characters": {name_of(c): n for c, n in shown.items()}},
                "character",
                note,
            )
        )
    return [Section("Tokens", f"With {vocabulary.path} ({vocabulary.kind}, {vocabulary.size:,} pieces).", tuple(items))]


def name_of(character: str) -> str:
    """A character with its code point and Unicode's name of it."""
    shown = character if character.isprintable() else ""
    return f"{shown} U+{ord(character):04X} {unicodedata.name(character, '').lower()}".strip()


def coverage(pieces: np.ndarray, ordinary: np.ndarray) -> list[tuple[str, str | int]]:
    """Rows about how much of a vocabulary is used.

    Args:
      pieces: how often each piece occurs, int64 (vocab_size,).
      ordinary: ids that text may have.
    """
    counts = np.sort(pieces[ordinary])[::-1]
    used, sums = int((counts > 0).sum()), np.cumsum(counts)
    rows: list[tuple[str, str | int]] = [
        ("pieces for text", len(ordinary)),
        ("pieces used", used),
        ("share of the pieces", percent(used, len(ordinary))),
    ]
    if used:
        rows += [
            (f"pieces that make {share:.0%} of the tokens", int(np.searchsorted(sums, share * sums[-1])) + 1)
            for share in (0.5, 0.9, 0.99)
        ]
        rows.append(("pieces used once", int((counts == 1).sum())))
    return rows


def _repeated(facts: CorpusFacts) -> Section:
    counts = facts.counts
    rows = (
        ("lines", counts.sentences, facts.repeated_lines, percent(facts.repeated_lines, counts.sentences)),
        ("documents", counts.documents, facts.repeated_documents, percent(facts.repeated_documents, counts.documents)),
    )
    items: list[Item] = [Table(("", "all", "equal to an earlier one", "share"), rows)]
    if facts.repeated_examples:
        items.append(
            Examples("Lines that are repeated, for example", tuple(("", each) for each in facts.repeated_examples))
        )
    return Section(
        "Repeated text", "Lines and documents that are equal to an earlier one, character by character.", tuple(items)
    )


def _left_out(facts: CorpusFacts) -> Section:
    counts = facts.counts
    reasons = {
        _REASONS.get(reason, reason.replace("_", " ")): count for reason, count in sorted(counts.dropped.items())
    }
    if facts.vocabulary:
        reasons["sentences of which normalisation leaves nothing"] = counts.empty
    reasons["documents of one sentence (no pair for sop or nsp)"] = counts.one_sentence
    table = Table(("what", "count"), tuple(reasons.items()))
    warned = Notes(tuple(facts.warnings) or ("Nothing looks wrong about the files that were looked at.",))
    return Section("What commands would leave out", "", (table, warned))


def _examples(facts: CorpusFacts) -> Section:
    examples = Examples("Beginnings of documents", tuple(facts.examples))
    return Section("Examples", "", (examples,) if facts.examples else (Notes(("There are no documents.",)),))
