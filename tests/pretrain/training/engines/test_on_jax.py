"""The same model code on JAX: the tests that compare with numpy, in one process with that backend."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

from tests import warm_python

ROOT = Path(__file__).resolve().parents[4]
TESTS = (
    "encoders/test_encoders.py::test_forward_pass_equals_numpy",
    "encoders/test_encoders.py::test_initial_weights_are_truncated_normal_and_follow_from_the_seed",
    "encoders/test_encoders.py::test_bfloat16_keeps_weights_norms_and_probabilities_in_float32",
    "layers/test_dropout.py",
    "layers/test_fast_path.py",
    "optimizers/test_average.py",
    "optimizers/test_layer_rates.py::test_a_step_is_the_share_of_its_layer",
    "optimizers/test_optimizers.py::test_adafactor_equals_numpy[0.3]",
    "optimizers/test_optimizers.py::test_adamw_equals_numpy[True]",
    "optimizers/test_optimizers.py::test_lamb_equals_numpy[False]",
    "tasks/test_multiple_choice.py::test_losses_and_a_step_equal_numpy",
    "tasks/test_pretraining.py::test_sums_equal_numpy",
    "test_extending.py::test_the_documented_layers_equal_numpy",
    "test_extending.py::test_the_documented_task_from_data_to_metrics",
)


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs JAX (pip install '.[jax]')")
@pytest.mark.skipif(os.environ.get("KERAS_BACKEND") == "jax", reason="this is the process on JAX")
def test_model_code_on_jax():
    tests = [f"tests/pretrain/{name}" for name in TESTS]
    done = subprocess.run(
        [*warm_python.COMMAND, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
