"""Which checkpoints of a run that is being trained are given, and which are reported."""

import json
import threading
import time

import numpy as np
import pytest

import pretrain
from nlpdata.errors import DataError, UsageError
from pretrain.converters import native
from pretrain.data import Batches
from pretrain.training.checkpoints import following, waiting
from pretrain.training.checkpoints.following import CheckpointFeed
from pretrain.training.checkpoints.manager import Checkpoints
from pretrain.training.checkpoints.waiting import checkpoints_folder, wait_for_checkpoint
from pretrain.training.checks.agreement import RunData, describe_run, stored_steps
from pretrain.training.stages.plan import count_steps

INFO = {"config": {"trainer": {"train_steps": 8, "checkpoint_interval": 2, "max_to_keep": 2}}}


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr(following, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "POLL_SECONDS", 0.01)


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path, 2)


def save(checkpoints, *steps, info=INFO):
    for step in steps:
        checkpoints.save(step, {"model/a": np.full(2, step, np.float32)}, info)


def evaluated(tmp_path, step):
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": step, "split": "eval", "loss": 1.0}) + "\n")


def feed_of(checkpoints, tmp_path, timeout=30, **options):
    return CheckpointFeed(checkpoints.folder, tmp_path, timeout, **options)


def test_each_is_given_once_until_the_last_step(checkpoints, tmp_path, caplog):
    given, later = [], {2: [4], 4: [6], 6: [8]}
    save(checkpoints, 2)
    for folder, info, arrays in feed_of(checkpoints, tmp_path):
        assert native.step_of(folder) == info["step"] == arrays["model/a"][0]
        given.append(info["step"])
        evaluated(tmp_path, info["step"])
        save(checkpoints, *later.get(info["step"], []))
    assert given == [2, 4, 6, 8]
    assert caplog.messages == []
    assert list(feed_of(checkpoints, tmp_path)) == []  # a restart, at once


def test_those_that_were_deleted_before_their_turn_are_reported(checkpoints, tmp_path, caplog):
    save(checkpoints, 2)
    given = []
    for _, info, _ in feed_of(checkpoints, tmp_path):
        given.append(info["step"])
        evaluated(tmp_path, info["step"])
        if info["step"] == 2:
            save(checkpoints, 4, 6, 8)  # of which the run keeps two
    assert given == [2, 6, 8]
    assert caplog.messages == [
        "1 checkpoint deleted before the evaluation came to it, of step 4. The run keeps 2: raise its trainer.max_to_keep, or "
        "its trainer.checkpoint_interval."
    ]


def test_a_late_start_reports_what_is_gone_and_gives_the_rest(checkpoints, tmp_path, caplog):
    save(checkpoints, 2, 4, 6, 8)
    evaluated(tmp_path, 2)
    given = []
    for _, info, _ in feed_of(checkpoints, tmp_path):
        given.append(info["step"])
        evaluated(tmp_path, info["step"])
    assert given == [6, 8]
    assert [line.partition(".")[0] for line in caplog.messages] == [
        "1 checkpoint deleted before the evaluation came to it, of step 4"
    ]


def test_one_that_is_written_anew_is_given_again(checkpoints, tmp_path):
    """After a recovery of the run, which cuts the lines of metrics.jsonl."""
    save(checkpoints, 2)
    feed = iter(feed_of(checkpoints, tmp_path))
    assert next(feed)[1]["step"] == 2
    (tmp_path / "metrics.jsonl").write_text("")
    time.sleep(0.01)
    save(checkpoints, 2)
    assert next(feed)[1]["step"] == 2


def test_damaged_ones_are_skipped_once(checkpoints, tmp_path, caplog):
    save(checkpoints, 6, 8)
    (checkpoints.folder / "step-00000006" / native.ARRAYS).write_bytes(b"no")
    feed = feed_of(checkpoints, tmp_path, timeout=0.2)
    given = []
    for _, info, _ in feed:
        given.append(info["step"])
        feed.set_aside(info["step"], "its weights are no numbers")
    assert given == [8]
    skipped = [line for line in caplog.messages if "is skipped" in line]
    assert len(skipped) == 2
    assert "step-00000006 is damaged" in skipped[0]
    assert skipped[1] == "its weights are no numbers; the checkpoint of step 8 is skipped"


