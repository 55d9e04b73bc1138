"""Buckets: groups of documents in which examples get text of more than one document.

Documents are grouped into buckets by a hash of their key, at least BUCKET_DOCUMENTS to a bucket, so that no step needs
more than a bucket's text in memory. What a document gives to its bucket, and what is made of it there, is a BucketWork:
nlpdata.pretraining.random_next draws random second segments, nlpdata.pretraining.packing packs documents.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nlpdata import keys
from nlpdata.execution.spill import Merge
from nlpdata.keys import Purpose
from nlpdata.pretraining.chunking import Sentences
from nlpdata.pretraining.documents import Document

if TYPE_CHECKING:
    from nlpdata.pretraining.maker import ExampleMaker, Keyed

BUCKET_DOCUMENTS = 64  # documents that a bucket holds at least
MAX_FILES = 1 << 20  # that a bucket key can tell apart
SLOT_BITS = 12  # 4096 hash slots, merged into buckets

Packed = tuple[bytes, np.ndarray]
"""n byte strings, one after the other, and their lengths, int64 (n,)."""


class Bucket(NamedTuple):
    """The bucket keys low : high, and the number of documents that have them."""

    low: int
    high: int
    documents: int


class Offer(NamedTuple):
    """What a document gives to its bucket: sentences start : stop of the block; the first is its number `number`."""

    document: Document
    start: int
    stop: int
    number: int


@dataclass(frozen=True)
class BucketGroup:
    """Adjacent buckets of one split, one or more, and their entries.

    Attributes:
      split, buckets: the buckets.
      documents, waiting: the entries of their documents and of chunks that wait, and of other buckets.
    """

    split: str
    buckets: Sequence[Bucket]
    documents: Merge
    waiting: Merge

    @property
    def low(self) -> int:
        """The lowest bucket key."""
        return self.buckets[0].low

    @property
    def high(self) -> int:
        """The highest bucket key + 1."""
        return self.buckets[-1].high


class BucketWork(ABC):
    """What is made of the documents of a bucket.

    Attributes:
      used: whether anything goes to the buckets.
      stage: what is done in the buckets, for progress and messages.
      makes_all: all examples are made in buckets; else chunks become examples where they are cut, or wait (see `waits`).
      by_file: whether only documents of one file meet in a bucket.
      needs_another: why a bucket needs two documents or more, as a sentence's start; None where one will do.
    """

    used: bool = True
    stage: str
    makes_all: bool = False
    by_file: bool = False
    needs_another: str | None = None

    @abstractmethod
    def offer(
        self, document: Document, known: Sentences, tokens: np.ndarray, ends: np.ndarray
    ) -> tuple[list[Offer], int]:
        """What a document gives, as far as it is known.

        Args:
          document: has one duplicate or more; its number of sentences includes those that are known.
          known: its sentences.
          tokens, ends: the block's tokens, and int64 cumulative counts of the tokens of its sentences.

        Returns:
          the offers, and the first sentence of the block to be shown again.
        """

    @abstractmethod
    def entries(
        self, offers: Sequence[Offer], tokens: np.ndarray, ends: np.ndarray, dtype: np.dtype
    ) -> Iterator[tuple[Sequence[Offer], Packed]]:
        """The entries of a block's offers for the buckets; tokens are stored as `dtype`."""

    def waits(self, chunks: np.ndarray) -> np.ndarray:
        """Which chunks become examples in a bucket only: bool (n,)."""
        return np.zeros(len(chunks), bool)

    def waiting(self, chunks: np.ndarray, tokens: np.ndarray, ends: np.ndarray, dtype: np.dtype) -> Packed:
        """The entries of chunks that wait."""
        raise NotImplementedError

    @abstractmethod
    def fill(self, group: BucketGroup, maker: "ExampleMaker", counters: Counter) -> "Iterator[Keyed]":
        """The examples of adjacent buckets.

        Args:
          group: the buckets with their entries.
          maker: makes the records.
          counters: is added to.
        """


class NoBuckets(BucketWork):
    """For examples that need no text of other documents."""

    used = False
    stage = ""

    def offer(
        self, document: Document, known: Sentences, tokens: np.ndarray, ends: np.ndarray
    ) -> tuple[list[Offer], int]:
        return [], known.stop

    def entries(self, *_: Any) -> Iterator[tuple[Sequence[Offer], Packed]]:
        return iter(())

    def fill(self, *_: Any) -> "Iterator[Keyed]":
        return iter(())


def bucket_key(document_key: int, file_index: int | None) -> int:
    """The sort key of a document's entries: hash, or (file, hash) where only documents of one file meet."""
    hashed = keys.draw_int(document_key, Purpose.BUCKET)
    return hashed if file_index is None else (file_index << 44) | (hashed >> 20)


def file_index(key: int) -> int:
    """The file of a bucket key that was made with one."""
    return key >> 44


def slot_shift(by_file: bool) -> int:
    """How far a bucket key is shifted right to give its slot."""
    return (44 if by_file else 64) - SLOT_BITS


def plan_buckets(documents_by_slot: Mapping[int, int], by_file: bool) -> list[Bucket]:
    """Merges adjacent slots, in order, into buckets of at least BUCKET_DOCUMENTS; a short rest joins the last bucket.

    Args:
      documents_by_slot: documents in each slot, ascending slots.
      by_file: slots of different files never share a bucket.
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
    return [Bucket(first << shift, (last + 1) << shift, documents) for first, last, documents, _ in buckets]


def _join_short(buckets: list[list[int]], at: int) -> None:
    """Joins a file's last bucket, when too small, to the one before it of the same file."""
    if len(buckets) > -at and buckets[at][2] < BUCKET_DOCUMENTS and buckets[at - 1][3] == buckets[at][3]:
        buckets[at - 1][1:3] = buckets[at][1], buckets[at - 1][2] + buckets[at][2]
        del buckets[at]


def group_buckets(buckets: Sequence[Bucket], count: int) -> list[list[Bucket]]:
    """Adjacent buckets in at most `count` groups of about equally many documents, each to be filled at once."""
    total, done = sum(documents for _, _, documents in buckets), 0
    groups: dict[int, list[Bucket]] = {}
    for bucket in buckets:
        groups.setdefault(done * count // total, []).append(bucket)
        done += bucket[2]
    return list(groups.values())
