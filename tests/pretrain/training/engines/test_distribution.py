"""Replicas, micro-steps, hosts: none of them changes the curve."""

import json
import os
import signal
from dataclasses import replace

import pytest

from pretrain.registry import OPTIMIZERS
from pretrain.settings.fields import choose
from pretrain.training.trainer import Trainer
from tests.ports import free_ports
from tests.pretrain.conftest import without_graphs
from tests.pretrain.runs import changed, curve, experiment, finish, lines, max_difference, process, run, tiny

STEPS = 20


class Terminated(Trainer):
    """SIGTERM comes in the eighth step, to the second host alone."""

    def take_step(self, step, prepared):
        if step == 7 and self.engine.host[0] == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().take_step(step, prepared)


@pytest.fixture(scope="module")
def curves(record_sets, tmp_path_factory):
    """name -> curve of 20 steps: float32, no dropout, clipping on, the same batches and weights, unless the name says else.

    The unclipped one and those of mixed precision are of its first 4 steps, that with a fixed scale is on one device; the growing
    one is of 2 on two replicas, with SGD, which is traced in half the time. A few steps on one device are taken here, as they come.
    """
    folder = tmp_path_factory.mktemp("curves")
    base = experiment(
        record_sets["static"],
        encoder=tiny(dropout=0.0),
        trainer={"train_steps": STEPS},
        optimizer={"gradient_clip_norm": 0.3},
        learning_rate=5e-3,
    )
    two = changed(base, "runtime", distribution_strategy="mirrored", num_replicas=2)
    two = changed(two, "trainer", gradient_accumulation_steps=2)
    first, half = {"steps_a_call": 4}, {"mixed_precision_dtype": "float16"}
    stages = [{"train_steps": 1, "num_hidden_layers": layers} for layers in (1, 2)]
    growing = experiment(
        record_sets["static"], encoder=tiny("bert", dropout=0.0), trainer={"train_steps": None, "stages": stages}
    )
    sgd = replace(growing.trainer.optimizer_config, optimizer=choose(OPTIMIZERS, "sgd"))
    growing = changed(growing, "trainer", optimizer_config=sgd)
    unclipped = experiment(
        record_sets["static"], encoder=tiny(dropout=0.0), learning_rate=5e-3,
        optimizer={"gradient_clip_norm": None},
        trainer={"train_steps": STEPS, **first},
    )  # fmt: skip
    configs = {
        "two replicas, two micro-steps": two,
        "one device": base,
        "growing": changed(growing, "runtime", distribution_strategy="mirrored", num_replicas=2),
        "float16": changed(changed(two, "trainer", gradient_accumulation_steps=1, **first), "runtime", **half),
    }
    scaled = changed(changed(base, "trainer", **first), "runtime", loss_scale=128.0, **half)
    few = {"unclipped": unclipped, "float16, fixed scale": scaled}
    with without_graphs():
        for name, config in few.items():
            run(config, folder / name)
    code, said = finish(process(*((config, folder / name, "train") for name, config in configs.items())))
    assert code == 0, said
    assert "mirrored over 2 logical CPU devices" in said
    return {name: curve(folder / name) for name in (*few, *configs)}


@pytest.mark.slow
def test_replicas_and_micro_steps_give_the_curve_of_one_device(curves):
    """One alone: two hosts below take one micro-step each; test_optimization.py has other optimizers."""
    one = curves["one device"]
    assert len(one) == STEPS
    assert max_difference(one, curves["two replicas, two micro-steps"]) < 1e-5
    assert one[1][0] - one[STEPS][0] > 0.1  # it learned: the curves are not flat


@pytest.mark.slow
def test_clipping_acted_in_those_runs(curves):
    whole = curves["one device"]
    assert max_difference({step: whole[step] for step in curves["unclipped"]}, curves["unclipped"]) > 1e-3