def test_the_newest_alone(checkpoints, tmp_path, caplog):
    caplog.set_level("INFO")
    save(checkpoints, 6, 8)
    given = []
    for _, info, _ in feed_of(checkpoints, tmp_path, newest_first=True):
        given.append(info["step"])
        evaluated(tmp_path, info["step"])
    assert given == [8]
    assert "the checkpoint of step 6 is passed over: there is a newer one" in caplog.messages


def test_timeouts(checkpoints, tmp_path, caplog):
    with pytest.raises(
        DataError, match=r"no checkpoint appeared in .*checkpoints within 1s \(trainer\.continuous_eval_timeout\)"
    ):
        list(feed_of(checkpoints, tmp_path, timeout=0.05))
    save(checkpoints, 2)
    evaluated(tmp_path, 2)
    assert list(feed_of(checkpoints, tmp_path, timeout=0.05)) == []
    assert "the run has not reached its last step" in caplog.messages[-1]


def test_waiting_for_the_first(checkpoints, tmp_path):
    wait_for_checkpoint(tmp_path, 0.05, "--model_dir")  # in vain
    threading.Timer(0.2, save, (checkpoints, 2)).start()
    wait_for_checkpoint(tmp_path, 60, "--model_dir")
    assert native.finished(checkpoints.folder)
    assert checkpoints_folder(tmp_path) == checkpoints_folder(checkpoints.folder) == checkpoints.folder


def test_what_is_not_a_run_is_not_waited_for(tmp_path, caplog):
    caplog.set_level("INFO")
    other = tmp_path / "base"
    other.mkdir()
    (other / "config.json").write_text("{}")
    with pytest.raises(
        UsageError, match=r"--init_checkpoint: .*base is not the folder of a run: it holds config\.json"
    ):
        wait_for_checkpoint(other, 60, "--init_checkpoint")
    with pytest.raises(UsageError, match=r"config\.json is a file\. Name the model_dir"):
        wait_for_checkpoint(other / "config.json", 60, "--init_checkpoint")
    wait_for_checkpoint(tmp_path / "bas", 0.05, "--init_checkpoint")
    assert caplog.messages[-2].endswith("bas/checkpoints, at most 1s (trainer.continuous_eval_timeout)")
    assert caplog.messages[-1].endswith("bas yet. Is a run to begin there? Did you mean base?")
    (other / "params.yaml").write_text("")  # a run has begun
    wait_for_checkpoint(other, 0.05, "--init_checkpoint")


def test_the_length_of_a_run_as_its_checkpoints_say_it():
    data = {"num_examples": 100, "batch_size": 16}
    assert stored_steps({"config": {"trainer": {"train_steps": 7, "num_train_epochs": 3}}, "data": data}) == 7
    assert stored_steps({"config": {"trainer": {"train_steps": None, "num_train_epochs": 3}}, "data": data}) == 18
    for info in ({}, {"config": {"trainer": {"train_steps": "x"}}}, {"config": {"trainer": {"num_train_epochs": 3}}}):
        assert stored_steps(info) is None


def test_an_epoch_has_a_smaller_batch_at_its_end_where_none_is_left_out():
    """635 examples are 19 batches of 32 and a smaller one: three epochs are 60 steps with it, as in Transformers' scripts."""
    for drop, steps in ((True, 57), (False, 60)):
        override = {"task": {"train_data": {"global_batch_size": 32, "drop_remainder": drop}}}
        config = pretrain.experiment("bert/sentence_prediction", override)
        data = Batches(range(635), config.task.train_data, lambda examples, numbers, epoch: examples)
        assert count_steps(config, data) == steps
        assert stored_steps(describe_run(config, RunData(data, None), 1, None)) == steps
