"""A user's own files: CSV, TSV, JSON lines or Parquet with a text, maybe more of them, and a label a row.

A split may have several files, of several formats; their rows follow each other.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlpdata import keys
from nlpdata.errors import HALF, DataError, UsageError, opt
from nlpdata.files import PathNames
from nlpdata.files.json_kinds import is_characters
from nlpdata.files.paths import absent
from nlpdata.files.patterns import as_names, each_named, find_paths
from nlpdata.finetuning.choice import with_choice
from nlpdata.finetuning.choice_columns import choice_columns, choice_texts
from nlpdata.finetuning.datasets import BadRow, Dataset, Row, Split, refusal, refuse_pipe, warn_of_known
from nlpdata.finetuning.dialects import recognise
from nlpdata.finetuning.label_names import given_labels, is_label, label_name, label_parts, sorted_labels
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.tables import (
    MissingColumn,
    TableForm,
    column_names,
    is_column_number,
    read_table,
    shown,
    text_fault,
)

_log = logging.getLogger(__name__)

Rows = Callable[[], Iterator[Row | BadRow]]
_REPORTED_BYTES = 64 << 20  # a file that takes its time is named
_KINDS = {"classification": "classification", "pair": "classification"}


def open_tabular(name: str, inputs: Sequence[str], options: FinetuningOptions) -> Dataset:
    """--input is the training files; dev and test are --dev-input and --test-input, or dev is a share of the rows."""
    texts = {
        "train": ("input", inputs),
        "dev": ("dev_input", options.dev_input or ()),
        "test": ("test_input", options.test_input or ()),
    }
    files = {split: found for split, (option, given) in texts.items() if (found := _files(option, given))}
    if not files:
        raise UsageError(f"{opt('input')} is missing, e.g. {opt('input', 'train.csv')}.")
    train = files.get("train")
    if options.eval_fraction and train is None:
        raise UsageError(f"{opt('eval_fraction')} is a share of the rows of {opt('input')}, which is missing.")
    for path in (path for paths in files.values() for path in paths):
        if path.is_file() and (size := path.stat().st_size) >= _REPORTED_BYTES:
            _log.info(f"{path}: is looked through first, for its format and its labels ({size >> 20} MiB)")
    kind = _KINDS.get(name, name)
    sources = {split: [_source(path, name, options) for path in paths] for split, paths in files.items()}
    labelled = {split: split != "test" or any(each.has_label for each in sources[split]) for split in files}
    readers = {
        split: _joined(files[split], [_reader(source, labelled[split], name, options) for source in sources[split]])
        for split in files
    }
    labels = given_labels(options.labels or None) or None
    if kind not in ("regression", "choice") and labels is None:
        if train is None:
            raise UsageError(f"{opt('labels')} is missing: without training rows the label names must be given.")
        labels = _discover(_named(train), readers["train"], kind, options)
    splits = [Split(split, files[split], readers[split], labelled[split]) for split in files]
    if train is not None and options.eval_fraction:
        splits[0:1] = _divide(train, readers["train"], kind, options)
    choices = 0
    if kind == "choice":
        first = next(iter(files))  # train, where it is there
        choices = _count_choices(sources[first], readers[first], options)
    return Dataset(name, kind, tuple(splits), labels, warn_of_known(files), choices)


def _files(option: str, given: PathNames) -> tuple[Path, ...]:
    """The files that the paths and patterns of an option name, in their order; those of one pattern by name."""
    files: list[Path] = []
    for text in as_names(given):
        if not text.strip(" ,"):
            raise UsageError(f"{opt(option)}: received {text!r}, expected a path.")
        for part, found in each_named(text, find_paths):
            if not found:
                why = f"{part} matches no file." if has_magic(part) else absent(Path(part).expanduser())
                raise UsageError(f"{opt(option)}: {why}")
            files += map(Path, found)
    names: dict[Path, Path] = {}
    for path in files:
        first = names.setdefault(path.resolve(), path)
        if first is not path:
            again = "twice" if first == path else f"twice, as {first}, too"
            raise UsageError(f"{opt(option)} names {path} {again}. Name it once: its rows would count twice.")
    return tuple(files)


def _joined(paths: Sequence[Path], readers: Sequence[Rows]) -> Rows:
    """The rows of several files, one after the other; each knows its file."""
    if len(readers) == 1:
        return readers[0]

    def rows() -> Iterator[Row | BadRow]:
        for path, reader in zip(paths, readers, strict=True):
            for row in reader():
                yield row if isinstance(row, BadRow) else row._replace(where=f"{path}:{row.where}")

    return rows


def _named(paths: Sequence[Path]) -> str:
    """Files in a message."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


class _Source(NamedTuple):
    """A file: how it holds its rows, and its columns as given or by default."""

    path: Path
    form: TableForm
    text: str | int
    text_b: str | int | None
    label: str | int
    choices: tuple[str | int, ...] = ()  # columns of the texts that compete, or the one column of lists of them

    @property
    def columns(self) -> list[str | int]:
        """Those of the texts."""
        return [self.text, *([self.text_b] if self.text_b is not None else []), *self.choices]

    @property
    def names(self) -> list[str]:
        return column_names(self.path, self.form)

    @property
    def has_label(self) -> bool:
        return self.label < len(self.names) if isinstance(self.label, int) else self.label in self.names


