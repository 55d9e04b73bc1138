"""Averages of weights, frozen weights, rates by layer and Adafactor in runs: steps, checkpoints, evaluation, on both engines."""

import importlib.util
import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pretrain.converters import native, read_checkpoint
from pretrain.registry import OPTIMIZERS, SCHEDULES
from pretrain.settings.fields import choose
from pretrain.settings.schema import ModelConfig
from pretrain.settings.trainer_section import EmaConfig
from tests.pretrain.runs import changed, curve, experiment, finish, lines, process, run, tiny

pytestmark = pytest.mark.usefixtures("module_eagerly")  # the two engines take traced steps in processes of their own

STEPS = 6


def optimization(config, **fields):
    """The configuration with other fields in trainer.optimizer_config."""
    return changed(config, "trainer", optimizer_config=replace(config.trainer.optimizer_config, **fields))


def spread(config):
    config = changed(config, "trainer", gradient_accumulation_steps=2, checkpoint_interval=STEPS)
    return changed(config, "runtime", distribution_strategy="mirrored", num_replicas=2)


def arrays(model_dir, step=STEPS, prefix=""):
    return native.read_arrays(Path(model_dir, "checkpoints", f"step-{step:08d}"), prefix)


@pytest.fixture(scope="module")
def config(record_sets):
    trainer = {
        "train_steps": STEPS, "checkpoint_interval": 1, "max_to_keep": STEPS, "tensorboard": False,
        "best_checkpoint_export_subdir": "best", "validation_steps": 2,
    }  # fmt: skip
    base = experiment(
        record_sets["static"], eval_path=record_sets["static"], encoder=tiny("bert", 0.0, num_hidden_layers=2),
        trainer=trainer, learning_rate=5e-3,
    )  # fmt: skip
    layers = {"freeze": ["token_type", "layer_0/attention/query"], "layer_decay": 0.7, "unfreeze_steps": [1, 3]}
    return optimization(base, ema=EmaConfig(average_decay=0.6, start_step=2), **layers)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """A run on one device, on this process's backend. Read only."""
    model_dir = tmp_path_factory.mktemp("whole") / "run"
    run(config, model_dir, "train_and_eval")
    return model_dir


def test_checkpoints_hold_the_average(whole):
    expected = {}
    for step in range(1, STEPS + 1):  # decay after start_step m steps: at most (1 + m) / (10 + m)
        decay = 0 if step < 2 else min(0.6, (step - 1) / (step + 8))
        for path, weight in arrays(whole, step, "model/").items():
            expected[path] = decay * expected.get(path, 0.0) + (1 - decay) * weight.astype(np.float64)
    found = arrays(whole, prefix="average/")
    weights = arrays(whole, prefix="model/")
    assert found.keys() <= weights.keys()
    assert "encoder/layer_1/attention/query/kernel" in found
    for path, average in found.items():
        np.testing.assert_allclose(average, expected[path], rtol=1e-5, atol=1e-7, err_msg=path)
    assert max(np.abs(average - weights[path]).max() for path, average in found.items()) > 1e-3


def test_frozen_weights_stay_and_layers_begin_to_learn_at_their_steps(whole):
    """Warm-up begins with a rate of 0; the embeddings and the lower layer learn from step 3 on, the fourth."""
    history = [arrays(whole, step) for step in range(1, STEPS + 1)]
    frozen = {name for name in history[0] if "token_type" in name or "layer_0/attention/query" in name}
    assert frozen == {name for name in frozen if name.startswith("model/")}  # no moments, no average
    assert len(frozen) == 3
    moved = {
        name: [bool((before[name] != after[name]).any()) for before, after in pairwise(history)]
        for name in history[0] if name.startswith("model/")
    }  # fmt: skip
    assert len(moved) > 40
    for name, steps in moved.items():
        late = "layer_0/" in name or "encoder/embeddings" in name
        expected = [False] * 5 if name in frozen else [not late, not late, True, True, True]
        assert steps == expected or name.endswith(("key/bias", "position_embeddings")), (name, steps)


