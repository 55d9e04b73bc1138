"""Multiple choice on small records, end to end: sums as numpy has them, learns, scores each file, and refuses what does not fit."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from nlpdata.errors import DataError, UsageError
from pretrain.converters import native, read_checkpoint
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.write import write_checkpoint
from pretrain.encoders.model import weights_by_path
from pretrain.experiments import experiment
from pretrain.prediction.loading import load
from pretrain.registry import OPTIMIZERS, SCHEDULES
from pretrain.settings.fields import choose
from pretrain.tasks.configs import MultipleChoiceConfig
from pretrain.tasks.multiple_choice import MultipleChoiceTask
from pretrain.tasks.pretraining import PretrainingTask
from pretrain.tasks.sentence_prediction import SentencePredictionTask
from pretrain.training import run_experiment
from tests.messages import messages
from tests.pretrain.finetuning import CHOICES, LENGTH, choice_examples, choice_experiment, choice_records, write
from tests.pretrain.models import to_numpy
from tests.pretrain.runs import changed, curve, tiny

HEAD = ("choice/logits/kernel", "choice/logits/bias")


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def test_losses_and_a_step_equal_numpy(tmp_path):
    """One step of gradient descent, in two micro-steps, of batches that are cut: the head moves by numpy's gradient."""
    config = choice_experiment(
        choice_records(tmp_path / "train.tfrecord", 12, seed=3), batch=8, train_steps=1, gradient_accumulation_steps=2
    )
    optimization = replace(
        config.trainer.optimizer_config,
        optimizer=choose(OPTIMIZERS, "sgd", gradient_clip_norm=None),
        learning_rate=choose(SCHEDULES, "constant", learning_rate=0.5),
        warmup=None,
    )
    config = changed(config, "trainer", optimizer_config=optimization)
    encoder = tiny("bert", dropout=0.0, initializer_range=0.3)  # whose vectors differ before it has learned anything
    config = changed(config, "task", model=replace(config.task.model, encoder=encoder))
    task = MultipleChoiceTask(config.task)
    batches = task.build_inputs(config.task.train_data)
    batch, model = batches.batch(0), task.build_model(config.runtime.seed)
    assert batch["input_ids"].shape == (8, CHOICES, 24)
    rows = {name: batch[name].reshape(-1, 24) for name in ("input_ids", "input_mask", "segment_ids")}
    assert not any(batch["input_mask"].reshape(-1, 24)[:, 21:].any(axis=1))
    pooled = ops.convert_to_numpy(model(rows, heads=[])["pooled_output"]).astype(np.float64).reshape(8, CHOICES, -1)
    before = {name: to_numpy(weights_by_path(model)[name]).astype(np.float64) for name in HEAD}
    logits = (pooled @ before[HEAD[0]] + before[HEAD[1]])[..., 0]
    labels, every = batch["label_ids"], np.arange(8)
    assert labels.tolist() == [(choice[:, 5] == 10).argmax() for choice in batch["input_ids"]]
    expected = -np.log(softmax(logits)[every, labels])
    batch["is_real_example"][6:] = 0
    sums, statistics = task.losses(model, batch, training=False)
    assert float(sums["choice"]) == pytest.approx(expected[:6].sum(), rel=1e-5)
    assert float(statistics["correct"]) == (logits.argmax(axis=1) == labels)[:6].sum()
    assert (float(statistics["examples"]), float(task.denominators(batch)["choice"])) == (6, 6)
    run_experiment(config, tmp_path / "run", "train")
    upstream = (softmax(logits) - np.eye(CHOICES)[labels]) / 8
    after = read_checkpoint(str(tmp_path / "run")).weights
    gradient = np.einsum("bc,bch->h", upstream, pooled)[:, None]
    np.testing.assert_allclose(after[HEAD[0]], before[HEAD[0]] - 0.5 * gradient, atol=1e-5)
    assert np.abs(gradient).max() > 0.01
    assert after[HEAD[1]] == pytest.approx(before[HEAD[1]], abs=1e-6)  # a softmax does not see what all logits share


def two_choices(path, seed):
    """20 records of two choices of 24 tokens: the right one and one next to it."""
    columns = choice_examples(20, seed)
    labels = columns.pop("label_ids")[:, 0]
    first, rows = (labels == 2).astype(int), np.arange(20)[:, None]
    columns = {
        name: values.reshape(20, CHOICES, LENGTH)[rows, first[:, None] + [0, 1], :24].reshape(20, -1)
        for name, values in columns.items()
    }
    columns["label_ids"] = (labels - first)[:, None]
    meta = {"task_type": "bert_choice", "num_choices": 2, "num_labels": 2, "max_seq_length": 24, "label_names": []}
    return write(path, columns, meta), columns


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """(configuration, model_dir, metrics, what was said) of a run of 40 steps, evaluated on records of another size.

    Four of the 20 answers of dev_high are wrong."""
    folder = tmp_path_factory.mktemp("learned")
    train = choice_records(folder / "train.tfrecord", 64)
    middle, _ = two_choices(folder / "dev_middle.tfrecord", 5)
    high, columns = two_choices(folder / "dev_high.tfrecord", 9)
    columns["label_ids"][:4] = 1 - columns["label_ids"][:4]
    write(high, columns)
    config = choice_experiment(
        train, f"{middle},{high}", train_steps=40, summary_interval=1, steps_per_loop=1, log_example_digest=True,
        checkpoint_interval=17, max_to_keep=3,
    )  # fmt: skip
    with messages() as said:
        metrics = run_experiment(config, folder / "run", "train_and_eval")
    return config, folder / "run", metrics, said


