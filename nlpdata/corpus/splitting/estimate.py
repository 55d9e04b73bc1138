"""A dry run of split-sentences: checks everything, splits a small sample elsewhere, and writes nothing."""

import os
import tempfile
import time
from dataclasses import replace

from nlpdata.corpus.sample import basis, sampled_portions
from nlpdata.corpus.splitting.options import LocalSplittingRequest
from nlpdata.corpus.splitting.plan import Plan, SplittingResult, make_plan
from nlpdata.corpus.splitting.run import split_plan
from nlpdata.errors import DataError
from nlpdata.execution.executor import default_workers
from nlpdata.options import takes
from nlpdata.output import refuse_output, set_files, text_set
from nlpdata.output.estimate import Estimate, existing, peak_memory, unlogged

SAMPLE_BYTES = 2 << 20


@takes(LocalSplittingRequest)
def estimate_splitting(request: LocalSplittingRequest) -> Estimate:
    """What split_sentences would do with the same arguments; see Estimate. `records` has documents and sentences.

    Repeats are looked for within the sample alone, so that fewer are left out of it.

    Raises what split_sentences raises before it begins.
    """
    plan = make_plan(request)
    refuse_output([plan.target], request.overwrite, plan.key)
    workers = min(request.workers or default_workers(), max(len(plan.portions), 1))
    reads = {file.path: file.size for file in plan.files}
    replaced = existing([*set_files(plan.target), plan.target.meta])
    portions = sampled_portions(plan.portions, SAMPLE_BYTES)
    done, total = (sum(portion.bytes for portion in each) for each in (portions, plan.portions))
    begun, scale = time.monotonic(), total / max(done, 1)
    try:
        result, size = _split(plan, portions)
    except DataError as error:
        if done >= total:
            raise
        why = f"no estimates: of {done:,} bytes of the input no text can be made: {error}"
        return Estimate(reads, _names(plan, 0), replaced, why, workers=workers, warnings=plan.warnings)
    seconds, memory = (time.monotonic() - begun) * scale / workers, peak_memory()
    written = round(size * scale)
    return Estimate(
        reads,
        _names(plan, written),
        replaced,
        basis(done, total),
        {name: round(result.counters[name]["written"] * scale) for name in ("documents", "sentences")},
        written,
        written,
        seconds,
        memory and memory * (workers + (workers > 1)),
        workers,
        plan.warnings,
    )


def _split(plan: Plan, portions: list) -> tuple[SplittingResult, int]:
    """The result for some portions, and the bytes of its text."""
    with tempfile.TemporaryDirectory(prefix="nlpdata-dry-run-") as folder, unlogged():
        target = text_set(os.path.join(folder, "sample.txt"))
        sample = replace(plan, target=target, portions=portions, num_shards=None)
        result = split_plan(sample, overwrite=False, workers=1, progress=False)
        return result, sum(map(os.path.getsize, result.files))


def _names(plan: Plan, size: int) -> list[str]:
    """The files that would be written."""
    return [str(plan.target.folder / name) for name in plan.target.shards(size, plan.num_shards)] + [
        str(plan.target.meta)
    ]
