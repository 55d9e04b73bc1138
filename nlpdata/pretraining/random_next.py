"""The random second segment of next-sentence examples, drawn from another document of the same bucket.

Every document offers candidate starts: all its sentences, or 64 keyed ones where it has more; a candidate is the text
from there on, up to max_seq_length tokens. Documents are grouped into buckets by a hash of their key, at least 64 to a
bucket, so that no step needs more than a bucket's candidates in memory. An example that wants a random B is kept with
its first segment until the candidates of its bucket are known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose
from nlpdata.pretraining.assemble import Segments

MAX_CANDIDATES = 64  # starts that a document offers in one duplicate
BUCKET_DOCUMENTS = 64  # documents that a bucket holds at least
SLOT_BITS = 12  # 4096 hash slots, merged into buckets


def bucket_key(document_key: int, file_index: int | None) -> int:
    """The sort key of a document's entries: hash, or (file, hash) where B must come from the same file."""
    hashed = keys.draw_int(document_key, Purpose.BUCKET)
    return hashed if file_index is None else (file_index << 44) | (hashed >> 20)


def slot_shift(by_file: bool) -> int:
    """How far a bucket key is shifted right to give its slot."""
    return (44 if by_file else 64) - SLOT_BITS


def plan_buckets(documents_by_slot: dict[int, int], by_file: bool) -> list[tuple[int, int, int]]:
    """Merges adjacent slots, in order, into buckets of at least BUCKET_DOCUMENTS; a short rest joins the last bucket.

    Args:
      documents_by_slot: documents in each slot, ascending slots.
      by_file: slots of different files never share a bucket.

    Returns:
      [(lowest bucket key, highest + 1, documents)].
    """
    buckets: list[list[int]] = []  # [first slot, last slot, documents, file]
    for slot, documents in documents_by_slot.items():
        file = slot >> SLOT_BITS if by_file else 0
        if buckets and buckets[-1][3] == file and buckets[-1][2] < BUCKET_DOCUMENTS:
            buckets[-1][1:3] = slot, buckets[-1][2] + documents
        else:
            buckets.append([slot, slot, documents, file])
        if len(buckets) > 1 and buckets[-2][3] != file:
            _join_short(buckets, -2)
    _join_short(buckets, -1)
    shift = slot_shift(by_file)
    return [(first << shift, (last + 1) << shift, documents) for first, last, documents, _ in buckets]


def _join_short(buckets: list[list[int]], at: int) -> None:
    """Joins a file's last bucket, when too small, to the one before it of the same file."""
    if len(buckets) > -at and buckets[at][2] < BUCKET_DOCUMENTS and buckets[at - 1][3] == buckets[at][3]:
        buckets[at - 1][1:3] = buckets[at][1], buckets[at - 1][2] + buckets[at][2]
        del buckets[at]


