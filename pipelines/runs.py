"""What goes between the steps of a pipeline: sorted runs of records, and facts.

An element of a Beam collection costs about 125 microseconds whatever its size, so elements are runs of megabytes. A run
is given as the bytes of a run file, which the runner carries to the machine that needs them; or, where all steps run on
this machine, as the path of one, so that neither the runner's memory nor its copying grows with the data.
Steps give one stream of (label, value) pairs, from which the next ones take what they need (`labelled`): the label is
`FACTS`, or a kind and split such as "records-train". Beam's own tagged outputs are not kept apart by every runner.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import apache_beam as beam
import numpy as np

from nlpdata.execution.spill import SortBuffer, write_run
from nlpdata.pretraining.buckets import BucketWork, slot_shift
from nlpdata.pretraining.maker import Keyed
from nlpdata.pretraining.plan import add_counters

NamedRun = tuple[str, bytes | str]  # its id, and the run or the path of a run file

# What `process` of a step gives. Beam takes the coder of the elements from that annotation, and would make a dict of a
# Counter: with Any it takes the one that keeps types.
Elements = Iterator[Any]

RUN_BYTES = 16 << 20
FACTS = "facts"


@dataclass
class Facts:
    """Counts of finished work.

    Attributes:
      counters: of examples made.
      runs: label -> ids of the runs.
      sizes: label -> payload bytes of the runs.
      slots: split -> {hash slot: documents}, where examples are made in buckets.
    """

    counters: Counter = field(default_factory=Counter)
    runs: dict[str, list[str]] = field(default_factory=dict)
    sizes: Counter = field(default_factory=Counter)
    slots: dict[str, Counter] = field(default_factory=dict)

    def add(self, other: "Facts") -> None:
        add_counters(self.counters, other.counters)
        for label, ids in other.runs.items():
            self.runs.setdefault(label, []).extend(ids)
        self.sizes.update(other.sizes)
        for split, slots in other.slots.items():
            self.slots.setdefault(split, Counter()).update(slots)


def sum_facts(many: Iterable[Facts]) -> Facts:
    """The facts of all the work together."""
    total = Facts()
    for facts in many:
        total.add(facts)
    return total


class RunBuilder:
    """Collects what one bundle of work makes, into runs; then its facts.

    Args:
      name: of the work, unique in the pipeline and the same in every attempt.
      bucket_work: of the objective.
      folder: where runs become files; None: they are bytes.
    """

    def __init__(self, name: str, bucket_work: BucketWork, folder: Path | None) -> None:
        self._name, self._folder = name, folder
        self._slot_shift = slot_shift(bucket_work.by_file)
        self._buffers: dict[str, SortBuffer] = {}
        self.facts = Facts()

    def add(self, item: Keyed) -> Iterator[tuple[str, NamedRun]]:
        """Takes a batch of records; yields the runs that are full."""
        label = f"{item.kind}-{item.split}"
        buffer = self._buffers.setdefault(label, SortBuffer())
        buffer.add(item.sort_keys, item.ties, item.payload, item.lengths)
        self.facts.sizes[label] += len(item.payload)
        if item.kind == "documents":
            begins = item.sort_keys[item.ties[:, 2] == 0]  # a document may come in parts
            slots, counts = np.unique(begins >> np.uint64(self._slot_shift), return_counts=True)
            found = dict(zip(slots.tolist(), counts.tolist(), strict=True))
            self.facts.slots.setdefault(item.split, Counter()).update(found)
        if buffer.held >= RUN_BYTES:
            yield self._take(label)

    def finish(self, counters: Counter) -> Iterator[tuple[str, object]]:
        """Yields the runs that are left, and the facts, under one key for all."""
        for label, buffer in self._buffers.items():
            if buffer.held:
                yield self._take(label)
        self.facts.counters = counters
        yield FACTS, (0, self.facts)

    def _take(self, label: str) -> tuple[str, NamedRun]:
        ids = self.facts.runs.setdefault(label, [])
        ids.append(f"{self._name}-{label}-{len(ids)}")
        parts = self._buffers[label].take()
        if self._folder is None:
            return label, (ids[-1], b"".join(parts))
        path = str(self._folder / f"{ids[-1]}.{uuid4().hex}.run")  # each attempt has its own
        write_run(path, parts)
        return label, (ids[-1], path)


def labelled(label: str) -> beam.PTransform:
    """The values of one label."""
    return beam.FlatMap(lambda pair: [pair[1]] if pair[0] == label else [])