def test_the_average_is_what_is_evaluated_kept_as_best_and_started_from(whole, config, tmp_path):
    average, weights = arrays(whole, prefix="average/"), arrays(whole, prefix="model/")
    shutil.copytree(whole, tmp_path / "run")
    at_end = lines(whole, "eval")[-1]["loss"]
    without = optimization(config, ema=None)
    by_choice = optimization(config, ema=replace(config.trainer.optimizer_config.ema, evaluate=False))
    losses = {}
    for name, each in {"average": config, "as the run did": without, "weights": by_choice}.items():
        run(each, tmp_path / "run", "eval")
        losses[name] = json.loads((tmp_path / "run" / "eval_results.json").read_text())["loss"]
    assert losses["average"] == losses["as the run did"] == pytest.approx(at_end, rel=1e-6)
    assert abs(losses["weights"] - at_end) > 1e-4

    best = native.read_arrays(native.finished(whole / "best")[-1])
    read = read_checkpoint(str(whole)).weights
    assert not [name for name in best if not name.startswith("model/")]
    for path, value in average.items():
        assert (best[f"model/{path}"] == value).all()
        assert (read[path] == value).all()
    said = run(changed(without, "task", init_checkpoint=str(whole)), tmp_path / "next", "eval")
    assert any("is evaluated, as it was loaded" in line for line in said)
    assert any("the average of its weights is read (trainer.optimizer_config.ema.evaluate)" in line for line in said)
    loss = json.loads((tmp_path / "next" / "eval_results.json").read_text())["loss"]
    assert loss == pytest.approx(at_end, rel=1e-6)

    info = native.read_info(native.locate(whole))
    info["config"]["trainer"]["optimizer_config"]["ema"]["evaluate"] = False
    native.write(tmp_path / "as trained", arrays(whole), info)
    read = read_checkpoint(str(tmp_path / "as trained")).weights
    assert all((read[path] == value).all() for path, value in weights.items())


def test_a_resumed_run_ends_with_the_same_bits(whole, config, tmp_path):
    part = Path("checkpoints", "step-00000003")
    shutil.copytree(whole / part, tmp_path / "run" / part)
    run(config, tmp_path / "run")
    expected, found = arrays(whole), arrays(tmp_path / "run")
    assert expected.keys() == found.keys()
    assert all((expected[name] == found[name]).all() for name in expected)


@pytest.fixture(scope="module")
def adafactor(config, tmp_path_factory):
    """(configuration, model_dir) of a run with it on one device, of one layer. Read only."""
    model_dir = tmp_path_factory.mktemp("adafactor") / "run"
    parts = {
        "optimizer": choose(OPTIMIZERS, "adafactor", weight_decay_rate=0.1),
        "learning_rate": choose(SCHEDULES, "constant", learning_rate=0.1),
    }
    chosen = optimization(changed(config, "task", model=ModelConfig(tiny("bert", 0.0))), **parts)
    run(chosen, model_dir)
    return chosen, model_dir


def test_adafactor_learns_and_resumes_with_the_same_bits(adafactor, tmp_path):
    config, model_dir = adafactor
    losses = [loss for loss, _, _ in curve(model_dir).values()]
    assert losses[-1] < losses[0] - 0.1
    part = Path("checkpoints", "step-00000003")
    shutil.copytree(model_dir / part, tmp_path / "run" / part)
    run(config, tmp_path / "run")
    expected, found = arrays(model_dir), arrays(tmp_path / "run")
    assert {"optimizer/adafactor/kernel", "optimizer/adafactor/kernel_1"} <= expected.keys()
    assert expected.keys() == found.keys()
    assert all((expected[name] == found[name]).all() for name in expected)


def distance(expected, found) -> float:
    """Between the averages of two runs, as a share of the way that the first has gone since its first step."""

    def norm(values):
        return np.sqrt(sum(np.sum(np.square(value, dtype=np.float64)) for value in values))

    start, end, other = (arrays(*each, prefix="average/") for each in ((expected, 1), (expected,), (found,)))
    return norm([end[path] - other[path] for path in end]) / norm([end[path] - start[path] for path in end])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_replicas_micro_steps_and_engines_agree(whole, adafactor, config, tmp_path, backend):
    """The second run with Adafactor, whose steps in float16 are taken under a condition."""
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"needs {backend}")
    half = changed(spread(adafactor[0]), "trainer", gradient_accumulation_steps=1)
    half = changed(half, "runtime", mixed_precision_dtype="float16")
    started = process(
        (spread(config), tmp_path / "spread", "train_and_eval"), (half, tmp_path / "half", "train"),
        KERAS_BACKEND=backend, JAX_PLATFORMS="cpu", JAX_COMPILATION_CACHE_DIR=str(tmp_path / "cache"),
    )  # fmt: skip
    code, said = finish(started)
    assert code == 0, said
    assert list(curve(whole)) == list(curve(tmp_path / "spread"))
    assert distance(whole, tmp_path / "spread") < 1e-4
    assert distance(adafactor[1], tmp_path / "half") < 0.02
    expected, found = (lines(folder, "eval")[-1]["loss"] for folder in (whole, tmp_path / "spread"))
    assert found == pytest.approx(expected, abs=1e-4)
