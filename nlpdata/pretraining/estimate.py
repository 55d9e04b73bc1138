"""A dry run of create-pretraining: checks everything, makes the records of a small sample elsewhere, and writes nothing."""

import logging
import os
import tempfile
import time
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

from nlpdata.corpus.sample import Sample, store_sample
from nlpdata.errors import DataError
from nlpdata.execution.executor import default_workers
from nlpdata.options import takes
from nlpdata.output import refuse_output, set_files
from nlpdata.output.estimate import Estimate, existing, peak_memory, unlogged
from nlpdata.pretraining.create import create_pretraining
from nlpdata.pretraining.options import LocalPretrainingRequest
from nlpdata.pretraining.plan import CreationResult, Plan, make_plan
from nlpdata.pretraining.summary import losses
from nlpdata.text import loss

_log = logging.getLogger(__name__)

SAMPLE_BYTES = 2 << 20
_OF_THE_SAMPLE: dict[str, Any] = {
    **dict.fromkeys(("meta", "num_shards", "chunk_size", "text_key", "limit_documents")),
    "workers": 1,
    "overwrite": False,
    "progress": False,
}


@takes(LocalPretrainingRequest)
def estimate_pretraining(request: LocalPretrainingRequest) -> Estimate:
    """What create_pretraining would do with the same arguments; see Estimate. Memory is bounded as there.

    Raises what create_pretraining raises before it begins.
    """
    plan = make_plan(request)
    targets = list(plan.targets.values())
    refuse_output(targets, request.overwrite, plan.key, plan.copies())
    workers = min(request.workers or default_workers(), max(len(plan.portions), 1))
    reads = {file.path: file.size for file in plan.files}
    replaced = [path for target in targets for path in (*set_files(target), target.meta)]
    with tempfile.TemporaryDirectory(prefix="nlpdata-dry-run-") as folder:
        options = plan.options
        sample = store_sample(
            Path(folder), plan.portions, SAMPLE_BYTES, invalid_utf8=options.invalid_utf8, text_key=options.text_key
        )
        begun = time.monotonic()
        try:
            with unlogged():
                result = create_pretraining(**_arguments(request, sample, folder))
        except DataError as error:
            if sample.is_whole:
                raise
            basis = f"no estimates: of {sample.bytes_read:,} bytes of the input no records can be made: {error}"
            return Estimate(reads, _names(plan, {}), existing(replaced), basis, workers=workers, warnings=plan.warnings)
        seconds = (time.monotonic() - begun) * sample.scale / workers
        sizes = {split: sum(map(os.path.getsize, names)) for split, names in result.files.items()}
    lost = loss.warnings(losses(Counter(result.counters), options, plan.tokenizer_entry))
    for line in lost:
        _log.warning(line)
    memory = peak_memory()
    scaled = {split: round(size * sample.scale) for split, size in sizes.items()}
    return Estimate(
        reads,
        _names(plan, scaled),
        existing(replaced),
        sample.in_words,
        _records(result, sample),
        sum(scaled.values()),
        sum(scaled.values()),  # sorted runs, until the shards are written of them
        seconds,
        memory and memory * (workers + (workers > 1)),
        workers,
        [*plan.warnings, *lost],
    )


def _arguments(request: LocalPretrainingRequest, sample: Sample, folder: str) -> dict[str, Any]:
    """The arguments of the command for the sample. It is all text by now, and weighs what the input does."""
    given = {each.name: getattr(request, each.name) for each in fields(request) if each.init and each.name != "options"}
    limit = request.options.limit_documents if sample.is_whole else None
    place = {"input": list(sample.files), "output": os.path.join(folder, "out", "sample.tfrecord")}
    return {**given, **_OF_THE_SAMPLE, **place, "limit_documents": limit}


def _records(result: CreationResult, sample: Sample) -> dict[str, int]:
    return {split: round(result.counters[f"examples_{split}"] * sample.scale) for split in result.files}


def _names(plan: Plan, sizes: dict[str, int]) -> list[str]:
    """The files that would be written."""
    names = []
    for split, target in plan.targets.items():
        shards = plan.shards(split, sizes.get(split, 0))
        names += [str(target.folder / name) for name in (*shards, plan.tokenizer_file(split))] + [str(target.meta)]
    return names
