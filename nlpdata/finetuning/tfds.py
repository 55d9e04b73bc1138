"""Text classification and regression sets of TensorFlow Datasets that are prepared on disk.

Nothing is downloaded: a set that is not prepared is reported as missing at once (tfds.load would try the network for
minutes). Reading goes through tensorflow_datasets, and so TensorFlow, which are imported only when a set is read.
Examples with a number (`idx`) come in its order, so that GLUE's records are those of its TSV files; others as stored.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import EXTRAS, DataError, UsageError, closest, missing_package, opt
from nlpdata.files.fetching import local_only
from nlpdata.finetuning.datasets import BadRow, Dataset, Row, Split, find_dataset, order_labels
from nlpdata.finetuning.glue import NLI_GLUE, NLI_TFDS
from nlpdata.finetuning.label_names import given_labels, label_name, sorted_labels
from nlpdata.finetuning.options import FinetuningOptions

# Texts of a pair in the order of the original processors, where a set has these features.
_PAIRS = (
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("question1", "question2"),
    ("sentence1", "sentence2"),
    ("question", "passage"),
)
_SPLITS = {"train": "train", "validation": "dev", "test": "test"}


def open_tfds(name: str, inputs: Sequence[str], options: FinetuningOptions) -> Dataset:
    """The set that --tfds names, e.g. glue/sst2 or imdb_reviews, in --tfds-data-dir."""
    if inputs:
        raise UsageError(
            f"{opt('input')} and {opt('tfds')} are two sources; give one. Received: {', '.join(inputs)} and {name}."
        )
    given = options.tfds_data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    local_only(given, opt("tfds_data_dir"), "Copy the prepared set here, and name the copy.")
    folder = Path(given).expanduser()
    prepared = find_prepared(folder, name)
    builder = _builder(prepared)
    features = builder.info.features
    texts = _texts(name, features, options)
    label = options.label_column or "label"
    if label not in features:
        raise UsageError(f"{opt('label_column')}: {name} has no {label!r}; its features: {', '.join(features)}.")
    names = tuple(getattr(features[label], "names", None) or ())
    task = options.task and find_dataset(options.task)
    if names and task == "regression":
        raise UsageError(
            f"{opt('task', 'regression')} takes numbers, and the labels of {name} are classes: {', '.join(names[:12])}. Leave "
            f"{opt('task')} out."
        )
    is_float = np.dtype(features[label].np_dtype).kind == "f"
    regression = task == "regression" or (is_float and task is None)
    files = tuple(sorted(path for path in prepared.iterdir() if path.is_file()))
    splits = []
    for theirs, ours in _chosen(name, builder, options).items():
        first = next(iter(_examples(builder, f"{theirs}[:1]")))
        labelled = not (ours.startswith("test") and label_name(_label(first[label], ())) == "-1")
        rows = partial(_rows, builder, theirs, name, texts, label, names, labelled)
        splits.append(Split(ours, files, rows, labelled))
    labels = None
    if not regression:
        labels = given_labels(options.labels) or names or _discover(name, splits, options)
        labels = order_labels(labels, NLI_GLUE, NLI_TFDS, options.label_order)
    return Dataset(name, "regression" if regression else "classification", tuple(splits), labels)


def find_prepared(folder: Path, name: str) -> Path:
    """The folder of a prepared set, `folder/name/config/version`. DataError, with what is there, if there is none."""
    plain, _, version = name.partition(":")
    found = (
        sorted((folder / plain).glob(f"{version or '*'}/dataset_info.json"), key=_version) if folder.is_dir() else []
    )
    if found:
        return found[-1].parent
    there = sorted({path.parents[1].relative_to(folder).as_posix() for path in folder.glob("**/dataset_info.json")})
    below = [item for item in there if item.startswith(f"{plain}/")]
    hint = f" Did you mean {' or '.join(below)}?" if below else closest(plain, there, 3)
    hint = hint or f" Prepared there: {', '.join(there[:8]) or 'nothing'}."
    raise DataError(
        f'{opt("tfds")}: {name} is not prepared in {folder}.{hint} Prepare it where there is a network (python -c "import '
        f"tensorflow_datasets as tfds; tfds.builder('{plain}').download_and_prepare()\"), copy it here, and name its folder "
        f"with {opt('tfds_data_dir')}"
    )


def _version(path: Path) -> list[int]:
    return [int(part) if part.isdecimal() else -1 for part in path.parent.name.split(".")]


def _builder(prepared: Path) -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise missing_package(opt("tfds"), error.name if error.name in EXTRAS else "tensorflow_datasets") from None
    try:
        return tfds.builder_from_directory(prepared)
    except Exception as error:  # whatever a damaged folder makes it raise
        raise DataError(f"{prepared}: not a whole prepared set: {error}") from None


def _texts(name: str, features: Mapping[str, Any], options: FinetuningOptions) -> tuple[str, ...]:
    """The features that hold the text, or the two texts."""
    if options.text_column:
        texts = (options.text_column, *([options.text_b_column] if options.text_b_column else []))
        missing = [text for text in texts if text not in features]
        if missing:
            raise UsageError(
                f"{opt('text_column')}: {name} has no {missing[0]!r}; its features: {', '.join(features)}."
            )
        return texts
    pair = next((pair for pair in _PAIRS if set(pair) <= set(features)), None)
    if pair:
        return pair
    label = options.label_column or "label"
    found = [key for key, feature in features.items() if type(feature).__name__ == "Text" and key != label]
    if len(found) == 1:
        return (found[0],)
    raise UsageError(
        f"{opt('text_column')} is missing: {name} has the texts {', '.join(found) or 'none'} among {', '.join(features)}."
    )


def _chosen(name: str, builder: Any, options: FinetuningOptions) -> dict[str, str]:
    """Their split -> ours."""
    known = list(builder.info.splits)
    if options.tfds_splits:
        chosen = {}
        for item in options.tfds_splits.split(","):
            ours, _, theirs = item.partition("=")
            if ours not in ("train", "dev", "test") or theirs not in known:
                raise UsageError(
                    f"{opt('tfds_splits')}: received {item!r}, expected train=, dev= or test= and one of {name}'s splits: "
                    f"{', '.join(known)}."
                )
            chosen[theirs] = ours
        return chosen
    chosen = {}
    for theirs in known:
        base, _, rest = theirs.partition("_")
        if base in _SPLITS:
            chosen[theirs] = f"{_SPLITS[base]}_{rest}" if rest else _SPLITS[base]
    order = ("train", "dev", "test")
    chosen = dict(sorted(chosen.items(), key=lambda item: (order.index(item[1].split("_")[0]), item[1])))
    if not chosen:
        raise UsageError(
            f"{opt('tfds_splits')} is missing: {name} has the splits {', '.join(known)}, e.g. train={known[0]}."
        )
    return chosen


def _examples(builder: Any, split: str) -> Iterator[dict]:
    import tensorflow_datasets as tfds

    return iter(tfds.as_numpy(builder.as_dataset(split=split, shuffle_files=False)))


def _rows(
    builder: Any, split: str, name: str, texts: Sequence[str], label: str, names: tuple[str, ...], labelled: bool
) -> Iterator[Row | BadRow]:
    examples: Iterable[dict] = _examples(builder, split)
    features = builder.info.features
    if "idx" in features and getattr(features["idx"], "shape", None) == ():
        examples = sorted(examples, key=lambda example: int(example["idx"]))
    for i, example in enumerate(examples):
        where = f"{name} {split}, example {i}"
        try:
            values = [example[key].decode("utf-8") for key in texts]
        except UnicodeDecodeError as error:
            yield BadRow("invalid_utf8", f"{where}: byte {error.start} is not UTF-8. Prepare the data set anew")
            continue
        value = _label(example[label], names) if labelled else None
        yield Row(values[0], values[1] if len(values) > 1 else None, value, where)


def _label(value: Any, names: tuple[str, ...]) -> str | float:
    """A label as text or number; one that is not a class, such as -1 for a hidden label, is the number."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    value = value.item()
    return names[value] if names and 0 <= value < len(names) else value


def _discover(name: str, splits: list[Split], options: FinetuningOptions) -> tuple[str, ...]:
    train = next((split for split in splits if split.name == "train"), None)
    if train is None:
        raise UsageError(f"{opt('labels')} is missing: {name} has no label names and no training split is made.")
    dropped = given_labels(options.drop_labels)
    found = Counter(label_name(row.label) for row in train.rows() if isinstance(row, Row))
    return sorted_labels({label: count for label, count in found.items() if label and label not in dropped})
