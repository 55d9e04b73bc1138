"""Evaluation sets as texts: what create-finetuning reads, and text files of one row a line."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nlpdata.errors import UsageError, closest, opt
from nlpdata.files import PathNames
from nlpdata.files.paths import is_remote
from nlpdata.files.patterns import as_names, each_named, find_paths
from nlpdata.finetuning.datasets import DATASETS, OWN_FILES, SPELLINGS, BadRow, Dataset, Split, open_dataset, plain_name
from nlpdata.finetuning.dialects import recognise
from nlpdata.finetuning.lines import all_lines
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.squad import Paragraph, is_named_squad, read_squad
from nlpdata.finetuning.tables import form_of, read_table

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")


class Texts(NamedTuple):
    """A row: its texts, and where it is, as "file:line" or by a name."""

    texts: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class EvaluationSet:
    """A split of a dataset, or a file.

    Attributes:
      name: the file, or the files' folder.
      rows: reads it from the start: Texts, or a BadRow for a row that cannot be used.
    """

    name: str
    rows: Callable[[], Iterator[Texts | BadRow]]


def open_evaluation(paths: PathNames) -> list[EvaluationSet]:
    """The evaluation sets that paths, patterns or comma-separated lists of these name.

    A folder of a published dataset (glue/MRPC, aclImdb, ...) stands for its dev and test splits; a file in one is read as that
    dataset is. Of other tables (CSV, TSV, JSON lines, Parquet) every column that holds text counts, of SQuAD's form the questions
    and contexts, of other text files each line.

    Raises UsageError where nothing matches or a folder is of no known dataset, DataError where a file cannot be read.
    """
    found: dict[str, EvaluationSet] = {}
    for given in as_names(paths):
        for part, names in each_named(given, _find):
            if not names:
                raise UsageError(f"{opt('evaluation')}: {part!r} matches no file.")
            for name in names:
                found |= {each.name: each for each in _sets(Path(name))}
    return list(found.values())


def _find(pattern: str) -> list[str]:
    if is_remote(pattern):
        raise UsageError(
            f"{opt('evaluation')}: evaluation sets are read from this machine. Received: {pattern}. Copy it here."
        )
    return find_paths(pattern)


def _sets(path: Path) -> list[EvaluationSet]:
    if path.is_dir() or path.name.endswith(_ARCHIVES):
        name = _known(path.name if path.is_dir() else re.split("[._]", path.name)[0])
        if name is None:
            raise _unknown(path)
        splits = [split for split in _dataset(name, path).splits if not split.name.startswith("train")]
        if not splits:
            raise UsageError(f"{opt('evaluation')}: {path} has no dev and no test split.")
        return [each for split in splits for each in _of(split, path)]
    if not path.is_file():
        raise UsageError(f"{opt('evaluation')}: {path} is not a file.")
    if is_named_squad(path.name):
        return _of_squad(path)
    name, is_table = _known(path.parent.name), form_of(path) is not None
    if name is not None and is_table:
        own = [split for split in _dataset(name, path.parent).splits if path in split.files]
        if own:
            return [each for split in own for each in _of(split, path.parent)]
    return [EvaluationSet(str(path), partial(_table if is_table and ".txt" not in path.suffixes else _lines, path))]


def _of(split: Split, folder: Path) -> list[EvaluationSet]:
    if all(is_named_squad(path.name) for path in split.files):
        return [each for path in split.files for each in _of_squad(path)]
    name = str(split.files[0]) if len(split.files) == 1 else f"{folder} ({split.name})"
    return [EvaluationSet(name, partial(_rows, split))]


def _of_squad(path: Path) -> list[EvaluationSet]:
    return [EvaluationSet(f"{path} ({what})", partial(_squad, path, what)) for what in ("questions", "contexts")]


def _known(given: str) -> str | None:
    """The published dataset that a folder or an archive of this name holds."""
    plain = plain_name(given)
    name = SPELLINGS.get(plain, plain)
    return name if name in DATASETS and name not in OWN_FILES else None


def _unknown(path: Path) -> UsageError:
    known = [each for each in DATASETS if each not in OWN_FILES]
    return UsageError(
        f"{opt('evaluation')}: {path} is a folder or an archive, and its name is of no dataset that is known: {', '.join(known)}."
        f"{closest(path.name, known)} Name files."
    )


def _dataset(name: str, path: Path) -> Dataset:
    # The splits that are there: a folder may have any of them.
    return open_dataset([str(path)], FinetuningOptions(task=name, splits="train,dev,test", on_bad_row="skip"))


def _rows(split: Split) -> Iterator[Texts | BadRow]:
    for row in split.rows():
        if isinstance(row, BadRow):
            yield row
        else:
            where = f"{split.files[0]}:{row.where}" if isinstance(row.where, int) else row.where
            yield Texts((row.text_a, *([row.text_b] if row.text_b else []), *row.choices), where)


def _squad(path: Path, what: str) -> Iterator[Texts | BadRow]:
    number = 0
    for row in read_squad(path, "dev", None):
        if isinstance(row, BadRow) and what == "questions":
            yield row
        if not isinstance(row, Paragraph):
            continue
        number += 1
        if what == "questions":
            yield from (Texts((question.text,), f"{path}, question {question.id}") for question in row.questions)
        else:
            yield Texts((row.context,), f"{path}, context {number}")


def _table(path: Path) -> Iterator[Texts | BadRow]:
    form, _ = recognise(path, ())
    for item in read_table(path, form, _all_columns):
        if isinstance(item, BadRow):
            yield item
        else:
            line, values = item
            yield Texts(tuple(value for value in values if isinstance(value, str)), f"{path}:{line}")


def _all_columns(names: Sequence[str]) -> list[str | int]:
    return [name for name in names if list(names).count(name) == 1]


def _lines(path: Path) -> Iterator[Texts | BadRow]:
    for item in all_lines(path):
        if isinstance(item, BadRow):
            yield item
        elif item[1].strip():
            yield Texts((item[1],), f"{path}:{item[0]}")
