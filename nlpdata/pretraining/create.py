"""create_pretraining: corpus files -> shards of pretraining records and a meta file, on this machine.

Stages: (1) portions of the corpus become keyed records in sorted runs; (2) where examples need text of other documents,
they are made bucket by bucket; (3) runs are merged into shards; (4) the shards move into place, the meta file last.
Before (2) and (3), very many runs become fewer. Every finished unit leaves a small result file, so an interrupted run
resumes where it was.
"""

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

from nlpdata.corpus import require_unchanged
from nlpdata.execution.executor import default_workers, run_stage
from nlpdata.execution.spill import MAX_RUNS, Merge
from nlpdata.options import takes
from nlpdata.output import FinishedSet, WorkFolder, check_output, commit, disk_errors
from nlpdata.pretraining.buckets import group_buckets, plan_buckets, slot_shift
from nlpdata.pretraining.maker import SPLITS
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
from nlpdata.pretraining.stages import (
    BucketUnit,
    RunGroup,
    Setup,
    Shard,
    make_buckets,
    make_portion,
    make_shard,
    merge_group,
    portion_name,
    set_up,
)
from nlpdata.text import loss

_log = logging.getLogger(__name__)

BUCKETS_BYTES = 4 << 20  # of the entries of the documents in a group of buckets; it does not depend on the workers


@takes(LocalPretrainingRequest)
def create_pretraining(request: LocalPretrainingRequest) -> CreationResult:
    """Makes pretraining records of text files: `output` (in shards where it is large), and its meta file.

    Raises UsageError, DataError.
    """
    plan = make_plan(request)
    run = _Run(plan, request.workers or default_workers(), request.progress)
    run.open_work_folder(request.overwrite)
    try:
        with disk_errors("create-pretraining", plan.targets["train"].folder):
            return run.execute()
    finally:
        run.close()


@dataclass(frozen=True)
class _Stage:
    """One pass of the command.

    Attributes:
      name: for progress and messages.
      function: does one unit in a worker (see nlpdata.pretraining.stages).
      units: what it is called with.
      total: bytes (or runs, or groups of buckets) of all units, for progress.
      name_of: a unit -> the name of its result in the work folder.
      describe: a unit -> what messages call it; its name by default.
      sizes: of the units, where large ones should start first.
    """

    name: str
    function: Callable[..., dict]
    units: Sequence[Any]
    total: int
    name_of: Callable[[Any], str]
    describe: Callable[[Any], str] | None = None
    sizes: Sequence[int] | None = None


