"""The tasks of create_finetuning, as they run in a worker: rows to records, numbering, a shard.

A task writes its files into the work folder, then its result; where the result is, the files are whole.
"""

import os
import pickle
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from nlpdata.finetuning.encode import Chunk, SentenceEncoder, encode_columns
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.windows import SquadEncoder
from nlpdata.output import store_result
from nlpdata.tfrecord import ShardWriter
from nlpdata.tokenizers import TokenizerSpec, load_tokenizer

_COPY_BYTES = 4 << 20


@dataclass(frozen=True)
class Recipe:
    """What decides how rows become records; picklable, and equal recipes make equal records."""

    options: FinetuningOptions
    tokenizer: TokenizerSpec
    kind: str
    num_labels: int


@dataclass(frozen=True)
class Setup:
    """What a worker needs."""

    recipe: Recipe
    folder: Path


@dataclass(frozen=True)
class Part:
    """A chunk on its way through the work folder: `<name>.rows`, `<name>.columns`, `<name>.records`."""

    name: str
    split: str
    labelled: bool
    size: int  # characters, for the progress
    first: int = 0  # records of the chunks before it (numbered encoders)


_setup: Setup | None = None


def set_up(setup: Setup) -> None:
    global _setup
    _setup = setup


@lru_cache(maxsize=1)
def make_encoder(recipe: Recipe) -> SentenceEncoder | SquadEncoder:
    """The encoder of a recipe; it may remember words, so it is kept."""
    options, tokenizer = recipe.options, load_tokenizer(recipe.tokenizer)
    length, names = options.max_seq_length, options.feature_names
    if recipe.kind == "squad":
        return SquadEncoder(
            tokenizer, length, names, options.doc_stride, options.max_query_length, options.windows_without_answer
        )
    return SentenceEncoder(tokenizer, length, names, recipe.kind, recipe.num_labels)


def store_chunk(folder: Path, name: str, chunk: Chunk) -> None:
    _store(folder / f"{name}.rows", pickle.dumps(chunk, 5))


def _store(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def make_columns(part: Part, report) -> dict:
    """Rows to columns; to records as well, where their numbers are known."""
    encoder = make_encoder(_setup.recipe)
    path = _setup.folder / part.name
    chunk = pickle.loads(path.with_suffix(".rows").read_bytes())
    columns, counters = encoder.columns(chunk)
    result = {"records": len(columns["input_ids"]), "counters": dict(counters)}
    if encoder.numbered:
        _store(path.with_suffix(".columns"), pickle.dumps(columns, 5))
    else:
        result |= _write_records(encoder, part, columns)
    store_result(_setup.folder, f"{part.name}.made", result)
    report(part.size)
    return result


def number_records(part: Part, report) -> dict:
    """Columns to records, now that it is known how many records come before."""
    encoder = make_encoder(_setup.recipe)
    columns = pickle.loads((_setup.folder / f"{part.name}.columns").read_bytes())
    result = _write_records(encoder, part, encoder.number(columns, part.first))
    store_result(_setup.folder, f"{part.name}.numbered", result)
    report(part.size)
    return result


def _write_records(encoder, part: Part, columns: dict) -> dict:
    data, lengths = encode_columns(encoder, encoder.features(part.split, part.labelled), columns)
    _store(_setup.folder / f"{part.name}.lengths", lengths.astype("<i8").tobytes())
    _store(_setup.folder / f"{part.name}.records", data)
    return {"bytes": len(data)}


@dataclass(frozen=True)
class Shard:
    """A shard to be: its file name, and pieces (file, first byte, last byte, records) of parts, in order."""

    name: str
    pieces: tuple[tuple[str, int, int, int], ...]


def make_shard(shard: Shard, report) -> dict:
    with ShardWriter(_setup.folder / shard.name, _setup.recipe.options.compression) as writer:
        for name, start, stop, records in shard.pieces:
            with open(_setup.folder / name, "rb") as file:
                file.seek(start)
                while start < stop:
                    data = file.read(min(_COPY_BYTES, stop - start))
                    start += len(data)
                    writer.write(data, records if start == stop else 0)
                    report(len(data))
    info = asdict(writer.close())
    store_result(_setup.folder, shard.name, info)
    return info


def plan_shards(folder: Path, names: list[str], parts: list[Part]) -> list[Shard]:
    """Contiguous shards of nearly equal numbers of records over the parts of a split."""
    lengths = [np.frombuffer((folder / f"{part.name}.lengths").read_bytes(), "<i8") for part in parts]
    firsts = np.cumsum([0, *map(len, lengths)])
    total, count = int(firsts[-1]), len(names)
    shards = []
    for i, name in enumerate(names):
        low, high = (edge * total // count for edge in (i, i + 1))
        pieces = []
        for part, sizes, first in zip(parts, lengths, firsts.tolist(), strict=False):
            begin, end = max(low - first, 0), min(high - first, len(sizes))
            if begin < end:
                start = int(sizes[:begin].sum())
                pieces.append((f"{part.name}.records", start, start + int(sizes[begin:end].sum()), end - begin))
        shards.append(Shard(name, tuple(pieces)))
    return shards
