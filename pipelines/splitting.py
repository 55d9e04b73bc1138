"""split-sentences as a Beam pipeline: the units of the local executor as steps, and the function that runs them.

    portions -> split -> [plan -> find equal documents] -> [plan -> hash lines -> plan -> find equal lines -> plan -> leave out] ->
    plan shards -> write shards

What passes between the steps is names and counts: text and hashes are files of the work folder, as they are locally; where workers
are elsewhere and the output is remote, of a folder next to it. A stage is planned from the results of all stages before it. The
command puts the text files in place.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam

from nlpdata.corpus.splitting import stages, units
from nlpdata.corpus.splitting.options import BeamSplittingRequest
from nlpdata.corpus.splitting.plan import SplittingResult, make_plan
from nlpdata.corpus.splitting.run import Run, setup_of
from nlpdata.errors import BEGINS_ANEW, UsageError, opt
from nlpdata.execution.executor import Report
from nlpdata.files.paths import is_remote
from nlpdata.files.writing import remove_tree
from nlpdata.options import takes
from nlpdata.output import shared_path, work_path
from pipelines import progress
from pipelines.commands import main
from pipelines.faults import marked_faults
from pipelines.job import describe_job
from pipelines.runner import find_runner
from pipelines.running import run_pipeline

Element = tuple[int, tuple[str, int, Any, dict]]
"""(0, (stage, number of the unit, unit, its result))"""


@takes(BeamSplittingRequest)
def split_sentences(request: BeamSplittingRequest) -> SplittingResult | dict:
    """Splits raw documents into sentences on a Beam runner; the same files as nlpdata.split_sentences, byte for byte.

    Returns the job in place of the result with `dry_run` (see pipelines.job.describe_job).

    Raises UsageError, DataError.
    """
    if request.near_duplicates is not None:
        raise UsageError(
            f"{opt('near_duplicates')} compares each document with all before it, in one process: use {opt('runner', 'local')}. "
            f"{opt('deduplicate_documents')} works on any runner."
        )
    chosen = find_runner(request.runner, request.beam_args, request.dry_run)
    plan = make_plan(request)
    target = plan.target
    chosen.check_places([target.output, *(file.path for file in plan.files)], request.dry_run)
    folder = work_path(target) if chosen.is_local else shared_path(target, plan.key)
    folder = folder.absolute() if isinstance(folder, Path) else folder
    steps = stages.stages_of(plan.options, plan.portions)
    setup = setup_of(plan, folder, BEGINS_ANEW)
    if request.dry_run:
        return describe_job(chosen, lambda pipeline: build_graph(pipeline, steps, setup))
    with Run(plan, request.overwrite, folder) as run:
        if run.is_made:
            return run.complete()
        try:
            run.require_input()
            try:
                run_pipeline(
                    chosen,
                    lambda pipeline: build_graph(pipeline, steps, setup),
                    units=len(plan.portions),
                    input_bytes=plan.input_bytes,
                    quiet=not request.progress,
                )
            except BaseException:
                run.work.remove()  # the same command begins anew
                raise
            return run.finish(run.results(run.stored))
        finally:
            if is_remote(folder):
                remove_tree(folder)


def build_graph(pipeline: beam.Pipeline, steps: Sequence[stages.Stage], setup: units.Setup) -> beam.PCollection:
    """Adds the steps to a pipeline. Returns the collection of the results of the shards, which are in the work folder."""
    first, *others = steps
    portions = list(enumerate(first.plan(setup, {})))
    done = [
        pipeline
        | "Units" >> beam.Create(portions, reshuffle=False)
        | "Spread units" >> beam.Reshuffle()
        | first.name.capitalize() >> beam.ParDo(UnitFn(first, setup, progress.report))
    ]
    for stage in others:
        results = done[0] if len(done) == 1 else tuple(done) | f"Results before {stage.name}" >> beam.Flatten()
        done.append(
            results
            | f"In one for {stage.name}" >> beam.GroupByKey()
            | f"Plan {stage.name}" >> beam.ParDo(PlanFn(stage, setup))
            | f"Spread {stage.name}" >> beam.Reshuffle()
            | stage.name.capitalize() >> beam.ParDo(UnitFn(stage, setup))
        )
    return done[-1]


def _unseen(count: int) -> None:
    """Progress shows the first step: nearly all of the time goes there."""


class UnitFn(beam.DoFn):
    """(number, unit) -> (0, (stage, number, unit, result)); see nlpdata.corpus.splitting.units."""

    def __init__(self, stage: stages.Stage, setup: units.Setup, report: Report = _unseen) -> None:
        self._name, self._work, self._setup, self._report = stage.name, stage.work, setup, report

    def process(self, numbered: tuple[int, Any]) -> Iterator[Element]:
        number, unit = numbered
        with marked_faults(self._name, unit.name):
            units.set_up(self._setup)
            yield 0, (self._name, number, unit, self._work(unit, self._report))


class PlanFn(beam.DoFn):
    """(0, all results of the stages before) -> the units of a stage, numbered."""

    def __init__(self, stage: stages.Stage, setup: units.Setup) -> None:
        self._name, self._plan, self._setup = stage.name, stage.plan, setup

    def process(self, grouped: tuple[int, Iterable[tuple[str, int, Any, dict]]]) -> Iterator[tuple[int, Any]]:
        with marked_faults(f"planning {self._name}", "all units"):
            numbered: dict[str, dict[int, tuple[Any, dict]]] = {}
            for stage, number, unit, result in grouped[1]:
                numbered.setdefault(stage, {})[number] = unit, result  # of a bundle that ran twice, one
            results = {stage: [done[number] for number in sorted(done)] for stage, done in numbered.items()}
            yield from enumerate(self._plan(self._setup, results))


if __name__ == "__main__":
    sys.exit(main("split-sentences", sys.argv[1:]))
