"""The rows that predictions are made for: read by create-finetuning's readers, from a file or standard input, as they come."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from nlpdata.errors import DataError, Message, NlpdataError, UsageError, closest, opt
from nlpdata.files import PathName
from nlpdata.files.paths import absent
from nlpdata.finetuning.choice_columns import choice_columns, choice_texts
from nlpdata.finetuning.datasets import BadRow
from nlpdata.finetuning.dialects import check_table_options, recognise
from nlpdata.finetuning.tables import READERS, TableForm, form_of, is_column_number, read_table, text_fault
from nlpdata.options import check_range
from nlpdata.records.meta_types import LEAST_CHOICES, MOST_CHOICES
from pretrain.settings.fields import MOST

_log = logging.getLogger(__name__)

STANDARD_INPUT = Path("/dev/stdin")
_NAMES = ("index", "id")  # columns that name the rows
_NAMES_HERE = {"format": "input_format"}  # create-finetuning's name of an option -> that of predict


class Row(NamedTuple):
    """What is predicted for.

    name: its index. first: the text, the first of a pair, or the question. second: the second text, or the context; "" where
    there is none. line: where it stands in the file, or its number. label: what the prediction is compared with; None: nothing.
    choices: of which one is to be chosen; `first` is then their context, `second` the question.
    """

    name: str
    first: str
    second: str
    line: int = 0
    label: Any = None
    choices: tuple[str, ...] = ()


class Asked(NamedTuple):
    """What is kept of a row while its prediction is made.

    name, line: of the row. is_empty: whether there is nothing to predict for. row: itself, where it has a label.
    """

    name: str
    line: int
    is_empty: bool
    row: Row | None = None


class Kind(NamedTuple):
    """What rows hold: names of columns that are looked for, in this order, and whether there must be two texts.

    choices: names of the column with a list of choices; () where rows have none.
    """

    what: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    pairs: bool
    choices: tuple[str, ...] = ()


TEXTS = Kind(
    "texts",
    ("text", "text_a", "question", "sentence", "sentence1", "question1", "#1 String", "premise"),
    ("text_b", "sentence2", "question2", "#2 String", "hypothesis"),
    False,
)
QUESTIONS = Kind("questions", ("question",), ("context", "paragraph", "passage"), True)
CHOICES = Kind(
    "choices",
    ("context", "article", "passage", "paragraph", "text", "sent1"),
    ("question", "sent2"),
    False,
    ("choices", "options", "endings"),
)
_NUMBERED = ("ending", "choice", "option")  # ending0, ending1, ...: columns of one choice each


@dataclass(frozen=True)
class InputOptions:
    """How the input is read.

    Attributes:
      input_format: csv, tsv, jsonl, parquet or text (one text a line); None: by the name, of standard input text.
      text_column: of the text, the first of a pair, or the question; None: the first of Kind.first that is there.
      text_b_column: of the second text, or the context; None: the first of Kind.second that is there.
      choice_columns: those of the choices, comma-separated, or the one column of a list of them; None: a list in choices,
        options or endings, else ending0, ending1, ... (or choice0, option0).
      index_column: names the rows; None: index or id, else their number.
      label_column: of the label that the prediction is compared with; None: nothing is compared.
      delimiter: of CSV and TSV; None: by the content, or of a pipe by the format.
      encoding: of all but Parquet; None: UTF-8, or what the first bytes say.
      header: the first line of CSV and TSV names the columns; else they are numbered from 0.
      on_bad_row: fail: stop at a row that cannot be used; skip: leave it out and count it.
      max_rows: take only so many rows, or questions, the first ones; those that are left out count, too. None: all.
    """

    input_format: str | None = None
    text_column: str | None = None
    text_b_column: str | None = None
    index_column: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    header: bool = True
    on_bad_row: str = "fail"
    label_column: str | None = None
    choice_columns: str | None = None
    max_rows: int | None = None

    def __post_init__(self) -> None:
        if self.max_rows is not None:
            check_range("max_rows", self.max_rows, 1, MOST)
        for name, value, known in (
            ("input_format", self.input_format, (None, *READERS)),
            ("on_bad_row", self.on_bad_row, ("fail", "skip")),
        ):
            if value not in known:
                words = [each for each in known if each]
                raise UsageError(
                    f"{opt(name)} must be one of {', '.join(words)}. Received: {value!r}.{closest(value, words)}"
                )

    @property
    def given(self) -> dict[str, str]:
        """The columns that the user names."""
        names = ("text_column", "text_b_column", "index_column", "label_column", "choice_columns")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def columns(self) -> list[str]:
        """The same, one by one."""
        return [*(name for option, name in self.given.items() if option != "choice_columns"), *self.choices]

    @property
    def choices(self) -> tuple[str, ...]:
        """The columns of choice_columns; () without it. UsageError where they are not names."""
        return () if self.choice_columns is None else choice_columns(self.choice_columns)


def input_path(given: PathName) -> Path:
    """The file of an input; "-" is standard input. UsageError where there is none."""
    path = STANDARD_INPUT if str(given) == "-" else Path(given).expanduser()
    if not path.exists():
        raise UsageError(f"{opt('input')}: {absent(path)}")
    if path.is_dir():
        raise UsageError(f"{opt('input')}: {path} is a folder; expected a file.")
    return path


def input_form(path: Path, options: InputOptions, kind: Kind) -> TableForm:
    """How an input is read: by options, else by its name and content. `.txt` and unknown names are lines of text."""
    name = options.input_format or form_of(path)
    if name is None or (options.input_format is None and ".txt" in path.suffixes[-2:]):
        name = "text"
    if name == "parquet" and not path.is_file():
        raise UsageError(f"{opt('input')}: Parquet is read from a file, not from {path}.")
    if name == "text":
        return _text_form(path, options, kind)
    wanted = options.columns or [*kind.first, *kind.second, *kind.choices]
    with _own_words():
        form, note = recognise(
            path,
            wanted,
            format=options.input_format,
            delimiter=options.delimiter,
            encoding=options.encoding,
            header=options.header,
        )
    if note:
        _log.info(note)
    return form


def _text_form(path: Path, options: InputOptions, kind: Kind) -> TableForm:
    table = f"Name its format, e.g. {opt('input_format', 'csv')}."
    if kind.pairs or kind.choices:
        columns = " and ".join((kind.first[0], (kind.choices or kind.second)[0]))
        raise UsageError(
            f"{path}: {kind.what} are read from a table with the columns {columns}, not from lines of text. {table}"
        )
    needless = [*options.given, *(["delimiter"] if options.delimiter is not None else [])]
    if needless:
        raise UsageError(f"{opt(needless[0])}: {path} is read as text, one a line, which has no columns. {table}")
    check_table_options(None, options.encoding)
    return TableForm("text", "", options.encoding)


def read_rows(path: Path, form: TableForm, options: InputOptions, kind: Kind) -> Iterator[Row | BadRow]:
    """The rows of a file in order; those that cannot be used count, too, where rows are named by their number.

    Raises UsageError where columns are missing, DataError, with the line, where the file is damaged.
    """
    chosen = _Columns(path, form.name, options, kind)
    with _own_words():
        for number, item in enumerate(read_table(path, form, chosen, options.header)):
            if isinstance(item, BadRow):
                yield BadRow(item.reason, Message(item.message).renamed(_NAMES_HERE))
                continue
            yield chosen.row(number, *item)


@contextmanager
def _own_words() -> Iterator[None]:
    """Errors of create-finetuning's functions name the options of predict."""
    try:
        yield
    except NlpdataError as error:
        raise type(error)(error.message.renamed(_NAMES_HERE)) from None


