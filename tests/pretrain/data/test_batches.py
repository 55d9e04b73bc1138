"""Which examples are in the batch of a step, against plain loops; no records are read here."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.errors import UsageError
from pretrain.data import Batches, example_digest
from pretrain.data.batches import trimmed
from pretrain.data.order import shuffled
from pretrain.settings.data_section import DataConfig, EvalDataConfig
from tests.messages import messages


class Numbers:
    """n examples, of which each has its number; `calls`: how many were asked for at a time."""

    def __init__(self, n):
        self.n, self.calls = n, []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        self.calls.append(len(index))
        assert index.min() >= 0
        assert index.max() < self.n
        return {"number": np.asarray(index)[:, None]}


def with_epoch(rows, examples, epoch):
    assert np.array_equal(rows["number"][:, 0], examples)
    return rows | {"epoch": np.full(len(examples), epoch)}


def make(n, size, training=True, drop_remainder=None, seed=3, **fields):
    config = DataConfig if training else EvalDataConfig
    if drop_remainder is not None:
        fields["drop_remainder"] = drop_remainder
    return Batches(Numbers(n), config(input_path="", global_batch_size=size, seed=seed, **fields), with_epoch)


def one_by_one(step, n, size, training, drop_remainder, seed):
    """(numbers, which are real, epoch) of a step's batch."""
    steps = n // size if drop_remainder else -(-n // size)
    epoch, step = divmod(step, steps)
    order = shuffled(np.arange(n), n, seed, epoch).tolist() if training else list(range(n))
    places = range(step * size, (step + 1) * size)
    return [order[p] if p < n else order[0] for p in places], [int(p < n) for p in places], epoch


@st.composite
def runs(draw):
    hosts = draw(st.sampled_from([1, 2, 4]))
    size = hosts * draw(st.integers(1, 90))
    return hosts, size, draw(st.integers(size, 1200)), draw(st.booleans()), draw(st.booleans())


@settings(max_examples=40)
@given(runs(), st.lists(st.integers(0, 400), min_size=1, max_size=8))
def test_any_step_in_any_order_is_that_of_plain_loops(run, steps):
    """So a run that resumes at a step has the batches that it would have had."""
    hosts, size, n, training, drop_remainder = run
    batches = make(n, size, training, drop_remainder)
    parts = [batches.for_host(index, hosts) for index in range(hosts)]
    for step in steps:
        numbers, real, epoch = one_by_one(step, n, size, training, drop_remainder, 3)
        for found in (batches.batch(step), _joined([part.batch(step) for part in parts])):
            assert found["number"][:, 0].tolist() == numbers
            assert set(found["epoch"].tolist()) == {epoch}
            assert ("is_real_example" in found) == (not drop_remainder)
            assert found.get("is_real_example", np.array(real)).tolist() == real


def _joined(parts):
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize(("drop_remainder", "steps"), [(True, 3), (False, 4)])
def test_steps_of_an_epoch(drop_remainder, steps):
    assert make(11, 3, drop_remainder=drop_remainder).steps_per_epoch == steps
    assert make(12, 3, drop_remainder=drop_remainder).steps_per_epoch == 4
    assert make(3, 3, drop_remainder=drop_remainder).steps_per_epoch == 1


def test_fewer_examples_than_a_batch():
    with pytest.raises(UsageError, match=r"2 examples are fewer than one batch of 3.*global_batch_size to 2 or less"):
        make(2, 3, drop_remainder=True)
    assert make(2, 3, drop_remainder=False).batch(0)["is_real_example"].tolist() == [1, 1, 0]
    for drop_remainder in (True, False):
        with pytest.raises(UsageError, match="the record files hold no examples"):
            make(0, 3, drop_remainder=drop_remainder)


@pytest.mark.parametrize(("training", "drop_remainder"), [(True, True), (True, False), (False, False)])
def test_of_a_limited_set_the_first_examples_are_all_there_is(training, drop_remainder):
    with messages() as said:
        limited = make(40, 3, training, drop_remainder, max_examples=11)
    assert said == ["data: the first 11 of 40 examples (max_examples)"]
    whole = make(11, 3, training, drop_remainder, max_examples=12)
    assert (limited.num_examples, limited.steps_per_epoch) == (11, whole.steps_per_epoch)
    assert all(example_digest(limited.batch(step)) == example_digest(whole.batch(step)) for step in range(9))
    with pytest.raises(
        UsageError, match=r"2 examples are .* batch of 3\. Raise data\.max_examples, or set .* to 2 or less"
    ):
        make(40, 3, drop_remainder=True, max_examples=2)


def test_examples_that_are_no_real_ones_stay_so():
    def half(rows, examples, epoch):
        return {"is_real_example": (examples % 2).astype(np.int32)}

    config = EvalDataConfig(input_path="", global_batch_size=4)
    assert Batches(Numbers(6), config, half).batch(1)["is_real_example"].tolist() == [0, 1, 0, 0]


def test_a_batch_is_read_once_with_its_neighbours():
    batches = make(1000, 100)
    for step in (0, 1, 0, 2, 3, 2):
        batches.batch(step)
    assert batches._records.calls == [200, 200]
    host = make(1000, 100).for_host(1, 2)
    for step in range(6):
        host.batch(step)
    assert host._records.calls == [250, 50 * 5]
    large = make(1000, 500)
    large.batch(1)
    assert large._records.calls == [500]


WIDE = ("input_ids", "input_mask", "segment_ids", "paragraph_mask")


@given(st.integers(1, 60), st.lists(st.integers(0, 60), min_size=1, max_size=4), st.sampled_from([None, 1, 2, 3, 5]))
def test_trimmed_batches_have_the_least_length_that_is_allowed(full, used, max_lengths):
    used = [min(length, full) for length in used]
    mask = (np.arange(full) < np.array(used)[:, None]).astype(np.int32)
    batch = {name: mask + at for at, name in enumerate(WIDE)} | {"input_mask": mask, "labels": mask}
    allowed = range(8, full + 8, 8)
    if max_lengths:
        width = next(width for width in range(8, full + 16, 8) if -(-full // width) <= max_lengths)
        allowed = range(width, full + width, width)
    length = min(full, next(length for length in allowed if length >= max(used)))
    found = trimmed(batch, max_lengths)
    for name in WIDE:
        np.testing.assert_array_equal(found[name], batch[name][:, :length])
    assert found["labels"].shape == mask.shape


def test_the_digest_of_a_batch_does_not_change_between_versions():
    batch = {"b": np.ones(2, np.float32), "a": np.arange(6, dtype=np.int32).reshape(2, 3)}
    assert example_digest(batch) == "f2ae5e6131ab5ff2"
    assert example_digest({**batch, "a": np.asfortranarray(batch["a"])}) == "f2ae5e6131ab5ff2"