@pytest.mark.slow
def test_mixed_precision_and_loss_scaling(curves):
    whole = curves["two replicas, two micro-steps"]
    for name in ("float16", "float16, fixed scale"):
        assert list(curves[name]) == [1, 2, 3, 4]
        assert 0 < max_difference({step: whole[step] for step in curves[name]}, curves[name]) < 0.1, name


@pytest.mark.slow
def test_the_gradients_of_a_deeper_stage_are_summed_as_well(curves):
    """TensorFlow took them for those of the stage before, of other shapes."""
    assert list(curves["growing"]) == [1, 2]


def test_batch_that_the_devices_found_cannot_share(record_sets):
    from nlpdata.errors import UsageError
    from pretrain.training.stages.built import build_stages, check_batch_sizes

    config = experiment(record_sets["static"], batch_size=16, trainer={"gradient_accumulation_steps": 4})
    stages = build_stages(config, [config], "train")
    check_batch_sizes(stages, 4)
    with pytest.raises(
        UsageError, match=r"train_data.global_batch_size 16 cannot be split over .* 3 x 4.* of 12, e.g. 12 or 24"
    ):
        check_batch_sizes(stages, 3)


@pytest.mark.usefixtures("eagerly")
def test_no_gpu_is_said(record_sets, tmp_path):
    said = run(experiment(record_sets["static"], trainer={"train_steps": 1}), tmp_path)
    assert any("no GPU found" in line for line in said)


def test_tpu_that_is_not_there(record_sets, tmp_path):
    from nlpdata.errors import DataError

    config = experiment(record_sets["static"], runtime={"distribution_strategy": "tpu", "tpu": "no-such-tpu"})
    with pytest.raises(DataError, match=r"no TPU can be reached at runtime.tpu = 'no-such-tpu'"):
        run(config, tmp_path)


def test_multi_worker_without_a_cluster(record_sets, tmp_path, monkeypatch):
    from nlpdata.errors import UsageError

    monkeypatch.delenv("TF_CONFIG", raising=False)
    config = experiment(record_sets["static"], runtime={"distribution_strategy": "multi_worker_mirrored"})
    with pytest.raises(UsageError, match=r"TF_CONFIG, e.g. .*Received: ''"):
        run(config, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_two_hosts_give_the_curve_of_one(record_sets, tmp_path):
    stages = [{"train_steps": 4}, {"train_steps": 8}]  # an engine each
    trainer = {"train_steps": None, "stages": stages, "log_example_digest": True, "validation_interval": 6}
    trainer["validation_steps"] = 4
    config = experiment(
        record_sets["static"],
        eval_path=record_sets["none"],
        encoder=tiny(dropout=0.0),
        trainer=trainer,
    )
    config = changed(config, "task.validation_data", input_path=record_sets["static"])
    two = changed(config, "runtime", distribution_strategy="multi_worker_mirrored")
    workers = [f"localhost:{port}" for port in free_ports(2)]
    started = []
    for index in range(2):
        cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        job = (changed(two, "trainer", type=f"{__name__}:Terminated"), tmp_path / "two", "train_and_eval")
        started.append(process(job, TF_CONFIG=json.dumps(cluster)))
    results = [finish(each, 300) for each in started]
    assert [code for code, _ in results] == [143, 143], results  # what one host is told, all do
    assert all("interrupted after step 8 of 12; the checkpoint is saved" in said for _, said in results)
    for line, by_all in (
        ("devices: ", True),
        ("learning rate: ", False),
        ("stage 2 of 2", False),
        ("evaluation", False),
    ):
        assert [line in said for _, said in results] == [True, by_all], results
    said = run(config, tmp_path / "two", "train_and_eval")
    assert any("step-00000008, after step 8 of 12" in line for line in said)
    run(config, tmp_path / "one", "train_and_eval")
    assert max_difference(curve(tmp_path / "one"), curve(tmp_path / "two")) < 1e-5
    for one, other in zip(*(lines(tmp_path / name, "eval") for name in ("one", "two")), strict=True):
        assert (other["step"], other["examples"]) == (one["step"], one["examples"])
        assert abs(one["loss"] - other["loss"]) < 1e-4
