"""The units of create_pretraining, as a worker does them: a portion, runs to be merged, a group of buckets, a shard.

A unit writes its files into the work folder, then its result; where the result is, the files are whole.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from nlpdata.corpus import Block, Portion, read_portion
from nlpdata.errors import RESUMES, DataError
from nlpdata.execution.spill import Merge, SpillWriter, merge_runs
from nlpdata.output import disk_errors, store_result
from nlpdata.pretraining.buckets import Bucket, BucketGroup
from nlpdata.pretraining.build import build_examples, fill_buckets
from nlpdata.pretraining.maker import Keyed, MakerSpec, maker_of
from nlpdata.records.writer import ShardWriter

Report = Callable[[int], None]
"""Adds bytes, or runs or groups of buckets, to the stage's progress."""


@dataclass(frozen=True)
class Setup:
    """What a worker is sent once: what it makes an ExampleMaker of when it first needs one, and the work folder."""

    maker: MakerSpec
    folder: Path


_setup: Setup


def set_up(setup: Setup) -> None:
    """Sets up this process, before its first unit."""
    global _setup
    _setup = setup


class _Spills:
    """Run files of one unit, by kind and split."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._writers: dict[tuple[str, str], SpillWriter] = {}

    def add(self, item: Keyed) -> None:
        writer = self._writers.get((item.kind, item.split))
        if writer is None:
            prefix = _setup.folder / f"{self._name}-{item.kind}-{item.split}"
            writer = self._writers[item.kind, item.split] = SpillWriter(prefix)
        writer.add(item.sort_keys, item.ties, item.payload, item.lengths)

    def finish(self, counters: Counter) -> dict:
        for writer in self._writers.values():
            writer.flush()
        runs = {f"{kind}-{split}": writer.runs for (kind, split), writer in self._writers.items()}
        runs = {key: [Path(run).name for run in names] for key, names in runs.items()}
        result = {"counters": dict(counters), "runs": runs}
        store_result(_setup.folder, self._name, result)
        return result


def portion_name(portion: Portion) -> str:
    """The name of its unit, and the beginning of those of its files."""
    return f"portion-{portion.index:06d}"


def make_portion(portion: Portion, report: Report) -> dict:
    """Makes the examples of a portion of the corpus, and the entries for the buckets."""
    counters: Counter = Counter()
    spills = _Spills(portion_name(portion))
    options = _setup.maker.options

    def blocks() -> Iterator[Block]:
        for block in read_portion(portion, invalid_utf8=options.invalid_utf8, text_key=options.text_key):
            yield block
            report(block.bytes_read)

    with disk_errors("tokenizing", portion.place):
        for item in build_examples(blocks(), maker_of(_setup.maker), counters):
            spills.add(item)
        return spills.finish(counters)


@dataclass(frozen=True)
class RunGroup:
    """Runs of one kind and split that become one, `<name>.run`."""

    name: str
    kind: str
    runs: tuple[str, ...]


def merge_group(group: RunGroup, report: Report) -> dict:
    """Makes one run of many, which are removed then: the disk never holds much twice."""
    with disk_errors("sorting", _setup.folder):
        run = f"{group.name}.run"
        merge_runs([_setup.folder / each for each in group.runs], str(_setup.folder / run))
        result = {"counters": {}, "runs": {group.kind: [run]}, "merged": list(group.runs)}
        store_result(_setup.folder, group.name, result)
        for each in group.runs:
            (_setup.folder / each).unlink(missing_ok=True)
        report(len(group.runs))
        return result


@dataclass(frozen=True)
class BucketUnit:
    """Adjacent buckets of a split that are filled at once, and the runs with their entries."""

    number: int
    split: str
    buckets: list[Bucket]
    document_runs: list[str]
    waiting_runs: list[str]

    @property
    def name(self) -> str:
        """The name of its unit, and the beginning of those of its files."""
        return f"bucket-{self.number:06d}"

    @property
    def place(self) -> str:
        """For messages."""
        return f"bucket {self.number}"


def make_buckets(unit: BucketUnit, report: Report) -> dict:
    """Makes the examples of a group of buckets."""
    counters: Counter = Counter()
    spills = _Spills(unit.name)
    maker = maker_of(_setup.maker)
    with disk_errors(maker.bucket_work.stage, _setup.folder):
        documents, waiting = (
            Merge([_setup.folder / run for run in runs]) for runs in (unit.document_runs, unit.waiting_runs)
        )
        group = BucketGroup(unit.split, unit.buckets, documents, waiting)
        for item in fill_buckets(group, maker, counters):
            spills.add(item)
        report(1)
        return spills.finish(counters)


@dataclass(frozen=True)
class Shard:
    """A shard of a split: the file `name`, number `index` of `count`, and the runs with the split's records."""

    split: str
    index: int
    count: int
    name: str
    runs: list[str]


def make_shard(shard: Shard, report: Report) -> dict:
    """Writes a shard; its ShardInfo as a dict."""
    with disk_errors("writing shards", _setup.folder):
        try:
            info = _write_shard(shard, report)
        except DataError as error:  # of a run that is damaged, or of the writer
            raise DataError(f"writing shards: {error}. Nothing was put in place. {RESUMES}") from error
        store_result(_setup.folder, shard.name, info)
        return info


def _write_shard(shard: Shard, report: Report) -> dict:
    low, high = (shard_border(i, shard.count) for i in (shard.index, shard.index + 1))
    with ShardWriter(_setup.folder / shard.name, _setup.maker.options.compression) as writer:
        for _, _, lengths, payload in Merge([_setup.folder / run for run in shard.runs]).read(low, high):
            writer.write(payload, len(lengths))
            report(len(payload))
    return asdict(writer.close())


def shard_border(index: int, count: int) -> int:
    """Lowest sort key of a shard; index = count: the end of the last."""
    return -(-(index << 64) // count)
