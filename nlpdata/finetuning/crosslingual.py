"""XNLI (XNLI-1.0 with XNLI-MT-1.0's training files) and PAWS-X, in their official layouts.

The training split joins the files of the chosen languages in the order of their codes; dev holds all of them; tests
are one split a language.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.compression import find_file
from nlpdata.files.unpacking import unpacked
from nlpdata.finetuning.datasets import BadRow, Dataset, Row, Split, one_input, order_labels
from nlpdata.finetuning.glue import NLI_GLUE, NLI_TFDS
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.tables import read_tsv

PAWSX_FILES = {"train": ("train.tsv", "translated_train.tsv"), "dev": ("dev_2k.tsv",), "test": ("test_2k.tsv",)}


def _chosen(found: list[str], wanted: str | None, where: Path) -> list[str]:
    """The languages that --language names, of those that are there."""
    if not found:
        raise UsageError(f"{opt('input')}: {where} holds no files of this dataset's layout.")
    if not wanted or wanted == "all":
        return found
    languages = [language.strip() for language in wanted.split(",")]
    for language in languages:
        if language not in found:
            raise UsageError(f"{opt('language')}: {where} has no files of {language!r}. Found: {', '.join(found)}.")
    return sorted(languages)


def open_xnli(name: str, inputs: Sequence[str], options: FinetuningOptions) -> Dataset:
    """multinli/multinli.train.<language>.tsv, xnli.dev.tsv and xnli.test.tsv in one folder."""
    folder = unpacked(one_input(inputs, "the folder of XNLI"))
    named = {path.name.split(".")[2] for path in folder.glob("multinli/multinli.train.*.tsv*")}
    found = {code: find_file(folder, f"multinli/multinli.train.{code}.tsv") for code in sorted(named)}
    training = {code: path for code, path in found.items() if path}
    dev, test = find_file(folder, "xnli.dev.tsv"), find_file(folder, "xnli.test.tsv")
    splits = []
    chosen: list[str] | None = None
    if training:
        chosen = _chosen(sorted(training), options.language, folder / "multinli")
        files = tuple(training[language] for language in chosen)
        splits.append(Split("train", files, partial(_rows, files, ["premise", "hypo", "label"])))
    elif not options.splits:
        raise DataError(
            f"{folder}/multinli/multinli.train.en.tsv: missing. Add the training files, or use {opt('splits', 'dev')}"
        )
    columns = ["sentence1", "sentence2", "gold_label", "language"]
    wanted = None if options.language in (None, "all") else set(options.language.split(","))
    if dev:
        splits.append(Split("dev", (dev,), partial(_of_languages, dev, columns, wanted)))
    elif not options.splits:
        raise DataError(f"{folder / 'xnli.dev.tsv'}: missing. Add it, or use {opt('splits', 'train')}")
    if test:
        languages = sorted({item[1][0] for item in read_tsv(test, ["language"]) if not isinstance(item, BadRow)})
        for language in _chosen(languages, options.language, test):
            splits.append(Split(f"test_{language}", (test,), partial(_of_languages, test, columns, {language})))
    return Dataset(
        "XNLI", "classification", tuple(splits), order_labels(NLI_GLUE, NLI_GLUE, NLI_TFDS, options.label_order)
    )


def _of_languages(path: Path, columns: Sequence[str], languages: set[str] | None) -> Iterator[Row | BadRow]:
    for item in read_tsv(path, columns):
        if isinstance(item, BadRow):
            yield item
        elif languages is None or item[1][3] in languages:
            line, (a, b, label, _) = item
            yield Row(a, b, label, line)


def _rows(files: tuple[Path, ...], columns: Sequence[str]) -> Iterator[Row | BadRow]:
    for path in files:
        for item in read_tsv(path, columns):
            if isinstance(item, BadRow):
                yield item
                continue
            line, (a, b, label) = item
            # XNLI's training files say "contradictory" where all others say "contradiction".
            yield Row(a, b, "contradiction" if label == "contradictory" else label, f"{path}:{line}")


def open_pawsx(name: str, inputs: Sequence[str], options: FinetuningOptions) -> Dataset:
    """<language>/{train or translated_train,dev_2k,test_2k}.tsv in one folder."""
    folder = unpacked(one_input(inputs, "the folder of PAWS-X"))
    found = (
        sorted(path.name for path in folder.iterdir() if find_file(path, *PAWSX_FILES["dev"]))
        if folder.is_dir()
        else []
    )
    languages = _chosen(found, options.language, folder)
    columns = ["sentence1", "sentence2", "label"]
    splits = []
    for split in ("train", "dev"):
        files = tuple(_first(folder / language, PAWSX_FILES[split]) for language in languages)
        splits.append(Split(split, files, partial(_rows, files, columns)))
    for language in languages:
        path = find_file(folder / language, *PAWSX_FILES["test"])
        if path:
            splits.append(Split(f"test_{language}", (path,), partial(_rows, (path,), columns)))
    return Dataset("PAWS-X", "classification", tuple(splits), ("0", "1"))


def _first(folder: Path, names: tuple[str, ...]) -> Path:
    if path := find_file(folder, *names):
        return path
    raise DataError(f"{folder / names[0]}: missing. Add it, or leave this language out with {opt('language')}")
