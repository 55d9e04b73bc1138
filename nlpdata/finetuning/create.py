"""create_finetuning: a dataset -> record files of its splits and one meta file, on this machine.

Stages: (1) the source is read and checked, and lies in the work folder as chunks of rows; (2) chunks become records
(for SQuAD in two steps, since a window's number depends on all windows before); (3) records are joined to shards in
the order of the source; (4) the files move into place, the meta file last. An interrupted run goes on where it was.
"""

from collections.abc import Callable
from functools import partial

from nlpdata.execution.executor import default_workers, run_stage
from nlpdata.finetuning import stages as tasks
from nlpdata.finetuning.plan import FinetuningResult, Run, make_plan
from nlpdata.options import check_range


def create_finetuning(
    input=None,
    output: str | None = None,
    tokenizer=None,
    *,
    meta: str | None = None,
    train_output: str | None = None,
    dev_output: str | None = None,
    test_output: str | None = None,
    num_shards: int | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    do_lower_case: bool | None = None,
    keep_accents: bool | None = None,
    digit_comma: bool | None = None,
    log: Callable[[str], None] | None = None,
    progress: bool = False,
    **options,
) -> FinetuningResult:
    """Makes fine-tuning records of a dataset: `output`/{train,dev,test}.tfrecord and `output`/meta.json.

    Args:
      input: the dataset's folder or file (see the module of its family), or several paths where it takes them.
      output: the folder of the records.
      tokenizer: a tokenizer file (see nlpdata.tokenizers.load_tokenizer).
      meta: the meta file, if not `output`/meta.json.
      train_output, dev_output, test_output: record files, if not under the standard names; all in one folder.
      num_shards: record files of the training split; default: one for each 112 MiB.
      workers: processes; default: one a core. Does not change the result.
      overwrite: replace an older result.
      do_lower_case, keep_accents, digit_comma: normalisation, if not as stored with the tokenizer.
      log: receives lines for the user.
      progress: show progress on standard error.
      options: see FinetuningOptions; `task` or `tfds` is one of them.

    Raises UsageError, DataError.
    """
    log = log or (lambda line: None)
    check_range("workers", workers, 1, None)
    plan = make_plan(
        input,
        output,
        tokenizer,
        meta=meta,
        train_output=train_output,
        dev_output=dev_output,
        test_output=test_output,
        num_shards=num_shards,
        do_lower_case=do_lower_case,
        keep_accents=keep_accents,
        digit_comma=digit_comma,
        log=log,
        **options,
    )
    with Run(plan, overwrite, log) as run:
        if run.is_made:
            return run.complete()
        parts = run.read()
        tasks.make_encoder(plan.recipe, plan.tokenizer)  # of this process; its own workers load theirs
        stage = partial(_stage, run, workers or default_workers(), not progress)
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
