"""What checkpoints store of the learning rate, what a resumed run makes of it, and which checkpoint a run keeps as best."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nlpdata.errors import UsageError
from pretrain.converters import native
from pretrain.export import main as export
from pretrain.registry import SCHEDULES
from pretrain.settings.fields import choose
from pretrain.tasks.pretraining import PretrainingTask
from tests.pretrain.runs import changed, curve, experiment, lines, run, tiny

pytestmark = pytest.mark.usefixtures("module_eagerly")


def rates(model_dir) -> dict[int, float]:
    """Step, counted from 0 -> its rate."""
    return {line["step"] - 1: line["learning_rate"] for line in lines(model_dir)}


def without_schedule(folder):
    """Makes a checkpoint one of before it stored its learning rate."""
    info, arrays = native.read_info(folder), native.read_arrays(folder)
    del info["schedule"]
    shutil.rmtree(folder)
    native.write(folder, arrays, info)


@pytest.fixture(scope="module")
def config(record_sets):
    trainer = {"checkpoint_interval": 3, "tensorboard": False, "num_train_epochs": 2}
    return experiment(record_sets["static"], encoder=tiny("bert"), warmup_steps=2, trainer=trainer)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """(model_dir, what was said) of a run of 6 steps, 2 of them warm-up. Read only."""
    model_dir = tmp_path_factory.mktemp("whole") / "run"
    return model_dir, run(config, model_dir)


def test_the_rate_given_is_the_peak_and_the_checkpoint_stores_it(whole):
    model_dir, said = whole
    assert rates(model_dir) == pytest.approx({0: 0, 1: 5e-4, 2: 1e-3, 3: 7.5e-4, 4: 5e-4, 5: 2.5e-4}, rel=1e-5)
    assert any(line.startswith("learning rate: peak 0.001, warm-up from 0 in 2 steps, decay from") for line in said)
    schedule = native.read_info(model_dir / "checkpoints" / "step-00000006")["schedule"]
    assert (schedule["peak"], schedule["warmup_steps"], schedule["decay_start"], schedule["decay_end"]) == (
        1e-3,
        2,
        2,
        6,
    )
    assert (schedule["type"], schedule["end_rate"], schedule["power"]) == ("polynomial", 0.0, 1.0)


def test_an_older_checkpoint_keeps_its_rate(whole, config, tmp_path):
    model_dir = tmp_path / "run"
    shutil.copytree(whole[0], model_dir)
    shutil.rmtree(model_dir / "checkpoints" / "step-00000006")
    without_schedule(model_dir / "checkpoints" / "step-00000003")
    said = run(config, model_dir)
    assert any("keeps the rule that this run began with, a decay from step 0: peak 0.0006667" in line for line in said)
    found = rates(model_dir)
    assert [found[step] for step in (3, 4, 5)] == pytest.approx([1e-3 / 2, 1e-3 / 3, 1e-3 / 6], rel=1e-5)
    newest = model_dir / "checkpoints" / "step-00000006"
    assert native.read_info(newest)["schedule"]["rule"] == "older_run"
    said = run(changed(config, "trainer", train_steps=8), model_dir)  # still; and a change is reported, on one line
    (line,) = [line for line in said if "learning rate" in line]
    before, now = line.removeprefix("warning: the learning rate differs. Before: ").split(" Now: ")
    assert before == "peak 0.0006667, warm-up from 0 in 2 steps, decay from 0.001 at step 0 to 0 at step 6."
    assert now == "peak 0.00075, warm-up from 0 in 2 steps, decay from 0.001 at step 0 to 0 at step 8"
    found = rates(model_dir)
    assert [found[step] for step in (6, 7)] == pytest.approx([1e-3 / 4, 1e-3 / 8], rel=1e-5)


def test_a_decay_begins_at_a_checkpoint_of_the_stable_phase(config, tmp_path):
    """A copied checkpoint, with another length of the run, makes the run that had that length from the start."""

    def of_length(steps, **trainer):
        rate = choose(SCHEDULES, "wsd", initial_learning_rate=1e-3, decay_steps=2, decay_form="sqrt")
        optimization = replace(config.trainer.optimizer_config, learning_rate=rate)
        return changed(config, "trainer", optimizer_config=optimization, train_steps=steps, **trainer)

    run(of_length(5), tmp_path / "direct")
    run(of_length(90, steps_a_call=3), tmp_path / "stable")
    stable = Path("checkpoints", "step-00000003")
    shutil.copytree(tmp_path / "stable" / stable, tmp_path / "decay" / stable)
    said = run(of_length(5), tmp_path / "decay")
    assert any(f"resuming from {tmp_path / 'decay' / stable}, after step 3 of 5" in line for line in said)
    before, now = next(line for line in said if "the learning rate differs. Before: " in line).split(". Now: ")
    assert now == before.split("Before: ")[1].replace("decay_start 88", "decay_start 3")  # in one order
    expected = curve(tmp_path / "direct")
    assert curve(tmp_path / "decay") == {step: expected[step] for step in (4, 5)}
    assert rates(tmp_path / "direct") == pytest.approx(
        {0: 0, 1: 5e-4, 2: 1e-3, 3: 1e-3, 4: 1e-3 * (1 - 0.5**0.5)}, rel=1e-5
    )


@pytest.mark.parametrize("mode", ["train", "validate_only", "compile_only"])
def test_a_warmup_of_the_whole_run_is_refused_once_the_data_tells_its_length(record_sets, tmp_path, mode):
    trainer = {"train_steps": None, "num_train_epochs": 1}
    config = experiment(record_sets["static"], batch_size=298, warmup_steps=4, trainer=trainer)
    with pytest.raises(
        UsageError, match=r"warm-up takes 4 steps, and the run has 4: the learning rate would never reach"
    ):
        run(config, tmp_path / "run", mode)
    assert not (tmp_path / "run").exists()


def test_the_best_checkpoint_is_the_best_also_after_a_resume_and_in_an_export(record_sets, tmp_path, capsys):
    """No comparison is given: accuracy is better higher, because the task says so."""
    trainer = {
        "best_checkpoint_export_subdir": "best", "best_checkpoint_eval_metric": "masked_lm_accuracy", "train_steps": 12,
        "validation_interval": 3, "validation_steps": 4, "tensorboard": False,
    }  # fmt: skip
    config = experiment(
        record_sets["static"], eval_path=record_sets["dynamic"], encoder=tiny("bert", 0.0), learning_rate=5e-3,
        trainer=trainer, 
    )  # fmt: skip
    model_dir = tmp_path / "run"
    run(changed(config, "trainer", train_steps=6), model_dir, "train_and_eval")

    # As a run kept it that took the lowest accuracy for the best: it must not stand for a better one.
    (kept,) = native.finished(model_dir / "best")
    info, arrays = native.read_info(kept), native.read_arrays(kept)
    assert info["config"]["trainer"]["best_checkpoint_metric_comp"] == "higher"
    info["config"]["trainer"]["best_checkpoint_metric_comp"] = "lower"
    info["best"] = {"masked_lm_accuracy": 0.99}
    shutil.rmtree(kept)
    native.write(kept, arrays, info)

    run(config, model_dir, "train_and_eval")
    scores = {line["step"]: line["masked_lm_accuracy"] for line in lines(model_dir, "eval")}
    assert list(scores) == [3, 6, 9, 12]
    best = max((9, 12), key=scores.get)
    assert scores[best] != min(scores.values())
    (kept,) = native.finished(model_dir / "best")
    assert native.read_info(kept)["best"] == {"masked_lm_accuracy": scores[best]}
    assert export([str(model_dir), str(tmp_path / "out"), "--format", "native", "--which", "best"]) == 0
    assert f"checkpoint: {model_dir}/best/step-{best:08d}" in capsys.readouterr().out


def test_metrics_of_a_task_are_those_that_it_declares(whole, config):
    logged = {"step", "split", "learning_rate", "tokens_per_second", "padding"}
    assert set(lines(whole[0])[-1]) - logged == set(PretrainingTask(config.task).metrics())


def test_an_export_warns_of_a_checkpoint_that_was_kept_for_the_worst(whole, tmp_path, capsys):
    shutil.copytree(whole[0], tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / "step-00000006"
    info, arrays = native.read_info(newest), native.read_arrays(newest)
    info["config"]["trainer"] |= {
        "best_checkpoint_export_subdir": "best", "best_checkpoint_eval_metric": "masked_lm_accuracy",
        "best_checkpoint_metric_comp": "lower",
    }  # fmt: skip
    for folder in (newest, tmp_path / "run" / "best" / "step-00000006"):
        shutil.rmtree(folder, ignore_errors=True)
        native.write(folder, arrays, info)
    assert export([str(tmp_path / "run"), str(tmp_path / "out"), "--format", "native", "--which", "best"]) == 0
    assert "was kept for a lower masked_lm_accuracy, and a higher one is better" in capsys.readouterr().err


class AddsMargin(PretrainingTask):
    """A task of a user's own that does not declare what it adds."""

    def build_metrics(self):
        return super().build_metrics() | {"margin": ("masked_lm_correct", "masked_lm_weight")}


def test_names_of_an_undeclared_task_are_checked_at_the_first_evaluation(whole, config, record_sets, tmp_path):
    shutil.copytree(whole[0], tmp_path / "run")
    own = replace(config, task_type=f"{__name__}:AddsMargin")
    own = changed(own, "task.validation_data", input_path=record_sets["static"])
    best = {"best_checkpoint_export_subdir": "best", "best_checkpoint_metric_comp": "higher", "validation_steps": 1}
    for name, refused in (("margin", False), ("margni", True)):
        trained = changed(own, "trainer", **best, best_checkpoint_eval_metric=name)
        if refused:
            with pytest.raises(UsageError, match=r"eval_metric is 'margni'; the evaluation has .*, margin,"):
                run(trained, tmp_path / "run", "eval")
        else:
            run(trained, tmp_path / "run", "eval")
            (kept,) = native.finished(tmp_path / "run" / "best")
            assert set(native.read_info(kept)["best"]) == {"margin"}