class _Columns:
    """Chooses the columns of a file from its header, and turns their values into rows.

    Objects of JSON lines need not have the same keys: the texts are those of the first object, the name each one's own.
    """

    def __init__(self, path: Path, form: str, options: InputOptions, kind: Kind) -> None:
        self._path, self._form, self._options, self._kind = path, form, options, kind
        self._texts: dict[str, str | int] = {}
        self._here: dict[str, str | int] = {}  # of the row that is read
        self._late: str | None = None  # a second text that the rows before did not have

    def __call__(self, header: Sequence[str]) -> Sequence[str | int]:
        if self._form in ("csv", "tsv") and not self._options.header:
            self._here = self._by_number()
            return list(self._here.values())
        if not self._texts:
            self._texts = self._by_name(header)
        elif "second" not in self._texts:
            self._late = self._second(header, self._texts["first"])
        name = self._options.index_column or _first(_NAMES, header)
        self._here = self._texts | ({} if name is None else {"name": name})
        return list(self._here.values())

    def row(self, number: int, line: int, values: Sequence) -> Row | BadRow:
        """A row, from its number, and the line and the values that a reader gave."""
        if self._late is not None:
            raise DataError(
                f"{self._path}:{line}: this row has a second text, {self._late!r}, and the first one has none. Give pairs and "
                "single texts in two files."
            )
        found = dict(zip(self._here or {"first": "text"}, values, strict=True))
        name = found.get("name")
        for role in ("first", "second", "name"):
            if role not in found or (role == "name" and not isinstance(name, str)):
                continue
            if fault := text_fault(self._path, line, self._here.get(role, "text"), found[role]):
                return fault
        choices = self._choices_of(found, line)
        if isinstance(choices, BadRow):
            return choices
        named = str(number) if name is None else str(name)
        return Row(named, found["first"], found.get("second", ""), line, found.get("label"), choices)

    def _choices_of(self, found: dict[str, Any], line: int) -> tuple[str, ...] | BadRow:
        """The choices of a row, from its values by role."""
        if not self._kind.choices:
            return ()
        columns = {self._here[role]: value for role, value in found.items() if role.startswith("choice ")}
        return choice_texts(self._path, line, [*columns], [*columns.values()])

    def _by_number(self) -> dict[str, str | int]:
        options = self._options
        roles = {
            "first": "text_column", "second": "text_b_column", "name": "index_column", "label": "label_column",
        }  # fmt: skip
        given = [(role, option, getattr(options, option)) for role, option in roles.items()]
        given += [(f"choice {number}", "choice_columns", name) for number, name in enumerate(options.choices)]
        required = ("first", "second") if self._kind.pairs else ("first",)
        if self._kind.choices and not options.choices:
            raise UsageError(
                f"{opt('choice_columns')} is missing: without a header, columns are numbers from 0, e.g. "
                f"{opt('choice_columns', '2,3,4,5')}."
            )
        columns: dict[str, str | int] = {}
        for role, option, value in given:
            if value is None and role in required:
                raise UsageError(
                    f"{opt(option)} is missing: without a header, columns are numbers from 0, e.g. {opt(option, 0)}."
                )
            if value is not None and not is_column_number(value):
                raise UsageError(f"{opt(option)}: without a header, a column is a number from 0. Received: {value!r}.")
            if value is not None:
                columns[role] = int(value)
        return columns

    def _by_name(self, header: Sequence[str]) -> dict[str, str | int]:
        first = self._options.text_column or _first(self._kind.first, header)
        if first is None:
            raise self._missing("text_column", self._kind.first, header)
        second = self._second(header, first)
        if second is None and self._kind.pairs:
            raise self._missing("text_b_column", self._kind.second, header)
        columns = ("first", first), ("second", second), ("label", self._options.label_column)
        choices: dict[str, str | int] = {f"choice {number}": name for number, name in enumerate(self._choices(header))}
        return choices | {role: name for role, name in columns if name is not None}

    def _choices(self, header: Sequence[str]) -> Sequence[str]:
        """The columns of the choices, or the one of lists of them."""
        known = self._kind.choices
        if not known or self._options.choices:
            return self._options.choices
        if (name := _first(known, header)) is not None:
            return [name]
        for stem in _NUMBERED:
            names = list(
                takewhile(lambda name: name in header, (f"{stem}{number}" for number in range(MOST_CHOICES + 1)))
            )
            if len(names) >= LEAST_CHOICES:
                return names
        raise self._missing("choice_columns", (*known, f"{_NUMBERED[0]}0"), header)

    def _second(self, header: Sequence[str], first: str | int) -> str | None:
        others = [name for name in self._kind.second if name != first]
        if first == "question" and not self._kind.pairs:
            others.insert(0, "sentence")
        return self._options.text_b_column or _first(others, header)

    def _missing(self, option: str, known: Sequence[str], header: Sequence[str]) -> UsageError:
        have = ", ".join(name[:40] for name in header[:12]) or "no columns"
        row = f" Or is the first line a row? Then use {opt('header', False)}." if self._form in ("csv", "tsv") else ""
        return UsageError(
            f"{self._path}: no column of {self._kind.what}: none is called {', '.join(known)}. It has {have}. Name one with "
            f"{opt(option)}.{row}"
        )


def _first(names: Sequence[str], header: Sequence[str]) -> str | None:
    return next((name for name in names if name in header), None)
