"""RACE (Lai et al. 2017), and SWAG (Zellers et al. 2018), as they are published: four texts compete in each row.

RACE: {train,dev,test}/{middle,high}, each with articles as JSON lines: a file an article (1.txt, 2.txt, ...), or all of them in
all.txt. run_race.py of google-research/albert reads either, in the order of the file system; here middle is before high, and files
are in the order of their numbers. SWAG: train.csv, val.csv, test.csv. All of these may be compressed.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.compression import find_file, plain_file_name
from nlpdata.files.unpacking import unpacked
from nlpdata.finetuning.choice import with_choice
from nlpdata.finetuning.datasets import BadRow, Dataset, Row, Split, one_input
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.tables import TableForm, column_names, read_table, text_fault

CHOICES = 4
LEVELS = ("middle", "high")
_SPLITS = ("train", "dev", "test")
_RACE = "train, dev and test, each with middle and high"
_KEYS = ("article", "questions", "options", "answers")
_JOINED = "all.txt"
_SWAG = {"train": "train.csv", "dev": "val.csv", "test": "test.csv"}
_SWAG_FOLDERS = ("", "swag", "SWAG", "data", "swagaf/data", "swagaf-master/data")
_ENDINGS = tuple(f"ending{number}" for number in range(CHOICES))


def open_race(name: str, inputs: Sequence[str], options: FinetuningOptions) -> Dataset:
    """--input is the folder of RACE, the folder that holds it, or an archive of either.

    The training split has both levels; dev and test have a split of each. Tests have labels.
    """
    path = unpacked(one_input(inputs, "the folder of RACE"))
    folder = _folder(path, ("", "RACE"), [f"{split}/{level}" for split in _SPLITS for level in LEVELS])
    if folder is None:
        raise UsageError(f"{opt('input')}: {path} is not the folder of RACE; expected {_RACE}.")
    levels = [options.level] if options.level else LEVELS
    places = [(split, level) for split in _SPLITS for level in levels]
    articles = {place: _articles(folder.joinpath(*place)) for place in places}
    files: dict[str, tuple[Path, ...]] = {}
    for (split, level), own in articles.items():
        name = split if split == "train" else f"{split}_{level}"
        files[name] = (*files.get(name, ()), *own)
    splits = [Split(name, own, partial(_race_rows, own, options.blank)) for name, own in files.items() if own]
    if not splits:
        raise DataError(
            f"{folder}: holds no articles (1.txt, 2.txt, ... or all.txt) in its folders {' and '.join(levels)}"
        )
    _refuse_missing("RACE", folder, splits, options)
    empty = [folder.joinpath(*place) for place, own in articles.items() if not own]
    warnings = () if options.splits else tuple(f"{place} holds no articles" for place in empty)
    return Dataset("RACE", "choice", tuple(splits), warnings=warnings, choices=CHOICES)


def open_swag(name: str, inputs: Sequence[str], options: FinetuningOptions) -> Dataset:
    """--input is the folder of train.csv, val.csv and test.csv, a folder that holds it, or an archive of either."""
    path = unpacked(one_input(inputs, "the folder of SWAG"))
    folder = _folder(path, _SWAG_FOLDERS, list(_SWAG.values()))
    if folder is None:
        raise UsageError(f"{opt('input')}: {path} is not the folder of SWAG; expected {', '.join(_SWAG.values())}.")
    form = TableForm("csv")
    splits = []
    for split, file in _SWAG.items():
        if source := find_file(folder, file):
            labelled = split != "test" or "label" in column_names(source, form)
            splits.append(Split(split, (source,), partial(_swag_rows, source, form, options.blank, labelled), labelled))
    _refuse_missing("SWAG", folder, splits, options)
    return Dataset("SWAG", "choice", tuple(splits), choices=CHOICES)


def _folder(path: Path, names: Sequence[str], inside: Sequence[str]) -> Path | None:
    """The first of the folders that has one of the files or folders which a dataset has."""
    folders = [path / name for name in names] if path.is_dir() else []
    return next((folder for folder in folders if find_file(folder, *inside)), None)


def _refuse_missing(name: str, folder: Path, splits: Sequence[Split], options: FinetuningOptions) -> None:
    """DataError where training or dev data is missing, unless --splits says which splits are wanted."""
    have = [split.name for split in splits]
    for kind in ("train", "dev"):
        if not options.splits and not any(each.startswith(kind) for each in have):
            raise DataError(
                f"{folder}: {name} without its {kind} split. Add it, or make only the splits that are there: "
                f"{opt('splits', ','.join(have))}"
            )


def _articles(folder: Path) -> list[Path]:
    """The files of a level, compressed or not: all.txt where it is there, else one an article, by number.

    DataError where one of them is not a file: an article that cannot be read is not left out in silence.
    """
    if joined := find_file(folder, _JOINED):
        return [joined]
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        name = plain_file_name(path.name)
        if name.endswith(".txt") and not name.startswith("."):  # macOS puts ._1.txt next to 1.txt
            files.setdefault(name.removesuffix(".txt"), path)
    for path in files.values():
        if not path.is_file():
            raise DataError(
                f"{path}: a folder, a pipe or a link to nothing, expected an article. Restore it, or remove it"
            )
    return [files[name] for name in sorted(files, key=lambda name: (int(name) if name.isdecimal() else 0, name))]


def _race_rows(files: Sequence[Path], blank: str | None) -> Iterator[Row | BadRow]:
    for path in files:
        for item in read_table(path, TableForm("jsonl"), _KEYS):
            if isinstance(item, BadRow):
                yield item
            else:
                yield from _questions(path, item[0], dict(zip(_KEYS, item[1], strict=True)), blank)


def _questions(path: Path, line: int, article: Mapping[str, Any], blank: str | None) -> Iterator[Row | BadRow]:
    """A row of each question of an article."""
    context = article["article"]
    lists = {key: article[key] for key in _KEYS[1:]}
    sizes = {key: len(value) if isinstance(value, list) else -1 for key, value in lists.items()}
    if fault := text_fault(path, line, "article", context):
        yield fault
        return
    if len(set(sizes.values())) > 1 or -1 in sizes.values():
        found = ", ".join(f"{key} {size if size >= 0 else 'not a list'}" for key, size in sizes.items())
        yield BadRow("article", f"{path}:{line}: expected lists of one length. Received: {found}. Correct the row")
        return
    for number, (question, choices, answer) in enumerate(zip(*lists.values(), strict=True)):
        texts = choices if isinstance(choices, list) else [choices]
        named = [(f"questions[{number}]", question), *((f"options[{number}]", text) for text in texts)]
        if fault := next(filter(None, (text_fault(path, line, *each) for each in named)), None):
            yield fault
            continue
        where = f"{path}:{line}, question {number}"
        yield Row(context, None, answer, where, tuple(with_choice(question, text, blank) for text in texts))


def _swag_rows(path: Path, form: TableForm, blank: str | None, labelled: bool) -> Iterator[Row | BadRow]:
    columns = ("sent1", "sent2", *_ENDINGS, *(["label"] if labelled else []))
    for item in read_table(path, form, columns):
        if isinstance(item, BadRow):
            yield item
            continue
        line, (context, begun, *rest) = item
        texts = tuple(with_choice(begun, text, blank) for text in rest[:CHOICES])
        yield Row(context, None, rest[CHOICES] if labelled else None, line, texts)
