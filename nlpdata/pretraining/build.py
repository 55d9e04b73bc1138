"""Blocks of text -> encoded records: the pure core that the local executor and every Beam runner call.

`build_examples` reads the blocks of a portion of the corpus and yields batches of finished records, and, for
next-sentence examples, entries for the buckets that draw a random second segment; `build_buckets` finishes those. Where
examples run across documents, it yields the text, and nlpdata.pretraining.packing makes the examples. Nothing here
depends on the size of portions, chunks, blocks or batches, except memory: a document is never held whole, its duplicates
are cut side by side over one stream of tokens.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from nlpdata import keys
from nlpdata.corpus import Block, CorpusFile
from nlpdata.keys import Purpose
from nlpdata.pretraining import packing, random_next
from nlpdata.pretraining.assemble import Segments, split_and_swap, truncate
from nlpdata.pretraining.chunking import (
    ShortSequences,
    next_sentence_chunks,
    sentence_order_chunks,
    stream_chunks,
)
from nlpdata.pretraining.ragged import Ragged
from nlpdata.pretraining.recipe import SPLITS, Keyed, Recipe
from nlpdata.tokenizers import count_unknown

_NO_TOKENS, _NO_LENGTHS = np.zeros(0, np.int32), np.zeros(0, np.int64)


@dataclass
class _Document:
    """A document while its sentences come in.

    Attributes:
      file, offset: its file, and its place in it.
      key, split: its key, and where it goes.
      duplicate_keys: one key a duplicate.
      targets, starts, examples: by duplicate: the target lengths, where the next chunk starts (a sentence of the
        document, or a token for objective none), and the number of examples so far; empty where examples come later.
      first, first_token: number in the document of the first sentence and token that are held.
      sentences: sentences so far.
      collector: candidate starts, for a document too large to be kept whole.
    """

    file: CorpusFile
    offset: int
    key: int
    split: str
    duplicate_keys: list[int]
    targets: list[ShortSequences]
    pair_keys: list[int]
    starts: list[int]
    examples: list[int]
    first: int = 0
    first_token: int = 0
    sentences: int = 0
    collector: random_next.CandidateCollector | None = None


@dataclass
class _Chunks:
    """Chunks of one block, as columns: see `_cut_document`."""

    document: list[int] = field(default_factory=list)
    duplicate: list[int] = field(default_factory=list)
    example: list[int] = field(default_factory=list)
    bounds: list[tuple] = field(default_factory=list)


def build_examples(blocks: Iterable[Block], recipe: Recipe, counters: Counter) -> Iterator[Keyed]:
    """Makes the examples of a portion of the corpus.

    Args:
      blocks: what nlpdata.corpus.read_portion yields of it. Of a document's file the id, the weight and (for
        --nsp-scope file) the number count.
      recipe: see Recipe.
      counters: is added to: documents, sentences, tokens, examples, ..., and dropped/<reason>.
    """
    builder = _Builder(recipe, counters)
    for block in blocks:
        yield from builder.add(block)


class _Builder:
    def __init__(self, recipe: Recipe, counters: Counter):
        self._recipe, self._counters = recipe, counters
        self._open: _Document | None
        self._hold_nothing()

    def add(self, block: Block) -> Iterator[Keyed]:
        """The examples that this block completes."""
        counters = self._counters
        for reason, count in block.dropped.items():
            counters[f"dropped/{reason}"] += count
            counters["sentences"] += count
        tokens, lengths = self._recipe.tokenizer.encode(block.lines)
        counters["sentences"] += len(lengths)
        counters["tokens"] += len(tokens)
        counters["tokens_unknown"] += count_unknown(tokens, self._recipe.tokenizer)
        counts = _count_real(lengths, block.line_counts)
        counters["dropped/empty_after_tokenization"] += len(lengths) - sum(counts)
        lengths = lengths[lengths > 0]

        held = len(self._held_lengths)
        tokens = np.concatenate([self._held_tokens, tokens]) if held else tokens
        ends = np.concatenate([[0], np.cumsum(np.concatenate([self._held_lengths, lengths]))]).astype(np.int64)
        documents, chunks, offers = self._cut(block, counts, ends, tokens, held)
        yield from self._finish(documents, chunks, ends, tokens)
        yield from self._entries(offers, ends, tokens)

    def _cut(self, block, counts, ends, tokens, held):
        """Cuts every document of a block into chunks, and keeps what the next block needs of the last one."""
        ends_list = ends.tolist()
        documents, chunks, offers = [], _Chunks(), []
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
            documents.append(document)
            self._cut_document(document, number, ends_list, start, stop, final, chunks)
            keep = self._offer(document, tokens, ends, start, stop, final, offers)
            if final:
                self._count_document(document)
                self._hold_nothing()
            else:
                self._hold(document, tokens, ends, min(keep, self._first_needed(document, start, ends)), stop)
        return documents, chunks, offers

    def _new_document(self, file: CorpusFile, offset: int) -> _Document:
        options = self._recipe.options
        key = keys.fold_int(keys.fold_int(self._recipe.seed_key, file.file_id), offset)
        for_eval = (keys.draw_int(key, Purpose.EVAL_SPLIT) >> 32) < round(options.eval_fraction * 2**32)
        duplicates = 1 if for_eval else self._duplicates(file, key)
        duplicate_keys = [keys.fold_int(key, duplicate) for duplicate in range(duplicates)]
        cut_here = [] if options.pack_across_documents else duplicate_keys
        short = [keys.fold_int(k, Purpose.SHORT_SEQUENCE) for k in cut_here]
        pair = [keys.fold_int(k, Purpose.PAIR) for k in duplicate_keys] if options.objective == "nsp" else []
        budget = self._recipe.layout.budget
        self._counters["documents"] += 1
        return _Document(
            file=file,
            offset=offset,
            key=key,
            split=SPLITS[for_eval],
            duplicate_keys=duplicate_keys,
            targets=[ShortSequences(k, budget, options.short_seq_prob) for k in short],
            pair_keys=pair,
            starts=[0] * len(cut_here),
            examples=[0] * len(cut_here),
        )

    def _duplicates(self, file: CorpusFile, key: int) -> int:
        """dupe_factor times the file's weight; a fraction is one more duplicate for that share of the documents."""
        wanted = self._recipe.options.dupe_factor * file.weight
        whole = int(wanted)
        return whole + ((keys.draw_int(key, Purpose.WEIGHT) >> 32) < round((wanted - whole) * 2**32))

    def _cut_document(self, document: _Document, number, ends, start, stop, final, chunks: _Chunks) -> None:
        """Appends the document's new chunks in every duplicate; sentences start : stop of the block are its own."""
        objective = self._recipe.options.objective
        shift = document.first - start
        for duplicate, target in enumerate(document.targets):
            example = document.examples[duplicate]
            if objective == "none":
                token_shift = document.first_token - ends[start]
                position = document.starts[duplicate] - token_shift
                new, position = stream_chunks(ends, position, start, stop, shift, target, final)
                document.starts[duplicate] = position + token_shift
            elif objective == "sop":
                begin = document.starts[duplicate] - shift
                new, begin = sentence_order_chunks(ends, begin, stop, shift, target, final)
                document.starts[duplicate] = begin + shift
            else:
                begin, pair_key = document.starts[duplicate] - shift, document.pair_keys[duplicate]
                new, begin = next_sentence_chunks(
                    ends, begin, stop, shift, target, final, lambda e, k=pair_key: keys.draw_int(k, e), example
                )
                document.starts[duplicate] = begin + shift
            count = len(new)
            chunks.bounds += new
            chunks.document += [number] * count
            chunks.duplicate += [duplicate] * count
            chunks.example += range(example, example + count)
            document.examples[duplicate] = example + count

    def _first_needed(self, document: _Document, start: int, ends) -> int:
        """The first sentence of the block that a later chunk of the document may use."""
        if not document.starts:
            return start + document.sentences - document.first
        if self._recipe.options.objective == "none":
            token = min(document.starts) - document.first_token + int(ends[start])
            return int(np.searchsorted(ends, token, "right")) - 1
        return min(document.starts) - document.first + start

    def _hold_nothing(self) -> None:
        self._open, self._held_tokens, self._held_lengths = None, _NO_TOKENS, _NO_LENGTHS

    def _hold(self, document: _Document, tokens, ends, keep: int, stop: int) -> None:
        self._open = document
        start = stop - (document.sentences - document.first)
        document.first_token += int(ends[keep] - ends[start])
        document.first += keep - start
        self._held_tokens = tokens[ends[keep] : ends[stop]].copy()
        self._held_lengths = np.diff(ends[keep : stop + 1])

    def _offer(self, document: _Document, tokens, ends, start, stop, final, offers) -> int:
        """Adds to `offers` what the document's bucket needs: candidate starts, when it is complete, or its text in parts.

        An offer is (document, first sentence, last + 1, number of the first). Returns the first sentence to be shown
        again.
        """
        options = self._recipe.options
        if not options.needs_buckets or not document.duplicate_keys:
            return stop
        if options.pack_across_documents:
            shift = document.first - start
            offers += [(document, a, b, a + shift) for a, b in packing.cut_parts(start, stop, shift)]
            return stop
        window = options.max_seq_length
        if not final or document.collector or ends[stop] - ends[start] > random_next.MAX_CANDIDATES * window:
            document.collector = document.collector or random_next.CandidateCollector(document.duplicate_keys, window)
            keep = document.collector.add(tokens, ends, start, stop, document.first - start, final)
            if not final:
                return keep
        if document.sentences:
            offers.append((document, start, stop, 0))
        return stop

    def _entries(self, offers: list[tuple[_Document, int, int, int]], ends, tokens) -> Iterator[Keyed]:
        """The entries for the buckets: all at once, but for those of documents that were not held whole."""
        dtype = self._recipe.token_dtype
        for split in SPLITS:
            whole = [offer for offer in offers if offer[0].split == split and not offer[0].collector]
            if whole:
                documents, start, stop, numbers = zip(*whole, strict=True)
                duplicate_keys = [document.duplicate_keys for document in documents]
                start, stop = np.array(start), np.array(stop)
                if self._recipe.options.pack_across_documents:
                    text = Ragged(tokens, ends[start], ends[stop] - ends[start])
                    packed = packing.pack_parts(np.array([len(each) for each in duplicate_keys]), text, dtype)
                else:
                    packed = random_next.whole_documents(tokens, ends, start, stop, duplicate_keys, dtype)
                yield self._entry(documents, numbers, packed)
        for document, _, _, number in offers:
            if document.collector:
                yield self._entry([document], [number], document.collector.pack(dtype))

    def _entry(self, documents: Sequence[_Document], numbers: Sequence[int], packed: tuple[bytes, np.ndarray]) -> Keyed:
        ties = np.column_stack([_places(documents), np.array(numbers, np.uint64)])
        return Keyed("documents", documents[0].split, self._bucket_keys(documents), ties, *packed)

    def _bucket_keys(self, documents: Sequence[_Document]) -> np.ndarray:
        by_file = self._recipe.options.nsp_scope == "file"
        numbers = [document.file.number if by_file else None for document in documents]
        pairs = zip(documents, numbers, strict=True)
        return np.array([random_next.bucket_key(document.key, number) for document, number in pairs], np.uint64)

    def _count_document(self, document: _Document) -> None:
        counters, sentences = self._counters, document.sentences
        counters[f"documents_{document.split}"] += 1
        counters["one_sentence_documents"] += sentences == 1
        counters["longest_document"] = max(counters["longest_document"], sentences)
        if self._recipe.options.objective == "sop" and sentences == 1:
            counters["dropped/one_sentence_document"] += 1
        elif not document.duplicate_keys:
            counters["dropped/weight_below_one"] += sentences
        else:
            counters["sentences_used"] += sentences

    def _finish(self, documents: Sequence[_Document], chunks: _Chunks, ends, tokens) -> Iterator[Keyed]:
        """Turns a block's chunks into records, and into waiting entries where a random B is wanted."""
        if not chunks.bounds:
            return
        recipe, objective = self._recipe, self._recipe.options.objective
        number, duplicate, example = (np.array(c) for c in (chunks.document, chunks.duplicate, chunks.example))
        bounds = np.array(chunks.bounds)
        table = np.zeros((len(documents), max(len(d.duplicate_keys) for d in documents)), np.uint64)
        for i, document in enumerate(documents):
            table[i, : len(document.duplicate_keys)] = document.duplicate_keys
        example_keys = keys.fold(table[number, duplicate], example)
        last = duplicate.astype(np.uint64) << np.uint64(32) | example.astype(np.uint64)
        ties = np.column_stack([_places(documents)[number], last])
        for_eval = np.array([document.split == "eval" for document in documents])[number]
        waits = bounds[:, 3] > 0 if objective == "nsp" else np.zeros(len(number), bool)
        for split, own in ((SPLITS[0], ~for_eval), (SPLITS[1], for_eval)):
            rows = np.flatnonzero(own & waits)
            if len(rows):
                sort_keys = self._bucket_keys(documents)[number[rows]]
                start, stop = ends[bounds[rows, 0]], ends[bounds[rows, 1]]
                first = Ragged(tokens, start, stop - start)
                packed = random_next.pack_waiting(bounds[rows, 3], first, recipe.token_dtype)
                yield Keyed("waiting", split, sort_keys, ties[rows], *packed)
            rows = np.flatnonzero(own & ~waits)
            segments, cut = _segments(objective, ends, bounds[rows], example_keys[rows], recipe.layout.budget)
            self._counters["tokens_truncated"] += int(cut[duplicate[rows] == 0].sum())
            self._counters[f"examples_{split}"] += len(rows)
            yield from recipe.encode(split, tokens, segments, example_keys[rows], ties[rows])


