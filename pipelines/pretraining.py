"""create-pretraining as a Beam pipeline: the graph, and the function that runs it.

    portions -> build -> runs of records ------------------------> divide -> shard -> commit
                    \\-> documents, waiting -> spread -> fill -> runs /  (objectives with buckets)

Sums that a later step needs (documents by hash slot, record bytes) join the runs through a GroupByKey on the run's
id instead of a side input: that is the same shuffle, since a side input from the same source breaks the stage too, and
it works alike on every runner.
"""

import logging
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.paths import AnyPath, is_remote, shown_name
from nlpdata.files.writing import remove_tree, write_whole
from nlpdata.options import takes
from nlpdata.output import WorkFolder, check_output, commit, complete, shared_path
from nlpdata.pretraining.options import BeamPretrainingRequest
from nlpdata.pretraining.plan import CreationResult, Plan, make_plan, require_examples, result_warnings
from nlpdata.records.contract import read_meta
from pipelines import steps
from pipelines.commands import main
from pipelines.job import describe_job
from pipelines.runner import find_runner
from pipelines.running import run_pipeline
from pipelines.runs import FACTS, labelled

_log = logging.getLogger(__name__)


@takes(BeamPretrainingRequest)
def create_pretraining(request: BeamPretrainingRequest) -> CreationResult | dict:
    """Makes pretraining records on a Beam runner; the same files as nlpdata.create_pretraining, byte for byte.

    Returns the job in place of the result with `dry_run` (see pipelines.job.describe_job).

    Raises UsageError, DataError.
    """
    output = str(request.output)
    chosen = find_runner(request.runner, request.beam_args, request.dry_run)
    plan = make_plan(request)
    targets = list(plan.targets.values())
    chosen.check_places([output, *(file.path for file in plan.files)], request.dry_run)
    if shown_name(output) != output:  # Beam passes paths of runs as UTF-8
        raise UsageError(
            f"{opt('output', shown_name(output))}: Beam takes names in UTF-8 only. Name another, or use {opt('runner', 'local')}."
        )
    if request.dry_run:
        return describe_job(chosen, lambda pipeline: build_graph(pipeline, plan, shared_path(targets[0], plan.key)))
    check_output(targets, request.overwrite, plan.key, plan.copies())
    work = WorkFolder(targets, plan.key, resumable=False)
    folder = shared_path(targets[0], plan.key)  # where finished shards wait for the last step
    counted: dict = {}
    try:
        if work.decided:  # by an equal run, which was interrupted while it put the files in place
            commit(work.decided.sets, plan.key, work.path)
        else:
            if not plan.portions:  # all files are empty: no step would run
                require_examples(plan, Counter())
            _write_copies(plan, folder)
            run_pipeline(
                chosen,
                lambda pipeline: build_graph(pipeline, plan, folder, work.path if chosen.is_local else None),
                units=len(plan.portions),
                input_bytes=plan.input_bytes,
                quiet=not request.progress,
            )
            complete(targets, plan.key)
            counted = (work.result(steps.COUNTED, folder) or {"counters": {}})["counters"]
        metas = {split: read_meta(target.meta) for split, target in plan.targets.items()}
    finally:
        if is_remote(folder):
            remove_tree(folder)
        work.remove()
    found = result_warnings(plan, {**counted, **metas["train"]["counters"]})
    for line in found:
        _log.warning(line)
    return plan.result(metas, found)


def _write_copies(plan: Plan, folder: AnyPath) -> None:
    """Leaves the tokenizer's copies where the shards will wait."""
    for name, content in plan.copies().items():
        try:
            write_whole(folder / name, content)
        except OSError as error:
            raise DataError(f"{folder / name}: cannot write: {error.strerror or error}") from error


