"""Reads a corpus for its report, in worker processes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path

import numpy as np

from nlpdata.corpus import CorpusFile, Portion, find_files, fingerprint, plan_portions, require_unchanged
from nlpdata.corpus.look import dropped_accents, look_at
from nlpdata.corpus.sample import sampled_documents
from nlpdata.corpus.source import line_numbers
from nlpdata.errors import DataError, Message
from nlpdata.execution.executor import Progress
from nlpdata.output import disk_errors
from nlpdata.reports import overlap
from nlpdata.reports.contamination import Place, contaminated, make_index
from nlpdata.reports.corpus import CorpusFacts, Vocabulary
from nlpdata.reports.counting import counted
from nlpdata.reports.evaluation import open_evaluation
from nlpdata.reports.options import ReportRequest
from nlpdata.reports.page import names_of
from nlpdata.reports.repeated import find_repeated
from nlpdata.reports.survey import Counts, Setup, lines_at, set_up, survey_portion
from nlpdata.text import loss
from nlpdata.tokenizers import Tokenizer, load_tokenizer

_PORTION_BYTES = 16 << 20
_REPEATED_EXAMPLES, _REPEATED_CHARACTERS = 6, 200


@dataclass(frozen=True)
class Gathered:
    """What was read of a corpus.

    Attributes:
      facts: for its page.
      matches: the list of contaminated rows; None without evaluation sets.
      overlap: evaluation set -> `rows`, `too_short` and `contaminated` ones.
    """

    facts: CorpusFacts
    matches: str | None
    overlap: dict[str, dict[str, int]]


def gather_corpus(request: ReportRequest, inputs: Sequence[str], folder: Path, listed: str) -> Gathered:
    """Reads a corpus.

    Args:
      request: what the command was given.
      inputs: patterns of the corpus.
      folder: for temporary files.
      listed: how the page calls the list.

    Raises UsageError, DataError.
    """
    files, warnings = find_files(inputs, json_lines=request.text_key is not None)
    before = [fingerprint(file) for file in files]
    tokenizer = load_tokenizer(request.tokenizer) if request.tokenizer is not None else None
    index = make_index(open_evaluation(request.evaluation), request.ngram) if request.evaluation else None
    portions = plan_portions(files, _PORTION_BYTES, request.text_key)
    if request.limit is not None:
        portions = sampled_documents(portions, request.limit)
    setup = Setup(
        folder, request.text_key, tokenizer.spec if tokenizer else None, index.save(folder) if index else None
    )
    with disk_errors("report", folder, "Set the environment variable TMPDIR to a folder with more room"):
        counts = _survey(portions, setup, request)
        repeated_lines, some_lines = find_repeated(folder, sorted(counts.line_keys))
        repeated_documents, _ = find_repeated(folder, sorted(counts.document_keys))
    require_unchanged(files, before)
    if not counts.documents:
        raise DataError(f"{names_of(inputs)}: the corpus holds no documents")
    found = contaminated(index, counts.found) if index else []
    places = overlap.places_in_words(found, partial(_lines, files, request.text_key))
    warnings += look_at(files, invalid_utf8="skip", text_key=request.text_key)
    if tokenizer is not None:
        warnings += _lost(files, tokenizer, counts, request.text_key)
    facts = CorpusFacts(
        names_of(inputs),
        [(file.path, file.size) for file in files],
        sum(file.size for file in files),
        request.limit,
        counts,
        _vocabulary(tokenizer, counts) if tokenizer else None,
        repeated_lines,
        repeated_documents,
        _repeated_lines(portions, some_lines, request.text_key),
        _examples(files, counts, request.text_key),
        warnings,
        [overlap.overlap_section(index, found, places, listed)] if index else [],
    )
    figures = {
        each.name: {"rows": each.rows, "too_short": each.rows - each.told, "contaminated": len(each.matches)}
        for each in found
    }
    return Gathered(facts, overlap.match_list(index, found, places) if index else None, figures)


def _survey(portions: Sequence[Portion], setup: Setup, request: ReportRequest) -> Counts:
    progress = Progress("reading", sum(portion.bytes for portion in portions), quiet=not request.progress)
    counts = Counts()
    for _, found in counted(survey_portion, portions, set_up, setup, progress, request, attrgetter("place")):
        counts.add(found)
    return counts


def _lost(files: Sequence[CorpusFile], tokenizer: Tokenizer, counts: Counts, text_key: str | None) -> list[str]:
    """What create-pretraining would say of text that the tokenizer loses."""
    counters = {"tokens": counts.tokens, "tokens_unknown": counts.unknown, "sentences": counts.sentences}
    dropped = dropped_accents(files, tokenizer.as_read, invalid_utf8="skip", text_key=text_key)
    return [
        *loss.warnings([loss.unknown_tokens(counters, tokenizer.meta())]),
        *([str(Message(dropped))] if dropped else []),
    ]


def _vocabulary(tokenizer: Tokenizer, counts: Counts) -> Vocabulary:
    characters = [chr(code) for code in sorted(counts.characters) if not chr(code).isspace()]
    ids, lengths = tokenizer.encode(characters)
    of_character = np.repeat(np.arange(len(characters)), lengths)
    unspelt = np.unique(of_character[ids == tokenizer.unk_id]).tolist()
    lost = Counter({characters[at]: counts.characters[ord(characters[at])] for at in unspelt})
    return Vocabulary(tokenizer.path, tokenizer.kind, tokenizer.vocab_size, tokenizer.ordinary_ids, lost)


def _examples(files: Sequence[CorpusFile], counts: Counts, text_key: str | None) -> list[tuple[str, str]]:
    made: list[tuple[str, str]] = []
    once = {each[0]: each for each in reversed(counts.examples)}.values()
    for number, places in groupby(sorted(each[1:] for each in once), key=itemgetter(0)):
        own = list(places)
        where = _lines(files, text_key, number, [Place(number, offset, 0) for _, offset, _ in own])
        made += zip(where, (text for _, _, text in own), strict=True)
    return made


def _repeated_lines(portions: Sequence[Portion], places: Sequence[tuple[int, int]], text_key: str | None) -> list[str]:
    """The longest of some repeated lines, as far as they fit on a page."""
    found = sorted(set(lines_at(portions, places, text_key)), key=lambda line: (-len(line), line))
    return [line[:_REPEATED_CHARACTERS] for line in found[:_REPEATED_EXAMPLES]]


def _lines(files: Sequence[CorpusFile], text_key: str | None, number: int, places: Sequence[Place]) -> list[str]:
    """ "file:line" of places in a file; of JSON lines, where a document is a line, that line."""
    file = files[number]
    starts = line_numbers(file, [each.offset for each in places])
    return [
        f"{file.path}, byte {each.offset}"
        if start is None
        else f"{file.path}:{start + (each.line if text_key is None else 0)}"
        for each, start in zip(places, starts, strict=True)
    ]
