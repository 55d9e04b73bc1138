"""A run that was killed resumes as if nothing had happened."""

import os
import random
import shutil
import signal
import time

import pytest

from nlpdata.reports.run_facts import read_run
from pretrain.converters import native
from pretrain.training.checkpoints.manager import BestCheckpoint
from pretrain.training.trainer import Trainer
from tests.pretrain.runs import changed, curve, experiment, finish, lines, process, run
from tests.waiting import wait_until

STEPS = 60
TAKEN = 15


class Unfinished(Trainer):
    """Takes some steps freely, and waits in the next one for the signal that ends it."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._last = self.step + TAKEN

    def take_step(self, step, prepared):
        while step == self._last and not self._signals.received:
            time.sleep(0.01)
        return super().take_step(step, prepared)


@pytest.fixture(scope="module")
def config(record_sets):
    """With dropout and dynamic masking, a line a step, checkpoints at odd places."""
    return experiment(
        record_sets["dynamic"],
        eval_path=record_sets["dynamic"],
        trainer={
            "train_steps": STEPS, "log_example_digest": True, "checkpoint_interval": 7, "max_to_keep": 2,
            "steps_per_loop": 3, "summary_interval": 2, "validation_interval": 20,
        },
    )  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted(config, tmp_path_factory):
    model_dir = tmp_path_factory.mktemp("uninterrupted") / "run"
    code, said = finish(process((config, model_dir, "train_and_eval")))
    assert code == 0, said
    return model_dir


def wait_for_step(started, model_dir, step):
    """Returns when a run has written the line of a step, or has ended."""

    def is_written():
        return (model_dir / "metrics.jsonl").exists() and any(line["step"] >= step for line in lines(model_dir))

    assert wait_until(lambda: is_written() or started.poll() is not None), "no progress"


def _interrupted(config, model_dir, step) -> int:
    """A run that was ended by SIGTERM after some step; returns its last step."""
    started = process((config, model_dir, "train_and_eval"))
    wait_for_step(started, model_dir, step)
    started.send_signal(signal.SIGTERM)
    code, said = finish(started)
    assert code == 143, said
    assert "the checkpoint is saved" in said
    stopped = max(line["step"] for line in lines(model_dir))
    assert (model_dir / "checkpoints" / f"step-{stopped:08d}").exists()
    return stopped


@pytest.mark.slow
def test_signals_and_kills_leave_no_trace(config, uninterrupted, tmp_path):
    """SIGTERM, kill -9, then to the end; and from the SIGTERM to the end with fewer cores. test_interrupts.py has SIGINT."""
    model_dir, fewer, rng = tmp_path / "run", tmp_path / "fewer", random.Random()
    unfinished = changed(config, "trainer", type=f"{__name__}:Unfinished")
    stopped = _interrupted(unfinished, model_dir, 3)
    if not stopped % 7:  # a checkpoint was due there: one end more
        stopped = _interrupted(unfinished, model_dir, stopped + 1)
    shutil.copytree(model_dir, fewer)
    started = process((unfinished, model_dir, "train_and_eval"))
    wait_for_step(started, model_dir, rng.randint(stopped + 2, stopped + TAKEN))
    started.kill()
    code, said = finish(started)
    assert code == -9, said
    code, said = finish(process((config, model_dir, "train_and_eval")))
    assert code == 0, said
    assert "resuming from" in said
    expected = curve(uninterrupted)
    assert len(expected) == STEPS
    assert all(digest for _, _, digest in expected.values())
    assert curve(model_dir) == expected  # losses, rates and digests, to the last bit
    assert lines(model_dir, "eval") == lines(uninterrupted, "eval")
    assert not list((model_dir / "checkpoints").glob(".*"))
    assert read_run(fewer).outcome == "interrupted"
    assert [call.get("outcome") for call in read_run(model_dir).calls[-2:]] == [None, "finished"]
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        pytest.skip("the second half needs two CPU cores")
    code, said = finish(process((config, fewer, "train"), cores=1))
    assert code == 0, said
    assert f"CPU cores {cores} before, 1 now" in said
    found = curve(fewer)
    assert [step for step in expected if step > stopped]
    losses = [(expected[step][0], found[step][0]) for step in expected if expected[step][0] is not None]
    assert max(abs(a - b) for a, b in losses) < 1e-5


@pytest.mark.usefixtures("eagerly")
def test_a_kill_before_the_best_checkpoint_is_written_does_not_lose_it(record_sets, tmp_path, monkeypatch):
    """The evaluation is made again: its line is written once all that follows from it is on the disk."""
    trainer = {"train_steps": 1, "best_checkpoint_export_subdir": "best", "validation_steps": 2}
    config = experiment(record_sets["static"], eval_path=record_sets["static"], trainer=trainer)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(BestCheckpoint, "offer", killed)
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path, "train_and_eval")
    run(config, tmp_path, "train_and_eval")
    assert native.locate(tmp_path / "best").name == "step-00000001"
    assert [line["step"] for line in lines(tmp_path, "eval")] == [1]
