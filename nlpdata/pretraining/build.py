"""Blocks of text -> encoded records: the pure core that the local executor and every Beam runner call.

`build_examples` reads the blocks of a portion of the corpus and yields batches of finished records. Where examples need
text of other documents, it also yields entries for their buckets (nlpdata.pretraining.buckets), where those examples are
made. Nothing here depends on the size of portions, blocks or batches, except memory: a document is never held whole; all
its duplicates are cut over one stream of tokens.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from nlpdata import keys
from nlpdata.corpus import Block, CorpusFile
from nlpdata.keys import Purpose
from nlpdata.pretraining.assemble import truncate
from nlpdata.pretraining.buckets import BucketGroup, Offer, bucket_key
from nlpdata.pretraining.chunking import Duplicate, Sentences, ShortSequences
from nlpdata.pretraining.documents import EMPTY, LONGEST, Document, place_code, places
from nlpdata.pretraining.maker import SPLITS, ExampleMaker, Keyed
from nlpdata.pretraining.objectives import objectives_code
from nlpdata.tokenizers import count_unknown

_NO_TOKENS, _NO_LENGTHS = np.zeros(0, np.int32), np.zeros(0, np.int64)


@dataclass
class _Chunks:
    """Chunks of one block, as columns: the document's place in the block, its duplicate, the example's number, the chunk."""

    document: list[int] = field(default_factory=list)
    duplicate: list[int] = field(default_factory=list)
    example: list[int] = field(default_factory=list)
    bounds: list[tuple[int, ...]] = field(default_factory=list)


def build_examples(blocks: Iterable[Block], maker: ExampleMaker, counters: Counter) -> Iterator[Keyed]:
    """Makes the examples of a portion of the corpus.

    Args:
      blocks: what nlpdata.corpus.read_portion yields of it. Of a document's file the id, the weight and (for
        --nsp-scope file) the number count.
      maker: see ExampleMaker.
      counters: is added to: documents, sentences, tokens, examples, ..., and dropped/<reason>.
    """
    builder = _Builder(maker, counters)
    for block in blocks:
        with objectives_code(maker.options.objective):
            yield from builder.add(block)


def fill_buckets(group: BucketGroup, maker: ExampleMaker, counters: Counter) -> Iterator[Keyed]:
    """Makes the examples of a group of buckets."""
    with objectives_code(maker.options.objective):
        yield from maker.bucket_work.fill(group, maker, counters)


class _Builder:
    def __init__(self, maker: ExampleMaker, counters: Counter) -> None:
        self._maker, self._objective, self._work = maker, maker.objective, maker.bucket_work
        self._counters = counters
        self._open: Document | None
        self._hold_nothing()

    def add(self, block: Block) -> Iterator[Keyed]:
        """The examples that this block completes."""
        counters, tokenizer = self._counters, self._maker.tokenizer
        for reason, count in block.dropped.items():
            counters[f"dropped/{reason}"] += count
            counters["sentences"] += count
        tokens, lengths = tokenizer.encode(block.lines)
        counters["sentences"] += len(lengths)
        counters["tokens"] += len(tokens)
        counters["tokens_unknown"] += count_unknown(tokens, tokenizer)
        counts = _count_real(lengths, block.line_counts)
        empty = len(lengths) - sum(counts)
        counters["dropped/empty_after_tokenization"] += empty
        if empty and EMPTY not in counters:
            number = next(
                i for i, (left, all_) in enumerate(zip(counts, block.line_counts, strict=True)) if left < all_
            )
            counters[EMPTY] = place_code(block.files[number], block.offsets[number])
        lengths = lengths[lengths > 0]

        held = len(self._held_lengths)
        tokens = np.concatenate([self._held_tokens, tokens]) if held else tokens
        ends = np.concatenate([[0], np.cumsum(np.concatenate([self._held_lengths, lengths]))]).astype(np.int64)
        documents, chunks, offers = self._cut(block, counts, ends, tokens)
        yield from self._finish(documents, chunks, ends, tokens)
        yield from self._entries(offers, ends, tokens)

    def _cut(
        self, block: Block, counts: Sequence[int], ends: np.ndarray, tokens: np.ndarray
    ) -> tuple[list[Document], _Chunks, list[Offer]]:
        """Cuts every document of a block into chunks, and keeps what the next block needs of the last one."""
        ends_list, held = ends.tolist(), len(self._held_lengths)
        documents: list[Document] = []
        offers: list[Offer] = []
        chunks = _Chunks()
        stop = 0
        for number, (file, offset, count) in enumerate(zip(block.files, block.offsets, counts, strict=True)):
            start = stop
            stop = start + count
            if number == 0 and block.starts_inside and self._open is not None:
                document = self._open
                stop += held
            else:
                document = self._new_document(file, offset)
            document.sentences += count
            final = not (block.ends_inside and number == len(counts) - 1)
            shifts = document.first - start, document.first_token - ends_list[start]
            known = Sentences(ends_list, start, stop, *shifts, final)
            documents.append(document)
            self._cut_document(document, number, known, chunks)
            keep = stop
            if document.duplicate_keys:
                new, keep = self._work.offer(document, known, tokens, ends)
                offers += new
            if final:
                self._count_document(document)
                self._hold_nothing()
            else:
                self._hold(document, known, min(keep, self._first_needed(document, known)), tokens, ends)
        return documents, chunks, offers

    def _new_document(self, file: CorpusFile, offset: int) -> Document:
        options, budget = self._maker.options, self._maker.layout.budget
        key = keys.fold_int(keys.fold_int(self._maker.seed_key, file.file_id), offset)
        for_eval = (keys.draw_int(key, Purpose.EVAL_SPLIT) >> 32) < round(options.eval_fraction * 2**32)
        count = 1 if for_eval else self._count_duplicates(file, key)
        duplicate_keys = [keys.fold_int(key, duplicate) for duplicate in range(count)]
        duplicates = []
        if not self._work.makes_all:
            short = [keys.fold_int(each, Purpose.SHORT_SEQUENCE) for each in duplicate_keys]
            targets = [ShortSequences(each, budget, options.short_seq_prob) for each in short]
            duplicates = list(map(Duplicate, duplicate_keys, targets))
        self._counters["documents"] += 1
        return Document(file, offset, key, SPLITS[for_eval], duplicate_keys, duplicates)

    def _count_duplicates(self, file: CorpusFile, key: int) -> int:
        """dupe_factor times the file's weight; a fraction is one more duplicate for that share of the documents."""
        wanted = self._maker.dupe_factor * file.weight
        whole = int(wanted)
        return whole + ((keys.draw_int(key, Purpose.WEIGHT) >> 32) < round((wanted - whole) * 2**32))

    def _cut_document(self, document: Document, number: int, known: Sentences, chunks: _Chunks) -> None:
        """Appends the document's new chunks in every duplicate."""
        shift = known.token_shift if self._objective.counts_tokens else known.shift
        for index, duplicate in enumerate(document.duplicates):
            new, start = self._objective.chunks(known, duplicate.start - shift, duplicate)
            duplicate.start = start + shift
            example, count = duplicate.examples, len(new)
            chunks.bounds += new
            chunks.document += [number] * count
            chunks.duplicate += [index] * count
            chunks.example += range(example, example + count)
            duplicate.examples = example + count

    def _first_needed(self, document: Document, known: Sentences) -> int:
        """The first sentence of the block that a later chunk of the document may use."""
        if not document.duplicates:
            return known.stop
        start = min(duplicate.start for duplicate in document.duplicates)
        if self._objective.counts_tokens:
            return bisect_right(known.ends, start - known.token_shift) - 1
        return start - known.shift

    def _hold_nothing(self) -> None:
        self._open, self._held_tokens, self._held_lengths = None, _NO_TOKENS, _NO_LENGTHS

    def _hold(self, document: Document, known: Sentences, keep: int, tokens: np.ndarray, ends: np.ndarray) -> None:
        """Holds a document's sentences from `keep` on for the next block."""
        self._open = document
        document.first, document.first_token = keep + known.shift, int(ends[keep]) + known.token_shift
        self._held_tokens = tokens[ends[keep] : ends[known.stop]].copy()
        self._held_lengths = np.diff(ends[keep : known.stop + 1])

    def _entries(self, offers: Sequence[Offer], ends: np.ndarray, tokens: np.ndarray) -> Iterator[Keyed]:
        """The entries for the buckets."""
        for split in SPLITS if offers else ():
            own = [offer for offer in offers if offer.document.split == split]
            for entries, packed in self._work.entries(own, tokens, ends, self._maker.token_dtype) if own else ():
                documents = [entry.document for entry in entries]
                numbers = np.array([entry.number for entry in entries], np.uint64)
                ties = np.column_stack([places(documents), numbers])
                yield Keyed("documents", split, self._bucket_keys(documents), ties, *packed)

    def _bucket_keys(self, documents: Sequence[Document]) -> np.ndarray:
        numbers = [document.file.number if self._work.by_file else None for document in documents]
        pairs = zip(documents, numbers, strict=True)
        return np.array([bucket_key(document.key, number) for document, number in pairs], np.uint64)

    def _count_document(self, document: Document) -> None:
        counters, sentences = self._counters, document.sentences
        counters[f"documents_{document.split}"] += 1
        counters["one_sentence_documents"] += sentences == 1
        if sentences > counters["longest_document"]:
            counters["longest_document"] = sentences
            counters[LONGEST] = place_code(document.file, document.offset)
        unused = self._objective.unused(sentences)
        if unused:
            counters[f"dropped/{unused}"] += sentences
        elif not document.duplicate_keys:
            counters["dropped/weight_below_one"] += sentences
        else:
            counters["sentences_used"] += sentences

    def _finish(
        self, documents: Sequence[Document], chunks: _Chunks, ends: np.ndarray, tokens: np.ndarray
    ) -> Iterator[Keyed]:
        """Turns a block's chunks into records, and into entries of those that wait for their bucket."""
        if not chunks.bounds:
            return
        maker = self._maker
        number, duplicate, example = (np.array(c) for c in (chunks.document, chunks.duplicate, chunks.example))
        bounds = np.array(chunks.bounds)
        table = np.zeros((len(documents), max(len(d.duplicate_keys) for d in documents)), np.uint64)
        for i, document in enumerate(documents):
            table[i, : len(document.duplicate_keys)] = document.duplicate_keys
        example_keys = keys.fold(table[number, duplicate], example)
        last = duplicate.astype(np.uint64) << np.uint64(32) | example.astype(np.uint64)
        ties = np.column_stack([places(documents)[number], last])
        for_eval = np.array([document.split == "eval" for document in documents])[number]
        waits = self._work.waits(bounds)
        for split, own in ((SPLITS[0], ~for_eval), (SPLITS[1], for_eval)):
            rows = np.flatnonzero(own & waits)
            if len(rows):
                packed = self._work.waiting(bounds[rows], tokens, ends, maker.token_dtype)
                yield Keyed("waiting", split, self._bucket_keys(documents)[number[rows]], ties[rows], *packed)
            rows = np.flatnonzero(own & ~waits)
            segments = self._objective.segments(ends, bounds[rows], example_keys[rows])
            segments, cut = truncate(segments, maker.layout.budget, example_keys[rows])
            self._counters["tokens_truncated"] += int(cut[duplicate[rows] == 0].sum())
            self._counters[f"examples_{split}"] += len(rows)
            yield from maker.encode(split, tokens, segments, example_keys[rows], ties[rows])


def _count_real(lengths: np.ndarray, line_counts: Sequence[int]) -> list[int]:
    """Sentences of each document that have tokens."""
    real = np.concatenate([[0], np.cumsum(lengths > 0)])
    return np.diff(real[np.concatenate([[0], np.cumsum(line_counts)]).astype(np.int64)]).tolist()
