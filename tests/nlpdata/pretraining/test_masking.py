"""Masking: invariants, and distributions against a plain sequential implementation."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata import keys
from nlpdata.pretraining.masking import MaskingRule, mask_batch
from tests.nlpdata.pretraining.examples import CLS, MASK, PAD, SEP, UNK

CONTINUATION = 120  # ids from here on continue a word


def make_rule(**changes) -> MaskingRule:
    options = {
        "masked_lm_prob": 0.15,
        "max_predictions": 20,
        "max_ngram": 3,
        "whole_word": True,
        "favor_shorter_ngram": True,
        "mask_id": MASK,
        "special_ids": (PAD, CLS, SEP, MASK),
        "ordinary_ids": np.arange(5, 200, dtype=np.int32),
    }
    return MaskingRule(**options | changes)


def example_keys(n: int, seed: int = 0) -> np.ndarray:
    return keys.draw(keys.fold(keys.ROOT, seed), np.arange(n))


def batch_of(sequences, width=None):
    """ids (n, L), lengths, word_start (n, L) of plain id lists."""
    width = width or max(map(len, sequences))
    ids = np.full((len(sequences), width), PAD, np.int32)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
    return ids, np.array([len(s) for s in sequences]), (ids < CONTINUATION).astype(np.uint8)


def random_sequence(rng: random.Random, length: int) -> list[int]:
    """[CLS] A [SEP] B [SEP] of `length` tokens with words of one to four pieces, some of them [UNK]."""
    body = [
        UNK
        if rng.random() < 0.02
        else rng.randrange(CONTINUATION, 200)
        if rng.random() < 0.3
        else rng.randrange(5, 120)
        for _ in range(length - 3)
    ]
    middle = rng.randrange(1, len(body))
    return [CLS, *body[:middle], SEP, *body[middle:], SEP]


def words_of(sequence, whole_word=True) -> list[list[int]]:
    """Positions of the maskable units of a sequence."""
    words = []
    for position, token in enumerate(sequence):
        if token in (PAD, CLS, SEP, MASK):
            continue
        if whole_word and token >= CONTINUATION and sequence[position - 1] not in (CLS, SEP, MASK):
            words[-1].append(position)
        else:
            words.append([position])
    return words


def flatten(rows) -> list:
    return [value for row in rows for value in row]


def plain_choice(rng: random.Random, sequence, rule: MaskingRule) -> set[int]:
    """The original's choice of positions, one sequence at a time."""
    words = words_of(sequence, rule.whole_word)
    budget = min(rule.max_predictions, max(1, round(len(sequence) * rule.masked_lm_prob)))
    weights = [1 / n for n in range(1, rule.max_ngram + 1)]
    if not rule.favor_shorter_ngram:
        weights.reverse()
    order = list(range(len(words)))
    rng.shuffle(order)
    chosen = set()
    for start in order:
        if len(chosen) >= budget:
            break
        (n,) = rng.choices(range(1, rule.max_ngram + 1), weights)
        span = flatten(words[start : start + n])
        while len(chosen) + len(span) > budget and n > 1:
            n -= 1
            span = flatten(words[start : start + n])
        if len(chosen) + len(span) <= budget and not chosen.intersection(span):
            chosen.update(span)
    return chosen


def positions_of(masked) -> list[list[int]]:
    counts = masked.weights.sum(axis=1).astype(int)
    return [row[:count].tolist() for row, count in zip(masked.positions, counts, strict=True)]


rules = st.builds(
    make_rule,
    max_predictions=st.integers(1, 20),
    max_ngram=st.integers(1, 4),
    whole_word=st.booleans(),
    favor_shorter_ngram=st.booleans(),
)