class _Run:
    def __init__(self, plan: Plan, workers: int, progress: bool) -> None:
        self._plan, self._workers, self._progress = plan, workers, progress
        self._counters: Counter = Counter()
        self._runs: dict[str, list[str]] = {}
        self._merged: set[str] = set()  # runs of finished units that are parts of other runs now
        self._spec = plan.maker_spec(is_local=True)

    def open_work_folder(self, overwrite: bool) -> None:
        """Refuses outputs that exist (UsageError), and finds or makes the work folder."""
        targets = self._plan.targets
        check_output(list(targets.values()), overwrite, self._plan.key, self._plan.copies())
        self._work = WorkFolder(list(targets.values()), self._plan.key)

    def close(self) -> None:
        self._work.close()

    def execute(self) -> CreationResult:
        decided = self._work.decided
        sets = decided.sets if decided else self._make_sets()
        metas = {split: each.meta for split, each in zip(self._plan.targets, sets, strict=True)}
        noted = decided.notes if decided else []  # they name places, which the meta file does not
        found = noted or result_warnings(self._plan, {**self._counters, **metas["train"]["counters"]})
        commit(sets, self._plan.key, self._work.path, found, self._work.found)
        self._work.remove()
        for line in found:
            _log.warning(line)
        return self._plan.result(metas, found)

    def _make_sets(self) -> list[FinishedSet]:
        """Does the units that have no result yet; the finished sets, still in the work folder."""
        self._find_merged()
        self._make_portions()
        if self._plan.bucket_work.used:
            self._make_buckets()
        with self._work.removed_on_refusal():
            require_unchanged(self._plan.files, self._plan.fingerprints)
            require_examples(self._plan, self._counters)
        refuse_loss(self._plan, self._counters, loss.PARTS_KEPT)
        return self._finished_sets(self._make_shards())

    def _run_stage(self, stage: "_Stage") -> list[dict]:
        """Runs the units that have no stored result yet; all results, in the order of the units."""
        return run_stage(
            stage.name,
            stage.function,
            stage.units,
            [self._stored(stage.name_of(unit)) for unit in stage.units],
            workers=self._workers,
            initializer=set_up,
            initargs=(Setup(self._spec, self._work.path),),
            total=stage.total,
            describe=stage.describe or stage.name_of,
            quiet=not self._progress,
            sizes=stage.sizes,
        )

    def _stored(self, unit_name: str) -> dict | None:
        """The stored result of a finished unit, if its run files are whole."""
        result = self._work.result(unit_name)
        if result is None:
            return None
        try:
            runs = [run for runs in result.get("runs", {}).values() for run in runs]
            Merge([self._work.path / run for run in runs if run not in self._merged])
        except OSError as error:
            _log.warning(f"{error}; it is made again.")
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
            results = self._run_stage(_Stage("sorting", merge_group, groups, len(runs), attrgetter("name")))
            runs, number = [result["runs"][kind][0] for result in results], number + 1
        return runs

    def _collect(self, results: list[dict]) -> None:
        for result in results:
            add_counters(self._counters, result["counters"])
            for kind, runs in result["runs"].items():
                self._runs.setdefault(kind, []).extend(runs)

    def _make_portions(self) -> None:
        portions = self._plan.portions
        stage = _Stage(
            "tokenizing",
            make_portion,
            portions,
            self._plan.input_bytes,
            portion_name,
            describe=attrgetter("place"),
            sizes=[portion.bytes for portion in portions],
        )
        self._collect(self._run_stage(stage))

    def _make_buckets(self) -> None:
        work = self._plan.bucket_work
        units: list[BucketUnit] = []
        for split in SPLITS:
            documents, waiting = (self._few_runs(f"{kind}-{split}") for kind in ("documents", "waiting"))
            merge = Merge([self._work.path / run for run in documents])
            buckets = plan_buckets(merge.histogram(slot_shift(work.by_file)), work.by_file)
            with self._work.removed_on_refusal():
                refuse_lone_documents(self._plan, split, buckets)
            for group in group_buckets(buckets, -(-merge.bytes // BUCKETS_BYTES)):
                units.append(BucketUnit(len(units), split, group, documents, waiting))
        stage = _Stage(work.stage, make_buckets, units, len(units), attrgetter("name"), describe=attrgetter("place"))
        self._collect(self._run_stage(stage))

    def _make_shards(self) -> dict[str, list[dict]]:
        units, total = [], 0
        for split in self._plan.targets:
            runs = self._few_runs(f"records-{split}")
            size = Merge([self._work.path / run for run in runs]).bytes
            total += size
            names = self._plan.shards(split, size)
            units += [Shard(split, i, len(names), name, runs) for i, name in enumerate(names)]
        results = self._run_stage(_Stage("writing shards", make_shard, units, total, attrgetter("name")))
        shards: dict[str, list[dict]] = {split: [] for split in self._plan.targets}
        for shard, info in zip(units, results, strict=True):
            shards[shard.split].append(info)
        return shards

    def _finished_sets(self, shards: dict[str, list[dict]]) -> list[FinishedSet]:
        sets = []
        for split, target in self._plan.targets.items():
            copy = self._work.path / self._plan.tokenizer_file(split)
            shutil.copyfile(self._plan.tokenizer_entry["source"], copy)
            finished = [self._work.path / info["file"] for info in shards[split]]
            sets.append(FinishedSet(target, [*finished, copy], self._plan.meta(split, shards[split], self._counters)))
        return sets
