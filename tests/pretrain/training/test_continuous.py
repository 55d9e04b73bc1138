"""Two processes: one trains, the other evaluates its checkpoints, or trains from them."""

import json
import shutil

import pytest

from nlpdata.errors import UsageError
from pretrain.converters import native
from pretrain.run import main
from tests.pretrain.runs import changed, experiment, finish, lines, process, run


@pytest.fixture(scope="module")
def config(record_sets):
    return experiment(
        record_sets["static"],
        eval_path=record_sets["dynamic"],
        trainer={
            "train_steps": 10, "checkpoint_interval": 2, "max_to_keep": 9, "tensorboard": False, "validation_steps": 4,
            "continuous_eval_timeout": "10m",
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(config, tmp_path_factory):
    """(model_dir, what the evaluation said) of a run next to which another process evaluated."""
    model_dir = tmp_path_factory.mktemp("trained") / "run"
    evaluation = process((config, model_dir, "continuous_eval"))
    code, said = finish(process((config, model_dir, "train")))
    assert code == 0, said
    code, said = finish(evaluation)
    assert code == 0, said
    return model_dir, said


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_every_checkpoint_is_evaluated_once(config, trained, tmp_path):
    model_dir, said = trained
    steps = [2, 4, 6, 8, 10]
    assert [native.step_of(folder) for folder in native.finished(model_dir / "checkpoints")] == steps
    assert [line["step"] for line in lines(model_dir, "eval")] == steps
    assert [line["step"] for line in lines(model_dir)] == list(range(1, 11))  # none is lost
    assert len({line["loss"] for line in lines(model_dir, "eval")}) == 5
    assert "deleted" not in said
    run(config, model_dir, "continuous_eval")  # again: there is nothing left
    assert [line["step"] for line in lines(model_dir, "eval")] == steps
    run(changed(config, "task", init_checkpoint=str(model_dir)), tmp_path, "eval")
    assert json.loads((tmp_path / "eval_results.json").read_text())["loss"] == pytest.approx(
        lines(model_dir, "eval")[-1]["loss"], rel=1e-5
    )


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_run_from_each_newest_checkpoint(config, trained, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(trained[0], source)
    tmp_path = tmp_path / "tuned"
    tuned = changed(config, "task", init_checkpoint=str(source))
    tuned = changed(tuned, "trainer", train_steps=3, checkpoint_interval=1)
    run(tuned, tmp_path, "continuous_train_and_eval")
    assert [line["step"] for line in lines(tmp_path, "eval")] == [10]  # of the run that is followed
    place = tmp_path / "from-step-00000010"
    assert [line["step"] for line in lines(place)] == [1, 2, 3]
    assert not (place / "checkpoints").exists()
    results = json.loads((tmp_path / "metrics-10.json").read_text())
    assert results["loss"] == lines(place, "eval")[-1]["loss"] == lines(tmp_path, "eval")[0]["loss"]
    before = (tmp_path / "metrics.jsonl").read_bytes()
    run(tuned, tmp_path, "continuous_train_and_eval")
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    # One that was interrupted is brought to its end, also where its source is gone.
    begun = changed(tuned, "trainer", steps_a_call=2)
    begun = changed(begun, "task", init_checkpoint=str(source / "checkpoints" / "step-00000006"))
    run(begun, tmp_path / "from-step-00000006", "train")
    (source / "checkpoints" / "step-00000006").rename(source / "gone")
    said = run(tuned, tmp_path, "continuous_train_and_eval")
    assert "the run from the checkpoint of step 6 was interrupted" in said
    assert {line["step"] for line in lines(tmp_path, "eval")} == {6, 10}


@pytest.mark.parametrize(
    ("trainer", "task", "runtime", "message"),
    [
        ({}, {}, {}, "init_checkpoint is empty: continuous_train_and_eval trains from each"),
        (
            {"max_time": 60},
            {"init_checkpoint": "a"},
            {},
            r"trainer\.max_time is 60: each of these runs is trained to its end",
        ),
        ({"steps_a_call": 5}, {"init_checkpoint": "a"}, {}, r"trainer\.steps_a_call is 5: "),
        ({}, {"init_checkpoint": "."}, {}, "are the same run"),
        ({"export_formats": "hf", "export_dir": "/x"}, {"init_checkpoint": "a"}, {}, "makes several models"),
        ({}, {"init_checkpoint": "a"}, {"distribution_strategy": "multi_worker_mirrored"}, "follows a run on one host"),
    ],
)
def test_what_is_refused(config, tmp_path, monkeypatch, trainer, task, runtime, message):
    monkeypatch.chdir(tmp_path)
    wrong = changed(changed(changed(config, "trainer", **trainer), "task", **task), "runtime", **runtime)
    with pytest.raises(UsageError, match=message):
        run(wrong, tmp_path, "continuous_train_and_eval")


def test_a_command_that_waits_in_vain(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    flags = ["--experiment=bert/local", "--mode=continuous_eval", f"--model_dir={tmp_path / 'run'}"]
    assert main([*flags, "--params_override=trainer.continuous_eval_timeout=1s"]) == 1
    said = capsys.readouterr().err
    assert f"waiting for the first checkpoint in {tmp_path / 'run' / 'checkpoints'}" in said
    assert "within 1s (trainer.continuous_eval_timeout). Is it the model_dir of the run" in said
