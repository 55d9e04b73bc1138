"""Chunking: each rule against a plain sentence-by-sentence implementation, whole and in pieces."""

import random
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata import keys
from nlpdata.pretraining.chunking import SHORT_SEQ_PERIOD, Duplicate, Sentences, ShortSequences
from nlpdata.pretraining.objectives import find_objective

documents = st.lists(st.integers(1, 30) | st.integers(1, 5), min_size=1, max_size=60)


def target_of(seed: int):
    """A target length for each sentence that a chunk may start at."""
    return lambda sentence: random.Random(seed * 1009 + sentence // 7).choice([2, 9, 25, 25, 60])


def bits_of(seed: int):
    return lambda example: keys.draw_int(keys.fold_int(seed, keys.Purpose.PAIR), example)


def in_pieces(lengths, cuts, objective, target, seed=0):
    """Feeds a document piece by piece, keeping only what is needed, as the core does: chunks in document terms."""
    rules = find_objective(objective)
    tokens, duplicate = rules.counts_tokens, Duplicate(seed, target)
    found, start, kept, kept_from = [], 0, [], 0
    borders = sorted({0, len(lengths), *(cut % (len(lengths) + 1) for cut in cuts)})
    base = 0  # tokens before the first kept sentence
    for begin, end in pairwise(borders):
        kept = kept + lengths[begin:end]
        other = [3, 3]  # sentences of another document in front: positions are not those in the document
        ends = [0, *accumulate(other + kept)]
        shift, token_shift = kept_from - len(other), base - ends[len(other)]
        first = start - (token_shift if tokens else shift)
        known = Sentences(ends, len(other), len(ends) - 1, shift, token_shift, end == len(lengths))
        duplicate.examples = len(found)
        new, position = rules.chunks(known, first, duplicate)
        move = token_shift if tokens else shift
        found += [tuple(value + move for value in chunk[:3]) + tuple(chunk[3:]) for chunk in new]
        start = position + move
        drop = 0
        while drop < len(kept) and (base + sum(kept[: drop + 1]) <= start if tokens else kept_from + drop + 1 <= start):
            drop += 1
        base += sum(kept[:drop])
        kept, kept_from = kept[drop:], kept_from + drop
    return found, start


def plain_sop(lengths, target):
    chunks, chunk = [], []
    for sentence, _ in enumerate(lengths):
        chunk.append(sentence)
        if len(chunk) >= 2 and sum(lengths[i] for i in chunk) >= target(chunk[0]):
            chunks.append(chunk)
            chunk = []
    if len(chunk) == 1 and chunks:
        chunks[-1] += chunk
    elif len(chunk) > 1:
        chunks.append(chunk)
    return [(chunk[0], chunk[-1] + 1) for chunk in chunks]


def plain_nsp(lengths, target, bits):
    """create_instances_from_document of the originals, with the random B's wanted length for its text."""
    chunks, chunk, i = [], [], 0
    while i < len(lengths):
        chunk.append(i)
        goal = target(chunk[0])
        if i == len(lengths) - 1 or sum(lengths[j] for j in chunk) >= goal:
            draw = bits(len(chunks))
            a_end = 1
            if len(chunk) >= 2:
                a_end = 1 + (draw >> 32) * (len(chunk) - 1) // (1 << 32)
            length_a = sum(lengths[j] for j in chunk[:a_end])
            if len(chunk) == 1 or draw & 1:
                chunks.append((chunk[0], chunk[0] + a_end, chunk[0] + a_end, max(1, goal - length_a)))
                i -= len(chunk) - a_end
            else:
                chunks.append((chunk[0], chunk[0] + a_end, i + 1, 0))
            chunk = []
        i += 1
    return chunks


def plain_stream(lengths, target):
    owner = [sentence for sentence, length in enumerate(lengths) for _ in range(length)]
    chunks, at = [], 0
    while at < len(owner):
        end = min(len(owner), at + target(owner[at]))
        chunks.append((at, end))
        at = end
    return chunks


@settings(max_examples=150)
@given(documents, st.integers(0, 99), st.lists(st.integers(0, 100), max_size=6))
def test_sentence_order(lengths, seed, cuts):
    target = target_of(seed)
    found, _ = in_pieces(lengths, cuts, "sop", target)
    assert found == plain_sop(lengths, target)
    assert found == in_pieces(lengths, [], "sop", target)[0]
    assert all(stop - start >= 2 for start, stop in found)
    used = [sentence for start, stop in found for sentence in range(start, stop)]
    assert used == (list(range(len(lengths))) if len(lengths) > 1 else [])


@settings(max_examples=150)
@given(documents, st.integers(0, 99), st.lists(st.integers(0, 100), max_size=6))
def test_next_sentence(lengths, seed, cuts):
    target, bits = target_of(seed), bits_of(seed)
    found, _ = in_pieces(lengths, cuts, "nsp", target, seed)
    assert found == plain_nsp(lengths, target, bits)
    assert found == in_pieces(lengths, [], "nsp", target, seed)[0]
    used = [sentence for start, _, stop, _ in found for sentence in range(start, stop)]
    assert used == list(range(len(lengths)))
    for start, split, stop, wanted in found:
        assert start < split
        assert (wanted > 0) == (stop == split)


@settings(max_examples=150)
@given(documents, st.integers(0, 99), st.lists(st.integers(0, 100), max_size=6))
def test_stream(lengths, seed, cuts):
    target = target_of(seed)
    found, _ = in_pieces(lengths, cuts, "none", target)
    assert found == plain_stream(lengths, target)
    assert [token for start, stop in found for token in range(start, stop)] == list(range(sum(lengths)))


@given(documents, st.integers(0, 99))
def test_every_sentence_alone(lengths, seed):
    """One sentence at a time: the hardest way to feed a document."""
    target, bits = target_of(seed), bits_of(seed)
    cuts = list(range(len(lengths)))
    assert in_pieces(lengths, cuts, "sop", target)[0] == plain_sop(lengths, target)
    assert in_pieces(lengths, cuts, "nsp", target, seed)[0] == plain_nsp(lengths, target, bits)
    assert in_pieces(lengths, cuts, "none", target)[0] == plain_stream(lengths, target)


def test_next_sentence_is_random_half_of_the_time():
    lengths = [5] * 20_000
    found, _ = in_pieces(lengths, [], "nsp", lambda _: 40, 3)
    share = sum(wanted > 0 for *_, wanted in found) / len(found)
    assert abs(share - 0.5) < 4 * 0.5 / len(found) ** 0.5
    true = [split - start for start, split, _, wanted in found if not wanted]
    for length in range(1, 8):  # eight sentences a chunk: A has 1 to 7, evenly
        assert abs(true.count(length) / len(true) - 1 / 7) < 4 * (6 / 49 / len(true)) ** 0.5


def test_short_sequences():
    """A share of short_seq_prob is short, evenly from 2 to the budget."""
    targets = [ShortSequences(key, 61, 0.25)(0) for key in keys.draw(7, range(20_000)).tolist()]
    short = [target for target in targets if target < 61]
    expected = 0.25 * 59 / 60  # one in 60 of the short ones has the full length
    assert abs(len(short) / 20_000 - expected) < 4 * (0.25 * 0.75 / 20_000) ** 0.5
    assert (min(targets), max(targets)) == (2, 61)
    for length in range(2, 61):
        assert abs(short.count(length) - 20_000 * 0.25 / 60) < 4.5 * (20_000 * 0.25 / 60) ** 0.5


@pytest.mark.parametrize(("probability", "expected"), [(0.0, {61}), (1.0, set(range(2, 62)))])
def test_short_sequences_never_and_always(probability, expected):
    assert {ShortSequences(key, 61, probability)(0) for key in keys.draw(7, range(2000)).tolist()} == expected


def test_short_sequences_are_redrawn_every_period():
    target = ShortSequences(keys.fold_int(keys.ROOT, 1), 100_000, 1.0)
    seen = [target(sentence) for sentence in range(0, 5 * SHORT_SEQ_PERIOD, 50)]
    assert SHORT_SEQ_PERIOD == 1000
    assert [len(set(seen[at : at + 20])) for at in range(0, 100, 20)] == [1] * 5
    assert len(set(seen)) == 5
    again = ShortSequences(keys.fold_int(keys.ROOT, 1), 100_000, 1.0)
    assert again(4999) == seen[-1]
    assert again(0) == seen[0]  # in any order
