"""The records of a sentence task's split without files: for readers that tokenize a dataset when they start."""

import logging
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError
from nlpdata.finetuning.batches import Tally, label_warnings, read_batches
from nlpdata.finetuning.datasets import choose_splits, open_dataset
from nlpdata.finetuning.encode import SentenceEncoder
from nlpdata.finetuning.losses import losses
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.records.contract import Feature
from nlpdata.text import loss
from nlpdata.tokenizers import Tokenizer

_log = logging.getLogger(__name__)


class EncodedSplit:
    """What `nlpdata.open_records` gives of the records that create-finetuning would write, and the content of their meta file.

    len(split), split[int64 array] -> name -> array (n, width) of the features' dtypes.

    Args:
      parts: name for messages -> columns of its records; several splits may be joined.

    Attributes:
      features: the features of the records.
      paths, counts: as of files, which are not there: the names of the parts, and their numbers of records.
      meta: the meta file's task_type, num_labels, label_names, max_seq_length and tokenizer.
    """

    def __init__(self, parts: Mapping[str, dict[str, np.ndarray]], features: tuple[Feature, ...], meta: dict) -> None:
        self.features, self.meta = features, meta
        self.paths, self.counts = list(map(Path, parts)), np.array([len(each["input_ids"]) for each in parts.values()])
        first, *others = parts.values()
        self._columns = {
            name: np.concatenate([column, *(other[name] for other in others)]) if others else column
            for name, column in first.items()
        }
        self._parts = dict(parts)

    def joined(self, other: "EncodedSplit") -> "EncodedSplit":
        """The records of both, of different names, this one's first."""
        return EncodedSplit({**self._parts, **other._parts}, self.features, self.meta)

    def __len__(self) -> int:
        return int(self.counts.sum())

    def __getitem__(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {each.name: self._columns[each.name][rows].astype(each.dtype) for each in self.features}

    def where(self, row: int) -> str:
        """A record's place, for messages."""
        part = int(np.searchsorted(np.cumsum(self.counts), row, side="right"))
        return f"{self.paths[part]}, example {row - int(self.counts[:part].sum())}"


def encode_split(options: FinetuningOptions, tokenizer: Tokenizer, name: str = "") -> EncodedSplit:
    """The one split that the options choose, in memory: about four bytes a token position (six for vocabularies above 2^16).

    Args:
      name: of its part, for messages; default: the dataset's.

    Raises UsageError and DataError as create_finetuning does.
    """
    dataset = open_dataset([], options)
    (split,) = choose_splits(dataset, options.splits)
    encoder = SentenceEncoder(tokenizer, options.length, options.feature_names, dataset.kind, dataset.num_labels)
    parts: list[dict[str, np.ndarray]] = []
    counters: Counter = Counter()
    tally = Tally(options.on_bad_row == "skip")
    for batch in read_batches(dataset, split, options, tally):
        columns, counted = encoder.columns(batch)
        counters += counted
        if tokenizer.vocab_size <= 1 << 16:
            columns["input_ids"] = columns["input_ids"].astype(np.uint16)
        parts.append(columns)
    if not parts:
        raise DataError(f"{dataset.name}: no example of the {split.name} split can be used")
    found = losses(split.name, counters + tally.counters, options, tokenizer.meta())
    loss.refuse(found, options.accept_loss, loss.CONFIRM)
    for line in [*dataset.warnings, *label_warnings(dataset, split, tally, options), *loss.warnings(found)]:
        _log.warning(line)
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    meta = {
        "task_type": f"bert_{dataset.kind}",
        "num_labels": dataset.num_labels,
        "label_names": list(dataset.labels or ()),
        "max_seq_length": options.max_seq_length,
        "tokenizer": tokenizer.meta(),
    }
    return EncodedSplit({name or dataset.name: columns}, encoder.features(split.name, split.labelled), meta)
