"""What a dataset is to create-finetuning, and the registry of datasets: a new one is one file and one line."""

import difflib
import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nlpdata.errors import UsageError

# name -> "module:function", imported when first used. The function is called with (name, inputs,
# options), inputs being the paths of --input, and returns a Dataset.
DATASETS = {
    "cola": "nlpdata.finetuning.glue:open_glue",
    "sst2": "nlpdata.finetuning.glue:open_glue",
    "mrpc": "nlpdata.finetuning.glue:open_glue",
    "stsb": "nlpdata.finetuning.glue:open_glue",
    "qqp": "nlpdata.finetuning.glue:open_glue",
    "mnli": "nlpdata.finetuning.glue:open_glue",
    "mnlimatched": "nlpdata.finetuning.glue:open_glue",
    "mnlimismatched": "nlpdata.finetuning.glue:open_glue",
    "qnli": "nlpdata.finetuning.glue:open_glue",
    "rte": "nlpdata.finetuning.glue:open_glue",
    "wnli": "nlpdata.finetuning.glue:open_glue",
    "ax": "nlpdata.finetuning.glue:open_glue",
    "xnli": "nlpdata.finetuning.crosslingual:open_xnli",
    "pawsx": "nlpdata.finetuning.crosslingual:open_pawsx",
    "imdb": "nlpdata.finetuning.imdb:open_imdb",
    "squad": "nlpdata.finetuning.squad:open_squad",
    "classification": "nlpdata.finetuning.tabular:open_tabular",
    "pair": "nlpdata.finetuning.tabular:open_tabular",
    "regression": "nlpdata.finetuning.tabular:open_tabular",
    "multilabel": "nlpdata.finetuning.tabular:open_tabular",
}
# Other usual spellings, after `plain_name`.
SPELLINGS = {
    "sst": "sst2",
    "sts": "stsb",
    "mnlim": "mnlimatched",
    "mnlimm": "mnlimismatched",
    "mismnli": "mnlimismatched",
    "mnlimatch": "mnlimatched",
    "mnlimismatch": "mnlimismatched",
    "diagnostic": "ax",
    "paws": "pawsx",
    "imdbreviews": "imdb",
    "aclimdb": "imdb",
    "squad1": "squad",
    "squad11": "squad",
    "squadv1": "squad",
    "squadv11": "squad",
    "squad2": "squad",
    "squad20": "squad",
    "squadv2": "squad",
    "squadv20": "squad",
}
MAX_SHOWN = 5  # bad rows of one reason that are shown


class Row(NamedTuple):
    """One example of a sentence task. `label` is as the source has it; None in a split without labels."""

    text_a: str
    text_b: str | None
    label: object
    where: str | int  # file:line, or the line number in the split's only file


class BadRow(NamedTuple):
    """A row that cannot be used. `reason` is counted; `message` has file:line and says what to do."""

    reason: str
    message: str


@dataclass(frozen=True)
class Split:
    """One file of records to be: `rows()` reads the source from the start, in its order."""

    name: str
    files: tuple[Path, ...]
    rows: Callable[[], Iterable]  # of Row or BadRow; a dataset with an encoder of its own has its own rows
    labelled: bool = True


@dataclass(frozen=True)
class Dataset:
    """A source of splits.

    name: as the meta file has it (`processor_type`). kind: "classification", "regression", "multilabel" or "squad".
    labels: names in id order; None: those of the training rows. warnings: what the user should know.
    """

    name: str
    kind: str
    splits: tuple[Split, ...]
    labels: tuple[str, ...] | None = None
    warnings: tuple[str, ...] = ()


def plain_name(name: str) -> str:
    """SST-2, sst_2 and GLUE/sst2 -> sst2."""
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("glue/"))


def find_dataset(given: str) -> str:
    """The registry's name of a dataset in any usual spelling. UsageError, with the closest names, where there is none."""
    plain = plain_name(given)
    name = SPELLINGS.get(plain, plain)
    if name in DATASETS:
        return name
    near = difflib.get_close_matches(plain, [*DATASETS, *SPELLINGS], n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(dict.fromkeys(SPELLINGS.get(n, n) for n in near))}?" if near else ""
    raise UsageError(f"--task: no dataset {given!r}.{hint} Known: {', '.join(DATASETS)}; others: --tfds NAME.")


def open_dataset(inputs: Sequence[str], options) -> Dataset:
    """The dataset that the options name: --tfds, or --task with --input."""
    if options.tfds:
        function = "nlpdata.finetuning.tfds:open_tfds"
        name = options.tfds
    elif options.task:
        name = find_dataset(options.task)
        function = DATASETS[name]
    else:
        raise UsageError("--task is missing, e.g. --task mrpc --input glue/MRPC (or --tfds NAME).")
    module, _, attribute = function.partition(":")
    return getattr(importlib.import_module(module), attribute)(name, inputs, options)


def choose_splits(dataset: Dataset, wanted: str | None) -> tuple[Split, ...]:
    """The splits that --splits names (comma-separated), else all. UsageError for one that the source lacks."""
    if not wanted:
        return dataset.splits
    known = {split.name: split for split in dataset.splits}
    chosen = []
    for name in [item.strip() for item in wanted.split(",")]:
        found = [split for key, split in known.items() if key == name or key.startswith(f"{name}_")]
        if not found:
            raise UsageError(f"--splits: no split {name!r} in {dataset.name}. Found: {', '.join(known) or 'none'}.")
        chosen += [split for split in found if split not in chosen]
    return tuple(chosen)


def one_input(inputs: Sequence[str], what: str) -> Path:
    """The single path that --input must be for this dataset. UsageError where it is missing, several or absent."""
    if len(inputs) != 1:
        received = ", ".join(inputs) or "nothing"
        raise UsageError(f"--input: expected {what}. Received: {received}.")
    path = Path(inputs[0]).expanduser()
    if not path.exists():
        beside = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, beside, n=1)
        raise UsageError(
            f"--input: {path} does not exist." + (f" Did you mean {path.with_name(near[0])}?" if near else "")
        )
    return path


def order_labels(
    labels: Sequence[str], glue: Sequence[str], tfds: Sequence[str], chosen: str | None
) -> tuple[str, ...]:
    """`labels` in the published order that --label-order names; None: as they are."""
    if chosen is None:
        return tuple(labels)
    order = glue if chosen == "glue" else tfds
    return tuple(order) if sorted(order) == sorted(labels) else tuple(labels)