def _source(path: Path, dataset: str, options: FinetuningOptions) -> _Source:
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder; expected files: .csv, .tsv, .jsonl or .parquet. Name those in it: '{path}/*.parquet'."
        )
    refuse_pipe(path)
    choices = choice_columns(options.choice_columns or "choices") if dataset == "choice" else ()
    given = [options.text_column or "text", options.text_b_column, *choices, options.label_column or "label"]
    form, note = recognise(
        path,
        [name for name in given if name is not None],
        format=options.format,
        delimiter=options.delimiter,
        encoding=options.encoding,
        header=options.header,
    )
    if note:
        _log.info(note)
    if len(choices) == 1 and form.name in ("csv", "tsv"):
        expected = f"{opt('choice_columns')} must name two columns or more of {path}, with commas between them"
        raise UsageError(f"{expected}: only JSON lines and Parquet have lists. Received: {choices[0]}.")
    return _Source(path, form, *_columns(form, choices, options))


def _columns(
    form: TableForm, choices: tuple[str, ...], options: FinetuningOptions
) -> tuple[str | int, str | int | None, str | int, tuple[str | int, ...]]:
    """The columns of the text, the second text (if any), the label and the choices, as given or by default."""
    text, text_b, label = options.text_column or "text", options.text_b_column, options.label_column or "label"
    if options.header or form.name in ("jsonl", "parquet"):
        return text, text_b, label, choices
    if options.text_column is None:
        raise UsageError(
            f"{opt('text_column')} is missing: without a header, columns are numbers from 0, e.g. {opt('text_column', 0)}."
        )
    given = [("text_column", text), ("text_b_column", text_b), *(("choice_columns", name) for name in choices)]
    for flag, name in (*given, ("label_column", label)):
        if (
            name is not None
            and not is_column_number(name)
            and not (flag == "label_column" and options.label_column is None)
        ):
            raise UsageError(f"{opt(flag)}: without a header, a column is a number from 0. Received: {name!r}.")
    return _column(text), None if text_b is None else _column(text_b), _column(label), tuple(map(_column, choices))


def _column(name: str) -> str | int:
    return int(name) if is_column_number(name) else name


def _reader(source: _Source, labelled: bool, dataset: str, options: FinetuningOptions) -> Rows:
    path, form, _, text_b, label, _ = source
    if dataset == "pair" and text_b is None:
        found = ", ".join(source.names[:12])
        raise UsageError(
            f"{opt('text_b_column')} is missing: {opt('task', 'pair')} takes two texts a row. Columns of {path}: {found}."
        )
    if isinstance(label, str) and not label:
        raise UsageError(f"{opt('label_column')} is empty; expected the name of a column.")
    columns = source.columns
    if labelled:
        if label == "label" and options.label_column is None and not options.header and form.name in ("csv", "tsv"):
            raise UsageError(
                f"{opt('label_column')} is missing: without a header, columns are numbers from 0, e.g. {opt('label_column', 1)}."
            )
        columns.append(label)
    as_row = partial(_choice_row, source.choices, options.blank) if dataset == "choice" else _text_row
    return partial(_rows, source, columns, options.header, labelled, as_row)


def _rows(
    source: _Source, columns: Sequence[str | int], header: bool, labelled: bool, as_row: Callable[..., Row | BadRow]
) -> Iterator[Row | BadRow]:
    form = source.form
    named = " or ".join(map(opt, ("text_column", *(["choice_columns"] if source.choices else []), "label_column")))
    try:
        for number, item in enumerate(read_table(source.path, form, columns, header)):
            if isinstance(item, BadRow):
                if number == 0 and item.reason == "missing_key":
                    item = item._replace(message=f"{item.message}, or name its keys with {named}")
                yield item
                continue
            line, values = item
            label = values.pop() if labelled else None
            yield as_row(source.path, line, columns, values, label)
    except MissingColumn as error:
        row = (
            f" Or is the first line a row? Then use {opt('header', False)}."
            if form.name in ("csv", "tsv") and header
            else ""
        )
        raise DataError(f"{error.message.text} Name it with {named}.{row}") from None


def _text_row(path: Path, line: int, columns: Sequence[str | int], values: list, label: object) -> Row | BadRow:
    faults = (text_fault(path, line, column, value) for column, value in zip(columns, values, strict=False))
    if fault := next(filter(None, faults), None):
        return fault
    return Row(values[0], values[1] if len(values) > 1 else None, label, line)


def _choice_row(
    choices: tuple[str | int, ...],
    blank: str | None,
    path: Path,
    line: int,
    columns: Sequence[str | int],
    values: list,
    label: object,
) -> Row | BadRow:
    first = len(values) - len(choices)
    row = _text_row(path, line, columns[:first], values[:first], label)
    if isinstance(row, BadRow):
        return row
    texts = choice_texts(path, line, choices, values[first:])
    if isinstance(texts, BadRow):
        return texts
    return Row(row.text_a, None, label, line, tuple(with_choice(row.text_b or "", text, blank) for text in texts))


