"""The random second segment of next-sentence examples, drawn from another document of the same bucket.

Every document offers candidate starts: all its sentences, or 64 keyed ones where it has more; a candidate is the text
from there on, up to max_seq_length tokens. An example that wants a random B is kept with its first segment until the
candidates of its bucket are known (see nlpdata.pretraining.buckets).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose
from nlpdata.pretraining.assemble import Segments, truncate
from nlpdata.pretraining.buckets import Bucket, BucketGroup, BucketWork, Offer, Packed
from nlpdata.pretraining.chunking import Sentences
from nlpdata.pretraining.documents import Document
from nlpdata.pretraining.maker import ExampleMaker, Keyed
from nlpdata.pretraining.ragged import Ragged, pack_rows, unpack_rows

MAX_CANDIDATES = 64  # starts that a document offers in one duplicate
WAITING_BYTES = 8 << 20  # waiting examples held at a time


class CandidateCollector:
    """The candidate starts of one document, in every duplicate, from its sentences as they come.

    Args:
      duplicate_keys: the keys of (document, duplicate).
      window: tokens from a start on that a candidate may use (max_seq_length).
    """

    def __init__(self, duplicate_keys: Sequence[int], window: int) -> None:
        self._keys = [keys.fold_int(key, Purpose.CANDIDATE) for key in duplicate_keys]
        self._window = window
        self._best: list[dict[int, tuple[int, np.ndarray, np.ndarray]]] = [{} for _ in duplicate_keys]
        self.settled = 0  # sentences of the document that have been considered

    def add(self, known: Sentences, tokens: np.ndarray, ends: np.ndarray) -> int:
        """Considers the sentences whose window is known; returns the first one that must be shown again.

        Args:
          known: the document's sentences.
          tokens, ends: the block's tokens, and int64 cumulative counts of the tokens of its sentences.
        """
        stop, shift = known.stop, known.shift
        begin = self.settled - shift
        end = stop
        if not known.final:  # a start is settled once its whole window is here
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
            order = {number: value[0] for number, value in best.items()}
            for number in sorted(best, key=order.__getitem__)[MAX_CANDIDATES:]:
                del best[number]
        self.settled = end + shift
        return end

    def _cut(self, tokens: np.ndarray, ends: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        limit = ends[start] + self._window
        last = min(int(np.searchsorted(ends[: stop + 1], limit)), stop)
        bounds = np.minimum(ends[start : last + 1], limit)
        return tokens[bounds[0] : bounds[-1]].copy(), np.diff(bounds)

    def pack(self, dtype: np.dtype) -> tuple[bytes, np.ndarray]:
        """The document's entry, as pack_candidates: every start has its own span."""
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
      duplicates: int64 (documents,), the duplicates that have their own starts.
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
    buckets: Sequence[Bucket],
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


class RandomSecond(BucketWork):
    """Draws second segments for chunks that want one.

    A chunk of the objective is (first sentence, split, last sentence + 1, tokens wanted of a random B, or 0 where the
    chunk has its own).

    Args:
      window: most tokens of a B.
      by_file: whether B comes from a document of the same file.
      purpose: why a bucket needs two documents, as a sentence's start.
    """

    stage = "drawing random segments"

    def __init__(self, window: int, by_file: bool, purpose: str) -> None:
        self._window, self.by_file, self.needs_another = window, by_file, purpose

    def offer(
        self, document: Document, known: Sentences, tokens: np.ndarray, ends: np.ndarray
    ) -> tuple[list[Offer], int]:
        """Candidate starts: of a document that is held whole, or as they were collected, once it is complete."""
        start, stop, collector = known.start, known.stop, document.gathered
        if not known.final or collector or known.ends[stop] - known.ends[start] > MAX_CANDIDATES * self._window:
            if not collector:
                collector = document.gathered = CandidateCollector(document.duplicate_keys, self._window)
            keep = collector.add(known, tokens, ends)
            if not known.final:
                return [], keep
        return ([Offer(document, start, stop, 0)] if document.sentences else []), stop

    def entries(
        self, offers: Sequence[Offer], tokens: np.ndarray, ends: np.ndarray, dtype: np.dtype
    ) -> Iterator[tuple[Sequence[Offer], Packed]]:
        whole = [offer for offer in offers if not offer.document.gathered]
        if whole:
            start, stop = np.array([offer.start for offer in whole]), np.array([offer.stop for offer in whole])
            duplicate_keys = [offer.document.duplicate_keys for offer in whole]
            yield whole, whole_documents(tokens, ends, start, stop, duplicate_keys, dtype)
        for offer in offers:
            if offer.document.gathered:
                yield [offer], offer.document.gathered.pack(dtype)

    def waits(self, chunks: np.ndarray) -> np.ndarray:
        return chunks[:, 3] > 0

    def waiting(self, chunks: np.ndarray, tokens: np.ndarray, ends: np.ndarray, dtype: np.dtype) -> Packed:
        start, stop = ends[chunks[:, 0]], ends[chunks[:, 1]]
        return pack_waiting(chunks[:, 3], Ragged(tokens, start, stop - start), dtype)

    def fill(self, group: BucketGroup, maker: ExampleMaker, counters: Counter) -> Iterator[Keyed]:
        """The examples that wait, with segments from the buckets' documents."""
        dtype = maker.token_dtype
        parts = list(group.documents.read(group.low, group.high))
        document_keys, lengths = (np.concatenate([part[i] for part in parts]) for i in (0, 2))
        payload = b"".join([part[3] for part in parts])
        candidates = read_candidates(group.buckets, document_keys, lengths, payload, dtype)
        del parts, payload
        for sort_keys, ties, sizes, entries in group.waiting.scan(group.low, group.high, WAITING_BYTES):
            examples = read_waiting(maker.seed_key, ties, sizes, entries, dtype)
            document = np.searchsorted(candidates.document_keys, sort_keys)
            tokens, whole = fill_second(candidates, document, examples, self._window)
            segments, _ = truncate(whole, maker.layout.budget, examples.example_keys)
            cut = whole.length_a - segments.length_a  # what B loses is not lost: its own document has it, too
            counters["tokens_truncated"] += int(cut[examples.duplicates == 0].sum())
            counters[f"examples_{group.split}"] += len(document)
            yield from maker.encode(group.split, tokens, segments, examples.example_keys, ties)
