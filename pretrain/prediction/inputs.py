"""What is predicted for: the rows of a table or of SQuAD's JSON, or the windows of records."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from pathlib import Path

from nlpdata.errors import DataError, Message, UsageError, opt
from nlpdata.files import PathName
from nlpdata.files.compression import plain_file_name
from nlpdata.finetuning.batches import Tally
from nlpdata.finetuning.datasets import BadRow
from nlpdata.finetuning.squad import Note, Paragraph, Question, is_named_squad, read_squad
from nlpdata.finetuning.tables import TableForm, count_rows
from pretrain.prediction.batching import Example
from pretrain.prediction.predictor import Facts
from pretrain.prediction.questions import windows_of_records
from pretrain.prediction.rows import (
    CHOICES,
    QUESTIONS,
    TEXTS,
    InputOptions,
    Kind,
    Row,
    input_form,
    input_path,
    read_rows,
)
from pretrain.prediction.scoring import with_labels, with_right_choices

_log = logging.getLogger(__name__)

SQUAD, RECORDS = "squad", "records"


@dataclass
class Input:
    """An input that is open: its columns are known, and its first row has been read.

    Attributes:
      tally: the rows that were left out.
      total: what the lines of the rows go up to; None where that is not known before.
      rows: the rows, where there are no windows.
      windows: those of records.
      negative: whether questions may have no answer, as the file says; None where it does not.
      golds: question id -> the texts of its answers, of SQuAD's JSON; None where no answer is known.
    """

    tally: Tally
    total: int | None
    rows: Iterable[Row] = ()
    windows: Iterable[Example] | None = None
    negative: bool | None = None
    golds: dict[str, list[str]] | None = None


def form_of_input(given: PathName, options: InputOptions, facts: Facts) -> tuple[Path, TableForm]:
    """(the file, how it is read): as a table, or with the name "squad" or "records".

    UsageError where there is no such file, or options do not fit.
    """
    if options.choice_columns is not None and facts.head != "choice":
        raise UsageError(
            f"{opt('choice_columns')}: {facts.source} is not a multiple-choice model: its rows have no choices."
        )
    if facts.head != "span":
        path = input_path(given)
        return path, input_form(path, options, kind_of_rows(facts.head))
    path = Path(given)
    is_squad = is_named_squad(path.name)
    if options.input_format is None and (is_squad or not _is_table(path)):
        if options.given:
            what = "SQuAD's JSON" if is_squad else "records"
            raise UsageError(
                f"{opt(next(iter(options.given)))}: {path} is read as {what}, which has no columns. Name its format, e.g. "
                f"{opt('input_format', 'jsonl')}."
            )
        return (input_path(given), TableForm(SQUAD)) if is_squad else (path, TableForm(RECORDS))
    path = input_path(given)
    return path, input_form(path, options, QUESTIONS)


def kind_of_rows(head: str) -> Kind:
    """What the rows hold that a head predicts for."""
    return {"span": QUESTIONS, "choice": CHOICES}.get(head, TEXTS)


def _is_table(path: Path) -> bool:
    return (
        str(path) == "-"
        or plain_file_name(path.name).endswith((".csv", ".tsv", ".jsonl", ".parquet", ".txt"))
        or str(path).startswith("/dev/")
    )


def open_input(path: Path, form: TableForm, options: InputOptions, facts: Facts, count: bool) -> Input:
    """Opens an input; count: look at the whole file for `total`, where it is a file.

    Raises UsageError where its columns are not there, DataError where it has nothing to predict for, or is damaged.
    """
    tally, most = Tally(skip=options.on_bad_row == "skip" or form.name == SQUAD), options.max_rows
    kind = kind_of_rows(facts.head)
    if most is not None:
        what = "rows" if kind is not QUESTIONS else kind.what
        _log.info(Message(f"{opt('max_rows', most)}: later {what} are not taken"))
    if form.name == RECORDS:
        count_all, negative, windows = windows_of_records(str(path), facts.encoder)
        if most is None:
            return Input(tally, count_all, windows=windows, negative=negative)
        first = takewhile(lambda each: each.owner.asking.number < most, windows)
        return Input(tally, None, windows=first, negative=negative)
    if form.name == SQUAD:
        questions, negative, golds = _squad_rows(path, tally)
        questions = questions[:most]
        if golds is not None:
            golds = {row.name: golds[row.name] for row in questions}  # others would be wrong for want of an answer
        rows = _some(iter(questions), path, QUESTIONS)
        return Input(tally, len(questions), rows, negative=negative, golds=golds)
    rows = _good(islice(read_rows(path, form, options, kind), most), tally)
    if options.label_column is not None and facts.head == "choice":
        rows = with_right_choices(rows, path, tally)
    elif options.label_column is not None and facts.classes is not None:
        rows = with_labels(rows, path, facts.classes, tally)
    total = count_rows(path, form) if count and path.is_file() else None
    return Input(tally, total if total is None or most is None else min(total, most), _some(rows, path, kind))


def _good(rows: Iterable[Row | BadRow], tally: Tally) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, BadRow):
            tally.drop(row)
        else:
            yield row


def _some(rows: Iterator[Row], path: Path, kind: Kind) -> Iterator[Row]:
    """The rows, of which the first is read now."""
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path} holds no {kind.what} that can be used.")
    return chain([first], rows)


def _squad_rows(path: Path, tally: Tally) -> tuple[list[Row], bool, dict[str, list[str]] | None]:
    """(the questions of SQuAD's JSON, whether some have no answer, the texts of the answers; None where none is known)."""
    rows: list[Row] = []
    golds: dict[str, list[str]] = {}
    impossible = False
    for item in read_squad(path, "test", None):
        if isinstance(item, BadRow):
            tally.drop(item)
        elif isinstance(item, Paragraph):
            rows += [Row(each.id, each.text, item.context, len(rows) + 1) for each in item.questions]
            golds |= {each.id: _texts(each, path, tally) for each in item.questions}
            impossible = impossible or any(each.impossible for each in item.questions)
        else:
            assert isinstance(item, Note)
            tally.note(item)
    return rows, impossible, golds if impossible or any(golds.values()) else None


def _texts(question: Question, path: Path, tally: Tally) -> list[str]:
    """The texts of a question's answers. What is not one is noted: it is not needed to predict."""
    texts = [each.get("text") if isinstance(each, dict) else None for each in question.answers]
    good = [text for text in texts if isinstance(text, str)]
    if len(good) < len(texts):
        what = f"an answer of question {question.id[:60]} has no text, and is not compared with"
        tally.note(Note("no_answer", f"{path}: {what}"))
    return good
