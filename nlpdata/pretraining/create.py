"""create_pretraining: corpus files -> shards of pretraining records and a meta file, on this machine.

Stages: (1) portions of the corpus become keyed records in sorted runs; (2) next-sentence examples get their random
second segment, or documents are packed one behind the other, bucket by bucket; (3) runs are merged into shards; (4) the
shards move into place, the meta file last. Before (2) and (3), very many runs become fewer. Every finished task leaves a
small result file, so an interrupted run resumes where it was.
"""

import shutil
from collections import Counter
from contextlib import contextmanager
from itertools import pairwise

from nlpdata.errors import DataError
from nlpdata.execution.executor import default_workers, run_stage
from nlpdata.execution.spill import MAX_RUNS, Merge
from nlpdata.options import takes
from nlpdata.output import FinishedSet, WorkFolder, check_output, commit
from nlpdata.pretraining import random_next
from nlpdata.pretraining.options import LocalPretrainingRequest
from nlpdata.pretraining.plan import (
    CreationResult,
    Plan,
    add_counters,
    make_plan,
    refuse_lone_documents,
    refuse_loss,
    require_examples,
    result_warnings,
)
from nlpdata.pretraining.recipe import SPLITS
from nlpdata.pretraining.stages import (
    BUCKET_STAGES,
    RunGroup,
    Setup,
    disk_errors,
    make_buckets,
    make_portion,
    make_shard,
    merge_group,
    portion_name,
    set_up,
)
from nlpdata.text import loss

BUCKETS_BYTES = 4 << 20  # what is known of the documents of the buckets of a task; not of the workers either


@takes(LocalPretrainingRequest)
def create_pretraining(request: LocalPretrainingRequest) -> CreationResult:
    """Makes pretraining records of text files: `output` (in shards where it is large), and its meta file.

    Raises UsageError, DataError.
    """
    plan = make_plan(request)
    run = _Run(plan, request.workers or default_workers(), request.say, request.progress)
    run.open_work_folder(request.overwrite)
    try:
        with disk_errors("create-pretraining", plan.targets["train"].folder):
            return run.execute()
    finally:
        run.close()


