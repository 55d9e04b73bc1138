"""Records to batches: order, masks, padding, what must agree, and what is reported where it does not."""

import hashlib
import json
import math
import shutil
import threading
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata import open_records
from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import Feature
from nlpdata.records.encoding import encode_examples
from pretrain.data import Batches, example_digest, prefetch, pretraining_batches
from pretrain.data.order import shuffled
from pretrain.data.record_set import meta_of
from pretrain.settings.data_section import DataConfig, EvalDataConfig
from pretrain.settings.schema import ModelConfig
from tests.messages import messages
from tests.pretrain.finetuning import examples, meta, write
from tests.pretrain.runs import tiny
from tests.waiting import wait_until


def task(**fields):
    from pretrain.tasks.pretraining import PretrainingConfig

    return PretrainingConfig(**{"model": ModelConfig(tiny())} | fields)


def train(path, **fields):
    return DataConfig(**{"input_path": str(path), "global_batch_size": 16} | fields)


def evaluation(path, **fields):
    return EvalDataConfig(**{"input_path": str(path), "global_batch_size": 16} | fields)


def epoch(batches, number=0):
    first = number * batches.steps_per_epoch
    return [batches.batch(step) for step in range(first, first + batches.steps_per_epoch)]


# --------------------------------------------------------------------------------------------------------------- order


@settings(max_examples=60)
@given(st.integers(1, 3000), st.integers(0, 2**63 - 1), st.integers(0, 10**6))
def test_an_epoch_is_a_permutation(n, seed, number):
    order = shuffled(np.arange(n), n, seed, number)
    assert sorted(order.tolist()) == list(range(n))
    some = np.arange(0, n, 7)
    np.testing.assert_array_equal(shuffled(some, n, seed, number), order[some])


def test_order_is_uniform_and_new_each_epoch():
    n, epochs = 12, 1500
    counts = np.zeros((n, n))
    for number in range(epochs):
        counts[np.arange(n), shuffled(np.arange(n), n, 7, number)] += 1
    expected = epochs / n
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 121 + 4 * np.sqrt(2 * 121)  # (n - 1)^2 degrees of freedom
    assert (shuffled(np.arange(1000), 1000, 7, 0) == shuffled(np.arange(1000), 1000, 7, 1)).sum() < 10
    neighbours = np.diff(shuffled(np.arange(100_000), 100_000, 7, 0))
    assert (neighbours == 1).sum() < 10


@pytest.mark.bound(60)
@pytest.mark.parametrize("n", [9, 12, 20])  # a full square, and where some places are walked past
def test_every_ordered_pair_of_neighbours_is_about_equally_frequent(n):
    epochs, counts = 1500, np.zeros((n, n))
    for number in range(epochs):
        order = shuffled(np.arange(n), n, 7, number)
        counts[order[:-1], order[1:]] += 1
    others = counts[~np.eye(n, dtype=bool)]
    expected = epochs / n  # n - 1 pairs an epoch, of n * (n - 1)
    freedom = n * (n - 1) - 1
    assert ((others - expected) ** 2 / expected).sum() < freedom + 4 * np.sqrt(2 * freedom)
    assert not counts.diagonal().any()


def test_the_order_of_an_epoch_does_not_change_between_versions():
    """A run resumes after an update where it stopped: whoever changes these numbers changes the order of all runs."""
    assert shuffled(np.arange(12), 12, 1, 2).tolist() == [0, 6, 11, 9, 7, 8, 1, 5, 10, 3, 4, 2]
    order = np.concatenate([shuffled(np.arange(n), n, 42, 3) for n in (9, 1024, 10_007)])
    assert hashlib.sha256(order.astype("<i8").tobytes()).hexdigest()[:16] == "8f1923ee95a83e4d"


@pytest.mark.bound(60)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_smallest_epochs_have_every_order(n):
    orders = Counter(tuple(shuffled(np.arange(n), n, 3, number).tolist()) for number in range(40 * math.factorial(n)))
    assert len(orders) == math.factorial(n)
    assert n == 1 or max(orders.values()) < 80


