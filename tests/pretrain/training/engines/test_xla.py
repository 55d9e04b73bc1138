"""Steps that XLA compiles on TensorFlow against those that are taken as they come: the same curve, with dropout."""

from dataclasses import replace

import pytest
import tensorflow as tf

from pretrain.settings.schema import RuntimeConfig
from pretrain.tasks.pretraining import PretrainingTask
from pretrain.training.engines.tensorflow_engine import chooses_xla
from tests.pretrain.conftest import without_graphs
from tests.pretrain.finetuning import records, sentence_experiment
from tests.pretrain.runs import changed, curve, experiment, run, tiny


def losses(model_dir) -> list[float]:
    return [loss for loss, *_ in curve(model_dir).values()]


def run_plainly(config, model_dir) -> list[str]:
    with without_graphs():
        return run(changed(config, "runtime", enable_xla=False), model_dir)


@pytest.mark.slow
def test_the_same_curve_in_mixed_precision(record_sets, tmp_path):
    """With micro-steps and a loss scale; the next test is of float32."""
    config = experiment(
        record_sets["dynamic"],
        encoder=tiny("bert"),
        trainer={"train_steps": 3, "gradient_accumulation_steps": 2},
        optimizer={"gradient_clip_norm": 0.3},
        runtime={"mixed_precision_dtype": "float16", "distribution_strategy": "one_device"},
    )
    assert "step: compiled by XLA" in run(changed(config, "runtime", enable_xla=True), tmp_path / "xla")
    assert "step: compiled by XLA" not in run_plainly(config, tmp_path / "plain")
    assert losses(tmp_path / "xla") == pytest.approx(losses(tmp_path / "plain"), rel=5e-3)


@pytest.mark.slow
def test_batches_of_several_lengths(tmp_path):
    """Each length is compiled for itself."""
    config = sentence_experiment(records(tmp_path / "train.tfrecord", 48), batch=8, steps=4, encoder=tiny("bert"))
    run(changed(config, "runtime", enable_xla=True), tmp_path / "xla")
    run_plainly(config, tmp_path / "plain")
    assert losses(tmp_path / "xla") == pytest.approx(losses(tmp_path / "plain"), rel=1e-5)


class UncompiledTask(PretrainingTask):
    """Calls Python in its step, which XLA cannot compile."""

    def train_step(self, context, batch, denominators):
        statistics = super().train_step(context, batch, denominators)
        return {name: tf.numpy_function(lambda x: x, [value], tf.float32) for name, value in statistics.items()}


@pytest.fixture
def a_gpu(monkeypatch):
    found = tf.config.list_physical_devices
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["GPU"] if kind == "GPU" else found(kind))


def test_auto_is_one_gpu(a_gpu, monkeypatch):
    assert chooses_xla(RuntimeConfig(), 1)
    assert not chooses_xla(RuntimeConfig(), 2)
    assert not chooses_xla(RuntimeConfig(enable_xla=False), 1)
    assert chooses_xla(RuntimeConfig(enable_xla=True), 2)
    monkeypatch.undo()
    assert not chooses_xla(RuntimeConfig(), 1)


@pytest.mark.slow
def test_a_step_that_xla_cannot_compile(record_sets, tmp_path, a_gpu):
    """auto computes it without, and starts from the same state; true is an error."""
    config = experiment(
        record_sets["static"],
        encoder=tiny("bert"),
        trainer={"train_steps": 3},
        runtime={"distribution_strategy": "one_device"},
    )
    own = replace(config, task_type=f"{__name__}:UncompiledTask")
    said = run(own, tmp_path / "auto")
    assert any(
        line.startswith("warning: XLA cannot compile this step, which is computed without it: ") for line in said
    )
    run_plainly(config, tmp_path / "plain")
    assert losses(tmp_path / "auto") == pytest.approx(losses(tmp_path / "plain"), rel=1e-5)
    with pytest.raises(tf.errors.OpError):
        run(changed(own, "runtime", enable_xla=True), tmp_path / "xla")
