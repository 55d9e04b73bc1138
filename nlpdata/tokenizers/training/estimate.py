"""A dry run of train-tokenizer: checks everything, trains on a small sample, and writes nothing."""

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nlpdata.corpus import Portion, find_files, plan_portions
from nlpdata.corpus.sample import store_sample
from nlpdata.errors import DataError
from nlpdata.execution.executor import default_workers
from nlpdata.options import takes
from nlpdata.output.estimate import Estimate, existing, peak_memory, unlogged
from nlpdata.text import loss
from nlpdata.tokenizers.training.coverage import lost_lines
from nlpdata.tokenizers.training.options import LocalTrainingRequest
from nlpdata.tokenizers.training.train import LineReader, make_plan, require_lines, train_vocabulary
from nlpdata.tokenizers.training.trainers import TooFewPieces

_log = logging.getLogger(__name__)

SAMPLE_BYTES = 1 << 20


@takes(LocalTrainingRequest)
def estimate_training(request: LocalTrainingRequest) -> Estimate:
    """What train_tokenizer would do with the same arguments; see Estimate. `records` has the lines of the corpus and those that
    would be trained on.

    Raises what train_tokenizer raises before it reads all of the corpus.
    """
    plan = make_plan(request, dry_run=True)
    workers = min(request.workers or default_workers(), max(len(plan.portions), 1))
    reads = {each.file.path: each.file.size for portion in plan.portions for each in portion.byte_ranges}
    with tempfile.TemporaryDirectory(prefix="nlpdata-dry-run-") as folder:
        sample = store_sample(
            Path(folder),
            plan.portions,
            SAMPLE_BYTES,
            invalid_utf8=plan.reader.invalid_utf8,
            text_key=plan.reader.text_key,
        )
        portions = plan_portions(find_files(list(sample.files))[0], SAMPLE_BYTES)
        reader = LineReader(replace(plan.reader.options, hard_vocab_limit=False), "replace", None)
        begun, before = time.monotonic(), peak_memory()
        counts = sum((reader.count(portion) for portion in portions), Counter())
        reading = time.monotonic() - begun
        training = _seconds_of_training(reader, portions)
    if sample.is_whole:
        require_lines(counts, reader.options, plan.files)
    lost = lost_lines(counts, reader.options.max_line_bytes)
    loss.refuse(lost, request.accept_loss or not sample.is_whole, loss.NOTHING_WRITTEN)
    warnings = loss.warnings(lost)
    for line in warnings:
        _log.warning(line)
    usable = round(counts["usable"] * sample.scale)
    used = min(usable, reader.options.sample_lines)
    share = used / max(counts["usable"], 1)
    after = peak_memory()
    seconds = None if training is None else reading * sample.scale / workers + training * share
    return Estimate(
        reads,
        [str(path) for path in plan.paths],
        existing(plan.paths),
        sample.in_words,
        {"lines": round(counts["read"] * sample.scale), "used": used},
        seconds=seconds,
        memory_bytes=None if before is None or after is None else round(before + (after - before) * max(share, 1)),
        workers=workers,
        warnings=[*plan.warnings, *warnings],
    )


def _seconds_of_training(reader: LineReader, portions: Sequence[Portion]) -> float | None:
    """Seconds that a vocabulary of all lines takes, reading included; None where they are too few for one."""

    def lines() -> Iterator[str]:
        for portion in portions:
            for usable, _ in reader.read(portion):
                yield from usable

    begun = time.monotonic()
    try:
        with unlogged():
            train_vocabulary(reader.options, lines())
    except (DataError, TooFewPieces):
        return None
    return time.monotonic() - begun