def test_places_in_a_billion_examples_take_no_memory():
    tracemalloc.start()
    order = shuffled(np.arange(10**9 - 1000, 10**9), 10**9, 1, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6
    assert len(set(order.tolist())) == 1000
    assert order.min() >= 0
    assert order.max() < 10**9


# ------------------------------------------------------------------------------------------------------------- batches


def test_an_epoch_of_training_sees_every_example_once_but_for_the_rest(record_sets):
    batches = pretraining_batches(train(record_sets["static"]), task())
    records = open_records(record_sets["static"])
    assert batches.num_examples == len(records)
    assert batches.steps_per_epoch == len(records) // 16
    rows = Counter(row.tobytes() for row in records[:]["input_ids"].astype(np.int32))
    for number in (0, 1):
        seen = Counter(row.tobytes() for batch in epoch(batches, number) for row in batch["input_ids"])
        assert seen.total() == 16 * batches.steps_per_epoch
        assert not seen - rows


def test_any_step_alone_is_the_step_in_sequence(record_sets):
    config = train(record_sets["dynamic"])
    in_sequence = epoch(pretraining_batches(config, task()), 1)
    for at in (len(in_sequence) - 1, 0, 17):
        alone = pretraining_batches(config, task()).batch(len(in_sequence) + at)
        assert example_digest(alone) == example_digest(in_sequence[at])


def test_hosts_share_each_batch(record_sets):
    batches = pretraining_batches(train(record_sets["dynamic"]), task())
    whole = batches.batch(40)
    parts = [batches.for_host(index, 4).batch(40) for index in range(4)]
    for name, values in whole.items():
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), values)
    with pytest.raises(UsageError, match="16 cannot be split over 3 hosts"):
        batches.for_host(0, 3)


def test_types_and_shapes(record_sets):
    batch = pretraining_batches(train(record_sets["static"]), task()).batch(0)
    assert {name: (values.dtype.name, values.shape) for name, values in batch.items()} == {
        "input_ids": ("int32", (16, 32)),
        "input_mask": ("int32", (16, 32)),
        "segment_ids": ("int32", (16, 32)),
        "masked_lm_positions": ("int32", (16, 5)),
        "masked_lm_ids": ("int32", (16, 5)),
        "masked_lm_weights": ("float32", (16, 5)),
        "next_sentence_labels": ("int32", (16, 1)),
    }