@pytest.mark.slow
def test_it_learns_from_chance_to_full_marks(learned):
    """And what it says of two files, of the choices, and of records that are not as those it learned from."""
    config, model_dir, metrics, said = learned
    sizes = "have num_choices 2 and max_seq_length 24, those of task.train_data num_choices 3 and max_seq_length 32"
    assert len([line for line in said if f"the records of task.validation_data {sizes}: " in line]) == 1
    assert config.task.parts() == ["middle", "high"]
    assert metrics["accuracy_middle"] == 1.0
    assert metrics["accuracy_high"] == pytest.approx(0.8)
    assert metrics["accuracy"] == pytest.approx(0.9)
    losses = [loss for loss, *_ in curve(model_dir).values()]
    assert losses[0] == pytest.approx(np.log(CHOICES), abs=0.1)
    assert losses[-1] < 0.1
    report = json.loads((model_dir / "eval_report.json").read_text())
    assert (report["kind"], [each["name"] for each in report["classes"]]) == ("choice", ["0", "1"])
    assert sorted(error["record"] for error in report["errors"]) == [20, 21, 22, 23]
    _, info = native.locate_info(model_dir)
    assert (info["data"]["kind"], info["data"]["seq_length"]) == ("choice", LENGTH)


@pytest.mark.slow
def test_a_run_that_resumes_ends_as_if_it_had_not_stopped(learned, tmp_path):
    config, model_dir, metrics, _ = learned
    part = Path("checkpoints", "step-00000017")
    shutil.copytree(model_dir / part, tmp_path / "run" / part)
    other = changed(config, "task.validation_data", global_batch_size=9)
    assert run_experiment(other, tmp_path / "run", "train_and_eval") == pytest.approx(metrics, rel=1e-6)
    expected = curve(model_dir)
    assert curve(tmp_path / "run") == {step: expected[step] for step in range(18, 41)}
    one, two = (read_checkpoint(str(folder)).weights for folder in (model_dir, tmp_path / "run"))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_that_one_place_is_always_chosen_is_told(caplog):
    labels = np.arange(16) % CHOICES
    task, statistics = MultipleChoiceTask(MultipleChoiceConfig()), {"choice_loss": 1.0, "examples": 16, "correct": 8}
    for chosen in (np.ones(16, int), labels):
        outputs = {"record": np.arange(16), "label": labels, "logits": np.eye(CHOICES)[chosen]}
        with caplog.at_level("INFO"):
            task.reduce_aggregated_logs(task.aggregate_logs(None, statistics, outputs))
    (told,) = (record.message for record in caplog.records)
    assert told.startswith("evaluation: all 16 predictions are 'choice 1', which 31% of the examples are")


def test_examples_are_grouped_by_their_longest_choice(tmp_path):
    config = choice_experiment(choice_records(tmp_path / "train.tfrecord", 256), batch=8)
    section = replace(config.task.train_data, group_by_length=True, trim_padding=False)
    batches = MultipleChoiceTask(config.task).build_inputs(section)
    found = [batches.batch(step) for step in range(32)]
    assert sorted(number for batch in found for number in batch["record"].tolist()) == list(range(256))
    longest = [batch["input_mask"].sum(axis=-1).max(axis=-1) for batch in found]
    assert max(np.ptp(each) for each in longest) <= 3  # of 12 lengths
    assert {batch["input_ids"].shape for batch in found} == {(8, CHOICES, 16), (8, CHOICES, 24)}
    assert all(each.max() <= batch["input_ids"].shape[-1] for each, batch in zip(longest, found, strict=True))


