"""A run in several calls of some steps each, and evaluations of all its checkpoints, or of one that is named."""

import json
import re
import shutil
from dataclasses import replace

import pytest

from nlpdata.reports.run_facts import read_run
from pretrain.converters import native
from pretrain.training.logs.interval import Interval
from tests.pretrain.runs import curve, experiment, lines, run

pytestmark = pytest.mark.usefixtures("module_eagerly")


@pytest.fixture(scope="module")
def config(record_sets):
    return experiment(
        record_sets["static"],
        eval_path=record_sets["static"],
        trainer={
            "train_steps": 6,
            "checkpoint_interval": 2,
            "max_to_keep": 5,
            "tensorboard": False,
            "validation_steps": 2,
        },
    )


def in_calls_of(config, steps):
    return replace(config, trainer=replace(config.trainer, steps_a_call=steps))


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory, module_eagerly):
    model_dir = tmp_path_factory.mktemp("whole") / "run"
    run(config, model_dir)
    return model_dir


def test_calls_of_some_steps_are_one_run(config, whole, tmp_path, capsys, monkeypatch):
    model_dir, compiles, add = tmp_path / "run", [], Interval.add
    monkeypatch.setattr(Interval, "add", lambda *args: compiles.append(args[-1]) or add(*args))
    said = run(in_calls_of(config, 4), model_dir)
    assert compiles == [True, False, False, False]
    assert re.search(r"^step 4/6 .* [01]s left to step 4$", capsys.readouterr().err, re.MULTILINE)  # of this call
    assert "this call ends after step 4 of 6 (trainer.steps_a_call)" in said
    assert native.step_of(native.locate(model_dir)) == 4
    assert read_run(model_dir).outcome == "steps_a_call"
    said = run(in_calls_of(config, 4), model_dir)
    assert not any("this call ends" in line for line in said)
    assert native.step_of(native.locate(model_dir)) == 6
    assert curve(model_dir) == curve(whole)
    about = read_run(model_dir)
    assert (about.outcome, about.step, about.steps, about.faults) == ("finished", 6, 6, ())
    assert [(call["first_step"], call["last_step"]) for call in about.calls] == [(1, 4), (5, 6)]
    for call in about.calls:
        assert {"steps", "compiling", "checkpoint"} <= call["seconds"].keys()
        assert sum(call["seconds"].values()) < call["total_seconds"]
    assert any(line.startswith("nothing to do") for line in run(in_calls_of(config, 4), model_dir))


def test_every_checkpoint_that_was_kept_is_evaluated(config, whole, tmp_path):
    model_dir = tmp_path / "run"
    shutil.copytree(whole, model_dir)
    said = run(config, model_dir, "eval_all")
    evaluated = lines(model_dir, "eval")
    assert [line["step"] for line in evaluated] == [2, 4, 6]
    assert len({line["loss"] for line in evaluated}) == 3
    assert json.loads((model_dir / "eval_results.json").read_text())["step"] == 6
    assert sum(line.startswith("evaluation at step") for line in said) == 3

    named = replace(config, task=replace(config.task, init_checkpoint=str(model_dir / "checkpoints" / "step-00000004")))
    run(named, model_dir, "eval")
    again = json.loads((model_dir / "eval_results.json").read_text())
    assert (again["step"], again["loss"]) == (4, evaluated[1]["loss"])

    (model_dir / "checkpoints" / "step-00000004" / native.ARRAYS).write_bytes(b"no")
    said = run(config, model_dir, "eval_all")
    assert any("step-00000004 is damaged" in line and "it is skipped" in line for line in said)
    evaluations = [line.split(":")[0] for line in said if line.startswith("evaluation at step")]
    assert evaluations == ["evaluation at step 2", "evaluation at step 6"]
    assert lines(model_dir, "eval") == evaluated  # equal lines are not repeated
