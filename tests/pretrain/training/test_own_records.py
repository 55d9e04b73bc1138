"""A run that names text makes its records once, in its model_dir, and never trains on others unasked."""

import json
import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import nlpdata.pretraining.create
from nlpdata.cli.messages import hide_progress
from nlpdata.errors import DataError, UsageError
from pretrain.data import example_digest, pretraining_batches
from pretrain.data.toy import toy_text, toy_vocabulary
from pretrain.experiments import experiment as named_experiment
from pretrain.settings.data_section import EvalPretrainingDataConfig, PretrainingDataConfig
from pretrain.settings.schema import RuntimeConfig
from pretrain.training import first_host
from pretrain.training.checks.agreement import idle_fields, idle_settings
from pretrain.training.own_records import with_own_records, with_own_toys
from pretrain.training.stages.built import build_stages
from pretrain.training.stages.plan import stage_configs
from tests.messages import messages
from tests.pretrain.runs import changed, curve, experiment, run, tiny


@pytest.fixture
def config(tmp_path):
    (tmp_path / "text.txt").write_text(toy_text(documents=30))
    (tmp_path / "held.txt").write_text(toy_text(documents=12, seed=1))
    (tmp_path / "vocab.txt").write_text("\n".join(toy_vocabulary()) + "\n")
    given = experiment(
        "", encoder=tiny("bert"), trainer={"train_steps": 4, "tensorboard": False, "checkpoint_interval": 2}
    )
    fields = {
        "vocab_file": str(tmp_path / "vocab.txt"),
        "do_lower_case": True,
        "seq_length": 32,
        "global_batch_size": 16,
    }
    task = replace(
        given.task,
        train_data=PretrainingDataConfig(str(tmp_path / "text.txt"), masking="dynamic", **fields),
        validation_data=EvalPretrainingDataConfig(str(tmp_path / "held.txt"), **fields),
    )
    return replace(given, task=task)


def made(config, model_dir, mode="train", configs=None):
    """(paths of the records of each stage's training data, what was said)"""
    with messages() as said:
        found = with_own_records(configs or [config], model_dir, mode)
    return [each.task.train_data.input_path for each in found], "\n".join(said)


def test_a_dry_run_makes_none(config, tmp_path):
    with pytest.raises(
        UsageError, match=r"task\.train_data names text, .*A dry run makes none: let nlpdata create-pretraining"
    ):
        made(config, tmp_path / "run", "dry_run")
    assert not (tmp_path / "run").exists()


def test_records_are_made_once_and_damaged_ones_again(config, tmp_path):
    (first,), said = made(config, tmp_path / "run")
    assert "task.train_data: making records of" in said
    assert first == [str(tmp_path / "run" / "records" / "train.tfrecord")]
    path = Path(first[0])
    content, when = path.read_bytes(), path.stat().st_mtime_ns
    (again,), said = made(config, tmp_path / "run")
    assert (again, path.stat().st_mtime_ns) == (first, when)
    assert "was made before, of the same text" in said
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    _, said = made(config, tmp_path / "run")
    assert f"is made again: {path} is damaged" in said
    assert path.read_bytes() == content


def test_fields_of_text_are_idle_where_no_stage_reads_text(config):
    of_records = changed(config, "task.train_data", input_path="a.tfrecord")
    paths = [f"task.train_data.{name}" for name in ("vocab_file", "do_lower_case", "text_key", "objective", "masking")]
    assert [idle_fields(each) for each in ([config], [of_records, config], [of_records])] == [[], [], paths]
    about = "task.train_data: no effect on records, which are made already: vocab_file, do_lower_case, masking"
    told = [idle_settings(each.task.train_data, "task.train_data") for each in (config, of_records)]
    assert told == [None, about]


