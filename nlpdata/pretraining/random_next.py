"""The random second segment of next-sentence examples, drawn from another document of the same bucket.

Every document offers candidate starts: all its sentences, or 64 keyed ones where it has more; a candidate is the text
from there on, up to max_seq_length tokens. Documents are grouped into buckets by a hash of their key, at least 64 to a
bucket, so that no step needs more than a bucket's candidates in memory. An example that wants a random B is kept with
its first segment until the candidates of its bucket are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose
from nlpdata.pretraining.assemble import Segments
from nlpdata.pretraining.ragged import Ragged, pack_rows, unpack_rows

MAX_CANDIDATES = 64  # starts that a document offers in one duplicate
BUCKET_DOCUMENTS = 64  # documents that a bucket holds at least
MAX_FILES = 1 << 20  # that a bucket key can tell apart
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


def group_buckets(buckets: Sequence[tuple[int, int, int]], count: int) -> list[list[tuple[int, int, int]]]:
    """Adjacent buckets in at most `count` groups of about equally many documents, each to be filled at once."""
    total, done = sum(documents for _, _, documents in buckets), 0
    groups: dict[int, list] = {}
    for bucket in buckets:
        groups.setdefault(done * count // total, []).append(bucket)
        done += bucket[2]
    return list(groups.values())


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

    def pack(self, dtype) -> tuple[bytes, np.ndarray]:
        """The document's entry, as pack_candidates: every start is a span of its own."""
        spans = [[best[number][1:] for number in sorted(best)] for best in self._best]
        flat = [span for duplicate in spans for span in duplicate]
        lengths = np.concatenate([span[1] for span in flat])
        span_ends = np.cumsum([len(span[1]) for span in flat])
        starts = span_ends - [len(span[1]) for span in flat]
        tokens = np.concatenate([span[0] for span in flat])
        columns = [np.array([len(d) for d in spans]), starts, lengths, span_ends, tokens]
        return pack_candidates([Ragged.joined(column, np.array([len(column)])) for column in columns], dtype)


def whole_documents(
    tokens: np.ndarray,
    ends: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    duplicate_keys: Sequence[Sequence[int]],
    dtype: np.dtype,
) -> tuple[bytes, np.ndarray]:
    """The entries of documents that are small enough to be kept whole: one span each, starts by number.

    Args:
      tokens, ends: flat tokens, and where sentences end (see nlpdata.pretraining.chunking).
      start, stop: first sentence and last + 1 of each document, int64 (n,).
      duplicate_keys: the keys of (document, duplicate), by document.
      dtype: of the tokens in the entries.
    """
    count = stop - start
    offered = [_offered_starts(*each) for each in zip(count.tolist(), duplicate_keys, strict=True)]
    sets, widths = (np.array([rows.shape[axis] for rows in offered]) for axis in (0, 1))
    columns = [
        Ragged.joined(np.repeat(widths, sets), sets),
        Ragged.joined(np.concatenate([rows.reshape(-1) for rows in offered]), sets * widths),
        Ragged(np.diff(ends), start, count),
        Ragged.joined(count, np.ones_like(count)),
        Ragged(tokens, ends[start], ends[stop] - ends[start]),
    ]
    return pack_candidates(columns, dtype)


def _offered_starts(count: int, duplicate_keys: Sequence[int]) -> np.ndarray:
    """The candidate starts among `count` sentences, ascending, (sets, starts): one set for all duplicates if all."""
    if count <= MAX_CANDIDATES:
        return np.arange(count)[None]
    hashes = keys.draw(keys.fold(np.array(duplicate_keys, np.uint64), Purpose.CANDIDATE)[:, None], np.arange(count))
    return np.sort(np.argpartition(hashes, MAX_CANDIDATES, axis=1)[:, :MAX_CANDIDATES], axis=1)


def pack_candidates(columns: Sequence[Ragged], dtype: np.dtype) -> tuple[bytes, np.ndarray]:
    """Entries of documents and their lengths in bytes.

    Args:
      columns: the number of starts in each duplicate (one number where all duplicates have the same), the starts, the
        tokens of each sentence, the sentence where each span ends, and the tokens; numbers count in the document.
      dtype: of the tokens in the entries.
    """
    return pack_rows(columns, _candidate_dtypes(dtype))


def _candidate_dtypes(dtype: np.dtype) -> list[np.dtype]:
    return [np.dtype(np.uint32)] * 4 + [np.dtype(dtype)]


@dataclass(frozen=True)
class Candidates:
    """The candidates of the documents of adjacent buckets.

    Attributes:
      document_keys: uint64 (documents,), ascending; a document's position here is its number.
      bucket_first, bucket_size: int64 (documents,), first document and number of documents of each one's bucket.
      tokens, ends: flat tokens of all sentences, and their cumulative counts with a leading 0.
      starts: sentence of each candidate start, document by document, duplicate by duplicate.
      limits: token where the span of each start ends.
      first, count: int64 (documents, duplicates), the starts of a document in a duplicate.
      duplicates: int64 (documents,), the duplicates with starts of their own.
    """

    document_keys: np.ndarray
    bucket_first: np.ndarray
    bucket_size: np.ndarray
    tokens: np.ndarray
    ends: np.ndarray
    starts: np.ndarray
    limits: np.ndarray
    first: np.ndarray
    count: np.ndarray
    duplicates: np.ndarray


