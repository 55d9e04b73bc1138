"""Batches of one length each: every example once, in order, with bounded reading ahead, whatever comes around it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.errors import UsageError
from pretrain.prediction.batching import WINDOW, Batching, Example, padded_length


def example(number, length, masked=0):
    ids = np.arange(1, length + 1, dtype=np.int32) * (number + 1)
    positions = np.arange(masked, dtype=np.int32) if masked else None
    return Example(ids, (ids % 2).astype(np.int32), number, positions)


class Model:
    """Sums of the real tokens and of the segments, and the shapes that it saw."""

    def __init__(self):
        self.shapes = []

    def __call__(self, batch):
        self.shapes.append(batch["input_ids"].shape)
        mask = batch["input_mask"]
        assert mask[:, 0].all()
        assert ((batch["input_ids"] != 0) <= (mask > 0)).all()
        sums = {"sum": (batch["input_ids"] * mask).sum(axis=1), "segments": (batch["segment_ids"] * mask).sum(axis=1)}
        if "masked_lm_positions" in batch:
            sums["masked"] = batch["masked_lm_positions"].sum(axis=1)
        return sums


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 3)), max_size=80),
    size=st.integers(1, 9),
)
def test_outputs_are_those_of_each_example_in_order(lengths, size):
    model = Model()
    examples = [example(i, length, masked) for i, (length, masked) in enumerate(lengths)]
    found = list(Batching(model, size, 50).outputs(iter(examples)))
    assert [each.owner for each, _ in found] == list(range(len(lengths)))
    for each, outputs in found:
        assert outputs["sum"] == each.ids.sum()
        assert outputs["segments"] == each.segments.sum()
        assert ("masked" in outputs) == (each.positions is not None)
        if each.positions is not None:
            assert outputs["masked"] == each.positions.sum()
    for rows, length in model.shapes:
        assert rows == size or (rows < size and rows & (rows - 1) == 0)
        assert length == padded_length(length, 50)


@pytest.mark.parametrize("longest", [8, 50, 128, 512, 5000])
def test_padded_lengths_are_few_and_close(longest):
    lengths = [padded_length(length, longest) for length in range(1, longest + 1)]
    assert all(length <= padded <= longest for length, padded in enumerate(lengths, 1))
    assert lengths == sorted(lengths)
    assert all(padded <= max(8 * -(-length // 8), 1.25 * length) for length, padded in enumerate(lengths, 1))
    assert len(set(lengths)) <= 4 * max(longest.bit_length() - 4, 0) + 4


def test_an_example_is_padded_by_its_own_length_alone():
    """So its result cannot depend on its neighbours: only the number of rows differs."""
    seen = {}

    def model(batch):
        for row in batch["input_ids"]:
            seen.setdefault(int(row[0]) - 1, set()).add(len(row))
        return {"x": np.zeros(len(batch["input_ids"]))}

    lengths = np.random.default_rng(0).integers(1, 128, 200)
    for size in (1, 8, 33):
        for order in (np.arange(200), np.random.default_rng(size).permutation(200)):
            list(Batching(model, size, 128).outputs(example(i, lengths[i]) for i in order.tolist()))
    assert {number: {padded_length(int(length), 128)} for number, length in enumerate(lengths)} == {
        number: widths for number, widths in seen.items() if number >= 0
    }


def test_what_is_read_ahead_is_bounded_on_endless_input():
    taken = 0

    def endless():
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield example(number, 1 + (number * 7919) % 100 if number else 128)  # the first has no equal

    outputs = Batching(Model(), 8, 128).outputs(endless())
    for number, (each, _) in zip(range(5000), outputs, strict=False):
        assert each.owner == number
        assert taken - number <= WINDOW * 8
    one_by_one, taken = Batching(Model(), 1, 128).outputs(endless()), 0
    for number, _ in zip(range(20), one_by_one, strict=False):
        assert taken == number + 1


def test_reports_say_what_is_computed_of_what_was_taken():
    reports = []
    batching = Batching(Model(), 4, 128, lambda done, taken: reports.append((done, taken)))
    list(batching.outputs(example(i, 5 if i < 6 else 50) for i in range(9)))
    assert reports == [(4, 4), (6, 9), (9, 9)]


@pytest.mark.parametrize("size", [0, -1, 1 << 63])
def test_a_batch_of_no_size(size):
    with pytest.raises(UsageError, match=rf"batch_size must be from 1 to 65536\. Received: {size}\."):
        Batching(Model(), size, 128)