def _count_choices(sources: Sequence[_Source], rows: Rows, options: FinetuningOptions) -> int:
    """How many texts compete: as many as in most rows. DataError where no row can be used."""
    if len(sources[0].choices) > 1:
        return len(sources[0].choices)
    found: Counter[int] = Counter()
    bad: BadRow | None = None
    for row in rows():
        if isinstance(row, Row):
            found[len(row.choices)] += 1
        elif options.on_bad_row == "fail":
            raise refusal(row)
        else:
            bad = bad or row
    if not found:
        name = _named([source.path for source in sources])
        raise DataError(
            f"{name}: no row can be used. The first one: {bad.message}" if bad else f"{name}: holds no rows"
        )
    return found.most_common(1)[0][0]


def _discover(files: str, rows: Rows, kind: str, options: FinetuningOptions) -> tuple[str, ...]:
    """The labels of the training rows: numbers by size, else in alphabetical order. DataError if there is only one."""
    found: Counter[str] = Counter()
    dropped = given_labels(options.drop_labels, "drop_labels")
    odd = bad = None  # the first value that is not a label, and the first row that cannot be used
    unnamed: str | None = None  # what is wrong with the first label that names no class
    row: Row | BadRow | None = None
    for row in rows():
        if isinstance(row, BadRow):
            if options.on_bad_row == "fail":
                raise refusal(row)
            bad = bad or row
            continue
        if odd is None and not is_label(row.label):
            odd = row.label
        names = label_parts(row.label, options.label_separator) if kind == "multilabel" else [label_name(row.label)]
        unnamed = unnamed or next(filter(None, (_unnamed(files, row, name) for name in names)), None)
        found.update(name for name in names if name and name not in dropped and is_characters(name))
    if row is None:
        raise DataError(f"{files}: holds no rows")
    column = options.label_column or "label"
    if not found and odd is None and bad is not None:
        raise DataError(f"{files}: no row can be used. The first one: {bad.message}")
    if len(found) < 2 and kind == "classification":
        if odd is not None:
            hint = f" For several labels a row use {opt('task', 'multilabel')}" if isinstance(odd, list) else ""
            raise DataError(
                f"{files}: column {column!r} has values such as {shown(odd)}, which name no class. "
                f"Is it the right {opt('label_column')}?{hint}"
            )
        if unnamed:
            others = f"only one class, {next(iter(found))!r}," if found else "no label"
            raise DataError(f"{unnamed}, and the other rows have {others} in column {column!r}. Correct the row")
        what = f"only one class, {next(iter(found))!r}" if found else "no label"
        raise DataError(
            f"{files}: {what} in column {column!r}: there is nothing to learn. Is it the right {opt('label_column')}? "
            f"({opt('labels')} names classes that these rows do not have)"
        )
    if not found:
        raise DataError(f"{files}: no label in column {column!r}. Is it the right {opt('label_column')}?")
    if len(found) > 1000 and len(found) * 2 > found.total():
        raise DataError(
            f"{files}: column {column!r} has {len(found)} different labels in {found.total()} rows: that looks like text. "
            f"Is it the right {opt('label_column')}? For numbers use {opt('task', 'regression')}"
        )
    return sorted_labels(found)


def _unnamed(file: str, row: Row, name: str | None) -> str | None:
    """What is wrong with a label that names no class; None where nothing is."""
    if name and is_characters(name):
        return None
    where = f"{file}:{row.where}" if isinstance(row.where, int) else row.where
    return f"{where}: the label {ascii(name)[:60]} has {HALF}" if name else f"{where}: no label"


def _divide(paths: tuple[Path, ...], rows: Rows, kind: str, options: FinetuningOptions) -> list[Split]:
    """Train and dev of the same rows: of each label the same share, chosen by hash of seed and row number."""
    labels: dict[str, list[int]] = {}
    for i, row in enumerate(rows()):
        name = label_name(row.label) if kind == "classification" and not isinstance(row, BadRow) else ""
        labels.setdefault(name or "", []).append(i)
    chosen: set[int] = set()
    for numbers in labels.values():
        draws = keys.draw(keys.fold(keys.fold_int(keys.ROOT, options.seed), np.array(numbers)), 0)
        order = np.argsort(draws, kind="stable")
        chosen.update(np.array(numbers)[order[: round(options.eval_fraction * len(numbers))]].tolist())
    if not chosen:
        share = opt("eval_fraction", options.eval_fraction)
        raise DataError(
            f"{_named(paths)}: {share} of {sum(map(len, labels.values()))} rows is none. Raise it, or give {opt('dev_input')}"
        )

    def part(inside: bool) -> Iterator[Row | BadRow]:
        return (row for i, row in enumerate(rows()) if (i in chosen) == inside)

    return [Split("train", paths, partial(part, False)), Split("dev", paths, partial(part, True))]