def read_candidates(
    buckets: Sequence[tuple[int, int, int]],
    document_keys: np.ndarray,
    lengths: np.ndarray,
    payload: bytes,
    dtype: np.dtype,
) -> Candidates:
    """Unpacks the entries of the documents of adjacent buckets.

    Args:
      buckets: as plan_buckets gives them.
      document_keys, lengths, payload: the entries, in key order: bucket keys, lengths in bytes, one after the other.
      dtype: of the tokens.
    """
    sets, own, sentences, spans, tokens = unpack_rows(payload, lengths, _candidate_dtypes(dtype))
    ends = np.concatenate([[0], np.cumsum(sentences.values, dtype=np.int64)])
    starts = own.values + np.repeat(sentences.starts, own.counts)
    span_ends = spans.values + np.repeat(sentences.starts, spans.counts)
    limits = ends[span_ends[np.searchsorted(span_ends, starts, "right")]]
    count = np.zeros((len(sets.counts), int(sets.counts.max())), np.int64)
    document = np.repeat(np.arange(len(sets.counts)), sets.counts)
    count[document, np.arange(len(document)) - np.repeat(sets.starts, sets.counts)] = sets.values
    first = (np.cumsum(count) - count.reshape(-1)).reshape(count.shape)
    borders = np.searchsorted(document_keys, np.array([low for low, _, _ in buckets], np.uint64))
    size = np.diff(borders, append=len(document_keys))
    return Candidates(
        document_keys=document_keys,
        bucket_first=np.repeat(borders, size),
        bucket_size=np.repeat(size, size),
        tokens=tokens.values,
        ends=ends,
        starts=starts,
        limits=limits,
        first=first,
        count=count,
        duplicates=sets.counts,
    )


@dataclass(frozen=True)
class Waiting:
    """Examples that wait for a random B.

    Attributes:
      example_keys: uint64 (n,).
      duplicates, wanted: int64 (n,), the duplicate of the document, and the tokens wanted of B.
      first: the first segments.
    """

    example_keys: np.ndarray
    duplicates: np.ndarray
    wanted: np.ndarray
    first: Ragged


def pack_waiting(wanted: np.ndarray, first: Ragged, dtype: np.dtype) -> tuple[bytes, np.ndarray]:
    """The entries of waiting examples and their lengths in bytes; all else about them follows from their ties."""
    return pack_rows([Ragged.joined(wanted, np.ones_like(wanted)), first], [np.dtype(np.uint32), dtype])


def read_waiting(seed_key: int, ties: np.ndarray, lengths: np.ndarray, payload: bytes, dtype: np.dtype) -> Waiting:
    """Unpacks entries of pack_waiting.

    Args:
      seed_key: the key of the seed.
      ties: uint64 (n, 3): file id, offset of the document, duplicate << 32 | example.
      lengths, payload, dtype: as in read_candidates.
    """
    wanted, first = unpack_rows(payload, lengths, [np.dtype(np.uint32), dtype])
    duplicates = ties[:, 2] >> np.uint64(32)
    document_keys = keys.fold(keys.fold(seed_key, ties[:, 0]), ties[:, 1])
    example_keys = keys.fold(keys.fold(document_keys, duplicates), ties[:, 2] & np.uint64(0xFFFFFFFF))
    return Waiting(example_keys, duplicates.astype(np.int64), wanted.values.astype(np.int64), first)


def choose_second(
    candidates: Candidates, document: np.ndarray, waiting: Waiting, window: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws B for waiting examples: whole sentences from a random start of another document until enough tokens.

    Args:
      candidates: of buckets of two or more documents.
      document: number of each example's own document in `candidates`, int64 (n,); B's is of the same bucket.
      waiting: the examples.
      window: most tokens of a B.

    Returns:
      start and length of each B in candidates.tokens, int64 (n,).
    """
    others = candidates.bucket_size[document] - 1
    other = keys.below(keys.draw(waiting.example_keys, Purpose.OTHER_DOCUMENT), others)
    other += candidates.bucket_first[document]
    other += other >= document
    duplicate = waiting.duplicates % candidates.duplicates[other]
    offered = candidates.count[other, duplicate]
    pick = keys.below(keys.draw(waiting.example_keys, Purpose.OTHER_START), offered)
    candidate = candidates.first[other, duplicate] + pick
    ends = candidates.ends
    begin = ends[candidates.starts[candidate]]
    end = ends[np.searchsorted(ends, begin + waiting.wanted).clip(max=len(ends) - 1)]
    end = np.minimum(np.minimum(end, candidates.limits[candidate]), begin + window)
    return begin, end - begin


def fill_second(
    candidates: Candidates, document: np.ndarray, waiting: Waiting, window: int
) -> tuple[np.ndarray, Segments]:
    """Waiting examples with their drawn B: the flat tokens that the segments index, and the segments (label 1)."""
    start_b, length_b = choose_second(candidates, document, waiting, window)
    first = waiting.first
    tokens = np.concatenate([first.values, candidates.tokens])
    label = np.ones(len(document), np.int64)
    return tokens, Segments(first.starts, first.counts, start_b + len(first.values), length_b, label)