class _Run:
    def __init__(self, plan: Plan, workers: int, log, progress: bool):
        self._plan, self._workers, self._log, self._progress = plan, workers, log, progress
        self._counters: Counter = Counter()
        self._runs: dict[str, list[str]] = {}
        self._merged: set[str] = set()  # runs of finished tasks that are parts of other runs now

    def open_work_folder(self, overwrite: bool) -> None:
        """Refuses outputs that exist (UsageError), and finds or makes the work folder."""
        targets = self._plan.targets
        check_output(list(targets.values()), overwrite, self._plan.key, self._plan.copies())
        self._work = WorkFolder(list(targets.values()), self._plan.key, self._log)

    def close(self) -> None:
        self._work.close()

    def execute(self) -> CreationResult:
        sets = self._work.decided.sets if self._work.decided else self._make_sets()
        commit(sets, self._plan.key, self._work.path, found=self._work.found)
        self._work.remove()
        metas = {split: each.meta for split, each in zip(self._plan.targets, sets, strict=True)}
        found = result_warnings(self._plan, metas["train"]["counters"])
        for line in found:
            self._log(f"warning: {line}")
        return self._plan.result(metas, found)

    def _make_sets(self) -> list[FinishedSet]:
        """Makes all parts that are not there yet, and what is put in place."""
        self._find_merged()
        self._make_portions()
        if self._plan.options.needs_buckets:
            self._make_buckets()
        with self._work_removed_on_refusal():
            require_examples(self._plan, self._counters)
        refuse_loss(self._plan, self._counters, loss.PARTS_KEPT)
        return self._finished_sets(self._make_shards())

    def _stage(self, name, function, tasks, task_names, total, describe, sizes=None) -> list[dict]:
        """Runs the tasks that have no stored result yet; all results, in task order."""
        return run_stage(
            name,
            function,
            tasks,
            [self._stored(task_name) for task_name in task_names],
            workers=self._workers,
            initializer=set_up,
            initargs=(Setup(self._plan.options, self._plan.tokenizer, self._work.path),),
            total=total,
            describe=describe,
            quiet=not self._progress,
            sizes=sizes,
        )

    def _stored(self, task_name: str) -> dict | None:
        """The stored result of a finished task, if its run files are whole."""
        result = self._work.result(task_name)
        if result is None:
            return None
        try:
            runs = [run for runs in result.get("runs", {}).values() for run in runs]
            Merge([self._work.path / run for run in runs if run not in self._merged])
        except OSError as error:
            self._log(f"{error}; it is made again.")
            return None
        return result

    def _find_merged(self) -> None:
        """Looks which runs an interrupted run has merged."""
        for path in sorted(self._work.path.glob("merge-*.json"), reverse=True):  # those of later passes first
            self._merged.update((self._stored(path.stem) or {}).get("merged", ()))

    def _few_runs(self, kind: str) -> list[str]:
        """The runs of a kind and split; merged into fewer, in passes, where they are more than MAX_RUNS."""
        runs, number = self._runs.get(kind, []), 0
        while len(runs) > MAX_RUNS:
            count = -(-len(runs) // MAX_RUNS)
            edges = [len(runs) * i // count for i in range(count + 1)]
            groups = [
                RunGroup(f"merge-{number}-{kind}-{i:06d}", kind, tuple(runs[first:stop]))
                for i, (first, stop) in enumerate(pairwise(edges))
            ]
            names = [group.name for group in groups]
            results = self._stage("sorting", merge_group, groups, names, len(runs), lambda group: group.name)
            runs, number = [result["runs"][kind][0] for result in results], number + 1
        return runs

    def _collect(self, results: list[dict]) -> None:
        for result in results:
            add_counters(self._counters, result["counters"])
            for kind, runs in result["runs"].items():
                self._runs.setdefault(kind, []).extend(runs)

    def _make_portions(self) -> None:
        portions = self._plan.portions
        results = self._stage(
            "tokenizing",
            make_portion,
            portions,
            [portion_name(portion) for portion in portions],
            self._plan.input_bytes,
            lambda portion: portion.place,
            [portion.bytes for portion in portions],
        )
        self._collect(results)

    def _make_buckets(self) -> None:
        tasks = []
        by_file = self._plan.options.nsp_scope == "file"
        for split in SPLITS:
            documents, waiting = (self._few_runs(f"{kind}-{split}") for kind in ("documents", "waiting"))
            merge = Merge([self._work.path / run for run in documents])
            buckets = random_next.plan_buckets(merge.histogram(random_next.slot_shift(by_file)), by_file)
            with self._work_removed_on_refusal():
                refuse_lone_documents(self._plan, split, buckets)
            for group in random_next.group_buckets(buckets, -(-merge.bytes // BUCKETS_BYTES)):
                tasks.append((len(tasks), split, group, documents, waiting))
        names = [f"bucket-{i:06d}" for i in range(len(tasks))]
        stage = BUCKET_STAGES[self._plan.options.objective]
        results = self._stage(stage, make_buckets, tasks, names, len(tasks), lambda task: f"bucket {task[0]}")
        self._collect(results)

    @contextmanager
    def _work_removed_on_refusal(self):
        """A corpus that is refused is refused again the next time: its finished parts are of no use."""
        try:
            yield
        except DataError:
            self._work.remove()
            raise

    def _make_shards(self) -> dict[str, list[dict]]:
        tasks, names, total = [], [], 0
        for split in self._plan.targets:
            runs = self._few_runs(f"records-{split}")
            size = Merge([self._work.path / run for run in runs]).bytes
            total += size
            shards = self._plan.shards(split, size)
            names += shards
            tasks += [(split, i, len(shards), name, runs) for i, name in enumerate(shards)]
        results = self._stage("writing shards", make_shard, tasks, names, total, lambda task: task[3])
        shards: dict[str, list[dict]] = {split: [] for split in self._plan.targets}
        for task, info in zip(tasks, results, strict=True):
            shards[task[0]].append(info)
        return shards

    def _finished_sets(self, shards: dict[str, list[dict]]) -> list[FinishedSet]:
        sets = []
        for split, target in self._plan.targets.items():
            copy = self._work.path / self._plan.tokenizer_file(split)
            shutil.copyfile(self._plan.tokenizer.path, copy)
            finished = [self._work.path / info["file"] for info in shards[split]]
            sets.append(FinishedSet(target, [*finished, copy], self._plan.meta(split, shards[split], self._counters)))
        return sets
