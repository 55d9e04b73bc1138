"""train-tokenizer as a Beam pipeline: workers count, normalise and sample the lines; one process trains on the sample.

    portions -> count -> plan the sample -> sample, a file for each portion -> sum

The files and the sums are in a folder next to the output, from which the command that started the pipeline trains, as the
local executor does: SentencePiece trains on one machine. A sample of the default 10 million lines is about 1 GB.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from uuid import uuid4

import apache_beam as beam
from apache_beam.metrics import Metrics

from nlpdata.corpus import Portion
from nlpdata.files.paths import AnyPath, path_of
from nlpdata.files.writing import remove_tree, write_whole
from nlpdata.options import takes
from nlpdata.tokenizers.training.options import BeamTrainingRequest
from nlpdata.tokenizers.training.train import (
    LineReader,
    TrainingPlan,
    TrainingResult,
    make_plan,
    refuse_change,
    require_lines,
    train,
    train_vocabulary,
)
from pipelines.commands import main
from pipelines.faults import marked_faults
from pipelines.job import describe_job
from pipelines.runner import find_runner
from pipelines.running import run_pipeline
from pipelines.runs import Elements

_SUMS = "sums.json"


@takes(BeamTrainingRequest)
def train_tokenizer(request: BeamTrainingRequest) -> TrainingResult | dict:
    """Trains a vocabulary on a Beam runner; the same files as nlpdata.train_tokenizer, byte for byte.

    Returns the job in place of the result with `dry_run` (see pipelines.job.describe_job).

    Raises UsageError, DataError.
    """
    chosen = find_runner(request.runner, request.beam_args, request.dry_run)
    plan = make_plan(request)
    inputs = [byte_range.file.path for portion in plan.portions for byte_range in portion.byte_ranges]
    chosen.check_places([str(plan.paths[0]), *inputs], request.dry_run)
    first = plan.paths[0]
    folder = str(first.with_name(f".{first.name}.{uuid4().hex}.work"))
    if request.dry_run:
        return describe_job(chosen, lambda pipeline: build_graph(pipeline, plan, folder))
    if not plan.portions:  # all files are empty: no step would run
        require_lines(Counter(), plan.reader.options, plan.files)
    try:
        path_of(folder).mkdir()
        run_pipeline(
            chosen,
            lambda pipeline: build_graph(pipeline, plan, folder),
            units=len(plan.portions),
            input_bytes=sum(portion.bytes for portion in plan.portions),
            quiet=True,
        )
        sums = json.loads((path_of(folder) / _SUMS).read_text())
        lines = _sample(folder, sums["parts"])
        return train(plan, Counter(sums["counts"]), lambda: train_vocabulary(plan.reader.options, lines))
    finally:
        remove_tree(folder)


def build_graph(pipeline: beam.Pipeline, plan: TrainingPlan, folder: str) -> beam.PCollection:
    """Adds the steps to a pipeline. `folder` receives the sample and the sums."""
    return (
        pipeline
        | "Portions" >> beam.Create([(portion.index, portion) for portion in plan.portions], reshuffle=False)
        | "Spread portions" >> beam.GroupByKey()
        | "Count lines" >> beam.ParDo(CountFn(plan.reader))
        | "Counts in one" >> beam.GroupByKey()
        | "Plan sample" >> beam.ParDo(PlanSampleFn(plan.reader, plan.files))
        | "Spread again" >> beam.GroupByKey()
        | "Sample lines" >> beam.ParDo(SampleFn(plan.reader, folder))
        | "Parts in one" >> beam.GroupByKey()
        | "Sum" >> beam.ParDo(SumFn(folder))
    )


class CountFn(beam.DoFn):
    """(portion index, [Portion]) -> (0, (Portion, the counts of its lines))."""

    def __init__(self, reader: LineReader) -> None:
        self._reader = reader

    def process(self, grouped: tuple[int, Iterable[Portion]]) -> Elements:
        portion, *_ = grouped[1]
        with marked_faults("counting lines", portion.place):
            counts = self._reader.count(portion)
        for name, count in counts.items():
            Metrics.counter("nlpdata", f"lines_{name}").inc(count)
        yield 0, (portion, counts)


class PlanSampleFn(beam.DoFn):
    """(0, all portions with their counts) -> (portion index, (Portion, its counts, usable lines of all, seen, taken)).

    Seen and taken are the lines before the portion. Raises the fault of a corpus without a line that can be used.
    """

    def __init__(self, reader: LineReader, files: int) -> None:
        self._reader, self._files = reader, files

    def process(self, grouped: tuple[int, Iterable[tuple[Portion, Counter]]]) -> Elements:
        with marked_faults("planning the sample", "all portions"):
            parts = sorted(grouped[1], key=lambda part: part[0].index)
            total = sum((counts for _, counts in parts), Counter())
            require_lines(total, self._reader.options, self._files)
            sampler = self._reader.sampler(total["usable"])
            for portion, counts in parts:
                yield portion.index, (portion, counts, total["usable"], sampler.seen, sampler.taken)
                sampler.select(counts["usable"])


class SampleFn(beam.DoFn):
    """(portion index, [what PlanSampleFn gives for it]) -> (0, (portion index, its counts)); its lines are a file of the folder."""

    def __init__(self, reader: LineReader, folder: str) -> None:
        self._reader, self._folder = reader, folder

    def process(self, grouped: tuple[int, Iterable[tuple]]) -> Elements:
        (portion, counts, usable, seen, taken), *_ = grouped[1]
        with marked_faults("sampling lines", portion.place):
            sampler = self._reader.sampler(usable, seen, taken)
            lines = [line for block in self._reader.sampled(portion, sampler) for line in block]
            refuse_change(counts["usable"], sampler.seen - seen)
            write_whole(_part(self._folder, portion.index), "\n".join(lines).encode("utf-8", "surrogatepass"))
        yield 0, (portion.index, counts)


class SumFn(beam.DoFn):
    """(0, all portion indices with their counts) -> the sums, which it also writes into the folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, grouped: tuple[int, Iterable[tuple[int, Counter]]]) -> Elements:
        with marked_faults("adding up", self._folder):
            parts = dict(grouped[1])
            sums = {"counts": sum(parts.values(), Counter()), "parts": sorted(parts)}
            write_whole(path_of(self._folder) / _SUMS, json.dumps(sums).encode())
        yield sums


def _part(folder: str, index: int) -> AnyPath:
    return path_of(folder) / f"sample-{index:06d}.txt"


def _sample(folder: str, parts: Sequence[int]) -> Iterator[str]:
    """The sampled lines in their order; memory holds one part."""
    for index in parts:
        text = _part(folder, index).read_bytes().decode("utf-8", "surrogatepass")
        if text:
            yield from text.split("\n")


if __name__ == "__main__":
    sys.exit(main("train-tokenizer", sys.argv[1:]))
