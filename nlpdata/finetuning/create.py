"""create_finetuning: a dataset -> record files of its splits and one meta file, on this machine.

Stages: (1) the source is read and checked, and lies in the work folder as chunks of rows; (2) chunks become records
(for SQuAD in two steps, since a window's number depends on all windows before); (3) records are joined to shards in
the order of the source; (4) the files move into place, the meta file last. An interrupted run goes on where it was.
"""

from functools import partial

from nlpdata.execution.executor import default_workers, run_stage
from nlpdata.finetuning import stages as tasks
from nlpdata.finetuning.options import LocalFinetuningRequest
from nlpdata.finetuning.plan import FinetuningResult, Run, make_plan
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
        parts = run.read()
        tasks.make_encoder(plan.recipe, plan.tokenizer)  # of this process; its own workers load theirs
        stage = partial(_stage, run, request.workers or default_workers(), not request.progress)
        made = stage("tokenizing", tasks.make_part, parts, ".made")
        if plan.recipe.numbered:
            parts = tasks.number_parts(zip(parts, made, strict=True))
            made = stage("encoding", tasks.encode_part, parts, ".encoded")
        stage("writing shards", tasks.make_shard, tasks.plan_shards(run.setup, zip(parts, made, strict=True)), "")
        return run.finish(parts)


def _stage(run: Run, workers: int, quiet: bool, name: str, function, items: list, suffix: str) -> list[dict]:
    """Runs the tasks that have no stored result yet; all results, in their order."""
    return run_stage(
        name,
        function,
        items,
        [run.work.result(f"{item.name}{suffix}") for item in items],
        workers=workers,
        initializer=tasks.set_up,
        initargs=(run.setup,),
        total=sum(item.size for item in items),
        describe=lambda item: item.name,
        quiet=quiet,
    )
