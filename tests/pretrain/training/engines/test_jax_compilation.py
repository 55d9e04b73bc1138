"""XLA's options: those that the installed version has, for the platform and the number of devices."""

import json
import os
import subprocess

import pytest

from tests import warm_python

pytest.importorskip("jax")

# Prints the options of each (platform, replicas) under a version that lacks one, and a value of another; then of a GPU where the
# user sets one, and what the log says, also of folders that can be written and that cannot.
PROGRAM = """
import json, logging, os
from pretrain.training.engines import jax_compilation as own

lines = []
class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())

logging.getLogger("pretrain").addHandler(Lines())
logging.getLogger("pretrain").setLevel("INFO")
own._GPU |= {"xla_gpu_of_another_version": True, "xla_gpu_command_buffer_scheduling_mode": "OF_ANOTHER_VERSION"}
found = {f"{platform} {count}": own.compiler_options(platform, count) for platform in ("cpu", "tpu", "gpu") for count in (1, 2, 8)}
lacking = lines.copy()
os.environ["XLA_FLAGS"] = "--xla_dump_to= --xla_gpu_enable_triton_gemm=true"
of_user = [own.compiler_options("gpu", 1) for _ in range(2)]
for folder in ("", "gs://bucket/folder", "kept", "kept/file/folder"):
    own.jax.config.update("jax_compilation_cache_dir", folder)
    own.keep_compiled()
    open("kept/file", "w").close() if folder == "kept" else None
said = {"lacking": lacking, "log": lines[len(lacking):]}
print(json.dumps({"options": found, "of_user": of_user, "kept": os.listdir("kept"), **said}))
del os.environ["XLA_FLAGS"]
own._GPU["xla_gpu_enable_triton_gemm"] = "neither"
own.compiler_options("gpu", 1)
"""
ONE = {"xla_gpu_enable_triton_gemm": False}
NEWER = {  # JAX 0.10.0 lacks them
    "xla_gpu_experimental_collective_start_as_early_as_possible": True,
    "xla_gpu_collective_permute_mode": "COLLECTIVES_PEER_MEMORY",
}
SEVERAL = ONE | NEWER | {"xla_gpu_experimental_parallel_collective_overlap_limit": 64}


def test_options_that_xla_lacks_or_the_user_sets_are_left_out_and_said_and_so_is_a_folder_that_takes_no_files(tmp_path):
    command = [*warm_python.COMMAND, "-c", PROGRAM]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    found = json.loads(done.stdout)
    lines = [line.split("XLA's option ")[1].split(",")[0] for line in found["lacking"]]
    lacking = {line.split("=")[0] for line in lines}
    of_others = {"xla_gpu_of_another_version=true", "xla_gpu_command_buffer_scheduling_mode=OF_ANOTHER_VERSION"}
    assert {line for line in lines if line.split("=")[0] not in NEWER} == of_others
    assert len(lines) == len(lacking)  # once, not for each step that is compiled
    known = {name: value for name, value in SEVERAL.items() if name not in lacking}
    assert found["options"] == {
        **{f"{platform} {count}": {} for platform in ("cpu", "tpu") for count in (1, 2, 8)},
        "gpu 1": ONE, "gpu 2": known, "gpu 8": known,
    }  # fmt: skip
    assert "not a valid bool value" in done.stderr  # another error is not taken for an option that is not there
    assert found["of_user"] == [{}, {}]
    of_user, folder = found["log"]
    assert of_user == (
        "XLA_FLAGS has xla_gpu_enable_triton_gemm=true, which is used in place of our xla_gpu_enable_triton_gemm=false"
    )
    assert "kept/file/folder: Not a directory. Set JAX_COMPILATION_CACHE_DIR" in folder
    assert found["kept"] == ["file"]
