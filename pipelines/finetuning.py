"""create-finetuning as a Beam pipeline: the units of the local executor as steps, and the function that runs them.

    batches of rows -> make -> [number -> encode ->] plan shards -> write shards

The command reads and checks the dataset, which knows its rows by file and line, and leaves it in the work folder as
batches; at the end it puts the shards in place. What passes between the steps is names and counts: rows, windows and
records are files of the work folder, as they are locally; where workers are elsewhere and the output is remote, of a
folder next to it. Brackets: SQuAD, whose records count those before them.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import apache_beam as beam

from nlpdata.files.paths import is_remote
from nlpdata.files.writing import remove_tree
from nlpdata.finetuning import stages
from nlpdata.finetuning.options import BeamFinetuningRequest
from nlpdata.finetuning.plan import FinetuningResult, Plan, make_plan
from nlpdata.finetuning.run import Run
from nlpdata.options import takes
from nlpdata.output import shared_path, work_path
from pipelines import progress
from pipelines.commands import main
from pipelines.faults import marked_faults
from pipelines.job import describe_job
from pipelines.runner import find_runner
from pipelines.running import run_pipeline
from pipelines.runs import Elements


@takes(BeamFinetuningRequest)
def create_finetuning(request: BeamFinetuningRequest) -> FinetuningResult | dict:
    """Makes fine-tuning records on a Beam runner; the same files as nlpdata.create_finetuning, byte for byte.

    Returns the job in place of the result with `dry_run` (see pipelines.job.describe_job).

    Raises UsageError, DataError.
    """
    chosen = find_runner(request.runner, request.beam_args, request.dry_run)
    plan = make_plan(request)
    targets = list(plan.targets.values())
    chosen.check_places([target.output for target in targets], request.dry_run, ("output",))
    folder = work_path(targets[0]) if chosen.is_local else shared_path(targets[0], plan.key)
    if request.dry_run:
        setup = stages.Setup(plan.encoder, folder, plan.targets, plan.num_shards)
        return describe_job(chosen, lambda pipeline: build_graph(pipeline, setup, []))
    with Run(plan, request.overwrite, folder) as run:
        if run.is_made:
            return run.complete()
        try:
            units = run.read()
            setup = _for_workers(plan, run)
            try:
                run_pipeline(
                    chosen,
                    lambda pipeline: build_graph(pipeline, setup, units),
                    units=len(units),
                    input_bytes=sum(unit.size for unit in units),
                    quiet=not request.progress,
                )
            except BaseException:
                run.work.remove()  # the same command begins anew
                raise
            return run.finish(units)
        finally:
            if is_remote(folder):
                remove_tree(folder)


def _for_workers(plan: Plan, run: Run) -> stages.Setup:
    """The setup with the tokenizer's copy in the units' folder, which all workers see; here the loaded one serves."""
    folder = run.setup.folder
    folder = folder.absolute() if isinstance(folder, Path) else folder
    spec = replace(plan.tokenizer.spec, path=str(folder / plan.tokenizer_file))
    setup = replace(run.setup, folder=folder, encoder=replace(plan.encoder, tokenizer=spec))
    stages.encoder_of(setup.encoder, plan.tokenizer)
    return setup


def build_graph(pipeline: beam.Pipeline, setup: stages.Setup, units: Sequence[stages.BatchUnit]) -> beam.PCollection:
    """Adds the steps to a pipeline. Returns the collection of the results of the shards, which are in the work folder."""
    made = (
        pipeline
        | "Units" >> beam.Create(units, reshuffle=False)
        | "Spread units" >> beam.Reshuffle()
        | "Make records" >> beam.ParDo(UnitFn("tokenizing", stages.make_batch, setup, progress.report))
    )
    if setup.encoder.numbered:
        made = (
            made
            | "All windows" >> beam.GroupByKey()
            | "Number records" >> beam.FlatMap(_numbered)
            | "Spread windows" >> beam.Reshuffle()
            | "Encode records" >> beam.ParDo(UnitFn("encoding", stages.encode_batch, setup))
        )
    return (
        made
        | "All records" >> beam.GroupByKey()
        | "Plan shards" >> beam.ParDo(PlanShardsFn(setup))
        | "Spread shards" >> beam.Reshuffle()
        | "Write shards" >> beam.ParDo(UnitFn("writing shards", stages.make_shard, setup))
    )


def _unseen(count: int) -> None:
    """Progress shows the first step: nearly all of the time goes there."""


class UnitFn(beam.DoFn):
    """A unit -> (0, (the unit, its result)); see nlpdata.finetuning.stages."""

    def __init__(self, step: str, function: Callable, setup: stages.Setup, report: Callable = _unseen) -> None:
        self._step, self._function, self._setup, self._report = step, function, setup, report

    def process(self, unit: stages.BatchUnit | stages.Shard) -> Elements:
        with marked_faults(self._step, unit.name):
            stages.set_up(self._setup)
            yield 0, (unit, self._function(unit, self._report))


class PlanShardsFn(beam.DoFn):
    """(0, all units with their results) -> the shards."""

    def __init__(self, setup: stages.Setup) -> None:
        self._setup = setup

    def process(self, grouped: tuple[int, Iterable]) -> Elements:
        with marked_faults("planning shards", "all units"):
            yield from stages.plan_shards(self._setup, grouped[1])


def _numbered(grouped: tuple[int, Iterable]) -> list[stages.BatchUnit]:
    return stages.number_units(grouped[1])


if __name__ == "__main__":
    sys.exit(main("create-finetuning", sys.argv[1:]))
