"""What a dataset is to create-finetuning, and the registry of datasets: a new one is one file and one line.

A user's own dataset is named as module:function.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nlpdata.errors import DataError, UsageError, closest, opt
from nlpdata.files.paths import absent
from nlpdata.records.meta_types import LEAST_CHOICES, MOST_CHOICES
from nlpdata.registry import Registry, users_code

if TYPE_CHECKING:
    from nlpdata.finetuning.options import FinetuningOptions

# The functions are called with (name, inputs, options), inputs being the paths of --input, and return a Dataset.
DATASETS = Registry(
    "dataset",
    {
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
        "race": "nlpdata.finetuning.race:open_race",
        "swag": "nlpdata.finetuning.race:open_swag",
        "classification": "nlpdata.finetuning.tabular:open_tabular",
        "pair": "nlpdata.finetuning.tabular:open_tabular",
        "regression": "nlpdata.finetuning.tabular:open_tabular",
        "multilabel": "nlpdata.finetuning.tabular:open_tabular",
        "choice": "nlpdata.finetuning.tabular:open_tabular",
    },
)
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
    "multiplechoice": "choice",
    "swagaf": "swag",
}
OWN_FILES = ("classification", "pair", "regression", "multilabel", "choice")
KINDS = ("classification", "regression", "multilabel", "squad", "choice")
# Pattern of the names of splits: stems of record files that one meta file describes.
SPLIT_NAMES = "train|(dev|test)(_[A-Za-z-]+)?"
MAX_SHOWN = 5  # bad rows of one reason that are shown


class Row(NamedTuple):
    """One example of a sentence task. `label` is as the source has it; None in a split without labels.

    `choices`, of kind "choice" alone: the texts that compete, each with its question; text_a is what they are about.
    """

    text_a: str
    text_b: str | None
    label: object
    where: str | int  # file:line, or the line number in the split's only file
    choices: tuple[str, ...] = ()


class BadRow(NamedTuple):
    """A row that cannot be used. `reason` is counted; `message` has file:line and says how to correct it.

    A message ends without a full stop: where the row stops the command, `refusal` adds how to leave it out.
    """

    reason: str
    message: str


def refusal(bad: BadRow) -> DataError:
    """The error of a bad row that is not to be left out."""
    return DataError(f"{bad.message.rstrip('.')}, or use {opt('on_bad_row', 'skip')}")


@dataclass(frozen=True)
class Split:
    """A split of a dataset.

    Attributes:
      name: train, dev or test, or dev_NAME or test_NAME.
      files: of the source, at least one; where their content changes, an interrupted run begins anew.
      rows: reads the source from the start, in its order: yields Row or BadRow (squad: Paragraph, Note or BadRow).
      labelled: whether the rows have labels.
    """

    name: str
    files: tuple[Path, ...]
    rows: Callable[[], Iterable[Any]]
    labelled: bool = True


@dataclass(frozen=True)
class Dataset:
    """A source of splits.

    Attributes:
      name: as the meta file has it (`processor_type`).
      kind: "classification", "regression", "multilabel", "squad" or "choice".
      splits: in the order in which their records are made.
      labels: names in id order; None for regression, squad and choice.
      warnings: what the user should know.
      choices: how many texts compete in each row, 2 to 64; 0 but for choice.
    """

    name: str
    kind: str
    splits: tuple[Split, ...]
    labels: tuple[str, ...] | None = None
    warnings: tuple[str, ...] = ()
    choices: int = 0

    @property
    def num_labels(self) -> int:
        """Classes, or choices; 1 where there are none."""
        return self.choices or len(self.labels or ()) or 1

    @property
    def label_names(self) -> tuple[str, ...]:
        """What counts of rows by label call the labels: the classes, or the numbers of the choices."""
        return self.labels or tuple(map(str, range(self.choices)))


def plain_name(name: str) -> str:
    """SST-2, sst_2 and GLUE/sst2 -> sst2."""
    return re.sub(r"[^a-z0-9]", "", name.strip().lower().removeprefix("glue/"))


def find_dataset(given: str) -> str:
    """The registry's name of a dataset in any usual spelling; a user's module:function as it is.

    UsageError, with the closest names, where there is none.
    """
    if ":" in given:
        return given
    plain = plain_name(given)
    if (name := SPELLINGS.get(plain, plain)) in DATASETS:
        return name
    raise UsageError(
        f"{opt('task')}: no dataset {given!r}.{closest(plain, DATASETS, 3)} Known: {', '.join(DATASETS)}; others: "
        f"{opt('tfds', 'NAME')}, or your own as module:function."
    )


def open_dataset(inputs: Sequence[str], options: "FinetuningOptions") -> Dataset:
    """The dataset that the options name: --tfds, or --task with --input. UsageError, DataError."""
    if options.tfds:
        from nlpdata.finetuning.tfds import open_tfds

        return open_tfds(options.tfds, inputs, options)
    if not options.task:
        raise UsageError(
            f"{opt('task')} is missing, e.g. {opt('task', 'mrpc')} {opt('input', 'glue/MRPC')} (or {opt('tfds', 'NAME')})."
        )
    name = find_dataset(options.task)
    if DATASETS.is_built_in(name):
        return DATASETS.get(name)(name, inputs, options)
    with users_code(f"{opt('task', name)} cannot be imported"):
        function = DATASETS.get(name)
    with users_code(f"{opt('task', name)} failed"):
        dataset = function(name, inputs, options)
    if fault := _fault(dataset):
        raise UsageError(f"{opt('task', name)}: {fault}.")
    return dataset


def _fault(dataset: object) -> str | None:
    """What is wrong about what a dataset's function returned."""
    if not isinstance(dataset, Dataset):
        return f"the function must return a nlpdata.finetuning.datasets.Dataset. Received: {type(dataset).__name__}"
    if dataset.kind not in KINDS:
        return f"Dataset.kind must be one of {', '.join(KINDS)}. Received: {dataset.kind!r}"
    if dataset.kind in ("classification", "multilabel") and not dataset.labels:
        return f"Dataset.labels must name the classes of a {dataset.kind} dataset, in id order. Received: {dataset.labels!r}"
    if dataset.kind == "choice" and dataset.choices not in range(LEAST_CHOICES, MOST_CHOICES + 1):
        expected = f"{LEAST_CHOICES} to {MOST_CHOICES}"
        return f"Dataset.choices must be how many texts compete in each row, {expected}. Received: {dataset.choices!r}"
    if any(not split.files for split in dataset.splits):
        return "Split.files must name the files of the source. Received: none"
    odd = [split.name for split in dataset.splits if not re.fullmatch(SPLIT_NAMES, split.name)]
    return f"a split is named train, dev, test, dev_NAME or test_NAME. Received: {odd[0]!r}" if odd else None


