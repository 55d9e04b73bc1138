"""create_finetuning: a dataset -> record files of its splits and one meta file, on this machine.

Stages: (1) the source is read and checked, and left in the work folder as batches of rows; (2) batches become records
(for SQuAD in two steps, since a window's number depends on all windows before); (3) records are joined to shards in
the order of the source; (4) the files move into place, the meta file last. An interrupted run resumes where it was.
"""

from collections.abc import Callable
from functools import partial

from nlpdata.execution.executor import Progress, default_workers, run_stage
from nlpdata.finetuning import stages
from nlpdata.finetuning.options import LocalFinetuningRequest
from nlpdata.finetuning.plan import FinetuningResult, make_plan
from nlpdata.finetuning.run import Run
from nlpdata.options import takes


@takes(LocalFinetuningRequest)
def create_finetuning(request: LocalFinetuningRequest) -> FinetuningResult:
    """Makes fine-tuning records of a dataset: `output`/{train,dev,test}.tfrecord and `output`/meta.json.

    Raises UsageError, DataError.
    """
    plan = make_plan(request)
    with Run(plan, request.overwrite) as run:
        if run.is_made:
            return run.complete()
        reading = Progress("reading rows", None, quiet=not request.progress, rate=lambda rows: f"{rows:,.0f} rows/s")
        units = run.read(reading.add)
        reading.close()
        stages.encoder_of(plan.encoder, plan.tokenizer)  # of this process; its own workers load theirs
        stage = partial(_stage, run, request.workers or default_workers(), not request.progress)
        made = stage("tokenizing", stages.make_batch, units, ".made")
        if plan.encoder.numbered:
            units = stages.number_units(zip(units, made, strict=True))
            made = stage("encoding", stages.encode_batch, units, ".encoded")
        stage("writing shards", stages.make_shard, stages.plan_shards(run.setup, zip(units, made, strict=True)), "")
        return run.finish(units)


def _stage(run: Run, workers: int, quiet: bool, name: str, function: Callable, items: list, suffix: str) -> list[dict]:
    """Runs the units that have no stored result yet; all results, in their order."""
    return run_stage(
        name,
        function,
        items,
        [run.work.result(f"{item.name}{suffix}") for item in items],
        workers=workers,
        initializer=stages.set_up,
        initargs=(run.setup,),
        total=sum(item.size for item in items),
        describe=lambda item: item.name,
        quiet=quiet,
    )
