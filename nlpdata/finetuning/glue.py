"""GLUE datasets (https://gluebenchmark.com) in the standard folder layout: CoLA/{train,dev,test}.tsv and so on.

Label orders are those of the processors in google-research/bert's run_classifier.py, or with --label-order tfds those
of TensorFlow Datasets; they differ for MNLI, AX (and XNLI).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.compression import find_file
from nlpdata.files.unpacking import unpacked
from nlpdata.finetuning.datasets import BadRow, Dataset, Row, Split, one_input, order_labels
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.tables import read_tsv

NLI_GLUE = ("contradiction", "entailment", "neutral")
NLI_TFDS = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True)
class Layout:
    """Where a dataset keeps what: folder names, columns by header (by number where a file has none), label names."""

    name: str
    folders: tuple[str, ...]
    texts: tuple[str | int, ...]
    label: str | int
    labels: tuple[str, ...] | None  # None: a number (regression)
    splits: tuple[tuple[str, tuple[str, ...]], ...] = (("train", ("train.tsv",)), ("dev", ("dev.tsv",)))
    tests: tuple[tuple[str, tuple[str, ...]], ...] = (("test", ("test.tsv",)),)
    header: bool = True  # of train and dev; tests always have one
    test_texts: tuple[str, ...] | None = None  # None: as `texts`


_ORIGINAL_MRPC = "msr_paraphrase_train.txt"
_BINARY = ("0", "1")
_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_MNLI = {
    "matched": ("dev_matched.tsv", "test_matched.tsv"),
    "mismatched": ("dev_mismatched.tsv", "test_mismatched.tsv"),
}


def _mnli(*kinds: str) -> Layout:
    return Layout(
        "MNLI",
        ("MNLI",),
        _PAIR,
        "gold_label",
        NLI_GLUE,
        (("train", ("train.tsv",)), *((f"dev_{kind}", (_MNLI[kind][0],)) for kind in kinds)),
        tuple((f"test_{kind}", (_MNLI[kind][1],)) for kind in kinds),
    )


LAYOUTS = {
    "cola": Layout("CoLA", ("CoLA",), (3,), 1, _BINARY, header=False, test_texts=("sentence",)),
    "sst2": Layout("SST-2", ("SST-2", "SST2", "SST"), ("sentence",), "label", _BINARY),
    "mrpc": Layout("MRPC", ("MRPC",), ("#1 String", "#2 String"), "Quality", _BINARY),
    "stsb": Layout("STS-B", ("STS-B", "STSB", "STS"), _PAIR, "score", None),
    "qqp": Layout("QQP", ("QQP",), ("question1", "question2"), "is_duplicate", _BINARY),
    "mnli": _mnli("matched", "mismatched"),
    "mnlimatched": _mnli("matched"),
    "mnlimismatched": _mnli("mismatched"),
    "qnli": Layout("QNLI", ("QNLI", "QNLIv2"), ("question", "sentence"), "label", _ENTAILMENT),
    "rte": Layout("RTE", ("RTE",), _PAIR, "label", _ENTAILMENT),
    "wnli": Layout("WNLI", ("WNLI",), _PAIR, "label", _BINARY),
    "ax": Layout(
        "AX",
        ("AX", "diagnostic", "Diagnostic"),
        _PAIR,
        "",
        NLI_GLUE,
        (),
        (("test", ("AX.tsv", "ax.tsv", "diagnostic.tsv", "test.tsv")),),
    ),
}


def open_glue(name: str, inputs: Sequence[str], options: FinetuningOptions) -> Dataset:
    """A GLUE dataset; --input is its folder, or the folder that holds it. Files may be compressed."""
    layout = LAYOUTS[name]
    folder = _folder(layout, unpacked(one_input(inputs, f"the folder of {layout.name}")))
    labels = order_labels(layout.labels, NLI_GLUE, NLI_TFDS, options.label_order) if layout.labels else None
    missing: list[tuple[str, tuple[str, ...]]]
    if name == "mrpc" and not find_file(folder, "train.tsv") and find_file(folder, _ORIGINAL_MRPC):
        splits, missing = _original_mrpc(folder), []
    else:
        splits, missing = _splits(layout, folder, options.splits)
    kind = "classification" if labels else "regression"
    warnings = tuple(f"{folder} has no {' or '.join(names)}: no {split} split is made" for split, names in missing)
    return Dataset(layout.name, kind, tuple(splits), labels, warnings)


def _folder(layout: Layout, path: Path) -> Path:
    if not path.is_dir():
        raise UsageError(
            f"{opt('input')}: {path} is a file; expected the folder of {layout.name}, with {_expected(layout)}."
        )
    names = [name for _, files in (*layout.splits, *layout.tests) for name in (*files, _ORIGINAL_MRPC)]
    for folder in (path, *(path / name for name in layout.folders)):
        if find_file(folder, *names):
            return folder
    found = ", ".join(sorted(p.name for p in path.iterdir())[:8]) or "nothing"
    raise UsageError(
        f"{opt('input')}: {path} holds {found}; expected the folder of {layout.name}, with {_expected(layout)}."
    )


def _expected(layout: Layout) -> str:
    return ", ".join(names[0] for _, names in (*layout.splits, *layout.tests))


def _splits(layout: Layout, folder: Path, wanted: str | None) -> tuple[list[Split], list[tuple[str, tuple[str, ...]]]]:
    """The splits that are there, and those that are not. Training and dev data must be, unless --splits leaves it out."""
    splits, missing = [], []
    for labelled, sources in ((True, layout.splits), (False, layout.tests)):
        for name, files in sources:
            path = find_file(folder, *files)
            if path is None:
                missing.append((name, files))
                continue
            texts = layout.texts if labelled else layout.test_texts or layout.texts
            columns = [*texts, layout.label] if labelled else [*texts]
            rows = partial(read_rows, path, columns, layout.header or not labelled, labelled)
            splits.append(Split(name, (path,), rows, labelled))
    needed = [(name, files) for name, files in missing if name.startswith(("train", "dev"))]
    if needed and not wanted:
        have = ",".join(split.name for split in splits)
        raise DataError(
            f"{folder / needed[0][1][0]}: missing, so there is no {needed[0][0]} split. Add the file, or make only the "
            f"splits that are there: {opt('splits', have)}"
        )
    return splits, [item for item in missing if not wanted]


def read_rows(path: Path, columns: Sequence[str | int], header: bool, labelled: bool) -> Iterator[Row | BadRow]:
    """Rows of a TSV file whose wanted columns are one or two texts and, in a labelled split, the label."""
    for item in read_tsv(path, columns, header):
        if isinstance(item, BadRow):
            yield item
            continue
        line, values = item
        label = values.pop() if labelled else None
        yield Row(values[0], values[1] if len(values) > 1 else None, label, line)


def _original_mrpc(folder: Path) -> list[Split]:
    """Microsoft's own files: the development set is the training pairs that dev_ids.tsv names.

    As in GLUE, the test split is without labels.
    """
    train, test, ids = (find_file(folder, name) for name in (_ORIGINAL_MRPC, "msr_paraphrase_test.txt", "dev_ids.tsv"))
    assert train  # why this is called
    if not ids:
        raise DataError(
            f"{folder / 'dev_ids.tsv'}: missing. Expected it next to {train.name}, or train.tsv and dev.tsv"
        )
    columns = ["#1 String", "#2 String", "Quality", "#1 ID", "#2 ID"]
    named = {tuple(item[1]) for item in read_tsv(ids, [0, 1], header=False) if not isinstance(item, BadRow)}

    def rows(path: Path, keep: bool | None, labelled: bool) -> Iterator[Row | BadRow]:
        for item in read_tsv(path, columns):
            if isinstance(item, BadRow):
                yield item
                continue
            line, (a, b, label, *pair) = item
            if keep is None or (tuple(pair) in named) == keep:
                yield Row(a, b, label if labelled else None, line)

    splits = [
        Split("train", (train,), partial(rows, train, False, True)),
        Split("dev", (train,), partial(rows, train, True, True)),
    ]
    if test:
        splits.append(Split("test", (test,), partial(rows, test, None, False), labelled=False))
    return splits
