"""The steps of the pretraining pipeline as DoFns: thin wraps around the functions that the local executor calls.

Every step gives the same for the same input, and what it leaves on disk has its own temporary name until it is
whole. So a bundle that fails and is tried again, or runs twice at once, changes nothing.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from uuid import uuid4

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics

from nlpdata.corpus import Block, CorpusFile, Portion, read_portion, require_unchanged
from nlpdata.errors import DataError
from nlpdata.execution.spill import Merge, SpillWriter, read_run, split_run
from nlpdata.files.paths import AnyPath
from nlpdata.files.writing import move
from nlpdata.output import FinishedSet, commit, store_result
from nlpdata.pretraining.buckets import BucketGroup, group_buckets, plan_buckets
from nlpdata.pretraining.build import build_examples, fill_buckets
from nlpdata.pretraining.documents import PLACE
from nlpdata.pretraining.maker import SPLITS, MakerSpec, maker_of
from nlpdata.pretraining.plan import Plan, refuse_lone_documents, refuse_loss, require_examples
from nlpdata.pretraining.stages import portion_name, shard_border
from nlpdata.records.writer import ShardWriter
from pipelines import progress, watching
from pipelines.faults import marked_faults
from pipelines.runs import Elements, Facts, NamedRun, RunBuilder, sum_facts

COUNTED = "counted"  # the result that the last step leaves in the folder of the shards: all counters, with places
BUCKET_KINDS = ("documents", "waiting")  # what goes to the buckets
GROUP_BYTES = 32 << 20  # of the entries of the documents in the buckets that are filled at once


class BuildFn(beam.DoFn):
    """(portion index, [Portion]) -> labelled runs, and facts. `folder`: of runs that are files."""

    def __init__(self, spec: MakerSpec, folder: Path | None) -> None:
        self._spec, self._folder = spec, folder

    def process(self, grouped: tuple[int, Iterable[Portion]]) -> Elements:
        portion, *_ = grouped[1]
        options = self._spec.options
        counters: Counter[str] = Counter()
        with marked_faults("tokenizing", portion.place):
            maker = maker_of(self._spec)
            runs = RunBuilder(portion_name(portion), maker.bucket_work, self._folder)
            blocks = read_portion(portion, invalid_utf8=options.invalid_utf8, text_key=options.text_key)
            for item in build_examples(_reported(blocks), maker, counters):
                yield from runs.add(item)
            yield from runs.finish(counters)
        _count(counters)


def _reported(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        progress.report(block.bytes_read)


def _count(counters: Counter) -> None:
    """Shows counters as Beam metrics; the total of longest documents and of places has no meaning there."""
    for name, count in counters.items():
        if name != "longest_document" and not name.startswith(PLACE) and count:
            Metrics.counter("nlpdata", name).inc(count)


class PlanBucketsFn(beam.DoFn):
    """(_, all facts) -> "join": the borders of the groups of buckets for each run; "groups": the buckets of each."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def process(self, grouped: tuple[int, Iterable[Facts]]) -> Elements:
        with marked_faults("planning buckets", "all portions"):
            facts, by_file = sum_facts(grouped[1]), self._plan.bucket_work.by_file
            for split in SPLITS:
                slots = dict(sorted(facts.slots.get(split, {}).items()))
                buckets = plan_buckets(slots, by_file) if slots else []
                refuse_lone_documents(self._plan, split, buckets)
                count = -(-facts.sizes[f"documents-{split}"] // GROUP_BYTES)
                groups = group_buckets(buckets, count) if buckets else []
                for number, group in enumerate(groups):
                    yield "groups", ((split, number), ("buckets", group))
                borders = np.array([group[0][0] for group in groups[1:]], np.uint64).tobytes()
                for kind in BUCKET_KINDS:
                    for run_id in facts.runs.get(f"{kind}-{split}", ()):
                        yield "join", (run_id, ((split, kind), borders))


class SpreadFn(beam.DoFn):
    """(run id, the run and the borders of its ranges) -> ((split, range), (kind, run))."""

    def process(self, joined: tuple[str, Iterable]) -> Elements:
        run = borders = None
        for value in joined[1]:
            if isinstance(value, tuple):
                (split, kind), borders = value
            else:
                run = value
        if run is None or borders is None:
            raise RuntimeError(f"run {joined[0]} or its plan was lost between two steps")
        for number, part in split_run(run, np.frombuffer(borders, np.uint64)):
            yield (split, number), (kind, part)


class FillFn(beam.DoFn):
    """((split, group), its buckets, documents and waiting examples) -> labelled runs, and facts."""

    def __init__(self, spec: MakerSpec, stage: str, folder: Path | None) -> None:
        self._spec, self._stage, self._folder = spec, stage, folder

    def process(self, grouped: tuple[tuple[str, int], Iterable]) -> Elements:
        (split, number), values = grouped
        counters: Counter[str] = Counter()
        with (
            marked_faults(self._stage, f"group {number}"),
            tempfile.TemporaryDirectory(prefix="nlpdata-") as scratch,
        ):
            given = {kind: Gathered(Path(scratch, kind)) for kind in BUCKET_KINDS}
            for kind, value in values:
                if kind == "buckets":
                    buckets = value
                else:
                    given[kind].add(value)
            maker = maker_of(self._spec)
            runs = RunBuilder(f"group-{split}-{number:06d}", maker.bucket_work, self._folder)
            documents, waiting = (given[kind].merge() for kind in BUCKET_KINDS)
            group = BucketGroup(split, buckets, documents, waiting)
            for item in fill_buckets(group, maker, counters):
                watching.check()
                yield from runs.add(item)
            yield from runs.finish(counters)
        _count(counters)


class Gathered:
    """The runs that reached a step, in files: those that came as bytes are sorted into runs under `prefix`."""

    def __init__(self, prefix: Path) -> None:
        self._spill = SpillWriter(prefix)
        self._paths: list[str] = []

    def add(self, run: bytes | str) -> None:
        if isinstance(run, str):
            self._paths.append(run)
            return
        sort_keys, ties, lengths, payload = read_run(run)
        self._spill.add(sort_keys, ties, payload, lengths)

    def merge(self) -> Merge:
        self._spill.flush()
        return Merge([*self._paths, *self._spill.runs])


def shard_borders(count: int) -> np.ndarray:
    """Lowest sort key of each shard but the first: uint64 (count - 1,)."""
    return np.array([shard_border(i, count) for i in range(1, count)], np.uint64)


class PlanShardsFn(beam.DoFn):
    """(_, all facts) -> "join-<split>": the shards' borders for each run; "shards": each shard's name; "totals".

    Raises the faults of a corpus without examples, and of one that has changed while it was read. A shard gets its name from
    here also where no record falls into it.
    """

    def __init__(self, plan: Plan, files: Sequence[CorpusFile], fingerprints: Sequence[str]) -> None:
        self._plan, self._files, self._fingerprints = plan, files, fingerprints

    def process(self, grouped: tuple[int, Iterable[Facts]]) -> Elements:
        with marked_faults("planning shards", "all runs"):
            require_unchanged(self._files, self._fingerprints)
            facts = sum_facts(grouped[1])
            require_examples(self._plan, facts.counters)
            refuse_loss(self._plan, facts.counters)
            names = {}
            for split in self._plan.targets:
                label = f"records-{split}"
                names[split] = self._plan.shards(split, facts.sizes[label])
                for number, name in enumerate(names[split]):
                    yield "shards", ((split, number), ("name", (name, len(names[split]))))
                if not known_shards(self._plan, split):
                    borders = shard_borders(len(names[split])).tobytes()
                    for run_id in facts.runs.get(label, ()):
                        yield f"join-{split}", (run_id, ((split, "records"), borders))
            yield "totals", (0, ("totals", (facts.counters, names)))


def known_shards(plan: Plan, split: str) -> int | None:
    """The number of a split's shards where it is given: its runs need not wait for the sum of their sizes."""
    return plan.num_shards if split == "train" else None


class DivideFn(beam.DoFn):
    """(run id, run) -> ((split, shard), (kind, run)), for a split whose number of shards is given."""

    def __init__(self, split: str, count: int) -> None:
        self._split, self._count = split, count

    def process(self, named: NamedRun) -> Elements:
        for number, part in split_run(named[1], shard_borders(self._count)):
            yield (self._split, number), ("records", part)


class ShardFn(beam.DoFn):
    """((split, shard), its name and records) -> (0, (split, ShardInfo as a dict)); the shard is then in the work folder."""

    def __init__(self, folder: AnyPath, compression: str) -> None:
        self._folder, self._compression = folder, compression

    def process(self, grouped: tuple[tuple[str, int], Iterable]) -> Elements:
        (split, number), values = grouped
        with (
            marked_faults("writing shards", f"{split} {number}"),
            tempfile.TemporaryDirectory(prefix="nlpdata-") as scratch,
        ):
            given = Gathered(Path(scratch, "records"))
            for kind, value in values:
                if kind == "name":
                    name, count = value
                else:
                    given.add(value)
            low, high = (shard_border(i, count) for i in (number, number + 1))
            where = self._folder if isinstance(self._folder, Path) else Path(scratch)
            temporary = where / f"{name}.{uuid4().hex}.tmp"
            with ShardWriter(temporary, self._compression) as writer:
                for _, _, lengths, payload in given.merge().read(low, high):
                    watching.check()
                    writer.write(payload, len(lengths))
            info = replace(writer.close(), file=name)
            move(temporary, self._folder / name)
        Metrics.counter("nlpdata", f"records_{split}").inc(info.records)
        yield 0, (split, asdict(info))


class CommitFn(beam.DoFn):
    """(0, infos of all shards and the totals) -> the meta files' contents; the set is in place when it ends."""

    def __init__(self, plan: Plan, folder: AnyPath) -> None:
        self._plan, self._folder = plan, folder

    def process(self, grouped: tuple[int, Iterable]) -> Elements:
        with marked_faults("putting shards in place", self._folder):
            infos: dict[str, list[dict]] = {split: [] for split in self._plan.targets}
            for split, value in grouped[1]:
                if split == "totals":
                    counters, names = value
                else:
                    infos[split].append(value)
            metas, sets = {}, []
            for split, target in self._plan.targets.items():
                shards = sorted(infos[split], key=lambda info: info["file"])
                _check_counts(split, shards, names[split], counters[f"examples_{split}"])
                metas[split] = self._plan.meta(split, shards, counters)
                files = [self._folder / name for name in [*names[split], self._plan.tokenizer_file(split)]]
                sets.append(FinishedSet(target, files, metas[split]))
            store_result(self._folder, COUNTED, {"counters": dict(counters)})
            commit(sets, self._plan.key, self._folder if isinstance(self._folder, Path) else None)
        yield metas


def _check_counts(split: str, shards: list[dict], names: list[str], examples: int) -> None:
    """DataError where a runner has lost or repeated elements: the records written are not the examples made."""
    files, records = [info["file"] for info in shards], sum(info["records"] for info in shards)
    if files != sorted(names) or records != examples:
        raise DataError(
            f"the runner lost or repeated data: {examples} examples of the {split} split were made, and {records} "
            f"records written, in {len(files)} of {len(names)} shards. Nothing was put in place. Run it again, and "
            "if it happens again use another runner"
        )
