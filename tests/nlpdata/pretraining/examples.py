"""What the tests of the pretraining core share: a tokenizer that reads numbers, runs of the core, a plain decoder."""

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlpdata.corpus import find_files, plan_byte_ranges, read_blocks
from nlpdata.execution.spill import Merge, SpillWriter
from nlpdata.pretraining import maker as makers
from nlpdata.pretraining.buckets import BucketGroup, plan_buckets, slot_shift
from nlpdata.pretraining.build import build_examples
from nlpdata.pretraining.maker import SPLITS, ExampleMaker
from nlpdata.pretraining.options import PretrainingOptions

PAD, UNK, CLS, SEP, MASK = range(5)


class NumberTokenizer:
    """Lines of numbers: every number is an id. Ids from `continuation` on do not start a word. "-" gives no token."""

    pad_id, unk_id, cls_id, sep_id, mask_id = PAD, UNK, CLS, SEP, MASK

    def __init__(self, vocab_size: int = 200, continuation: int | None = 120):
        self.vocab_size = vocab_size
        self.ordinary_ids = np.arange(5, vocab_size, dtype=np.int32)
        self.word_start = np.arange(vocab_size) < (vocab_size if continuation is None else continuation)

    def encode(self, lines):
        rows = [[int(number) for number in line.split() if number != "-"] for line in lines]
        flat = [number for row in rows for number in row]
        return np.array(flat, np.int32), np.array([len(row) for row in rows], np.int64)


def write_corpus(path: Path, documents) -> Path:
    """Documents (lists of sentences, themselves lists of ids) as a text file for NumberTokenizer."""
    text = "\n\n".join("\n".join(" ".join(map(str, s)) or "-" for s in document) for document in documents)
    path.write_text(text + "\n")
    return path


def numbered_documents(lengths, first: int = 5):
    """Documents of sentences of the given lengths, where no two tokens have the same id and neighbours count up."""
    documents = []
    for document in lengths:
        documents.append([])
        for length in document:
            documents[-1].append(list(range(first, first + length)))
            first += length
    return documents


@dataclass
class Built:
    """All that the core made: the batches (Keyed) by kind, the counters, and the columns of every record."""

    keyed: dict
    counters: Counter
    columns: dict

    def records(self, split=None) -> list[tuple]:
        """(sort key, tie, framed record), sorted."""
        found = []
        for keyed in self.keyed["records"]:
            if split in (None, keyed.split):
                found += list(
                    zip(
                        keyed.sort_keys.tolist(),
                        map(tuple, keyed.ties.tolist()),
                        slices(keyed),
                        strict=True,
                    )
                )
        return sorted(found)

    def original_ids(self) -> np.ndarray:
        """The ids before masking."""
        ids = self.columns["input_ids"].copy()
        row, slot = np.nonzero(self.columns["masked_lm_weights"])
        ids[row, self.columns["masked_lm_positions"][row, slot]] = self.columns["masked_lm_ids"][row, slot]
        return ids


def build_all(paths, tokenizer, block_bytes=1 << 20, chunk_size=1 << 30, options=None, **changes) -> Built:
    """Runs the core over files, buckets and all, in memory."""
    options = options or PretrainingOptions(**changes)
    maker, counters = ExampleMaker(options, tokenizer), Counter()
    files, _ = find_files([str(path) for path in np.atleast_1d(paths)])
    keyed = {"records": [], "documents": [], "waiting": []}
    columns = []
    plain = makers.encode_examples

    def encode(features, batch):
        columns.append(batch)
        return plain(features, batch)

    makers.encode_examples = encode
    try:
        for byte_range in plan_byte_ranges(files, chunk_size):
            blocks = read_blocks(byte_range, block_bytes=block_bytes, invalid_utf8=options.invalid_utf8)
            for batch in build_examples(blocks, maker, counters):
                keyed[batch.kind].append(batch)
        for split in SPLITS:
            for batch in _fill_buckets(split, keyed, maker, counters):
                keyed["records"].append(batch)
    finally:
        makers.encode_examples = plain
    joined = {name: np.concatenate([batch[name] for batch in columns]) for name in (columns[0] if columns else ())}
    return Built(keyed, counters, joined)


def slices(keyed) -> list[bytes]:
    """The byte strings of a Keyed."""
    ends = np.cumsum(keyed.lengths).tolist()
    return [keyed.payload[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _fill_buckets(split, keyed, maker, counters):
    work = maker.bucket_work
    if not work.used:
        return
    with tempfile.TemporaryDirectory() as folder:
        documents, waiting = (_merge(Path(folder, kind), keyed[kind], split) for kind in ("documents", "waiting"))
        slots = documents.histogram(slot_shift(work.by_file))
        for bucket in plan_buckets(slots, work.by_file):
            yield from work.fill(BucketGroup(split, [bucket], documents, waiting), maker, counters)


def _merge(prefix, keyed, split):
    spill = SpillWriter(prefix)
    for each in keyed:
        if each.split == split:
            spill.add(each.sort_keys, each.ties, each.payload, each.lengths)
    spill.flush()
    return Merge(spill.runs)


def decode_example(framed: bytes) -> dict[str, list]:
    """The features of a framed tf.train.Example, read field by field (packed lists, as protobuf writes them)."""
    found = {}
    for _, feature in _fields(_only(_fields(framed[12:-4]))):
        name, value = (content for _, content in _fields(feature))
        (kind, values), *_ = _fields(value)
        packed = _only(_fields(values)) if values else b""
        found[name.decode()] = np.frombuffer(packed, "<f4").tolist() if kind == 2 else _varints(packed)
    return found


def _only(fields):
    ((_, content),) = fields
    return content


def _fields(data: bytes):
    at = 0
    found = []
    while at < len(data):
        tag, at = _varint(data, at)
        length, at = _varint(data, at)
        found.append((tag >> 3, data[at : at + length]))
        at += length
    return found


def _varint(data: bytes, at: int):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _varints(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def dense_positions(columns) -> list[list[int]]:
    """The masked positions of every record."""
    counts = columns["masked_lm_weights"].sum(axis=1).astype(int)
    return [row[:count].tolist() for row, count in zip(columns["masked_lm_positions"], counts, strict=True)]
