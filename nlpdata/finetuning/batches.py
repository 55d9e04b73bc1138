"""A split's source -> batches of checked rows, with a count of what was left out and why.

Batches do not depend on workers, and records do not depend on batches: any executor may encode them in any order.
"""

import gzip
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nlpdata.errors import DataError, Message, opt
from nlpdata.finetuning.datasets import MAX_SHOWN, BadRow, Dataset, Split, refusal
from nlpdata.finetuning.encode import Batch
from nlpdata.finetuning.label_names import class_warnings, given_labels
from nlpdata.finetuning.labels import DROPPED, RowReader
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.squad import Note, Paragraph, Paragraphs

_log = logging.getLogger(__name__)

BATCH_ROWS = 8192
BATCH_CHARACTERS = 1 << 20


class Tally:
    """What happened to the rows of a split.

    Args:
      skip: leave bad rows out, count them, and show the first few of each reason; else the first one is a DataError.

    Attributes:
      counters: rows, or paragraphs and questions.
      dropped, notes: rows by reason.
      labels: rows that have each class, by id.
    """

    def __init__(self, skip: bool) -> None:
        self._skip = skip
        self.counters: Counter = Counter()
        self.dropped: Counter = Counter()
        self.notes: Counter = Counter()
        self.labels: Counter = Counter()

    def drop(self, bad: BadRow) -> None:
        if not self._skip:
            raise refusal(bad)
        self.dropped[bad.reason] += 1
        if self.dropped[bad.reason] <= MAX_SHOWN:
            _log.info(Message(f"left out ({bad.reason}): {bad.message}"))

    def leave_out(self, reason: str) -> None:
        """Counts a row that the user has asked to leave out."""
        self.dropped[reason] += 1

    def note(self, note: Note) -> None:
        self.notes[note.reason] += 1
        if note.message and self.notes[note.reason] <= MAX_SHOWN:
            _log.info(Message(note.message))


def read_batches(dataset: Dataset, split: Split, options: FinetuningOptions, tally: Tally) -> Iterator[Batch]:
    """The batches of a split, in order."""
    squad = dataset.kind == "squad"
    items = _paragraphs(split, tally) if squad else _sentences(dataset, split, options, tally)
    packed: Callable[[list], Sequence] = Paragraphs.of if squad else list
    most = BATCH_ROWS // (dataset.choices or 1)
    rows: list = []
    characters = first = number = 0
    for row, size in items:
        rows.append(row)
        characters += size
        if len(rows) == most or characters >= BATCH_CHARACTERS:
            yield Batch(split.name, number, first, packed(rows), split.labelled)
            first, number = first + len(rows), number + 1
            rows, characters = [], 0
    if rows:
        yield Batch(split.name, number, first, packed(rows), split.labelled)


def _sentences(dataset: Dataset, split: Split, options: FinetuningOptions, tally: Tally) -> Iterator[tuple[tuple, int]]:
    dropped = given_labels(options.drop_labels)
    read = RowReader(dataset, split, options.label_separator, dropped)
    kept = 0
    classes = split.labelled and dataset.kind != "regression"
    several = dataset.kind == "multilabel"
    for row in split.rows():
        item = row if isinstance(row, BadRow) else read(row)
        if isinstance(item, BadRow):
            tally.drop(item)
            continue
        if item is DROPPED:
            tally.leave_out("drop_labels")
            continue
        kept += 1
        if classes:
            tally.labels.update(item[2] if several else (item[2],))
        yield item, len(item[0]) + (sum(map(len, item[1])) if dataset.choices else len(item[1] or ""))
    tally.counters["rows"] += kept + tally.dropped.total()
    tally.counters["rows_used"] += kept


def no_rows(split: Split, tally: Tally) -> DataError:
    """The error of a split of which no row can be used."""
    dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.dropped.items()))
    left_out = f" (left out: {dropped})" if dropped else ""
    return DataError(f"{split.files[0]}: no rows for the {split.name} split{left_out}")


def label_warnings(dataset: Dataset, split: Split, tally: Tally, options: FinetuningOptions) -> list[str]:
    """What looks odd about the labels of a split that has been read."""
    where = split.files[0] if split.files else dataset.name
    rows, names = tally.counters["rows_used"], dataset.label_names
    found = []
    if options.drop_labels and split.labelled and not tally.dropped["drop_labels"]:
        line = f"{opt('drop_labels', options.drop_labels)}: no row of the {split.name} split has such a label"
        found.append(str(Message(line)))
    if split.name == "train" and tally.labels:
        if len(tally.labels) == 1 and rows > 1:
            found.append(f"all {rows} training rows have the label {names[next(iter(tally.labels))]!r}")
        if not dataset.choices:
            counts = {names[number]: count for number, count in tally.labels.items()}
            found += class_warnings(names, counts, rows, given_labels(options.labels), options.on_bad_row == "skip")
    return [f"{where}: {line}" for line in found]


def _paragraphs(split: Split, tally: Tally) -> Iterator[tuple[Paragraph, int]]:
    for item in split.rows():
        if isinstance(item, BadRow):
            tally.drop(item)
        elif isinstance(item, Note):
            tally.note(item)
        else:
            tally.counters["paragraphs"] += 1
            tally.counters["questions"] += len(item.questions)
            tally.counters["impossible"] += sum(question.impossible for question in item.questions)
            yield item, len(item.context) + sum(len(question.text) for question in item.questions)


class ExamplesFile:
    """`dev.examples.jsonl.gz`: a line a question with all that scoring needs, once.

    Keys: example_id, question, context, answers (texts and starts as in the source), is_impossible.
    """

    def __init__(self, path: Path) -> None:
        self._raw = open(path, "wb")  # noqa: SIM115 (closed below)
        self._file = gzip.GzipFile("", "wb", 6, self._raw, mtime=0)

    def add(self, paragraphs: Paragraphs) -> None:
        contexts = [c for c, count in zip(paragraphs.contexts, paragraphs.counts, strict=True) for _ in range(count)]
        columns = (paragraphs.ids, paragraphs.questions, contexts, paragraphs.answers, paragraphs.impossible)
        for values in zip(*columns, strict=True):
            line = dict(zip(("example_id", "question", "context", "answers", "is_impossible"), values, strict=True))
            self._file.write((json.dumps(line, ensure_ascii=True) + "\n").encode())

    def close(self) -> None:
        self._file.close()
        self._raw.close()