@settings(max_examples=60)
@given(st.integers(0, 1 << 30), st.lists(st.integers(5, 70), min_size=1, max_size=12), rules)
def test_invariants(seed, lengths, rule):
    rng = random.Random(seed)
    sequences = [random_sequence(rng, length) for length in lengths]
    ids, real, word_start = batch_of(sequences, 72)
    masked = mask_batch(ids, real, word_start, example_keys(len(lengths), seed), rule)
    assert masked.positions.shape == masked.label_ids.shape == masked.weights.shape == (len(ids), rule.max_predictions)
    for row, (sequence, positions) in enumerate(zip(sequences, positions_of(masked), strict=True)):
        count = len(positions)
        budget = min(rule.max_predictions, max(1, round(0.15 * len(sequence))))
        assert 1 <= count <= budget
        assert positions == sorted(set(positions))
        assert not {sequence[p] for p in positions} & {PAD, CLS, SEP, MASK}
        assert masked.label_ids[row].tolist() == [sequence[p] for p in positions] + [0] * (rule.max_predictions - count)
        assert masked.positions[row, count:].tolist() == [0] * (rule.max_predictions - count)
        assert masked.weights[row].tolist() == [1.0] * count + [0.0] * (rule.max_predictions - count)
        untouched = np.setdiff1d(np.arange(72), positions)
        assert masked.input_ids[row, untouched].tolist() == ids[row, untouched].tolist()
        new = {int(masked.input_ids[row, p]) for p in positions}
        assert new <= {MASK, *range(5, 200)} | {sequence[p] for p in positions}
        words = words_of(sequence, rule.whole_word)
        touched = [word for word in words if set(word) & set(positions)]
        if min(map(len, words)) <= budget:
            assert flatten(touched) == positions  # whole words only
        else:  # the first pieces of one word
            assert touched[0][:budget] == positions


@settings(max_examples=30)
@given(st.integers(0, 1 << 30), rules)
def test_does_not_depend_on_the_batch(seed, rule):
    rng = random.Random(seed)
    sequences = [random_sequence(rng, rng.randrange(5, 60)) for _ in range(9)]
    ids, real, word_start = batch_of(sequences)
    own_keys = example_keys(9, seed)
    together = mask_batch(ids, real, word_start, own_keys, rule)
    for row in range(9):
        part = slice(row, row + 1)
        alone = mask_batch(ids[part], real[part], word_start[part], own_keys[part], rule)
        for name in ("input_ids", "positions", "label_ids", "weights"):
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[row])


def test_nothing_to_mask():
    ids, real, word_start = batch_of([[CLS, SEP, SEP], [CLS, 7, SEP], [CLS, MASK, SEP]])
    masked = mask_batch(ids, real, word_start, example_keys(3), make_rule())
    assert masked.weights.sum(axis=1).tolist() == [0, 1, 0]
    assert masked.positions[1, 0] == 1
    assert masked.label_ids[1, 0] == 7
    empty = mask_batch(ids[:0], real[:0], word_start[:0], example_keys(0), make_rule())
    assert empty.input_ids.shape == (0, 3)


@pytest.mark.parametrize("length", [3, 9, 10, 16, 17, 23, 70, 128, 512])
def test_budget(length):
    sequence = [CLS, *range(5, 5 + length - 2), SEP] if length < 100 else [CLS, *[7] * (length - 2), SEP]
    ids, real, word_start = batch_of([sequence] * 20)
    masked = mask_batch(ids, real, word_start, example_keys(20), make_rule(max_predictions=60))
    # Single-piece words: a span can always be shortened to what is left.
    assert set(masked.weights.sum(axis=1)) == {min(60, max(1, round(0.15 * length)))}


def within(observed: float, probability: float, n: int, sigmas: float = 4) -> bool:
    return abs(observed - probability) < sigmas * (probability * (1 - probability) / n) ** 0.5


def test_replacement_shares():
    """80% [MASK], 10% unchanged, 10% random, evenly among the ordinary ids."""
    n, width = 6000, 128
    ids = np.full((n, width), 9, np.int32)
    ids[:, 0], ids[:, -1] = CLS, SEP
    ordinary = np.arange(50, 90, dtype=np.int32)
    rule = make_rule(ordinary_ids=ordinary)
    masked = mask_batch(ids, np.full(n, width), np.ones_like(ids), example_keys(n), rule)
    row, slot = np.nonzero(masked.weights)
    new = masked.input_ids[row, masked.positions[row, slot]]
    total = len(new)
    assert total > 100_000
    is_random = np.isin(new, ordinary)
    assert ((new == MASK) | (new == 9) | is_random).all()
    for observed, share in (((new == MASK).mean(), 0.8), ((new == 9).mean(), 0.1), (is_random.mean(), 0.1)):
        assert within(observed, share, total)
    counts = np.bincount(new[is_random], minlength=90)[50:]
    expected = is_random.sum() / len(ordinary)
    assert ((counts - expected) ** 2 / expected).sum() < 39 + 4 * (2 * 39) ** 0.5


