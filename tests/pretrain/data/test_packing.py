"""Rows of several examples: the planner's promises, and that nothing of an example is lost or mixed up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.errors import UsageError
from pretrain.data import Batches
from pretrain.data.order import grouped
from pretrain.data.packing import max_row_predictions, max_sequences, packed, plan_rows, rounded_rows, used_lengths
from pretrain.settings.data_section import DataConfig, EvalDataConfig


@settings(max_examples=60)
@given(st.data())
def test_a_plan_keeps_to_the_limits_and_wastes_no_row(data):
    capacity, most = data.draw(st.integers(1, 80)), data.draw(st.integers(1, 6))
    lengths = np.array(data.draw(st.lists(st.integers(1, capacity), min_size=1, max_size=60)))
    needs = np.array([data.draw(st.integers(0, 5)) for _ in lengths])
    plan = plan_rows(lengths, capacity, most, needs, 9)
    assert sorted(set(plan.row.tolist())) == list(range(plan.rows))
    for row in range(plan.rows):
        mine = np.flatnonzero(plan.row == row)
        mine = mine[np.argsort(plan.slot[mine])]
        assert plan.slot[mine].tolist() == list(range(len(mine)))
        assert plan.start[mine].tolist() == (np.cumsum(lengths[mine]) - lengths[mine]).tolist()
        assert len(mine) <= most
        assert lengths[mine].sum() <= capacity
        assert needs[mine].sum() <= 9
    alone = plan_rows(lengths, capacity, len(lengths))
    bound = -(-lengths.sum() // capacity)
    assert bound <= alone.rows <= 2 * bound  # two rows that are not more than half full would be one


def test_best_fit_decreasing():
    plan = plan_rows(np.array([3, 7, 4, 6, 2]), 10, 8)
    assert plan.row.tolist() == [0, 0, 1, 1, 2]
    assert plan.start.tolist() == [7, 0, 6, 0, 0]


@pytest.mark.parametrize(("rows", "multiple", "few", "expected"), [
    (7, 1, False, 7), (7, 4, False, 8), (7, 1, True, 7), (100, 1, True, 100), (101, 1, True, 104), (101, 8, True, 104),
    (101, 6, True, 102),    (1, 4, True, 4),
])  # fmt: skip
def test_numbers_of_rows(rows, multiple, few, expected):
    assert rounded_rows(rows, multiple, few) == expected


def test_few_numbers_of_rows_are_compiled_and_few_rows_stay_empty():
    found = [rounded_rows(rows, 1, True) for rows in range(64, 128)]
    assert len(set(found)) <= 17
    assert all(rows <= other <= rows * 1.0625 for rows, other in zip(range(64, 128), found, strict=True))


def batch_of(lengths, length=24, predictions=4, seed=0):
    draw, n = np.random.default_rng(seed), len(lengths)
    mask = (np.arange(length) < np.asarray(lengths)[:, None]).astype(np.int32)
    made = np.minimum(predictions, np.maximum(1, np.asarray(lengths) // 7))
    weights = (np.arange(predictions) < made[:, None]).astype(np.float32)
    positions = np.sort(draw.integers(0, np.asarray(lengths)[:, None], (n, predictions)), axis=1)
    return {
        "input_ids": draw.integers(5, 99, (n, length)).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": draw.integers(0, 2, (n, length)).astype(np.int32) * mask,
        "masked_lm_positions": (positions * weights).astype(np.int32),
        "masked_lm_ids": (draw.integers(5, 99, (n, predictions)) * weights).astype(np.int32),
        "masked_lm_weights": weights,
        "next_sentence_labels": draw.integers(0, 2, (n, 1)).astype(np.int32),
        "record": np.arange(n, dtype=np.int32),
    }


@settings(max_examples=40)
@given(st.lists(st.integers(1, 24), min_size=1, max_size=30), st.integers(1, 5), st.booleans())
def test_every_example_is_there_once_and_whole(lengths, multiple, few):
    batch = batch_of(lengths)
    real = np.ones(len(lengths), np.int32)
    real[1::3] = 0
    rows = packed(batch | {"is_real_example": real}, multiple, few)
    assert len(rows["input_ids"]) % multiple == 0
    assert {len(values) for values in rows.values()} == {len(rows["input_ids"])}
    assert rows["sequence_starts"].shape[1] == max_sequences(24)
    assert rows["masked_lm_ids"].shape[1] == max_row_predictions(4, 24)
    assert rows["input_mask"].sum() == sum(n for n, is_real in zip(lengths, real, strict=True) if is_real)
    assert np.array_equal(rows["input_mask"], rows["sequence_ids"] != 0)
    found = np.argwhere(rows["is_real_example"])
    assert sorted(rows["record"][tuple(found.T)].tolist()) == np.flatnonzero(real).tolist()
    for row, slot in found:
        example = int(rows["record"][row, slot])
        n, start = lengths[example], int(rows["sequence_starts"][row, slot])
        place = slice(start, start + n)
        assert set(rows["sequence_ids"][row, place]) == {slot + 1}
        assert rows["position_ids"][row, place].tolist() == list(range(n))
        for name in ("input_ids", "segment_ids"):
            assert np.array_equal(rows[name][row, place], batch[name][example, :n])
        assert rows["next_sentence_labels"][row, slot].tolist() == batch["next_sentence_labels"][example].tolist()
        mine = (rows["masked_lm_weights"][row] != 0) & (
            rows["sequence_ids"][row, rows["masked_lm_positions"][row]] == slot + 1
        )
        made = batch["masked_lm_weights"][example] != 0
        assert (rows["masked_lm_positions"][row, mine] - start).tolist() == batch["masked_lm_positions"][
            example, made
        ].tolist()
        assert rows["masked_lm_ids"][row, mine].tolist() == batch["masked_lm_ids"][example, made].tolist()
    assert rows["masked_lm_weights"].sum() == batch["masked_lm_weights"][real == 1].sum()


def test_lengths_of_foreign_masks():
    """With a hole, up to the last real token; a row without any counts as one token."""
    assert used_lengths(np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])).tolist() == [2, 3, 1, 4]


class Texts:
    """n examples of lengths that differ."""

    def __init__(self, n, length=24):
        self.lengths = np.random.default_rng(1).integers(1, length + 1, n)
        self.columns = batch_of(self.lengths, length)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return {name: values[index] for name, values in self.columns.items()}


def make(n=300, size=20, config=DataConfig, packs=True, **fields):
    own = config(input_path="", global_batch_size=size, seed=5, **fields)
    return Batches(Texts(n), own, lambda rows, examples, epoch: rows, "task.train_data", packs=packs)


def test_a_packed_step_has_the_examples_of_the_same_step_and_hosts_share_its_rows():
    plain, rows = make(), make(pack_sequences=True)
    for step in (0, 14, 15, 40, 3):
        found, expected = rows.batch(step), plain.batch(step)
        assert sorted(found["record"][found["is_real_example"] == 1]) == sorted(expected["record"])
        assert len(found["input_ids"]) < 0.8 * len(expected["input_ids"])
        parts = [make(pack_sequences=True).for_host(index, 2, None, 4).batch(step) for index in range(2)]
        whole = make(pack_sequences=True).for_host(0, 1, None, 4).batch(step)
        for name, values in whole.items():
            assert np.array_equal(np.concatenate([part[name] for part in parts]), values)
        assert len(parts[0]["input_ids"]) == len(parts[1]["input_ids"])
        assert len(whole["input_ids"]) % 4 == 0


def test_an_evaluation_in_packed_rows_sees_every_example_once():
    batches = make(n=50, config=EvalDataConfig, pack_sequences=True)
    found = [batches.batch(step) for step in range(batches.steps_per_epoch)]
    seen = np.concatenate([batch["record"][batch["is_real_example"] == 1] for batch in found])
    assert sorted(seen.tolist()) == list(range(50))


def test_grouped_batches_have_the_examples_of_an_epoch_and_less_padding():
    n, size = 300, 20
    batches = make(n, size, group_by_length=True)
    plain = make(n, size, trim_padding=True)

    def epoch(batches, number):
        return [batches.batch(number * 15 + step) for step in range(15)]

    for number in (0, 1):
        found = epoch(batches, number)
        assert sorted(np.concatenate([batch["record"] for batch in found]).tolist()) == list(range(n))
        places, without = (sum(batch["input_mask"].size for batch in each) for each in (found, epoch(plain, number)))
        assert places < 0.75 * without
        widths = [batch["input_mask"].shape[1] for batch in found]
        assert widths != sorted(widths)  # not from short to long
    assert not np.array_equal(batches.batch(0)["record"], batches.batch(15)["record"])
    again = make(n, size, group_by_length=True)
    for step in (17, 3, 29, 0):  # in any order, and on any host
        whole = again.batch(step)["record"]
        assert np.array_equal(whole, batches.batch(step)["record"])
        parts = [again.for_host(index, 2).batch(step)["record"] for index in range(2)]
        assert np.array_equal(np.concatenate(parts), whole)


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(1, 7), st.integers(0, 6), st.integers(1, 5))
def test_grouping_permutes_the_examples(steps, size, rest, window):
    n = steps * size + min(rest, size - 1)
    lengths = np.random.default_rng(n).integers(1, 50, n)
    found = grouped(np.arange(n), lengths, steps, size, window, 3, 1)
    assert sorted(found.tolist()) == list(range(n))
    for position in range(n):
        assert grouped(np.array([position]), lengths, steps, size, window, 3, 1) == found[position]


@pytest.mark.parametrize(("fields", "message"), [
    ({"pack_sequences": True, "packs": False}, r"task.train_data.pack_sequences is true, but this task reads one example a row"),
    ({"pack_sequences": True, "group_by_length": True}, r"pack_sequences and group_by_length are both true"),
    ({"group_by_length": True, "config": EvalDataConfig}, r"group_by_length is true, but an evaluation reads in file order"),
])  # fmt: skip
def test_settings_that_do_not_go_together(fields, message):
    with pytest.raises(UsageError, match=message):
        make(**fields)
