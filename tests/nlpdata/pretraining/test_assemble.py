"""Segment pairs, truncation and the layout of records, against plain versions."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlpdata import keys
from nlpdata.pretraining.assemble import Layout, Segments, make_columns, truncate
from nlpdata.pretraining.masking import MaskingRule, mask_batch
from nlpdata.pretraining.objectives import find_objective
from tests.nlpdata.pretraining.examples import CLS, MASK, PAD, SEP

CONTINUATION = 120


def example_keys(n, seed=0):
    return keys.draw(keys.fold(keys.ROOT, seed), np.arange(n))


def test_split_and_swap_pairs_the_whole_chunk():
    ends = np.array([0, 3, 4, 9, 11, 12, 20, 21])
    first, stop = np.array([0, 2, 2, 5] * 50), np.array([2, 7, 4, 7] * 50)
    found = find_objective("sop").segments(ends, np.column_stack([first, stop]), example_keys(200))
    for i in range(200):
        a, b = (found.start_a[i], found.length_a[i]), (found.start_b[i], found.length_b[i])
        before, behind = (b, a) if found.label[i] else (a, b)
        assert before[0] == ends[first[i]]
        assert before[0] + before[1] == behind[0]
        assert behind[0] in ends[first[i] + 1 : stop[i]]
        assert behind[0] + behind[1] == ends[stop[i]]


def test_split_and_swap_are_even():
    n, sentences = 20_000, 6
    ends = np.arange(0, 10 * sentences + 1, 10)
    found = find_objective("sop").segments(ends, np.tile([0, sentences], (n, 1)), example_keys(n))
    middle = np.where(found.label, found.start_a, found.start_b) // 10
    for label in (0, 1):
        for sentence in range(1, sentences):
            share = ((middle == sentence) & (found.label == label)).mean()
            assert abs(share - 0.1) < 4.5 * (0.09 / n) ** 0.5


def truncate_seq_pair(a, b, budget, rng):
    a, b = list(a), list(b)
    while len(a) + len(b) > budget:
        longer = a if len(a) > len(b) else b
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()
    return a, b


def segments_of(pairs):
    """Segments in a flat array where token i is i; B directly behind A."""
    a, b = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    start = np.cumsum(a + b) - a - b
    return Segments(start, a, start + a, b, np.arange(len(a)) % 2)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=20), st.integers(1, 200))
def test_truncate_lengths(pairs, budget):
    segments = segments_of(pairs)
    found, cut = truncate(segments, budget, example_keys(len(pairs)))
    rng = random.Random(0)
    for i, (length_a, length_b) in enumerate(pairs):
        a, b = truncate_seq_pair(range(length_a), range(length_b), budget, rng)
        assert (found.length_a[i], found.length_b[i]) == (len(a), len(b))
        assert cut[i] == length_a + length_b - len(a) - len(b)
        assert segments.start_a[i] <= found.start_a[i] <= segments.start_a[i] + length_a - len(a)
        assert segments.start_b[i] <= found.start_b[i] <= segments.start_b[i] + length_b - len(b)
    assert found.label.tolist() == segments.label.tolist()


@pytest.mark.parametrize(("pair", "budget"), [((30, 10), 33), ((20, 20), 31), ((200, 5), 70), ((7, 150), 12)])
def test_truncate_cuts_binomially(pair, budget):
    """Tokens cut from a front are fair coin flips, as in truncate_seq_pair: mean n/2, variance n/4."""
    n = 8000
    segments = segments_of([pair] * n)
    found, _ = truncate(segments, budget, example_keys(n))
    for start, before, length, after in (
        (found.start_a, segments.start_a, segments.length_a, found.length_a),
        (found.start_b, segments.start_b, segments.length_b, found.length_b),
    ):
        flips = int((length - after)[0])
        front = start - before
        assert abs(front.mean() - flips / 2) <= 4 * (flips / 4 / n) ** 0.5
        assert abs(front.var() - flips / 4) <= 5 * flips / 4 * (2 / n) ** 0.5


def test_fronts_of_a_and_b_are_cut_independently():
    n = 8000
    segments = segments_of([(30, 30)] * n)
    found, _ = truncate(segments, 30, example_keys(n))
    fronts = found.start_a - segments.start_a, found.start_b - segments.start_b
    assert abs(np.corrcoef(*fronts)[0, 1]) < 4 / n**0.5


def plain_rows(tokens, segments, width, pairs):
    """[CLS] A [SEP] B [SEP], one row at a time: (ids, input_mask, segment_ids, token_boundary)."""
    for a, length_a, b, length_b in zip(
        segments.start_a, segments.length_a, segments.start_b, segments.length_b, strict=True
    ):
        ids = [CLS, *tokens[a : a + length_a].tolist(), SEP]
        segment_ids = [0] * len(ids)
        if pairs:
            ids += [*tokens[b : b + length_b].tolist(), SEP]
            segment_ids += [1] * (length_b + 1)
        rest = width - len(ids)
        yield (
            ids + [PAD] * rest,
            [1] * len(ids) + [0] * rest,
            segment_ids + [0] * rest,
            [int(i < CONTINUATION) for i in ids] + [0] * rest,
        )


def make_layout(width, pairs=True, masking=None, feature_names="v1", **changes):
    options = {
        "max_seq_length": width,
        "pairs": pairs,
        "cls_id": CLS,
        "sep_id": SEP,
        "pad_id": PAD,
        "word_start": np.arange(200) < CONTINUATION,
        "masking": masking,
        "feature_names": feature_names,
    }
    return Layout(**options | changes)


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=10), st.booleans())
def test_layout(pairs, two):
    pairs = pairs if two else [(a, 0) for a, _ in pairs]
    segments = segments_of(pairs)
    tokens = np.random.default_rng(0).integers(5, 200, sum(map(sum, pairs))).astype(np.int32)
    columns = make_columns(tokens, segments, example_keys(len(pairs)), make_layout(27, two))
    names = ("input_ids", "input_mask", "segment_ids", "token_boundary")
    assert columns.keys() == {*names, "next_sentence_labels"} if two else set(names)
    for row, expected in enumerate(plain_rows(tokens, segments, 27, two)):
        assert tuple(columns[name][row].tolist() for name in names) == expected
    if two:
        assert columns["next_sentence_labels"].tolist() == [[label] for label in segments.label]


def test_budget():
    assert make_layout(128).budget == 125
    assert make_layout(128, pairs=False).budget == 126


def test_special_tokens_start_words_whatever_the_tokenizer_says():
    nothing = np.zeros(200, bool)
    columns = make_columns(
        np.full(4, 7, np.int32), segments_of([(2, 2)]), example_keys(1), make_layout(9, word_start=nothing)
    )
    assert columns["token_boundary"].tolist() == [[1, 0, 0, 1, 0, 0, 1, 0, 0]]


def test_feature_names_v2():
    tokens, segments = np.arange(5, 25, dtype=np.int32), segments_of([(6, 4), (5, 5)])
    one = make_columns(tokens, segments, example_keys(2), make_layout(16))
    two = make_columns(tokens, segments, example_keys(2), make_layout(16, feature_names="v2"))
    new_names = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
    assert two.keys() == {new_names.get(name, name) for name in one}
    for name, column in one.items():
        np.testing.assert_array_equal(two[new_names.get(name, name)], column)


def test_static_masking_is_mask_batch_of_the_dynamic_columns():
    """What the loader makes of an unmasked record with the same key is the masked record."""
    rule = MaskingRule(0.15, 5, 3, True, True, MASK, (PAD, CLS, SEP, MASK), np.arange(5, 200, dtype=np.int32))
    tokens = np.random.default_rng(0).integers(5, 200, 400).astype(np.int32)
    segments, own = segments_of([(12, 8)] * 20), example_keys(20)
    static = make_columns(tokens, segments, own, make_layout(32, masking=rule))
    dynamic = make_columns(tokens, segments, own, make_layout(32))
    assert static.keys() - dynamic.keys() == {"masked_lm_positions", "masked_lm_ids", "masked_lm_weights"}
    masked = mask_batch(
        dynamic["input_ids"],
        dynamic["input_mask"].sum(axis=1),
        dynamic["token_boundary"],
        keys.fold(own, keys.Purpose.MASKING),
        rule,
    )
    np.testing.assert_array_equal(static["input_ids"], masked.input_ids)
    np.testing.assert_array_equal(static["masked_lm_positions"], masked.positions)
    np.testing.assert_array_equal(static["masked_lm_ids"], masked.label_ids)
    np.testing.assert_array_equal(static["masked_lm_weights"], masked.weights)
    for name in ("input_mask", "segment_ids", "token_boundary", "next_sentence_labels"):
        np.testing.assert_array_equal(static[name], dynamic[name])
