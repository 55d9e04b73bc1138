"""A dry run of create-finetuning: reads and checks all rows, encodes a sample of their batches, and writes nothing."""

import logging
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nlpdata.execution.executor import default_workers
from nlpdata.finetuning.batches import Tally, no_rows, read_batches
from nlpdata.finetuning.datasets import Split
from nlpdata.finetuning.encode import Batch, encode_columns
from nlpdata.finetuning.losses import losses
from nlpdata.finetuning.options import LocalFinetuningRequest
from nlpdata.finetuning.plan import Plan, make_plan
from nlpdata.finetuning.stages import AnyEncoder, encoder_of
from nlpdata.finetuning.windows import SquadEncoder
from nlpdata.options import takes
from nlpdata.output import refuse_output, set_files
from nlpdata.output.estimate import Estimate, existing, peak_memory
from nlpdata.text import loss

_log = logging.getLogger(__name__)


@takes(LocalFinetuningRequest)
def estimate_finetuning(request: LocalFinetuningRequest) -> Estimate:
    """What create_finetuning would do with the same arguments; see Estimate. Its rows are read and checked, one batch at a time.

    Raises what create_finetuning raises before it writes records.
    """
    plan = make_plan(request)
    targets = list(plan.targets.values())
    refuse_output(targets, request.overwrite, plan.key, plan.others())
    workers = request.workers or default_workers()
    found = {split.name: _look_at(plan, split) for split in plan.splits}
    inputs = dict.fromkeys(str(path) for split in plan.splits for path in split.files)
    sizes = {split: round(each.scaled(each.bytes)) for split, each in found.items()}
    encoding = sum(each.scaled(each.seconds) for each in found.values())
    memory = peak_memory()
    replaced = [path for target in targets for path in (*set_files(target), target.meta)]
    rows, encoded = (sum(getattr(each, name) for each in found.values()) for name in ("rows", "encoded"))
    return Estimate(
        {path: os.path.getsize(path) for path in inputs if os.path.isfile(path)},
        _names(plan, sizes),
        existing(list(dict.fromkeys(replaced))),
        f"all {rows:,} rows were read, and records made of {encoded:,}",
        {split: round(each.scaled(each.records)) for split, each in found.items()},
        sum(sizes.values()),
        2 * sum(sizes.values()),  # batches of rows, and their records, until the shards are written
        sum(each.reading for each in found.values()) + encoding / workers,
        memory and memory * (workers + (workers > 1)),
        workers,
        [*plan.dataset.warnings, *(line for each in found.values() for line in each.warnings)],
    )


@dataclass
class _Found:
    """Of a split: rows, those encoded, and what these made, counted and took."""

    rows: int = 0
    encoded: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reading: float = 0.0
    counters: Counter = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)

    def scaled(self, value: float) -> float:
        """A value of the encoded rows, for all."""
        return value * self.rows / max(self.encoded, 1)


def _look_at(plan: Plan, split: Split) -> _Found:
    found, tally = _Found(), Tally(plan.options.on_bad_row == "skip")
    begun = time.monotonic()
    for number, batch in enumerate(read_batches(plan.dataset, split, plan.options, tally)):
        found.rows += len(batch.rows)
        if number & (number + 1) == 0:  # 0, 1, 3, 7, ...: more of them at the beginning, and some everywhere
            _encode(plan, batch, found)
    found.reading = time.monotonic() - begun - found.seconds
    if not found.rows:
        raise no_rows(split, tally)
    found.warnings = _lost(plan, split, tally, found)
    return found


def _lost(plan: Plan, split: Split, tally: Tally, found: _Found) -> list[str]:
    """Warnings of text of the encoded rows that is lost; DataError where that is most of all rows'."""
    counters = tally.counters + found.counters
    if "rows_used" in counters:
        counters["rows_used"] = found.encoded
    lost = losses(split.name, counters, plan.options, plan.tokenizer.meta())
    loss.refuse(lost, plan.options.accept_loss or found.encoded < found.rows, loss.NOTHING_WRITTEN)
    warnings = loss.warnings(lost)
    for line in warnings:
        _log.warning(line)
    return warnings


def _encode(plan: Plan, batch: Batch, found: _Found) -> None:
    begun = time.monotonic()
    encoder = encoder_of(plan.encoder, plan.tokenizer)
    features = encoder.features(batch.split, batch.labelled)
    columns, counters = _columns(encoder, batch)
    data, lengths = encode_columns(encoder, features, columns)
    found.counters += counters
    found.encoded += len(batch.rows)
    found.records += len(lengths)
    found.bytes += len(data)
    found.seconds += time.monotonic() - begun


def _columns(encoder: AnyEncoder, batch: Batch) -> tuple[Mapping[str, Any], Counter]:
    if isinstance(encoder, SquadEncoder):
        windows, counters = encoder.windows(batch)
        return encoder.columns(windows, 0), counters
    return encoder.columns(batch)


def _names(plan: Plan, sizes: dict[str, int]) -> list[str]:
    """The files that would be written."""
    names = []
    for split, target in plan.targets.items():
        shards = target.shards(sizes[split], plan.num_shards if split == "train" else None)
        names += [str(target.folder / name) for name in shards]
    folder = next(iter(plan.targets.values())).folder
    return [*names, *(str(folder / name) for name in plan.others()), str(plan.meta)]
