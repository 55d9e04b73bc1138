"""The tasks of create_pretraining, as they run in a worker: a portion of the corpus, runs to be one, a bucket, a shard.

A task writes its files into the work folder, then its result; where the result is, the files are whole.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from nlpdata.corpus import Portion, read_portion
from nlpdata.errors import RESUMES, DataError
from nlpdata.execution.spill import Merge, SpillWriter, merge_runs
from nlpdata.output import store_result
from nlpdata.pretraining import random_next
from nlpdata.pretraining.build import build_buckets, build_examples
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.pretraining.packing import pack_buckets
from nlpdata.pretraining.recipe import Keyed, Recipe
from nlpdata.records.writer import ShardWriter
from nlpdata.tokenizers import Tokenizer, TokenizerSpec, load_tokenizer

BUCKET_STAGES = {"nsp": "drawing random segments", "none": "packing documents"}  # objective -> what is done in buckets
WAITING_BYTES = 8 << 20  # waiting examples held at a time


@dataclass(frozen=True)
class Setup:
    """What a worker needs. Pickled, it takes the tokenizer's spec along, and a worker loads it when it first needs it."""

    options: PretrainingOptions
    tokenizer: Tokenizer | TokenizerSpec
    folder: Path

    def __reduce__(self):
        return Setup, (self.options, self.tokenizer.spec, self.folder)


_setup: Setup | None = None


def set_up(setup: Setup) -> None:
    global _setup
    _setup = setup


def _recipe() -> Recipe:
    """Made where a task asks for it first: writing shards needs none, and stages in one process share it."""
    return _make_recipe(_setup.options, _setup.tokenizer)


@lru_cache(maxsize=1)
def _make_recipe(options: PretrainingOptions, tokenizer: Tokenizer | TokenizerSpec) -> Recipe:
    return Recipe(options, load_tokenizer(tokenizer) if isinstance(tokenizer, TokenizerSpec) else tokenizer)


class _Spills:
    """Run files of one task, by kind and split."""

    def __init__(self, name: str):
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
    """The name of its task, and the beginning of those of its files."""
    return f"portion-{portion.index:06d}"


def make_portion(portion: Portion, report) -> dict:
    counters: Counter = Counter()
    spills = _Spills(portion_name(portion))
    options = _setup.options

    def blocks():
        for block in read_portion(portion, invalid_utf8=options.invalid_utf8, text_key=options.text_key):
            yield block
            report(block.bytes_read)

    with disk_errors("tokenizing", portion.place):
        for item in build_examples(blocks(), _recipe(), counters):
            spills.add(item)
        return spills.finish(counters)


@dataclass(frozen=True)
class RunGroup:
    """Runs of one kind and split that become one, `<name>.run`."""

    name: str
    kind: str
    runs: tuple[str, ...]


def merge_group(group: RunGroup, report) -> dict:
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


def make_buckets(task: tuple[int, str, list, list[str], list[str]], report) -> dict:
    number, split, buckets, document_runs, waiting_runs = task
    counters: Counter = Counter()
    spills = _Spills(f"bucket-{number:06d}")
    with disk_errors(BUCKET_STAGES[_setup.options.objective], _setup.folder):
        documents, waiting = (Merge([_setup.folder / run for run in runs]) for runs in (document_runs, waiting_runs))
        for item in fill_buckets(split, buckets, documents, waiting, _recipe(), counters):
            spills.add(item)
        report(1)
        return spills.finish(counters)


def fill_buckets(
    split: str, buckets: list, documents: Merge, waiting: Merge, recipe: Recipe, counters: Counter
) -> Iterator[Keyed]:
    """The examples of a group of buckets: made of its documents' text, or those that wait, with segments from them."""
    if recipe.options.pack_across_documents:
        yield from pack_buckets(split, buckets, documents, recipe, counters)
        return
    low, high = buckets[0][0], buckets[-1][1]
    parts = list(documents.read(low, high))
    document_keys, lengths = (np.concatenate([part[i] for part in parts]) for i in (0, 2))
    payload = b"".join([part[3] for part in parts])
    found = random_next.read_candidates(buckets, document_keys, lengths, payload, recipe.token_dtype)
    yield from build_buckets(split, found, waiting.scan(low, high, WAITING_BYTES), recipe, counters)


def make_shard(task: tuple[str, int, int, str, list[str]], report) -> dict:
    _, index, count, name, runs = task
    with disk_errors("writing shards", _setup.folder):
        low, high = (shard_border(i, count) for i in (index, index + 1))
        with ShardWriter(_setup.folder / name, _setup.options.compression) as writer:
            for _, _, lengths, payload in Merge([_setup.folder / run for run in runs]).read(low, high):
                writer.write(payload, len(lengths))
                report(len(payload))
        info = asdict(writer.close())
        store_result(_setup.folder, name, info)
        return info


def shard_border(index: int, count: int) -> int:
    """Lowest sort key of a shard; index = count: the end of the last."""
    return -(-(index << 64) // count)


class disk_errors:
    """Turns an OSError of a stage into a message with the stage and the file."""

    def __init__(self, stage: str, what):
        self._stage, self._what = stage, what

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, DataError) and self._stage == "writing shards":
            raise DataError(f"{self._stage}: {error}. Nothing was put in place. {RESUMES}") from error
        if isinstance(error, OSError):
            raise DataError(
                f"{self._stage} ({self._what}): {error.strerror or error}"
                + (f" ({error.filename})" if error.filename else "")
                + f". Nothing was put in place. {RESUMES}"
            ) from error
        if isinstance(error, MemoryError):
            raise DataError(f"{self._stage} ({self._what}): memory ran out. Use fewer --workers") from error
