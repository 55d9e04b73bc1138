"""What a worker of any executor does for create_finetuning: rows to records, and records to shards.

A unit reads and writes files of the work folder: `<unit>.rows` (a batch), for SQuAD `<unit>.windows`, `<unit>.records`
and `<unit>.lengths`; then its result, `<unit>.made.json` or `<unit>.encoded.json`. Where the result is, the files are
whole. What is planned between two stages is a function of all results of the stage before.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nlpdata.execution.executor import Report
from nlpdata.files.paths import AnyPath
from nlpdata.files.writing import write_whole
from nlpdata.finetuning.choice import ChoiceEncoder
from nlpdata.finetuning.encode import Batch, Encoder, SentenceEncoder, encode_columns
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.stored_batches import read_content, store_content
from nlpdata.finetuning.windows import SquadEncoder, Windows
from nlpdata.output import OutputSet, joining, store_result
from nlpdata.output.joining import Shard
from nlpdata.tokenizers import Tokenizer, TokenizerSpec, load_tokenizer

AnyEncoder = SentenceEncoder | ChoiceEncoder | SquadEncoder


@dataclass(frozen=True)
class EncoderSpec:
    """What decides how rows become records; picklable, and equal specs make equal records."""

    options: FinetuningOptions
    tokenizer: TokenizerSpec
    kind: str
    num_labels: int  # classes, or choices

    @property
    def numbered(self) -> bool:
        """Whether records have numbers that depend on how many records other batches make."""
        return self.kind == "squad"


@dataclass(frozen=True)
class Setup:
    """What a worker needs; picklable.

    Attributes:
      encoder: how rows become records.
      folder: where units find and leave their files.
      targets: the set of records of each split.
      num_shards: record files of the training split; None: by size.
    """

    encoder: EncoderSpec
    folder: AnyPath
    targets: dict[str, OutputSet]
    num_shards: int | None

    def shard_names(self, split: str, record_bytes: int) -> list[str]:
        """Base names of a split's shards, for `record_bytes` bytes of records."""
        return self.targets[split].shards(record_bytes, self.num_shards if split == "train" else None)


@dataclass(frozen=True)
class BatchUnit:
    """A batch of rows on its way through the work folder."""

    name: str
    number: int  # in the order of all splits
    split: str
    labelled: bool
    size: int  # bytes of its rows, for the progress
    first: int = 0  # records of the split before it (numbered specs)


_setup: Setup  # of a worker process
_encoders: dict[EncoderSpec, AnyEncoder] = {}  # of this process: the last one used


def set_up(setup: Setup) -> None:
    global _setup
    _setup = setup


def encoder_of(spec: EncoderSpec, tokenizer: Tokenizer | None = None) -> AnyEncoder:
    """The encoder of a spec. A process keeps the last one, which remembers words.

    Args:
      spec: its description.
      tokenizer: that of the spec, where it is loaded already.
    """
    encoder = _encoders.get(spec)
    if encoder is None:
        encoder = _new_encoder(spec, tokenizer or load_tokenizer(spec.tokenizer))
        _encoders.clear()
        _encoders[spec] = encoder
    return encoder  # not what is stored now: threads of a process may do the same


def _new_encoder(spec: EncoderSpec, tokenizer: Tokenizer) -> AnyEncoder:
    options = spec.options
    length, names = options.length, options.feature_names
    if spec.kind == "squad":
        return SquadEncoder(
            tokenizer, length, names, options.doc_stride, options.max_query_length, options.windows_without_answer
        )
    if spec.kind == "choice":
        return ChoiceEncoder(tokenizer, length, names, spec.num_labels, options.max_qa_length)
    return SentenceEncoder(tokenizer, length, names, spec.kind, spec.num_labels)


def store_batch(folder: AnyPath, batch: Batch, number: int) -> BatchUnit:
    """Leaves a batch in the work folder; `number`: in the order of all splits."""
    name = f"{batch.split}-{batch.number:06d}"
    size = store_content(folder / f"{name}.rows", batch)
    return BatchUnit(name, number, batch.split, batch.labelled, size)


def make_batch(unit: BatchUnit, report: Report) -> dict:
    """Rows to records; to windows, where records have numbers that are not known yet."""
    encoder = encoder_of(_setup.encoder)
    batch = read_content(_setup.folder / f"{unit.name}.rows", Batch)
    if isinstance(encoder, SquadEncoder):
        windows, counters = encoder.windows(batch)
        store_content(_setup.folder / f"{unit.name}.windows", windows)
        result: dict[str, Any] = {"records": len(windows)}
        others = [f"{unit.name}.windows"]
    else:
        columns, counters = encoder.columns(batch)
        result, others = _write_records(encoder, unit, columns), [_lengths_name(unit)]
    result["counters"] = dict(counters)
    store_result(_setup.folder, f"{unit.name}.made", result, others)
    report(unit.size)
    return result


def number_units(made: Iterable[tuple[BatchUnit, dict]]) -> list[BatchUnit]:
    """The units in order, with the number of records of their split before them."""
    before: Counter = Counter()
    numbered = []
    for unit, result in _in_order(made):
        numbered.append(replace(unit, first=before[unit.split]))
        before[unit.split] += result["records"]
    return numbered


def encode_batch(unit: BatchUnit, report: Report) -> dict:
    """Windows to records, now that it is known how many records come before."""
    encoder = encoder_of(_setup.encoder)
    assert isinstance(encoder, SquadEncoder)  # no other makes windows
    windows = read_content(_setup.folder / f"{unit.name}.windows", Windows)
    result = _write_records(encoder, unit, encoder.columns(windows, unit.first))
    store_result(_setup.folder, f"{unit.name}.encoded", result, [_lengths_name(unit)])
    report(unit.size)
    return result


def _lengths_name(unit: BatchUnit) -> str:
    """Base name of the file with the lengths of its records."""
    return f"{unit.name}.lengths"


def _write_records(encoder: Encoder, unit: BatchUnit, columns: Mapping[str, Any]) -> dict[str, Any]:
    data, lengths = encode_columns(encoder, encoder.features(unit.split, unit.labelled), columns)
    write_whole(_setup.folder / _lengths_name(unit), lengths.astype("<i8").tobytes(), durable=False)
    write_whole(_setup.folder / f"{unit.name}.records", data, durable=False)
    return {"file": f"{unit.name}.records", "records": len(lengths), "bytes": len(data)}


def plan_shards(setup: Setup, encoded: Iterable[tuple[BatchUnit, dict]]) -> list[Shard]:
    """The shards of all splits: contiguous, of nearly equal numbers of records."""
    shards = []
    results = _in_order(encoded)
    for split in setup.targets:
        units = [unit for unit, _ in results if unit.split == split]
        names = setup.shard_names(split, sum(result["bytes"] for unit, result in results if unit.split == split))
        lengths = [np.frombuffer((setup.folder / _lengths_name(unit)).read_bytes(), "<i8") for unit in units]
        files = [f"{unit.name}.records" for unit in units]
        shards += joining.plan_shards(names, list(zip(files, lengths, strict=True)))
    return shards


def _in_order(results: Iterable[tuple[BatchUnit, dict]]) -> list[tuple[BatchUnit, dict]]:
    return sorted(results, key=lambda item: item[0].number)


def make_shard(shard: Shard, report: Report) -> dict:
    """Joins the slices of a shard."""
    return joining.write_shard(_setup.folder, shard, _setup.encoder.options.compression, report)