def build_graph(
    pipeline: beam.Pipeline, plan: Plan, folder: AnyPath, runs_folder: Path | None = None
) -> beam.PCollection:
    """Adds the steps to a pipeline. Returns the collection of the meta files' contents, made when all is in place.

    Args:
      folder: where finished shards wait for the last step.
      runs_folder: where runs become files, where all steps run on this machine (see pipelines.runs).
    """
    spec = plan.maker_spec(is_local=runs_folder is not None)
    portions = [(portion.index, portion) for portion in plan.portions]
    files, fingerprints, plan = plan.files, plan.fingerprints, plan.for_workers()
    made = [
        pipeline
        | "Portions" >> beam.Create(portions, reshuffle=False)
        | "Spread portions"
        >> beam.GroupByKey()  # as Reshuffle does, but with fewer steps and the same keys in each attempt
        | "Build examples" >> beam.ParDo(steps.BuildFn(spec, runs_folder))
    ]
    if plan.bucket_work.used:
        made.append(_in_buckets(made[0], plan, steps.FillFn(spec, plan.bucket_work.stage, runs_folder)))
    facts = _together([each | f"Facts {i}" >> labelled(FACTS) for i, each in enumerate(made)], "Facts")
    shards = (
        facts
        | "Sum facts" >> beam.GroupByKey()
        | "Plan shards" >> beam.ParDo(steps.PlanShardsFn(plan, files, fingerprints))
    )
    divided = [shards | "Shard names" >> labelled("shards")]
    for split in plan.targets:
        runs = _together(
            [each | f"Records {split} {i}" >> labelled(f"records-{split}") for i, each in enumerate(made)],
            f"Records {split}",
        )
        if count := steps.known_shards(plan, split):
            divided.append(runs | f"Divide {split}" >> beam.ParDo(steps.DivideFn(split, count)))
        else:
            plans = shards | f"Shards of runs {split}" >> labelled(f"join-{split}")
            joined = _joined(runs, plans, f"Join {split}")
            divided.append(joined | f"Divide {split}" >> beam.ParDo(steps.SpreadFn()))
    written = (
        _together(divided, "Shard contents")
        | "Group by shard" >> beam.GroupByKey()
        | "Write shards" >> beam.ParDo(steps.ShardFn(folder, plan.options.compression))
    )
    totals = shards | "Totals" >> labelled("totals")
    return (
        _together([written, totals], "Shards and totals")
        | "All shards" >> beam.GroupByKey()
        | "Commit" >> beam.ParDo(steps.CommitFn(plan, folder))
    )


def _in_buckets(built: beam.PCollection, plan: Plan, fill: beam.DoFn) -> beam.PCollection:
    """The examples that are made, or wait for a second segment, in the bucket of their document."""
    facts = built | "Facts of portions" >> labelled(FACTS)
    buckets = facts | "Sum documents" >> beam.GroupByKey() | "Plan buckets" >> beam.ParDo(steps.PlanBucketsFn(plan))
    labels = [f"{kind}-{split}" for kind in steps.BUCKET_KINDS for split in plan.targets]
    runs = _together([built | f"Runs {label}" >> labelled(label) for label in labels], "Runs")
    plans = buckets | "Buckets of runs" >> labelled("join")
    spread = _joined(runs, plans, "Join buckets") | "Spread by bucket" >> beam.ParDo(steps.SpreadFn())
    return (
        _together([spread, buckets | "Groups" >> labelled("groups")], "Buckets")
        | "Group by bucket" >> beam.GroupByKey()
        | "Fill buckets" >> beam.ParDo(fill)
    )


def _together(collections: Sequence[beam.PCollection], name: str) -> beam.PCollection:
    return collections[0] if len(collections) == 1 else tuple(collections) | f"{name}: flatten" >> beam.Flatten()


def _joined(runs: beam.PCollection, plans: beam.PCollection, name: str) -> beam.PCollection:
    """(run id, [run, plan]) of runs (id, run) and what was planned for each (id, plan)."""
    return _together([runs, plans], name) | name >> beam.GroupByKey()


if __name__ == "__main__":
    sys.exit(main("create-pretraining", sys.argv[1:]))
