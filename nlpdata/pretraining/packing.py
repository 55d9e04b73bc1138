"""Documents one behind the other in a bucket: examples that continue across a document's end (objective none).

The text of every document goes to the bucket of its key (nlpdata.pretraining.buckets), where the documents, in the
order of their keys, are one stream of tokens. It is cut into examples as the text of one document is, and its rest is a
shorter example:

    documents  a b c | d e | f g h i         [CLS] a b c [SEP] d [SEP]    [CLS] e [SEP] f g h [SEP]    [CLS] i [SEP]

As in RoBERTa's FULL-SENTENCES (Liu et al. 2019, arXiv:1907.11692, section 4.2) one [SEP] is between two documents
of an example; unlike there, sentences are cut where an example is full. An example neither begins nor ends with such a
separator, which would say nothing.

The key of an example is that of the document in which it begins, with its number among those that begin there. A
document comes in parts, and one duplicate is made after the other, so neither a document nor a bucket is held whole.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose
from nlpdata.pretraining.assemble import single_segments
from nlpdata.pretraining.buckets import BucketGroup, BucketWork, Offer, Packed
from nlpdata.pretraining.chunking import SHORT_SEQ_PERIOD, Sentences, ShortSequences
from nlpdata.pretraining.documents import Document
from nlpdata.pretraining.maker import ExampleMaker, Keyed
from nlpdata.pretraining.ragged import Ragged, copy_slices, pack_rows, unpack_rows

PIECE_BYTES = 2 << 20  # text held at a time


def cut_parts(start: int, stop: int, shift: int) -> list[tuple[int, int]]:
    """The parts (first sentence, last + 1) of a document's sentences start : stop; sentence i is its number i + shift.

    No part has sentences of two periods of the short-sequence draw.
    """
    borders = range(start + -(start + shift) % SHORT_SEQ_PERIOD, stop, SHORT_SEQ_PERIOD)
    return [(first, end) for first, end in pairwise([start, *borders, stop]) if first < end]


def pack_parts(duplicates: np.ndarray, text: Ragged, dtype: np.dtype) -> Packed:
    """Entries of parts.

    All else about a part follows from its ties: file id, offset of the document, number of the first sentence.

    Args:
      duplicates: the number of duplicates of the part's document, int64 (n,).
      text: the tokens of each part.
      dtype: of the tokens in the entries.
    """
    return pack_rows([Ragged.joined(duplicates, np.ones_like(duplicates)), text], [np.dtype(np.uint32), dtype])


class PackedDocuments(BucketWork):
    """Makes all examples of a bucket of its documents, one after the other."""

    stage = "packing documents"
    makes_all = True

    def offer(
        self, document: Document, known: Sentences, tokens: np.ndarray, ends: np.ndarray
    ) -> tuple[list[Offer], int]:
        """All text, in parts."""
        parts = cut_parts(known.start, known.stop, known.shift)
        return [Offer(document, first, end, first + known.shift) for first, end in parts], known.stop

    def entries(
        self, offers: Sequence[Offer], tokens: np.ndarray, ends: np.ndarray, dtype: np.dtype
    ) -> Iterator[tuple[Sequence[Offer], Packed]]:
        start, stop, duplicates = (
            np.array(values)
            for values in zip(
                *((each.start, each.stop, len(each.document.duplicate_keys)) for each in offers), strict=True
            )
        )
        yield offers, pack_parts(duplicates, Ragged(tokens, ends[start], ends[stop] - ends[start]), dtype)

    def fill(self, group: BucketGroup, maker: ExampleMaker, counters: Counter) -> Iterator[Keyed]:
        borders = np.array([bucket.low for bucket in group.buckets], np.uint64)
        duplicate, duplicates = 0, 1
        while duplicate < duplicates:
            stream = _Stream(maker, duplicate)
            for sort_keys, ties, lengths, payload in group.documents.read(group.low, group.high, PIECE_BYTES):
                wanted, text = unpack_rows(payload, lengths, [np.dtype(np.uint32), maker.token_dtype])
                duplicates = max(duplicates, int(wanted.values.max()))
                rows = wanted.values > duplicate
                text = Ragged(text.values, text.starts[rows], text.counts[rows])
                stream.add(np.searchsorted(borders, sort_keys[rows], "right"), ties[rows], text)
                yield from stream.examples(group.split, counters, final=False)
            yield from stream.examples(group.split, counters, final=True)
            duplicate += 1


class _Stream:
    """The text of the buckets in one duplicate, as it comes, as far as it is not yet in an example."""

    def __init__(self, maker: ExampleMaker, duplicate: int) -> None:
        self._maker, self._duplicate = maker, duplicate
        self._sep = maker.tokenizer.sep_id
        self._tokens = np.zeros(0, maker.token_dtype)
        self._starts = np.zeros(0, np.int64)  # of the parts in the tokens, the separator included
        self._buckets = np.zeros(0, np.int64)
        self._ties = np.zeros((0, 3), np.uint64)
        self._document: tuple[int, ...] = ()  # file id and offset of the one in which the last example begins, with its
        self._key, self._examples = 0, 0  # key, examples so far and
        self._target: ShortSequences  # target lengths

    def add(self, buckets: np.ndarray, ties: np.ndarray, text: Ragged) -> None:
        """Adds parts in order; a document's first one has a separator in front. buckets: int64 (n,), ascending."""
        begins = (ties[:, 2] == 0).astype(np.int64)
        sizes = begins + text.counts
        starts = np.cumsum(sizes) - sizes
        tokens = np.full(int(sizes.sum()), self._sep, self._tokens.dtype)
        copy_slices(text.values, text.starts, text.counts, tokens, starts + begins)
        self._starts = np.concatenate([self._starts, starts + len(self._tokens)])
        self._buckets = np.concatenate([self._buckets, buckets])
        self._ties = np.concatenate([self._ties, ties])
        self._tokens = np.concatenate([self._tokens, tokens])

    def examples(self, split: str, counters: Counter, final: bool) -> Iterator[Keyed]:
        """The examples that text to come cannot change; of all that is left, where none comes (final)."""
        bounds, example_keys, ties, position = self._cut(final)
        if bounds:
            start, stop = np.array(bounds).T
            segments = single_segments(start, stop - start)
            counters[f"examples_{split}"] += len(bounds)
            uint64 = (np.array(values, np.uint64) for values in (example_keys, ties))
            yield from self._maker.encode(split, self._tokens, segments, *uint64)
        part = bisect_right(self._starts, position) - 1
        self._tokens, self._starts = self._tokens[position:].copy(), self._starts[part:] - position
        self._buckets, self._ties = self._buckets[part:], self._ties[part:]

    def _cut(self, final: bool) -> tuple[list[tuple[int, int]], list[int], list[tuple[int, ...]], int]:
        """(start, stop), key and tie of each example, and the token where the next one starts."""
        tokens, starts, total = self._tokens, self._starts.tolist(), len(self._tokens)
        edges = np.flatnonzero(np.diff(self._buckets)) + 1
        limits = np.append(self._starts[edges], total)  # where each bucket ends
        limits = limits[np.searchsorted(edges, np.arange(len(starts)), "right")].tolist()
        bounds, example_keys, ties, position = [], [], [], 0
        while position < total:
            if tokens[position] == self._sep:
                position += 1
                continue
            part = bisect_right(starts, position) - 1
            end = position + self._target_length(part)
            if end > limits[part]:
                if limits[part] == total and not final:
                    break
                end = limits[part]
            bounds.append((position, end - 1 if tokens[end - 1] == self._sep else end))
            example_keys.append(keys.fold_int(self._key, self._examples))
            ties.append((*self._document, self._duplicate << 32 | self._examples))
            self._examples += 1
            position = end
        return bounds, example_keys, ties, position

    def _target_length(self, part: int) -> int:
        """Of an example that begins in this part, whose document becomes the current one."""
        file_id, offset, sentence = self._ties[part].tolist()
        if self._document != (file_id, offset):
            self._document, self._examples = (file_id, offset), 0
            self._key = reduce(keys.fold_int, (file_id, offset, self._duplicate), self._maker.seed_key)
            key = keys.fold_int(self._key, Purpose.SHORT_SEQUENCE)
            self._target = ShortSequences(key, self._maker.layout.budget, self._maker.options.short_seq_prob)
        return self._target(sentence)
