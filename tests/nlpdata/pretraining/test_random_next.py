"""Random second segments: candidate starts, and the draw of B."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata import keys
from nlpdata.pretraining.chunking import Sentences
from nlpdata.pretraining.ragged import Ragged
from nlpdata.pretraining.random_next import (
    MAX_CANDIDATES,
    CandidateCollector,
    Waiting,
    choose_second,
    fill_second,
    pack_waiting,
    read_candidates,
    read_waiting,
    whole_documents,
)

DTYPE = np.dtype(np.uint16)


def random_document(rng, sentences, longest=12):
    lengths = np.array([rng.randrange(1, longest) for _ in range(sentences)])
    tokens = np.array([rng.randrange(5, 60_000) for _ in range(int(lengths.sum()))], np.int32)
    return tokens, lengths


def whole_document(tokens, lengths, duplicate_keys):
    """The entry of one document, among foreign text."""
    ends = np.concatenate([[0, 2, 5], 5 + np.cumsum(lengths), [5 + sum(lengths) + 1]])
    tokens = np.array([*[1] * 5, *tokens, 1])
    stop = 2 + len(lengths)
    return whole_documents(tokens, ends, np.array([2]), np.array([stop]), [duplicate_keys], DTYPE)[0]


def read_entries(*entries, buckets=((0, 1 << 64, 0),)):
    """Candidates of documents with the keys 0, 1, 2, ..."""
    lengths = np.array([len(entry) for entry in entries])
    return read_candidates(buckets, np.arange(len(entries)).astype(np.uint64), lengths, b"".join(entries), DTYPE)


def collect(tokens, lengths, duplicate_keys, window, cuts):
    """Feeds a document in pieces, with foreign text in front, keeping only what the collector wants shown again."""
    collector = CandidateCollector(duplicate_keys, window)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    borders = sorted({*(cut % (len(lengths) + 1) for cut in cuts), len(lengths)} - {0})
    kept = 0  # the first sentence that is held
    for border in borders:
        held = np.concatenate([[2, 3], lengths[kept:border]])
        held_tokens = np.array([*[1] * 5, *tokens[ends[kept] : ends[border]]])
        held_ends = np.concatenate([[0], np.cumsum(held)])
        known = Sentences(held_ends.tolist(), 2, len(held), kept - 2, 0, border == len(lengths))
        kept += collector.add(known, held_tokens, held_ends) - 2
    return collector.pack(DTYPE)[0]


def texts(entry, duplicates, window):
    """What each duplicate's candidates read, in order of their starts: {duplicate: [[sentence, ...], ...]}."""
    bucket = read_entries(entry)
    found = []
    for duplicate in range(duplicates):
        own = duplicate % bucket.duplicates[0]
        first, count = bucket.first[0, own], bucket.count[0, own]
        found.append([])
        for candidate in range(first, first + count):
            start = bucket.ends[bucket.starts[candidate]]
            stop = min(bucket.limits[candidate], start + window)
            found[-1].append(bucket.tokens[start:stop].tolist())
    return found


@settings(max_examples=40)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from([1, 2, 5, 63, 64, 65, 100, 200]),
    st.sampled_from([1, 5, 16, 40]),
    st.lists(st.integers(0, 1000), max_size=6),
)
def test_collector_equals_whole_document(seed, sentences, window, cuts):
    """A document in pieces offers the same texts, and so the same B's, as one that is held whole."""
    rng = random.Random(seed)
    tokens, lengths = random_document(rng, sentences)
    duplicate_keys = [keys.fold_int(seed, d) for d in range(3)]
    whole = whole_document(tokens, lengths, duplicate_keys)
    pieces = collect(tokens, lengths, duplicate_keys, window, cuts)
    assert texts(whole, 3, window) == texts(pieces, 3, window)
    assert [len(rows) for rows in texts(whole, 3, window)] == [min(sentences, MAX_CANDIDATES)] * 3
    ends = np.concatenate([[0], np.cumsum(lengths)])
    possible = [tokens[end : end + window].tolist() for end in ends[:-1]]
    assert all(text in possible for rows in texts(whole, 3, window) for text in rows)
    # The drawn B's as well: sentences end where they did.
    other = whole_document(*random_document(rng, 4), duplicate_keys)
    waiting = waiting_examples(200, wanted=lambda i: 1 + i % window, duplicates=3)
    drawn = []
    for entry in (whole, pieces):
        bucket = read_entries(entry, other)
        start, length = choose_second(bucket, np.ones(200, int), waiting, window)
        drawn.append([bucket.tokens[s : s + n].tolist() for s, n in zip(start, length, strict=True)])
    assert drawn[0] == drawn[1]


