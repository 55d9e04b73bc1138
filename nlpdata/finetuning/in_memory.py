"""The records of a sentence task's split without files: for readers that tokenize a dataset when they start."""

import logging
from collections import Counter
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

    Attributes:
      features: the features of the records.
      paths, counts: as of one file, which is not there: the dataset's name, and the number of records.
      meta: the meta file's task_type, num_labels, label_names, max_seq_length and tokenizer.
    """

    def __init__(
        self,
        name: str,
        features: tuple[Feature, ...],
        columns: dict[str, np.ndarray],
        meta: dict,
    ) -> None:
        self.features, self.meta = features, meta
        self.paths, self.counts = [Path(name)], np.array([len(columns["input_ids"])])
        self._columns = columns

    def __len__(self) -> int:
        return int(self.counts[0])

    def __getitem__(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {each.name: self._columns[each.name][rows].astype(each.dtype) for each in self.features}

    def where(self, row: int) -> str:
        """A record's place, for messages."""
        return f"{self.paths[0]}, example {row}"


def encode_split(options: FinetuningOptions, tokenizer: Tokenizer) -> EncodedSplit:
    """The one split that the options choose, in memory: about four bytes a token position (six for vocabularies above 2^16).

    Raises UsageError and DataError as create_finetuning does.
    """
    dataset = open_dataset([], options)
    (split,) = choose_splits(dataset, options.splits)
    encoder = SentenceEncoder(
        tokenizer, options.length, options.feature_names, dataset.kind, len(dataset.labels or "x")
    )
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
        "num_labels": len(dataset.labels or "x"),
        "label_names": list(dataset.labels or ()),
        "max_seq_length": options.max_seq_length,
        "tokenizer": tokenizer.meta(),
    }
    return EncodedSplit(dataset.name, encoder.features(split.name, split.labelled), columns, meta)