def _places(documents: Sequence[_Document]) -> np.ndarray:
    """File id and offset of each document, the first two ties of all that is made of it: uint64 (n, 2)."""
    places = [(document.file.file_id, document.offset) for document in documents]
    return np.array(places, np.uint64).reshape(-1, 2)


def _count_real(lengths: np.ndarray, line_counts: Sequence[int]) -> list[int]:
    """Sentences of each document that have tokens."""
    real = np.concatenate([[0], np.cumsum(lengths > 0)])
    return np.diff(real[np.concatenate([[0], np.cumsum(line_counts)]).astype(np.int64)]).tolist()


def _segments(objective, ends, bounds, example_keys, budget) -> tuple[Segments, np.ndarray]:
    """The segments of chunks, cut to the budget, and the tokens cut from each."""
    if objective == "none":
        nothing = np.zeros(len(bounds), np.int64)
        return Segments(bounds[:, 0], bounds[:, 1] - bounds[:, 0], nothing, nothing, nothing), nothing
    if objective == "sop":
        segments = split_and_swap(ends, bounds[:, 0], bounds[:, 1], example_keys)
    else:
        start, middle, stop = (ends[bounds[:, i]] for i in range(3))
        segments = Segments(start, middle - start, middle, stop - middle, np.zeros(len(bounds), np.int64))
    return truncate(segments, budget, example_keys)


def build_buckets(
    split: str,
    candidates: random_next.Candidates,
    waiting: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray, bytes]],
    recipe: Recipe,
    counters: Counter,
) -> Iterator[Keyed]:
    """Finishes the examples of adjacent buckets that wait for a random second segment.

    Args:
      split: the buckets' split.
      candidates: of their documents.
      waiting: batches of (bucket keys, ties, lengths, payload) of the entries, in any order.
      recipe: see Recipe.
      counters: is added to.
    """
    for sort_keys, ties, lengths, payload in waiting:
        examples = random_next.read_waiting(recipe.seed_key, ties, lengths, payload, recipe.token_dtype)
        document = np.searchsorted(candidates.document_keys, sort_keys)
        tokens, segments = random_next.fill_second(candidates, document, examples, recipe.options.max_seq_length)
        whole, (segments, _) = segments, truncate(segments, recipe.layout.budget, examples.example_keys)
        cut = whole.length_a - segments.length_a  # what B loses is not lost: its own document has it, too
        counters["tokens_truncated"] += int(cut[examples.duplicates == 0].sum())
        counters[f"examples_{split}"] += len(document)
        yield from recipe.encode(split, tokens, segments, examples.example_keys, ties)