class CandidateCollector:
    """The candidate starts of one document, in every duplicate, from its sentences as they come.

    Args:
      duplicate_keys: the keys of (document, duplicate).
      window: tokens from a start on that a candidate may use (max_seq_length).
    """

    def __init__(self, duplicate_keys: Sequence[int], window: int):
        self._keys = [keys.fold_int(key, Purpose.CANDIDATE) for key in duplicate_keys]
        self._window = window
        self._best: list[dict[int, tuple[int, np.ndarray, np.ndarray]]] = [{} for _ in duplicate_keys]
        self.settled = 0  # sentences of the document that have been considered

    def add(self, tokens: np.ndarray, ends: np.ndarray, start: int, stop: int, shift: int, final: bool) -> int:
        """Considers the sentences whose window is known; returns the first one that must be shown again.

        Args:
          tokens, ends, start, stop, shift, final: as in nlpdata.pretraining.chunking; tokens is the flat token array.
        """
        begin = self.settled - shift
        end = stop
        if not final:  # a start is settled once its whole window is here
            end = begin + int(np.searchsorted(ends[begin:stop], ends[stop] - self._window, "right"))
        numbers = np.arange(begin + shift, end + shift)
        for key, best in zip(self._keys, self._best, strict=True):
            hashes = keys.draw(key, numbers)
            if len(hashes) > MAX_CANDIDATES:
                chosen = np.argpartition(hashes, MAX_CANDIDATES)[:MAX_CANDIDATES]
            else:
                chosen = np.arange(len(hashes))
            worst = max(value[0] for value in best.values()) if len(best) >= MAX_CANDIDATES else 1 << 64
            for i in chosen.tolist():
                if int(hashes[i]) < worst:
                    best[int(numbers[i])] = (int(hashes[i]), *self._cut(tokens, ends, begin + i, stop))
            for number in sorted(best, key=lambda n, best=best: best[n][0])[MAX_CANDIDATES:]:
                del best[number]
        self.settled = end + shift
        return end

    def _cut(self, tokens, ends, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        limit = ends[start] + self._window
        last = min(int(np.searchsorted(ends[: stop + 1], limit)), stop)
        bounds = np.minimum(ends[start : last + 1], limit)
        return tokens[bounds[0] : bounds[-1]].copy(), np.diff(bounds)

    def pack(self, dtype) -> bytes:
        """The document's entry: every start is a span of its own."""
        spans = [[best[number][1:] for number in sorted(best)] for best in self._best]
        flat = [span for duplicate in spans for span in duplicate]
        lengths = np.concatenate([span[1] for span in flat])
        span_ends = np.cumsum([len(span[1]) for span in flat])
        starts = span_ends - [len(span[1]) for span in flat]
        tokens = np.concatenate([span[0] for span in flat])
        return pack_candidates(tokens, lengths, span_ends, [len(d) for d in spans], starts, dtype)


def whole_document(tokens: np.ndarray, lengths: np.ndarray, duplicate_keys: Sequence[int], dtype: np.dtype) -> bytes:
    """The entry of a document that is small enough to be kept whole: one span, starts by number."""
    count = len(lengths)
    if count <= MAX_CANDIDATES:
        starts = [np.arange(count)] * len(duplicate_keys)
    else:
        hashes = keys.draw(keys.fold(np.array(duplicate_keys, np.uint64), Purpose.CANDIDATE)[:, None], np.arange(count))
        starts = np.sort(np.argpartition(hashes, MAX_CANDIDATES, axis=1)[:, :MAX_CANDIDATES], axis=1)
    return pack_candidates(tokens, lengths, [count], [len(s) for s in starts], np.concatenate(starts), dtype)


def pack_candidates(tokens, lengths, span_ends, starts_by_duplicate, starts, dtype) -> bytes:
    """One document's entry: sentences as tokens and lengths, where spans end, and the starts of each duplicate."""
    head = np.array([len(starts_by_duplicate), len(lengths), len(tokens), len(span_ends)], np.uint32)
    parts = [head]
    parts += [np.asarray(part, np.uint32) for part in (starts_by_duplicate, starts, lengths, span_ends)]
    return b"".join([part.tobytes() for part in parts] + [tokens.astype(dtype).tobytes()])


@dataclass(frozen=True)
class Bucket:
    """The candidates of a bucket's documents.

    Attributes:
      document_keys: uint64 (documents,), ascending; a document's position here is its number.
      tokens, ends: flat tokens of all sentences, and their cumulative counts with a leading 0.
      starts: sentence of each candidate start, document by document, duplicate by duplicate.
      limits: token where the span of each start ends.
      first, count: int64 (documents, duplicates), the starts of a document in a duplicate.
    """

    document_keys: np.ndarray
    tokens: np.ndarray
    ends: np.ndarray
    starts: np.ndarray
    limits: np.ndarray
    first: np.ndarray
    count: np.ndarray
    duplicates: np.ndarray


def read_bucket(document_keys: np.ndarray, entries: Sequence[memoryview], dtype) -> Bucket:
    """Unpacks the entries of pack_candidates of a bucket's documents, in key order."""
    itemsize = np.dtype(dtype).itemsize
    tokens, lengths, starts, spans, by_duplicate = [], [], [], [], []
    sentence = 0
    for entry in entries:
        duplicates, sentences, count, span_count = np.frombuffer(entry, np.uint32, 4).tolist()
        numbers = np.frombuffer(entry, np.uint32, offset=16, count=duplicates)
        at = 16 + 4 * duplicates
        offered = int(numbers.sum())
        body = np.frombuffer(entry, np.uint32, offered + sentences + span_count, at).astype(np.int64)
        at += 4 * len(body)
        span_ends = body[offered + sentences :]
        own = body[:offered]
        by_duplicate.append(numbers.astype(np.int64))
        spans.append(span_ends[np.searchsorted(span_ends, own, "right")] + sentence)
        starts.append(own + sentence)
        lengths.append(body[offered : offered + sentences])
        tokens.append(np.frombuffer(entry, dtype, count, at))
        assert at + count * itemsize == len(entry)
        sentence += sentences
    ends = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    widest = max(len(numbers) for numbers in by_duplicate)
    count = np.zeros((len(entries), widest), np.int64)
    for document, numbers in enumerate(by_duplicate):
        count[document, : len(numbers)] = numbers
    first = (np.cumsum(count) - count.reshape(-1)).reshape(count.shape)
    duplicates = np.array([len(numbers) for numbers in by_duplicate])
    limits = ends[np.concatenate(spans)]
    flat = np.concatenate(tokens).astype(np.int32)
    return Bucket(document_keys, flat, ends, np.concatenate(starts), limits, first, count, duplicates)


@dataclass(frozen=True)
class Waiting:
    """Examples that wait for a random B: keys uint64, duplicates, examples, wanted, lengths int64 (n,); flat tokens."""

    example_keys: np.ndarray
    duplicates: np.ndarray
    examples: np.ndarray
    wanted: np.ndarray
    lengths: np.ndarray
    tokens: np.ndarray

    def pack(self, dtype) -> bytes:
        numbers = np.stack([self.duplicates, self.examples, self.wanted, self.lengths]).astype(np.uint32)
        head = np.array([len(self.wanted), len(self.tokens)], np.uint32)
        body = self.tokens.astype(dtype).tobytes()
        return head.tobytes() + self.example_keys.tobytes() + numbers.tobytes() + body

    @classmethod
    def unpack(cls, entry, dtype) -> "Waiting":
        count, tokens = np.frombuffer(entry, np.uint32, 2).tolist()
        example_keys = np.frombuffer(entry, np.uint64, count, 8)
        numbers = np.frombuffer(entry, np.uint32, 4 * count, 8 + 8 * count).reshape(4, count).astype(np.int64)
        return cls(example_keys, *numbers, np.frombuffer(entry, dtype, tokens, 8 + 24 * count))


def choose_second(bucket: Bucket, document: np.ndarray, waiting: Waiting, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws B for waiting examples: whole sentences from a random start of another document until enough tokens.

    Args:
      bucket: of two or more documents.
      document: number of each example's own document in the bucket, int64 (n,).
      waiting: the examples.
      window: most tokens of a B.

    Returns:
      start and length of each B in bucket.tokens, int64 (n,).
    """
    other = keys.below(keys.draw(waiting.example_keys, Purpose.OTHER_DOCUMENT), len(bucket.document_keys) - 1)
    other += other >= document
    duplicate = waiting.duplicates % bucket.duplicates[other]
    offered = bucket.count[other, duplicate]
    pick = keys.below(keys.draw(waiting.example_keys, Purpose.OTHER_START), offered)
    candidate = bucket.first[other, duplicate] + pick
    begin = bucket.ends[bucket.starts[candidate]]
    end = bucket.ends[np.searchsorted(bucket.ends, begin + waiting.wanted).clip(max=len(bucket.ends) - 1)]
    end = np.minimum(np.minimum(end, bucket.limits[candidate]), begin + window)
    return begin, end - begin


def fill_bucket(bucket: Bucket, document: np.ndarray, waiting: Waiting, window: int) -> tuple[np.ndarray, Segments]:
    """Waiting examples with their drawn B: the flat tokens that the segments index, and the segments (label 1)."""
    start_b, length_b = choose_second(bucket, document, waiting, window)
    start_a = np.cumsum(waiting.lengths) - waiting.lengths
    tokens = np.concatenate([waiting.tokens.astype(np.int32), bucket.tokens])
    label = np.ones(len(start_a), np.int64)
    return tokens, Segments(start_a, waiting.lengths, start_b + len(waiting.tokens), length_b, label)


def iterate_entries(payload: bytes, lengths: np.ndarray) -> Iterator[memoryview]:
    """The entries that stand one after the other in `payload`."""
    view = memoryview(payload)
    stop = 0
    for length in lengths.tolist():
        start, stop = stop, stop + length
        yield view[start:stop]
