"""Shards made of finished parts: each joins slices of the parts' files, contiguous and in their order."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

import numpy as np

from nlpdata.errors import DataError
from nlpdata.files.paths import AnyPath
from nlpdata.files.writing import local_folder, move
from nlpdata.output.work import store_result
from nlpdata.records.writer import ShardWriter

_COPY_BYTES = 4 << 20


@dataclass(frozen=True)
class Slice:
    """Records that follow each other in a file: bytes start to stop of it."""

    file: str
    start: int
    stop: int
    records: int


@dataclass(frozen=True)
class Shard:
    """A file to be made: its base name, and what it joins."""

    name: str
    slices: tuple[Slice, ...]

    @property
    def size(self) -> int:
        return sum(each.stop - each.start for each in self.slices)

    def without_last(self, count: int) -> "Shard":
        """The shard without the last bytes of its last record; an empty one as it is."""
        if not self.slices:
            return self
        *first, last = self.slices
        return replace(self, slices=(*first, replace(last, stop=last.stop - count)))


def plan_shards(names: Sequence[str], parts: Sequence[tuple[str, np.ndarray]], by_bytes: bool = False) -> list[Shard]:
    """Divides the records of all parts into shards of nearly equal numbers of records, or of bytes.

    Args:
      names: base names of the shards.
      parts: file and the lengths of its records, int64 (n,), in order.
    """
    firsts = np.cumsum([0, *(len(lengths) for _, lengths in parts)])
    edges = _edges(len(names), int(firsts[-1]), [lengths for _, lengths in parts] if by_bytes else None)
    shards = []
    for name, low, high in zip(names, edges[:-1], edges[1:], strict=True):
        slices = []
        for (file, lengths), first in zip(parts, firsts[:-1].tolist(), strict=True):
            begin, end = max(low - first, 0), min(high - first, len(lengths))
            if begin < end:
                start = int(lengths[:begin].sum())
                slices.append(Slice(file, start, start + int(lengths[begin:end].sum()), end - begin))
        shards.append(Shard(name, tuple(slices)))
    return shards


def _edges(count: int, total: int, lengths: list[np.ndarray] | None) -> list[int]:
    """The first record of each shard, and the end of the last."""
    if lengths is None or not total:
        return [i * total // count for i in range(count + 1)]
    ends = np.cumsum(np.concatenate(lengths))
    wanted = [i * int(ends[-1]) // count for i in range(1, count)]
    return [0, *(np.searchsorted(ends, wanted, side="left") + 1).clip(max=total).tolist(), total]


def write_shard(folder: AnyPath, shard: Shard, compression: str, report: Callable[[int], None]) -> dict:
    """Joins the slices of a shard in the folder of the parts; its ShardInfo as a dict, which is stored as its result."""
    with local_folder(folder) as here:
        temporary = here / f"{shard.name}.{uuid4().hex}.tmp"
        with ShardWriter(temporary, compression) as writer:
            for each in shard.slices:
                start = each.start
                with (folder / each.file).open("rb") as file:
                    file.seek(start)
                    while start < each.stop:
                        data = file.read(min(_COPY_BYTES, each.stop - start))
                        if not data:
                            raise DataError(
                                f"{folder / each.file} is damaged: it ends at byte {start}. Remove it, and run the command again"
                            )
                        start += len(data)
                        writer.write(data, each.records if start == each.stop else 0)
                        report(len(data))
        move(temporary, folder / shard.name)
    info = asdict(replace(writer.close(), file=shard.name))
    store_result(folder, shard.name, info)
    return info