def test_an_interrupted_making_resumes(config, tmp_path, monkeypatch):
    shard = nlpdata.pretraining.create.make_shard

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(nlpdata.pretraining.create, "make_shard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made(config, tmp_path / "run")
    monkeypatch.setattr(nlpdata.pretraining.create, "make_shard", shard)
    (paths,), said = made(config, tmp_path / "run")
    assert "was left by an equal run; its finished parts are used" in said
    assert nlpdata.verify(paths).faults == []


def test_other_text_is_taken_before_the_first_checkpoint_only(config, tmp_path):
    made(config, tmp_path / "run", "train_and_eval")
    (tmp_path / "text.txt").write_text(toy_text(documents=29))
    (tmp_path / "held.txt").write_text(toy_text(documents=11, seed=1))
    _, said = made(config, tmp_path / "run", "train_and_eval")
    assert "train.tfrecord is made again: text.txt has other content" in said
    (tmp_path / "run" / "checkpoints" / "step-00000002").mkdir(parents=True)
    before = (tmp_path / "run" / "records" / "train.tfrecord").read_bytes()
    (tmp_path / "held.txt").write_text(toy_text(documents=12, seed=1))
    _, said = made(config, tmp_path / "run", "eval")  # what is evaluated may change
    assert "validation.tfrecord is made again: held.txt has other content" in said
    longer = changed(config, "task.train_data", seq_length=24)
    with pytest.raises(UsageError, match=r"was trained on .*: options.max_seq_length: 32 -> 24.*remove .*run/records"):
        made(longer, tmp_path / "run")
    assert (tmp_path / "run" / "records" / "train.tfrecord").read_bytes() == before


def test_stages_of_equal_text_and_options_share_records(config, tmp_path):
    staged = changed(config, "trainer", train_steps=None, stages=[
        {"train_steps": 2}, {"train_steps": 1, "train_data": {"global_batch_size": 8}},
        {"train_steps": 1, "train_data": {"seq_length": 24}},
    ])  # fmt: skip
    paths, _ = made(staged, tmp_path / "run", configs=stage_configs(staged))
    assert [Path(each[0]).name for each in paths] == ["train.tfrecord", "train.tfrecord", "train-stage-3.tfrecord"]
    assert [
        line
        for line in sizes_told(staged, tmp_path)
        if "max_seq_length 32, those of task.train_data max_seq_length 24" in line
    ]
    shorter_first = [{"train_steps": 1, "train_data": {"seq_length": 24}}, {"train_steps": 1}]
    assert sizes_told(changed(staged, "trainer", stages=shorter_first), tmp_path) == []
    unfit = changed(
        staged, "trainer", stages=[{"train_steps": 2}, {"train_steps": 1, "train_data": {"seq_length": 64}}]
    )
    with pytest.raises(UsageError, match=r"trainer.stages\[1\]: task.train_data: .*seq_length is 64"):
        made(unfit, tmp_path / "other", configs=stage_configs(unfit))
    assert not (tmp_path / "other").exists()


def sizes_told(staged, folder):
    """What is said of evaluation records of another length than those of the stages."""
    with messages() as said:
        configs = with_own_records(stage_configs(staged), folder / "evaluated", "train_and_eval")
        build_stages(staged, configs, "train_and_eval")
    return [line for line in said if "of another size" in line]


def test_text_that_is_both_learned_and_evaluated_is_told(config, tmp_path):
    text = config.task.train_data.input_path
    same = changed(config, "task.validation_data", input_path=text)
    with messages() as said:
        build_stages(same, with_own_records([same], tmp_path / "run", "train_and_eval"), "train_and_eval")
    assert [line for line in said if f"task.validation_data reads the training data, {text}: its scores" in line]


def test_hosts_other_than_the_first_wait_for_its_records(config, tmp_path, monkeypatch):
    monkeypatch.setattr(first_host, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(first_host, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(first_host, "SILENT_SECONDS", 2.0)
    signs = tmp_path / "run" / "records" / ".at-work"
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    several, found = changed(config, "runtime", distribution_strategy="multi_worker_mirrored"), []
    waiting = threading.Thread(target=lambda: found.append(made(several, tmp_path / "run")))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    assert not (tmp_path / "run").exists()
    (paths,), _ = made(config, tmp_path / "run")  # as the first host
    waiting.join(60)
    ((others,), said) = found[0]
    assert others == paths
    assert "waiting for the first host to make" in said
    assert "which it must begin within 30m00s (runtime.host_timeout)" in said

    # As if the first host were dead, or had refused to make it.
    other = changed(several, "task.train_data", seq_length=24)
    with pytest.raises(DataError, match=r"train_data, and has not begun within 1s \(runtime\.host_timeout\)"):
        made(changed(other, "runtime", host_timeout=0.2), tmp_path / "run")
    working = threading.Event()
    first = threading.Thread(target=lambda: show(signs, working))
    first.start()
    waiting = threading.Thread(target=lambda: found.append(refused(other, tmp_path / "run")))
    waiting.start()
    waiting.join(2.5)
    assert waiting.is_alive()  # longer than the first host may be silent
    assert signs.exists()
    working.set()
    first.join()
    waiting.join(60)
    assert not signs.exists()
    assert "train.tfrecord of task.train_data, and has given no sign of life for " in found[1]


def test_hosts_other_than_the_first_wait_for_its_toy_records(tmp_path, monkeypatch):
    monkeypatch.setattr(first_host, "POLL_SECONDS", 0.02)
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    config = named_experiment("bert/local")
    several, found = changed(config, "runtime", distribution_strategy="multi_worker_mirrored"), []
    waiting = threading.Thread(target=lambda: found.extend(with_own_toys([several], tmp_path, "train")))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    assert not any(tmp_path.iterdir())
    (first,) = with_own_toys([config], tmp_path, "train")
    waiting.join(60)
    assert found[0].task == first.task
    rehearsed = tmp_path / "dry_run"  # a dry run's own folder, which no other host sees
    with_own_toys([several], rehearsed, "dry_run")
    assert (rehearsed / "toy" / "nsp.eval.tfrecord").exists()


@pytest.mark.parametrize(("index", "quiet"), [(0, False), (1, False), (1, True)])
def test_what_is_the_same_on_all_hosts_is_said_by_the_first_one(index, quiet, monkeypatch):
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))

    def tell():
        logging.getLogger("pretrain.tasks.task").info("of the run")
        logging.getLogger("pretrain.training.engines.cluster").info("of the host")
        logging.getLogger("pretrain.training.experiment").warning("look at this")

    with messages() as said:
        if quiet:
            hide_progress()
        with first_host.said_by_first_host(RuntimeConfig(distribution_strategy="multi_worker_mirrored")):
            tell()
        shown, said[:] = list(said), []
        tell()
    warning, others = ["warning: look at this"], ["of the run"] if index == 0 else []
    assert shown == (warning if quiet else [*others, "of the host", *warning])
    assert said == (warning if quiet else ["of the run", "of the host", *warning])


def show(signs, until):
    with first_host.showing_signs(signs):
        until.wait(60)


def refused(config, model_dir):
    with pytest.raises(DataError) as error:
        made(config, model_dir)
    return str(error.value)


def test_a_run_on_text_is_the_run_on_its_records(config, tmp_path):
    run(changed(config, "trainer", log_example_digest=True), tmp_path / "run")
    path = str(tmp_path / "run" / "records" / "train.tfrecord")
    records = pretraining_batches(changed(config, "task.train_data", input_path=path).task.train_data, config.task)
    digests = [digest for _, _, digest in curve(tmp_path / "run").values()]
    assert digests == [example_digest(records.batch(step)) for step in range(4)]
    facts = json.loads((tmp_path / "run" / "checkpoints" / "step-00000004" / "state.json").read_text())["data"]
    assert facts | records.facts == facts
    assert facts["num_examples"] == records.num_examples
    assert (tmp_path / "run" / "vocab.txt").read_bytes() == (tmp_path / "vocab.txt").read_bytes()
    (tmp_path / "text.txt").write_text(toy_text(documents=29))
    with pytest.raises(UsageError, match=r"task.train_data: the run in .* text.txt has other content"):
        run(changed(config, "trainer", train_steps=6), tmp_path / "run")
