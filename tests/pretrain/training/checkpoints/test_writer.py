"""Checkpoints that are written while training continues."""

import threading
import time

import numpy as np
import pytest

from nlpdata.errors import DataError
from pretrain.converters import native
from pretrain.training.checkpoints.manager import Checkpoints
from pretrain.training.checkpoints.writer import CheckpointWriter
from pretrain.training.trainer import Trainer
from tests.pretrain.runs import changed, curve, experiment, finish, process, run
from tests.pretrain.training.test_resume import wait_for_step
from tests.waiting import wait_until


class Blocked(Trainer):
    """The disk takes the checkpoint of step 3 only once step 5 was taken."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._released, save = threading.Event(), self._checkpoints.save

        def later(step, arrays, info):
            if step == 3 and not self._released.wait(60):
                raise AssertionError("training waits for the disk")
            save(step, arrays, info)

        self._checkpoints.save = later

    def after_summary(self, metrics):
        if self.step == 5:
            self._released.set()


class Halted(Trainer):
    """The disk never ends writing the checkpoint of step 8."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        write = native._write_files

        def half(folder, arrays, info):
            if info["step"] == 8:
                (folder / native.ARRAYS).write_bytes(b"half")
                time.sleep(600)
            write(folder, arrays, info)

        native._write_files = half


@pytest.fixture(scope="module")
def config(record_sets):
    trainer = {
        "train_steps": 12,
        "checkpoint_interval": 3,
        "summary_interval": 1,
        "tensorboard": False,
        "max_to_keep": 9,
    }
    return experiment(record_sets["dynamic"], trainer=trainer | {"async_checkpoints": True})


@pytest.fixture(scope="module")
def waiting(config, tmp_path_factory):
    """A run that waits for its checkpoints."""
    model_dir = tmp_path_factory.mktemp("waiting") / "run"
    run(changed(config, "trainer", async_checkpoints=False), model_dir)
    return model_dir


def assert_same(model_dir, other):
    assert curve(model_dir) == curve(other)
    folders = [native.finished(each / "checkpoints") for each in (model_dir, other)]
    assert [each.name for each in folders[0]] == [f"step-{step:08d}" for step in (3, 6, 9, 12)]
    for one, two in zip(*folders, strict=True):
        assert (one / native.ARRAYS).read_bytes() == (two / native.ARRAYS).read_bytes()
        assert native.read_info(one).get("interval") == native.read_info(two).get("interval")


def test_training_continues_and_checkpoints_are_of_their_step(config, waiting, tmp_path):
    run(changed(config, "trainer", type=f"{__name__}:Blocked"), tmp_path)
    assert_same(tmp_path, waiting)


@pytest.mark.slow
def test_the_same_on_jax_and_a_kill_loses_nothing(config, tmp_path):
    pytest.importorskip("jax")
    jobs = {
        "blocked": changed(config, "trainer", type=f"{__name__}:Blocked"),
        "waiting": changed(config, "trainer", async_checkpoints=False),
        "killed": changed(config, "trainer", type=f"{__name__}:Halted", checkpoint_interval=4, steps_a_call=11),
    }
    environment = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    started = process(*((job, tmp_path / name, "train") for name, job in jobs.items()), **environment)
    killed = tmp_path / "killed"
    wait_for_step(started, killed, 11)
    half = killed / "checkpoints"
    assert wait_until(lambda: list(half.glob(f".step-00000008.*.tmp/{native.ARRAYS}")) or started.poll() is not None)
    started.kill()
    code, said = finish(started)
    assert code == -9, said
    assert_same(tmp_path / "blocked", tmp_path / "waiting")
    assert [native.step_of(native.verify(folder)) for folder in native.finished(killed / "checkpoints")] == [4]
    assert len(list((killed / "checkpoints").glob(".step-00000008.*.tmp"))) == 1
    Checkpoints(killed).save(5, {}, {})
    assert not list((killed / "checkpoints").glob(".*"))


def _save_and_fail(writer, state):
    writer.save(2, state, {}, 0.0)
    raise KeyError


def test_one_at_a_time_and_errors_come_with_the_next_call(tmp_path, caplog):
    checkpoints, let_go, took = Checkpoints(tmp_path), threading.Event(), []
    state = {"model/a": np.zeros(3, np.float32)}
    save = checkpoints.save

    def slow(step, arrays, info):
        assert let_go.wait(60)
        if step == 2:
            raise DataError("no room")
        save(step, arrays, info)

    checkpoints.save = slow
    with CheckpointWriter(checkpoints, True, took.append) as writer:
        writer.save(1, state, {}, time.monotonic() - 5)
        writer.check()  # it is being written
        assert not native.finished(checkpoints.folder)
        let_go.set()
        writer.save(2, state, {}, 0.0)  # waits
        assert [native.step_of(folder) for folder in native.finished(checkpoints.folder)] == [1]
        with pytest.raises(DataError, match="no room"):
            writer.save(3, state, {}, 0.0)
        writer.wait()
    assert len(took) == 1
    assert took[0] >= 5
    with pytest.raises(KeyError), CheckpointWriter(checkpoints, True, took.append) as writer:
        _save_and_fail(writer, state)
    assert caplog.messages[-1] == "no room"