def test_it_starts_from_what_run_race_leaves(tmp_path):
    """A TensorFlow checkpoint whose head is called as that of a classifier."""
    config = choice_experiment(choice_records(tmp_path / "train.tfrecord", 16))
    own = MultipleChoiceTask(config.task).build_model(seed=7)
    weights = {path: to_numpy(weight) for path, weight in weights_by_path(own).items()}
    write_checkpoint(tmp_path / "tf1", Checkpoint("native", "", config.task.model.encoder, weights), "tf1")
    (tmp_path / "tf1" / "nlpdata.json").unlink(missing_ok=True)
    with messages() as said:
        load(tmp_path / "tf1")
    assert "nothing says what its classifier of one row is for" in "\n".join(said)
    assert 'write {"kind": "choice"} into nlpdata.json' in "\n".join(said)
    assert "output_weights" in dict(tf.train.list_variables(str(tmp_path / "tf1")))
    task = MultipleChoiceTask(changed(config, "task", init_checkpoint=str(tmp_path / "tf1")).task)
    model = task.build_model(seed=8)
    with messages() as said:
        report = task.initialize(model)
    assert not report.missing
    assert "choice starts from the checkpoint's classifier of one row" in "\n".join(said)
    for path, weight in weights_by_path(model).items():
        np.testing.assert_array_equal(to_numpy(weight), weights[path])


def given(section):
    """Examples in memory, whose label guesses no task of choices."""
    return choice_examples(16)


def refused(config, match, error=UsageError):
    with pytest.raises(error, match=match):
        MultipleChoiceTask(config.task).build_inputs(config.task.train_data)


def test_what_does_not_fit_is_refused(tmp_path):
    config = choice_experiment(choice_records(tmp_path / "a.tfrecord", 16))
    refused(changed(config, "task.train_data", pack_sequences=True), "this task reads one example a row")
    refused(changed(config, "task", num_choices=4), "the records have 3 choices, task.num_choices says 4")
    refused(changed(config, "task.train_data", seq_length=16), "the records have max_seq_length 32")
    for other, name in ((SentencePredictionTask, "bert/sentence_prediction"), (PretrainingTask, "bert/pretraining")):
        with pytest.raises(UsageError, match=r"bert/multiple_choice (or|meant)"):
            other(experiment(name).task).build_inputs(config.task.train_data)
    choice_records(tmp_path / "a.tfrecord", 16, num_choices=5)
    refused(config, "has 96 numbers, which 5 choices of one length cannot have")
    choice_records(tmp_path / "a.tfrecord", 16, num_choices=4, max_seq_length=24)
    refused(config, "choice 1 of 4 begins with padding; it is at number 24 of input_ids", DataError)
    for name, place, words in (
        ("input_ids", 32, "begins with another token than choice 0"),
        ("input_mask", 37, "has padding inside"),
    ):
        columns = choice_examples(16)
        columns[name][15, place] = 0
        write(tmp_path / "a.tfrecord", columns, {"task_type": "bert_choice", "num_choices": 3})
        refused(config, f"record 15: choice 1 of 3 {words}; it is at number 32", DataError)
    choice_records(tmp_path / "b.tfrecord", 16, num_choices=2, max_seq_length=48)
    choice_records(tmp_path / "a.tfrecord", 16)
    paths = f"{tmp_path}/a.tfrecord,{tmp_path}/b.tfrecord"
    refused(changed(config, "task.train_data", input_path=paths), "mixes records that differ in num_choices: .*3, .*2")
    choice_records(tmp_path / "a.tfrecord", 16, num_choices=1)
    refused(config, "num_choices of the meta file is 1, expected 2 to 64", DataError)
    choice_records(tmp_path / "a.tfrecord", 16, task_type="bert_classification")
    refused(config, "multiple choice learns from records of nlpdata create-finetuning --task race, swag or choice")
    bare = tmp_path / "bare.tfrecord"
    columns = choice_examples(16)
    write(bare, columns)
    config = choice_experiment(bare)
    refused(config, "no meta file says how many choices an example has. Set task.num_choices")
    config = changed(config, "task", num_choices=3)
    MultipleChoiceTask(config.task).build_inputs(config.task.train_data)
    section = {"input_path": "", "input_function": f"{__name__}:given"}
    batches = MultipleChoiceTask(config.task).build_inputs(replace(config.task.train_data, **section))
    assert batches.batch(0)["input_ids"].shape == (16, CHOICES, 24)
    columns["label_ids"][15] = 3
    real = (np.arange(16)[:, None] < 15).astype(np.int64)  # what fills up a batch may be all padding, with any label
    padded = {name: values * real for name, values in columns.items() if name != "label_ids"}
    write(bare, columns | padded | {"is_real_example": real})
    task = MultipleChoiceTask(config.task)
    batch = task.build_inputs(config.task.train_data).batch(0)
    assert np.isfinite(to_numpy(task.losses(task.build_model(), batch, training=False)[0]["choice"]))
    write(bare, columns)
    refused(config, "bare.tfrecord, record 15: label_ids holds 3, expected 0 to 2", DataError)
    write(bare, {name: values for name, values in columns.items() if name != "label_ids"})
    refused(config, "label_ids is missing.*Use `pretrain predict` for questions without answers")
    write(bare, columns | {"label_ids": np.zeros((16, 1), np.float32)})
    refused(config, "expected one int64, the number of the right choice")