def test_evaluation_counts_every_example_once_in_file_order(record_sets):
    batches = pretraining_batches(evaluation(record_sets["static"]), task())
    records = open_records(record_sets["static"])
    assert batches.steps_per_epoch == -(-len(records) // 16)
    assert len(records) % 16
    real = [batch["is_real_example"].astype(bool) for batch in epoch(batches)]
    seen = np.concatenate([batch["input_ids"][mask] for batch, mask in zip(epoch(batches), real, strict=True)])
    np.testing.assert_array_equal(seen, records[:]["input_ids"])
    assert all(batch["input_ids"].shape == (16, 32) for batch in epoch(batches))


def test_dynamic_masks_are_new_each_epoch_and_fixed_in_evaluation(record_sets):
    config = train(record_sets["dynamic"])

    def by_example(batches, number):
        found = {}
        for batch in epoch(batches, number):
            original = batch["input_ids"].copy()
            row, slot = np.nonzero(batch["masked_lm_weights"])
            original[row, batch["masked_lm_positions"][row, slot]] = batch["masked_lm_ids"][row, slot]
            found |= {ids.tobytes(): p.tobytes() for ids, p in zip(original, batch["masked_lm_positions"], strict=True)}
        return found

    first, second = (
        by_example(pretraining_batches(config, task()), 0),
        by_example(pretraining_batches(config, task()), 1),
    )
    both = first.keys() & second.keys()
    # These sequences have about seven words, of which one or two fit the budget: independent draws agree in a third.
    assert len(both) > 400
    assert np.mean([first[key] == second[key] for key in both]) < 0.45
    held_out = pretraining_batches(evaluation(record_sets["dynamic"]), task())
    other_seed = pretraining_batches(evaluation(record_sets["dynamic"], seed=99), task())
    assert [example_digest(b) for b in epoch(held_out)] == [example_digest(b) for b in epoch(other_seed)]
    masked = sum(batch["masked_lm_weights"].sum() for batch in epoch(held_out))
    tokens = sum(batch["input_mask"].sum() for batch in epoch(held_out))
    assert masked / tokens == pytest.approx(0.14, abs=0.015)  # whole words do not fill every budget


def test_training_may_mask_more_but_evaluation_always_15_percent(record_sets):
    more = pretraining_batches(train(record_sets["dynamic"], masked_lm_prob=0.4, max_predictions_per_seq=13), task())
    batch = more.batch(0)
    assert batch["masked_lm_weights"].sum() / batch["input_mask"].sum() == pytest.approx(0.38, abs=0.03)
    with messages() as said:
        pretraining_batches(train(record_sets["dynamic"], masked_lm_prob=0.4), task())
        pretraining_batches(train(record_sets["dynamic"], masked_lm_prob=0.1), task())
    assert said == [
        "warning: task.train_data.masked_lm_prob 0.4 of 32 tokens are 13 predictions, but an example gets 5 at most "
        "(max_predictions_per_seq of the records' meta file). Set task.train_data.max_predictions_per_seq=13."
    ]
    with messages() as said:
        pretraining_batches(train(record_sets["static"], masked_lm_prob=0.4), task())
    assert said[0].startswith(
        "warning: task.train_data.masked_lm_prob 0.4 has no effect: the records are masked already"
    )
    with pytest.raises(UsageError, match=r"masked_lm_prob is 0.4; evaluation always masks 0.15"):
        pretraining_batches(evaluation(record_sets["dynamic"], masked_lm_prob=0.4), task())


def test_fine_tuning_records_are_called_so(tmp_path):
    path = write(tmp_path / "a.tfrecord", examples(16), meta())
    with pytest.raises(
        UsageError, match="are fine-tuning records: was --experiment=albert/sentence_prediction or bert/"
    ):
        pretraining_batches(train(path), task())


def test_objective_none_needs_no_labels(record_sets):
    batch = pretraining_batches(train(record_sets["none"]), task(use_next_sentence_label=False)).batch(0)
    assert "next_sentence_labels" not in batch
    with pytest.raises(UsageError, match=r"no next_sentence_labels \(objective none\).*Set it to false"):
        pretraining_batches(train(record_sets["none"]), task())


def test_several_paths_and_commas(record_sets):
    pattern = record_sets["static"]
    files = sorted(str(path) for path in Path(pattern).parent.glob(Path(pattern).name))
    one = pretraining_batches(train(pattern), task())
    for several in (",".join(files), files):
        config = replace(train(""), input_path=several)
        assert example_digest(pretraining_batches(config, task()).batch(5)) == example_digest(one.batch(5))


# ------------------------------------------------------------------------------------------------------ foreign records


def _write_foreign(path, length=16, predictions=3, rename=None, invert=False, count=8, vocabulary=100, **changed):
    """Records such as google-research/bert writes them, without a meta file."""
    rng = np.random.default_rng(0)
    names = {"input_ids": length, "input_mask": length, "segment_ids": length, "masked_lm_ids": predictions,
             "masked_lm_positions": predictions, "next_sentence_labels": 1}  # fmt: skip
    limits = {"input_ids": vocabulary, "masked_lm_ids": vocabulary, "masked_lm_positions": 12}
    columns = {name: rng.integers(0, limits.get(name, 2), (count, width)) for name, width in names.items()}
    columns["input_mask"] = (np.arange(length) < 12).astype(np.int64)[None].repeat(count, 0)
    if invert:
        columns["input_mask"] = 1 - columns["input_mask"]
    columns["masked_lm_weights"] = np.ones((count, predictions), np.float32)
    columns |= changed
    columns = {(rename or {}).get(name, name): values for name, values in columns.items()}
    features = tuple(
        Feature(name, "float32" if values.dtype == np.float32 else "int64", values.shape[1])
        for name, values in sorted(columns.items())
    )
    path.write_bytes(encode_examples(features, columns)[0])
    return columns


def test_foreign_records_without_a_meta_file(tmp_path):
    columns = _write_foreign(
        tmp_path / "a.tfrecord", rename={"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
    )
    with messages() as said:
        batches = pretraining_batches(evaluation(tmp_path / "a.tfrecord", global_batch_size=8), task())
    np.testing.assert_array_equal(batches.batch(0)["input_ids"], columns["input_word_ids"])
    np.testing.assert_array_equal(batches.batch(0)["segment_ids"], columns["input_type_ids"])
    assert len(said) == 1
    assert "no meta file" in said[0]
    assert "max_seq_length 16, max_predictions_per_seq 3" in said[0]


def test_a_mask_that_is_1_on_padding(tmp_path):
    _write_foreign(tmp_path / "a.tfrecord", invert=True)
    batches = pretraining_batches(evaluation(tmp_path / "a.tfrecord", global_batch_size=8, invert_mask=True), task())
    np.testing.assert_array_equal(batches.batch(0)["input_mask"][0], np.arange(16) < 12)


def test_records_of_another_length_among_the_shards(tmp_path):
    _write_foreign(tmp_path / "a-0.tfrecord", length=16)
    _write_foreign(tmp_path / "a-1.tfrecord", length=24)
    with pytest.raises(DataError, match=r"a-1.tfrecord, record 0: feature 'input_ids' holds 24 .*holds 16 of int64"):
        pretraining_batches(train(tmp_path / "a-*.tfrecord"), task())


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"masked_lm_positions": np.full((8, 3), 12)},
            r"record 0: masked_lm_positions\[0\] is 12, of weight 1; .* of 12 tokens",
        ),
        (
            {"masked_lm_weights": np.full((8, 3), np.nan, np.float32)},
            r"is \d+, of weight nan; expected .* a weight from 0 on",
        ),
        ({"masked_lm_weights": -np.ones((8, 3), np.float32)}, "of weight -1; expected"),
        ({"masked_lm_ids": np.ones((8, 2), np.int64)}, r"masked_lm_ids int64\[2\]: another type or length"),
        ({"segment_ids": np.ones((8, 9), np.int64)}, r"segment_ids int64\[9\]: another type or length"),
        ({"input_mask": np.ones((8, 16), np.float32)}, r"input_mask float32\[16\]: another type or length"),
        (
            {"next_sentence_labels": np.ones((8, 0), np.int64)},
            r"next_sentence_labels int64\[0\]: another type or length",
        ),
    ],
    ids=range(7),
)
def test_records_whose_features_do_not_fit_each_other(tmp_path, changed, words, packed):
    """In a packed row, a place behind the text is in the next example."""
    _write_foreign(tmp_path / "a.tfrecord", **changed)
    with pytest.raises(DataError, match=words):
        pretraining_batches(train(tmp_path / "a.tfrecord", global_batch_size=8, pack_sequences=packed), task())