def test_candidates_of_a_long_document_are_a_fair_sample():
    tokens, lengths = np.arange(5, 205, dtype=np.int32), np.ones(200, np.int64)
    counts = np.zeros(205)
    draws = 400
    entry = whole_document(tokens, lengths, [keys.fold_int(5, d) for d in range(draws)])
    for rows in texts(entry, draws, 1):
        assert len({row[0] for row in rows}) == 64
        for row in rows:
            counts[row[0]] += 1
    share = 64 / 200
    assert (np.abs(counts[5:] - draws * share) < 4.5 * (draws * share * (1 - share)) ** 0.5).all()


def waiting_examples(n, wanted=lambda i: 9, duplicates=1):
    return Waiting(
        keys.draw(77, np.arange(n)),
        np.arange(n) % duplicates,
        np.array([wanted(i) for i in range(n)]),
        Ragged.joined(np.arange(2 * n).astype(DTYPE), np.full(n, 2)),
    )


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_waiting_survives_packing(dtype):
    """The keys come from the ties: (seed, file, offset, duplicate, example), folded one by one."""
    tokens, starts, counts = np.arange(100, 200), np.array([7, 0, 50]), np.array([3, 1, 20])
    wanted, file_id, offsets = np.array([5, 70_000, 1]), 1 << 63, [0, 11, 11]
    payload, lengths = pack_waiting(wanted, Ragged(tokens, starts, counts), np.dtype(dtype))
    ties = np.array([[file_id, offset, 3 << 32 | i] for i, offset in enumerate(offsets)], np.uint64)
    found = read_waiting(99, ties, lengths, payload, np.dtype(dtype))
    for i, (key, start, count) in enumerate(zip(found.example_keys, found.first.starts, found.first.counts)):  # noqa: B905
        expected = 99
        for element in (file_id, offsets[i], 3, i):
            expected = keys.fold_int(expected, element)
        assert int(key) == expected
        assert found.first.values[start : start + count].tolist() == list(tokens[starts[i] : starts[i] + counts[i]])
    assert found.first.counts.tolist() == counts.tolist()
    assert found.wanted.tolist() == wanted.tolist()
    assert found.duplicates.tolist() == [3, 3, 3]


def make_bucket(sizes, duplicates=2, buckets=((0, 1 << 64, 0),)):
    """Documents of sentences of four tokens; no token occurs twice."""
    entries, sentences, at = [], [], 5
    for number, size in enumerate(sizes):
        tokens = np.arange(at, at + 4 * size, dtype=np.int32)
        at += 4 * size
        sentences.append(tokens.reshape(size, 4).tolist())
        entries.append(whole_document(tokens, np.full(size, 4), [number * 10 + d for d in range(duplicates)]))
    return read_entries(*entries, buckets=buckets), sentences