def choose_splits(dataset: Dataset, wanted: str | None) -> tuple[Split, ...]:
    """The splits that --splits names (comma-separated), else all. UsageError for one that the source lacks."""
    if not wanted:
        return dataset.splits
    known = {split.name: split for split in dataset.splits}
    chosen = []
    for name in [item.strip() for item in wanted.split(",")]:
        found = [split for key, split in known.items() if key == name or key.startswith(f"{name}_")]
        if not found:
            raise UsageError(
                f"{opt('splits')}: no split {name!r} in {dataset.name}. Found: {', '.join(known) or 'none'}."
            )
        chosen += [split for split in found if split not in chosen]
    return tuple(chosen)


def one_input(inputs: Sequence[str], what: str) -> Path:
    """The single path that --input must be for this dataset. UsageError where it is missing, several or absent."""
    if len(inputs) != 1:
        received = ", ".join(inputs) or "nothing"
        raise UsageError(f"{opt('input')}: expected {what}. Received: {received}.")
    path = Path(inputs[0]).expanduser()
    if not path.exists():
        raise UsageError(f"{opt('input')}: {absent(path)}")
    return path


def warn_of_known(files: Mapping[str, Sequence[Path]]) -> tuple[str, ...]:
    """A warning for each file of another split that is a training file, too."""
    train = {path.resolve() for path in files.get("train", ())}
    return tuple(
        f"{path} is given for train and for {split}: scores on it do not show what a model makes of other text"
        for split, paths in files.items()
        for path in paths
        if split != "train" and path.resolve() in train
    )


def refuse_pipe(path: Path) -> None:
    """UsageError for what can be read only once, or never to its end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(
            f"{path} is a pipe or a device, and a dataset is read more than once: write what it gives to a file first."
        )


def order_labels(
    labels: Sequence[str], glue: Sequence[str], tfds: Sequence[str], chosen: str | None
) -> tuple[str, ...]:
    """`labels` in the published order that --label-order names; None: as they are."""
    if chosen is None:
        return tuple(labels)
    order = glue if chosen == "glue" else tfds
    return tuple(order) if sorted(order) == sorted(labels) else tuple(labels)