def test_ids_beyond_the_vocabulary_name_the_record(tmp_path):
    _write_foreign(tmp_path / "a.tfrecord", vocabulary=100)
    columns = _write_foreign(tmp_path / "b.tfrecord", vocabulary=300, count=6)
    with pytest.raises(DataError, match=r"b.tfrecord, record \d+: (input|masked_lm)_ids holds \d+, expected 0 to 199"):
        epoch(pretraining_batches(train(tmp_path / "b.tfrecord", global_batch_size=6), task()))
    assert columns["input_ids"].max() >= 200


# ------------------------------------------------------------------------------------------------- what does not agree


@pytest.fixture
def copied(record_sets, tmp_path):
    """The static records, in a folder that a test may damage; the pattern of its shards."""
    source = Path(record_sets["static"]).parent
    for path in source.glob("static*"):
        shutil.copy(path, tmp_path)
    return tmp_path / "static.tfrecord*"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seq_length": 128}, r"max_seq_length 32, task.train_data.seq_length says 128"),
        (
            {"max_predictions_per_seq": 20},
            r"max_predictions_per_seq 5, task.train_data.max_predictions_per_seq says 20",
        ),
        ({"max_predictions_per_seq": 3}, r"max_predictions_per_seq 5, .* says 3"),
    ],
)
def test_configuration_and_records_disagree(record_sets, fields, message):
    with pytest.raises(UsageError, match=message):
        pretraining_batches(train(record_sets["static"], **fields), task())