@pytest.mark.parametrize("window", [6, 8, 40])
def test_second_segment(window):
    """B is text of another document from a sentence on: whole sentences until enough, cut at the window."""
    bucket, documents = make_bucket([1, 3, 10, 70])
    n = 4000
    own = np.arange(n) % 4
    waiting = waiting_examples(n, wanted=lambda i: 1 + i % 37, duplicates=2)
    start, length = choose_second(bucket, own, waiting, window)
    for i in range(n):
        text = bucket.tokens[start[i] : start[i] + length[i]].tolist()
        (document,) = [d for d, sentences in enumerate(documents) if [text[0]] in [s[:1] for s in sentences]]
        assert document != own[i]
        flat = [token for sentence in documents[document] for token in sentence]
        rest = flat[flat.index(text[0]) :]
        enough = -(-int(waiting.wanted[i]) // 4) * 4
        assert text == rest[: min(enough, window)]


def test_other_documents_and_starts_are_evenly_drawn():
    bucket, documents = make_bucket([5, 2, 4, 8])
    n = 20_000
    start, _ = choose_second(bucket, np.full(n, 2), waiting_examples(n), 100)
    counts = Counter(bucket.tokens[start].tolist())
    for document in (0, 1, 3):
        size = len(documents[document])
        for sentence in documents[document]:
            share = 1 / 3 / size
            assert abs(counts.pop(sentence[0]) / n - share) < 4.5 * (share / n) ** 0.5
    assert not counts


def test_documents_with_fewer_duplicates():
    """With weights, documents differ in their number of duplicates: a duplicate beyond it takes an earlier one's."""
    one = whole_document(np.arange(5, 9, dtype=np.int32), np.array([2, 2]), [1])
    three = whole_document(np.arange(9, 13, dtype=np.int32), np.array([1, 3]), [2, 3, 4])
    bucket = read_entries(one, three)
    start, length = choose_second(bucket, np.arange(300) % 2, waiting_examples(300, duplicates=3), 9)
    for i in range(300):
        text = bucket.tokens[start[i] : start[i] + length[i]].tolist()
        assert text in ([[9, 10, 11, 12], [10, 11, 12]] if i % 2 == 0 else [[5, 6, 7, 8], [7, 8]])


def test_fill_second():
    bucket, _ = make_bucket([4, 4])
    waiting = waiting_examples(30)
    start, length = choose_second(bucket, np.arange(30) % 2, waiting, 40)
    tokens, segments = fill_second(bucket, np.arange(30) % 2, waiting, 40)
    assert segments.label.tolist() == [1] * 30
    for i in range(30):
        a, b = segments.start_a[i], segments.start_b[i]
        assert tokens[a : a + segments.length_a[i]].tolist() == [2 * i, 2 * i + 1]
        assert tokens[b : b + segments.length_b[i]].tolist() == bucket.tokens[start[i] : start[i] + length[i]].tolist()


def test_adjacent_buckets_do_not_mix():
    """What is drawn from a bucket does not depend on the buckets that are filled with it."""
    sizes = [3, 5, 2, 4, 6, 70]
    together, _ = make_bucket(sizes, buckets=[(0, 2, 2), (2, 6, 4)])
    first, _ = make_bucket(sizes[:2])
    own = np.arange(900) % 6
    waiting = waiting_examples(900, duplicates=3)
    start, length = choose_second(together, own, waiting, 40)
    document = np.searchsorted(np.cumsum(sizes) * 4, start, "right")
    assert (document != own).all()
    assert ((document < 2) == (own < 2)).all()
    rows = np.flatnonzero(own < 2)
    alone = Waiting(waiting.example_keys[rows], waiting.duplicates[rows], waiting.wanted[rows], waiting.first)
    expected = choose_second(first, own[rows], alone, 40)
    assert (start[rows] == expected[0]).all()
    assert (length[rows] == expected[1]).all()


def test_whole_documents_at_once():
    """The entries of several documents are those of each alone."""
    rng = random.Random(3)
    documents = [random_document(rng, size) for size in (1, 100, 7, 64, 65)]
    duplicate_keys = [[keys.fold_int(number, d) for d in range(1 + number)] for number in range(5)]
    tokens = np.concatenate([tokens for tokens, _ in documents])
    ends = np.concatenate([[0], np.cumsum(np.concatenate([lengths for _, lengths in documents]))])
    stop = np.cumsum([len(lengths) for _, lengths in documents])
    start = stop - [len(lengths) for _, lengths in documents]
    payload, _ = whole_documents(tokens, ends, start, stop, duplicate_keys, DTYPE)
    single = [whole_document(*document, own) for document, own in zip(documents, duplicate_keys, strict=True)]
    assert payload == b"".join(single)
