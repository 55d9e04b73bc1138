"""XLA's options: those that the installed version has, for the platform and the number of devices."""

import json
import os
import subprocess

import pytest

from tests import warm_python

pytest.importorskip("jax")

# Prints the options of each (platform, replicas), then those of two GPUs under a version that lacks one, and what the log says.
PROGRAM = """
import json, logging
from pretrain.training import jax_compilation as own

lines = []
class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())

logging.getLogger("pretrain").addHandler(Lines())
logging.getLogger("pretrain").setLevel("INFO")
own._GPU["xla_gpu_of_another_version"] = True
found = {f"{platform} {count}": own.compiler_options(platform, count) for platform in ("cpu", "tpu", "gpu") for count in (1, 2, 8)}
print(json.dumps({"options": found, "log": lines}))
own._GPU["xla_gpu_enable_triton_gemm"] = "neither"
own.compiler_options("gpu", 1)
"""
ONE = {"xla_gpu_enable_triton_gemm": False}
NEWER = "xla_gpu_experimental_collective_start_as_early_as_possible"  # JAX 0.10.0 lacks it
SEVERAL = ONE | {
    NEWER: True,
    "xla_gpu_experimental_parallel_collective_overlap_limit": 64,
}


def test_options_that_this_version_of_xla_lacks_are_left_out_and_said():
    command = [*warm_python.COMMAND, "-c", PROGRAM]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    found = json.loads(done.stdout)
    lacking = {line.split("XLA's option ")[1].split(",")[0] for line in found["log"]}
    assert lacking - {NEWER} == {"xla_gpu_of_another_version"}
    assert len(found["log"]) == len(lacking)  # once, not for each step that is compiled
    known = {name: value for name, value in SEVERAL.items() if name not in lacking}
    assert found["options"] == {
        **{f"{platform} {count}": {} for platform in ("cpu", "tpu") for count in (1, 2, 8)},
        "gpu 1": ONE, "gpu 2": known, "gpu 8": known,
    }  # fmt: skip
    assert "not a valid bool value" in done.stderr  # another error is not taken for an option that is not there