def test_vocabulary_bigger_than_the_embedding(record_sets):
    small = task(model=ModelConfig(tiny(vocab_size=100)))
    with pytest.raises(
        UsageError, match=r"tokenizer has 200 entries, the model vocab_size 100.*Set .*vocab_size to 200"
    ):
        pretraining_batches(train(record_sets["static"]), small)


def test_sequences_longer_than_the_positions(record_sets):
    short = task(model=ModelConfig(tiny(max_position_embeddings=16)))
    with pytest.raises(UsageError, match="max_seq_length 32, the model max_position_embeddings 16"):
        pretraining_batches(train(record_sets["static"]), short)


def test_meta_file_of_another_task(copied):
    path = copied.parent / "static.meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"task_type": "bert_classification"}))
    with pytest.raises(UsageError, match="task_type 'bert_classification'; this task learns from"):
        pretraining_batches(train(copied), task())


def test_meta_file_and_records_disagree(copied):
    path = copied.parent / "static.meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_seq_length": 64}))
    with pytest.raises(UsageError, match="max_seq_length 32, the meta file says 64"):
        pretraining_batches(train(copied), task())


def test_records_of_two_tokenizers(record_sets, copied):
    path = copied.parent / "static.meta.json"
    meta = json.loads(path.read_text())
    meta["tokenizer"]["sha256"] = "0" * 64
    path.write_text(json.dumps(meta))
    with pytest.raises(UsageError, match="mixes records that differ in tokenizer checksum"):
        pretraining_batches(train(f"{copied},{record_sets['static']}"), task())


def test_fewer_examples_than_a_batch(record_sets):
    with pytest.raises(
        UsageError, match=r"train_data: \d+ examples are fewer than one batch of 5000. .*global_batch_size to"
    ):
        pretraining_batches(train(record_sets["static"], global_batch_size=5000), task())


def test_a_pattern_that_matches_nothing(tmp_path):
    with pytest.raises(
        UsageError, match=rf"task.train_data.input_path: no file matches '{tmp_path}/no\*'.*current folder"
    ):
        pretraining_batches(train(tmp_path / "no*"), task())
    with pytest.raises(
        UsageError, match=r"task.train_data.input_path is empty.*--input_files=.*nlpdata create-finetuning"
    ):
        pretraining_batches(train(""), task())


def test_dynamic_records_without_their_meta_file(record_sets, tmp_path):
    source = Path(record_sets["dynamic"]).parent
    for path in source.glob("dynamic.tfrecord*"):
        shutil.copy(path, tmp_path)
    with pytest.raises(UsageError, match="not masked, and to mask them takes a meta file"):
        pretraining_batches(train(tmp_path / "dynamic*"), task())
    found = replace(train(tmp_path / "dynamic*"), meta_path=str(source / "dynamic.meta.json"))
    assert pretraining_batches(found, task()).batch(0)["masked_lm_weights"].sum() > 0