def test_every_position_is_as_likely():
    n, width = 20_000, 42
    ids = np.full((n, width), 9, np.int32)
    ids[:, 0], ids[:, -1] = CLS, SEP
    masked = mask_batch(ids, np.full(n, width), np.ones_like(ids), example_keys(n), make_rule(max_ngram=1))
    row, slot = np.nonzero(masked.weights)
    counts = np.bincount(masked.positions[row, slot], minlength=width)
    assert counts[0] == counts[-1] == 0
    share = 6 / 40
    assert (np.abs(counts[1:-1] / n - share) < 4.5 * (share * (1 - share) / n) ** 0.5).all()


def test_five_piece_word():
    """All pieces of a word are chosen together; each then is [MASK], unchanged or random on its own."""
    word = [50, 150, 151, 152, 153]
    ids, real, word_start = batch_of([[CLS, *word, SEP, 7, SEP]] * 1000, 40)
    rule = make_rule(masked_lm_prob=0.6, max_ngram=1)  # budget 5
    masked = mask_batch(ids, real, word_start, example_keys(1000), rule)
    kinds = Counter()
    chosen = 0
    for row, positions in enumerate(positions_of(masked)):
        assert positions in ([1, 2, 3, 4, 5], [7])
        if positions[0] == 1:
            chosen += 1
            new = masked.input_ids[row, 1:6].tolist()
            kinds.update(
                "mask" if a == MASK else "keep" if a == b else "random" for a, b in zip(new, word, strict=True)
            )
    assert within(chosen / 1000, 0.5, 1000)  # whichever of the two words comes first leaves no room for the other
    total = kinds.total()
    for kind, share in (("mask", 0.8), ("keep", 0.1), ("random", 0.1)):
        assert within(kinds[kind] / total, share, total)


def test_word_longer_than_the_budget():
    """It is masked in its first pieces if no word fits, and is left alone if one does."""
    long = [50, *range(150, 160)]
    ids, real, word_start = batch_of([[CLS, *long, SEP, *long, SEP]] * 200)
    rule = make_rule()
    (budget,) = {min(20, round(0.15 * 25))}
    masked = mask_batch(ids, real, word_start, example_keys(200), rule)
    starts = Counter()
    for positions in positions_of(masked):
        assert positions == list(range(positions[0], positions[0] + budget))
        starts[positions[0]] += 1
    assert starts.keys() == {1, 13}
    assert within(starts[1] / 200, 0.5, 200)
    ids, real, word_start = batch_of([[CLS, *long, SEP, 60, SEP]] * 50)
    assert positions_of(mask_batch(ids, real, word_start, example_keys(50), rule)) == [[13]] * 50


def test_first_piece_of_a_segment_starts_a_word():
    ids, real, word_start = batch_of([[CLS, 150, 151, SEP, 152, SEP]] * 100)
    rule = make_rule(masked_lm_prob=0.34, max_ngram=1)  # budget 2
    seen = {tuple(p) for p in positions_of(mask_batch(ids, real, word_start, example_keys(100), rule))}
    assert seen == {(1, 2), (4,)}


def test_unknown_may_be_masked():
    ids, real, word_start = batch_of([[CLS, UNK, SEP]])
    masked = mask_batch(ids, real, word_start, example_keys(1), make_rule())
    assert (masked.positions[0, 0], masked.label_ids[0, 0]) == (1, UNK)


