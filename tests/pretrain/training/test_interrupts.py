"""How a call ends before the run: its time is up, or SIGTERM comes with a deadline."""

import signal
import time

import pytest

from nlpdata.errors import UsageError
from pretrain.converters import native
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.training.budget import TimeBudget
from pretrain.training.checkpoints.one_trainer import one_trainer
from pretrain.training.interrupts import Interrupted
from pretrain.training.trainer import Trainer
from tests.pretrain.runs import changed, curve, experiment, finish, lines, process, run
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("module_eagerly")


class Slow(Trainer):
    """Half a second a step; its time counts from here."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options | {"budget": TimeBudget(2.0, time.monotonic())})

    def take_step(self, step, prepared):
        time.sleep(0.5)
        return super().take_step(step, prepared)


class Interrupting(Trainer):
    """Ctrl-C comes in its fifth step, at which no checkpoint is due."""

    def take_step(self, step, prepared):
        if step == 4:
            signal.raise_signal(signal.SIGINT)
        return super().take_step(step, prepared)


class InterruptedAtTheEnd(Trainer):
    """SIGTERM comes with the results of the last evaluation: no step and no batch comes after it."""

    def after_evaluation(self, metrics):
        if self.finished():
            signal.raise_signal(signal.SIGTERM)


class Stuck(Trainer):
    """Its sixth step never ends; a file shows that it has begun."""

    def take_step(self, step, prepared):
        if step == 5:
            (self.model_dir / "stuck").touch()
            while True:
                time.sleep(1)
        return super().take_step(step, prepared)


@pytest.fixture(scope="module")
def config(record_sets):
    return experiment(
        record_sets["dynamic"],
        eval_path=record_sets["static"],
        trainer={
            "train_steps": 8, "checkpoint_interval": 3, "summary_interval": 2, "validation_interval": 4, "tensorboard": False,
            "export_formats": "hf", "validation_steps": 2,
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    model_dir = tmp_path_factory.mktemp("whole") / "run"
    run(config, model_dir, "train_and_eval")
    return model_dir


def test_a_call_ends_with_its_time_and_the_next_one_resumes(config, whole, tmp_path):
    slow = changed(config, "trainer", type=f"{__name__}:Slow", max_time="2s")
    said = run(slow, tmp_path, "train_and_eval")
    stopped = native.step_of(native.locate(tmp_path))
    assert 1 <= stopped < 8
    assert any(f"max_time: this call ends after step {stopped} of 8" in line for line in said)
    assert not (tmp_path / "export").exists()
    assert [line["step"] for line in lines(tmp_path, "eval")] in ([], [4])  # none at the end
    run(config, tmp_path, "train_and_eval")
    assert curve(tmp_path) == curve(whole)
    assert lines(tmp_path, "eval") == lines(whole, "eval")
    assert (tmp_path / "export").exists()


def test_ctrl_c_ends_a_run_after_its_step_and_leaves_no_trace(config, whole, tmp_path):
    with pytest.raises(Interrupted, match="interrupted after step 5 of 8; the checkpoint is saved") as error:
        run(changed(config, "trainer", type=f"{__name__}:Interrupting"), tmp_path, "train_and_eval")
    assert error.value.exit_code == 130
    assert native.step_of(native.locate(tmp_path)) == 5
    run(config, tmp_path, "train_and_eval")
    assert curve(tmp_path) == curve(whole)
    assert lines(tmp_path, "eval") == lines(whole, "eval")


def test_a_signal_after_the_last_step_ends_the_call_too(config, whole, tmp_path):
    at_the_end = changed(config, "trainer", type=f"{__name__}:InterruptedAtTheEnd")
    with pytest.raises(Interrupted, match="interrupted after step 8 of 8; the checkpoint is saved") as error:
        run(at_the_end, tmp_path, "train_and_eval")
    assert error.value.exit_code == 143
    assert not (tmp_path / "export").exists()
    run(config, tmp_path, "train_and_eval")
    assert (tmp_path / "export").exists()
    assert lines(tmp_path, "eval") == lines(whole, "eval")
    with pytest.raises(Interrupted, match="interrupted after an evaluation; its results are kept"):
        run(at_the_end, tmp_path, "eval")


@pytest.mark.slow
def test_a_step_that_does_not_end_within_the_deadline(config, tmp_path):
    stuck = changed(config, "trainer", type=f"{__name__}:Stuck", preemption_deadline="1s", export_formats="")
    started = process((stuck, tmp_path / "run", "train"))
    assert wait_until(lambda: (tmp_path / "run" / "stuck").exists() or started.poll() is not None)
    started.send_signal(signal.SIGTERM)
    code, said = finish(started)
    assert code == 143, said
    assert "could not end within trainer.preemption_deadline, 1 seconds" in said
    assert native.step_of(native.locate(tmp_path / "run")) == 3
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))


def test_a_deadline_that_no_checkpoint_keeps_is_reported(config, tmp_path, monkeypatch):
    write = native.write

    def slowly(*arguments):
        time.sleep(1.1)
        write(*arguments)

    monkeypatch.setattr(native, "write", slowly)
    short = changed(config, "trainer", train_steps=4, preemption_deadline=1, checkpoint_interval=2, export_formats="")
    said = run(short, tmp_path)
    warned = [line for line in said if "trainer.preemption_deadline is 1" in line]
    assert len(warned) == 1
    assert "lower trainer.checkpoint_interval" in warned[0]


def test_one_process_at_a_time_trains_in_a_model_dir(config, whole):
    before = (whole / "metrics.jsonl").read_bytes()
    with one_trainer(whole), pytest.raises(UsageError) as error:
        run(changed(config, "trainer", train_steps=12), whole)
    assert str(error.value) == f"another process trains in {whole} now. Wait until it ends, or use another model_dir."
    assert (whole / "metrics.jsonl").read_bytes() == before
    assert any(line.startswith("nothing to do: ") for line in run(config, whole))  # once that has ended


def test_times_are_checked_where_they_are_given():
    assert TrainerConfig(max_time="1h30m").max_time == 5400
    assert TrainerConfig(max_time=None).max_time is None
    with pytest.raises(UsageError, match=r"max_time: expected seconds, or a time such as 90s.* Received: 'soon'"):
        TrainerConfig(max_time="soon")
    with pytest.raises(UsageError, match=r"preemption_deadline: must be at least 1\. Received: 0"):
        TrainerConfig(preemption_deadline="0s")