def test_one_meta_file_serves_both_sections_unless_it_is_of_other_files(record_sets, tmp_path):
    source = Path(record_sets["dynamic"]).parent
    for path in source.glob("dynamic*"):
        shutil.copy(path, tmp_path)
    shard = sorted(tmp_path.glob("dynamic.tfrecord*"))[0]
    older = tmp_path / "train_meta_data"
    older.write_text('{"task_type": "albert_pretraining", "max_seq_length": 64}')
    assert meta_of(train(shard, meta_path=str(older)), shard) == older  # an older tool's lists no files
    own = tmp_path / "dynamic.meta.json"
    of_others = json.loads(own.read_text()) | {"shards": [{"file": "x.tfrecord", "records": 1, "crc32c": "00000000"}]}
    older.write_text(json.dumps(of_others))
    assert meta_of(train(shard, meta_path=str(older)), shard) == own
    own.unlink()
    assert meta_of(train(shard, meta_path=str(older)), shard) == older


def test_a_truncated_shard_is_named(copied):
    shard = copied.parent / "static.tfrecord-00001-of-00003"
    shard.write_bytes(shard.read_bytes()[:-7])
    with pytest.raises(DataError, match=r"static.tfrecord-00001-of-00003: record \d+ at byte \d+ is cut off"):
        pretraining_batches(train(copied), task())


def test_a_shard_that_lost_whole_records_is_named(copied):
    shard = copied.parent / "static.tfrecord-00001-of-00003"
    records = open_records(shard)
    size = len(records._files[0].record(len(records) - 1)) + 16
    shard.write_bytes(shard.read_bytes()[:-size])
    with pytest.raises(
        DataError, match=r"00001-of-00003 holds \d+ records, its meta file says \d+: the file is not whole"
    ):
        pretraining_batches(train(copied), task())


def test_a_flipped_bit_names_the_record(copied):
    shard = copied.parent / "static.tfrecord-00001-of-00003"
    file = open_records(shard)._files[0]
    at = int(file.stops[20]) - 40  # inside record 20
    data = bytearray(shard.read_bytes())
    data[at] ^= 1
    shard.write_bytes(data)
    batches = pretraining_batches(train(copied), task())
    with pytest.raises(DataError, match=r"00001-of-00003, record 20: .*checksum"):
        epoch(batches)


# ------------------------------------------------------------------------------------------------- digest and prefetch


def test_digest_tells_batches_apart():
    batch = {"a": np.arange(6, dtype=np.int32).reshape(2, 3), "b": np.ones(2, np.float32)}
    assert example_digest(batch) == example_digest(dict(reversed(batch.items())))
    for other in (
        {**batch, "a": batch["a"] + 1},
        {**batch, "a": batch["a"].reshape(3, 2)},
        {**batch, "a": batch["a"].astype(np.int64)},
        {"c": batch["a"], "b": batch["b"]},
    ):
        assert example_digest(other) != example_digest(batch)


@pytest.mark.bound(60)
def test_prefetch_keeps_the_order_and_runs_ahead():
    made = []

    def make(step):
        made.append(step)
        return step * step

    source = prefetch(make, range(3, 20), 4)
    assert next(source) == (3, 9)
    assert wait_until(lambda: len(made) >= 6)
    assert len(made) <= 7  # one taken, four waiting, one or two under way
    assert list(source) == [(step, step * step) for step in range(4, 20)]


@pytest.mark.bound(60)
def test_prefetch_raises_at_the_step_and_ends_its_thread():
    def make(step):
        if step == 2:
            raise DataError("record 2 is bad")
        return step

    source = prefetch(make, range(5), 10)
    assert [next(source)[0], next(source)[0]] == [0, 1]
    with pytest.raises(DataError, match="record 2 is bad"):
        next(source)
    endless = prefetch(lambda step: step, range(10**9), 2)
    next(endless)
    endless.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_batches_reads_in_few_large_calls(record_sets):
    calls = []

    class Counting:
        def __len__(self):
            return 640

        def __getitem__(self, index):
            calls.append(len(index))
            return {"x": np.asarray(index)[:, None]}

    batches = Batches(Counting(), train("", global_batch_size=32), lambda rows, examples, epoch: rows)
    for step in range(20):
        batches.batch(step)
    assert calls == [256, 256, 128]