@pytest.mark.parametrize(("favor_shorter", "one"), [(True, 6 / 11), (False, 2 / 11)])
def test_span_is_cut_at_the_last_word(favor_shorter, one):
    """With two words left, a length of three means two, as in the original; the weights are not renormalised.

    Three words, budget two, `one` the share of length one. Starting at the first word: 1-2, or with length one 1 and
    then 2 or 3. At the second: 2-3, or 2 and then 1 or 3. At the third: 3 and then 1 or 2.
    """
    n = 20_000
    ids, real, word_start = batch_of([[CLS, 6, 7, 8, SEP]] * n)
    rule = make_rule(masked_lm_prob=0.4, favor_shorter_ngram=favor_shorter)
    seen = Counter(map(tuple, positions_of(mask_batch(ids, real, word_start, example_keys(n), rule))))
    assert within(seen[1, 2] / n, 1 / 3, n)
    assert within(seen[1, 3] / n, (one + 1) / 6, n)
    assert within(seen[2, 3] / n, (1 - one / 2 + 1 / 2) / 3, n)
    assert seen.total() == seen[1, 2] + seen[1, 3] + seen[2, 3]


@pytest.mark.parametrize(("favor_shorter", "weights"), [(True, (6, 3, 2)), (False, (2, 3, 6))])
def test_span_lengths_follow_their_weights(favor_shorter, weights):
    """One long row, few spans: nearly every run of masked words is one span."""
    n, width, budget = 3000, 1502, 12
    ids = np.full((n, width), 9, np.int32)
    ids[:, 0], ids[:, -1] = CLS, SEP
    rule = make_rule(masked_lm_prob=budget / width, favor_shorter_ngram=favor_shorter)
    runs = Counter()
    masked = mask_batch(ids, np.full(n, width), np.ones_like(ids), example_keys(n), rule)
    for positions in positions_of(masked):
        runs.update(run_lengths(positions))
    assert (runs[1] > runs[3]) == favor_shorter
    # The budget's end shortens the last of about 7 spans, and 2% of the runs are neighbours by chance.
    plain = Counter()
    rng = random.Random(1)
    for _ in range(3000):
        left = budget
        while left:
            (length,) = rng.choices((1, 2, 3), weights)
            plain[min(length, left)] += 1
            left -= min(length, left)
    for length in (1, 2, 3):
        assert runs[length] / runs.total() == pytest.approx(plain[length] / plain.total(), abs=0.02)


def run_lengths(positions) -> list[int]:
    runs = []
    for i, position in enumerate(positions):
        if i and position == positions[i - 1] + 1:
            runs[-1] += 1
        else:
            runs.append(1)
    return runs


@pytest.mark.parametrize("whole_word", [True, False])
@pytest.mark.parametrize("favor_shorter", [True, False])
def test_distribution_against_plain_algorithm(whole_word, favor_shorter):
    """Runs of masked pieces, numbers of predictions and shares by position, against one sequence at a time."""
    rng = random.Random(5)
    # Few sequences, many masks of each; short ones show what happens at the end of a sequence.
    sequences = [random_sequence(rng, length) for length in (9, 12, 21, 40, 64)]
    rule = make_rule(whole_word=whole_word, favor_shorter_ngram=favor_shorter)
    n = 4000
    for number, sequence in enumerate(sequences):
        ids, real, word_start = batch_of([sequence] * n)
        ours = positions_of(mask_batch(ids, real, word_start, example_keys(n, number), rule))
        plain = [sorted(plain_choice(rng, sequence, rule)) for _ in range(n)]
        # The plain algorithm may choose nothing; ours then takes the first pieces of a word: not here.
        assert all(plain)
        assert_same_distribution(Counter(map(len, ours)), Counter(map(len, plain)), n)
        for measure in (run_lengths, list):
            compared = (Counter(value for row in rows for value in measure(row)) for rows in (ours, plain))
            assert_same_distribution(*compared, n)


def assert_same_distribution(a: Counter, b: Counter, n: int) -> None:
    """Two-sample counts agree within 4.5 standard deviations, value by value."""
    for value in a.keys() | b.keys():
        assert abs(a[value] - b[value]) <= 4.5 * (a[value] + b[value] + 1) ** 0.5, (value, a, b)
