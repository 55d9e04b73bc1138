"""A run whose loss is not a number returns to a checkpoint, skips what did it, and decides the same again after a crash."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from nlpdata.errors import DataError
from pretrain.converters import native
from pretrain.data import example_digest, pretraining_batches
from pretrain.registry import OPTIMIZERS
from pretrain.settings.fields import choose
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.tasks.pretraining import PretrainingTask
from pretrain.training.checkpoints.manager import Checkpoints
from pretrain.training.recovery import Diverged, Recoveries
from pretrain.training.trainer import Trainer
from tests.pretrain.runs import changed, curve, experiment, finish, lines, process, run

pytestmark = pytest.mark.usefixtures("module_eagerly")

STEPS, INTERVAL = 12, 3


def is_poison(batch) -> bool:
    return int(batch["input_ids"].sum()) % 9 == 0


class Poisoned(PretrainingTask):
    """Some batches have no loss, and make all weights nan."""

    def denominators(self, batch):
        found = super().denominators(batch)
        return dict.fromkeys(found, math.nan) if is_poison(batch) else found


class Crash(Exception):
    pass


class Crashing(Trainer):
    """Ends without a checkpoint in the second step after its first recovery."""

    def take_step(self, step, prepared):
        if self._recoveries.stored and step == self._recoveries.stored[0]["step"] + 1:
            raise Crash
        return super().take_step(step, prepared)


@pytest.fixture(scope="module")
def config(record_sets):
    base = experiment(
        record_sets["static"],
        trainer={
            "train_steps": STEPS, "checkpoint_interval": INTERVAL, "steps_per_loop": 2, "summary_interval": 2,
            "recovery_max_trials": 20, "log_example_digest": True, "tensorboard": False,
        },
    )  # fmt: skip
    # It has one moment, which is enough to be restored, and a third of AdamW's operations.
    sgd = replace(base.trainer.optimizer_config, optimizer=choose(OPTIMIZERS, "sgd", momentum=0.9))
    return replace(changed(base, "trainer", optimizer_config=sgd), task_type=f"{__name__}:Poisoned")


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """(model_dir, what was said)"""
    model_dir = tmp_path_factory.mktemp("whole") / "run"
    return model_dir, run(config, model_dir)


def planned(poison) -> tuple[list[int], list[dict]]:
    """The batches of the steps, and the recoveries, by the rule as docs/training.md has it."""
    taken, recoveries, offset = [], [], 0
    while len(taken) < STEPS:
        taken.append(len(taken) + offset)
        if taken[-1] in poison:
            # Its loss is a number; it is the weights after it that are none, and so the loss of the next step.
            diverged_at, back = len(taken) + 1, (len(taken) - 1) // INTERVAL * INTERVAL
            recoveries.append({"step": back, "diverged_at": diverged_at})
            offset += diverged_at - back
            del taken[back:]
    return taken, recoveries


def test_batches_that_did_it_are_skipped(config, whole):
    model_dir, said = whole
    data = pretraining_batches(config.task.train_data, config.task)
    batches = [data.batch(number) for number in range(60)]
    taken, recoveries = planned({number for number, batch in enumerate(batches) if is_poison(batch)})
    assert 2 <= len(recoveries) <= 8
    assert recoveries[-1]["diverged_at"] == STEPS + 1  # after the last step
    digests = {step: digest for step, (_, _, digest) in curve(model_dir).items()}
    assert digests == {step: example_digest(batches[number]) for step, number in enumerate(taken, 1)}
    newest = native.locate(model_dir)
    assert native.read_info(newest)["recoveries"] == recoveries
    assert all(np.isfinite(array).all() for array in native.read_arrays(newest).values())
    assert lines(model_dir)[-1]["recoveries"] == len(recoveries)
    warned = [line for line in said if " is nan at step" in line or " is nan after step" in line]
    assert len(warned) == len(recoveries)
    first = recoveries[0]
    assert f"recovery 1 of 20: back to the checkpoint of step {first['step']}; batches" in warned[0]


def test_a_run_that_crashes_or_stops_decides_the_same_again(config, whole, tmp_path):
    with pytest.raises(Crash):
        run(changed(config, "trainer", type=f"{__name__}:Crashing"), tmp_path)
    assert "recoveries" not in json.loads((native.locate(tmp_path) / native.INFO).read_text())
    for _ in range(2):  # with a checkpoint in between, at step 8
        run(changed(config, "trainer", steps_a_call=5), tmp_path)
    expected, found = curve(whole[0]), curve(tmp_path)
    assert {step: line[2] for step, line in found.items()} == {step: line[2] for step, line in expected.items()}
    assert found[STEPS] == expected[STEPS]
    newest, other = native.locate(whole[0]), native.locate(tmp_path)
    assert native.read_info(other)["recoveries"] == native.read_info(newest)["recoveries"]
    assert (other / native.ARRAYS).read_bytes() == (newest / native.ARRAYS).read_bytes()


@pytest.mark.slow
def test_the_same_on_jax(config, whole, tmp_path):
    pytest.importorskip("jax")
    code, said = finish(process((config, tmp_path, "train"), KERAS_BACKEND="jax", JAX_PLATFORMS="cpu"))
    assert code == 0, said
    digests = [{step: line[2] for step, line in curve(folder).items()} for folder in (tmp_path, whole[0])]
    assert digests[0] == digests[1]
    stored = [native.read_info(native.locate(folder))["recoveries"] for folder in (tmp_path, whole[0])]
    assert stored[0] == stored[1]
    assert abs(lines(tmp_path)[-1]["loss"] - lines(whole[0])[-1]["loss"]) < 0.1


def test_trials_are_counted_and_a_bound_is_one_cause(config, tmp_path):
    low = changed(config, "trainer", loss_upper_bound=0.5, recovery_begin_steps=2, recovery_max_trials=1, train_steps=3)
    with pytest.raises(
        DataError,
        match=r"above trainer\.loss_upper_bound 0\.5 \(raise it .*: training has diverged.* No recovery is left of 1",
    ):
        run(low, tmp_path)
    at_once = changed(low, "trainer", recovery_begin_steps=0, recovery_max_trials=3)
    with pytest.raises(
        DataError, match=r"loss_upper_bound 0\.5 .* holds no checkpoint from which the run could recover: "
    ):
        run(at_once, tmp_path)
    assert native.step_of(native.locate(tmp_path)) == 0


# ------------------------------------------------------------------------------------------------------------- the rules


def test_which_batches_steps_take():
    done = [{"step": 3, "diverged_at": 5}, {"step": 6, "diverged_at": 7}]
    assert [Recoveries(TrainerConfig(), done).batch_of(step) for step in range(9)] == [0, 1, 2, 5, 6, 7, 9, 10, 11]


def test_what_is_a_fault():
    def fault(step, value, **settings):
        return Recoveries(TrainerConfig(**settings)).fault(step, {"loss": value}, lambda sums: sums["loss"])

    assert fault(1, 1e30) is None
    assert fault(1, math.inf) == "loss is inf at step 1"
    assert fault(1, math.nan, recovery_max_trials=-1) == "loss is nan at step 1"
    bound = {"loss_upper_bound": 10, "recovery_begin_steps": 5}
    assert fault(5, 10.0, **bound) is None
    assert fault(4, 11.0, **bound) is None
    assert fault(5, 11.0, recovery_max_trials=-1, **bound) is None
    assert (
        fault(5, 11.0, **bound)
        == "the loss is 11 at step 5, above trainer.loss_upper_bound 10 (raise it where such a loss is usual)"
    )


def test_a_checkpoint_after_which_two_tries_diverge_at_once_is_left():
    recoveries = Recoveries(TrainerConfig(recovery_max_trials=5))
    at_once = Diverged("", 7)
    assert recoveries.unusable(at_once) is None
    recoveries.add(6, at_once)
    assert recoveries.unusable(Diverged("", 9)) is None
    assert recoveries.unusable(at_once) == 6


def test_the_checkpoint_to_return_to(tmp_path, caplog):
    checkpoints = Checkpoints(tmp_path, 9)
    for step, value in ((0, 0.0), (3, 1.0), (6, 2.0), (8, math.inf), (9, math.nan), (12, 3.0)):
        checkpoints.save(step, {"model/a": np.full(3, value, np.float32), "optimizer/i": np.array(step)}, {})
    folder, info, arrays = checkpoints.before(12)
    assert (folder.name, info["step"], arrays["model/a"][0]) == ("step-00000006", 6, 2.0)
    assert "step-00000009: model/a is nan" in caplog.messages[0]
    assert "step-00000008: model/a is inf" in caplog.messages[1]
    assert checkpoints.before(12, unusable=6)[1]["step"] == 3
    assert checkpoints.before(3)[1]["step"] == 0  # that of the step itself has its weights
    with pytest.raises(DataError, match=r"no checkpoint from which the run could recover.*max_to_keep"):
        checkpoints.before(3, unusable=0)
    checkpoints.remove_after(6)
    assert [native.step_of(each) for each in native.finished(checkpoints.folder)] == [0, 3, 6]


@pytest.mark.parametrize(
    "recoveries", [1, [1], [{"step": 3}], [{"step": 3, "diverged_at": 3}], [{"step": True, "diverged_at": 3}]]
)
def test_recoveries_of_another_form_are_damage(tmp_path, recoveries):
    folder = native.step_folder(tmp_path, 2)
    native.write(folder, {}, {"step": 2, "recoveries": recoveries})
    with pytest.raises(DataError, match=r"is damaged: state\.json: recoveries"):
        native.read_info(folder)
