"""XLA's options: those that the installed version has, for the platform and the number of devices."""

import json
import os
import subprocess

import pytest

from tests import warm_python

pytest.importorskip("jax")

# Prints the options of each (platform, replicas) under a version that lacks one, and a value of another; then of a GPU where the
# user sets one, and what the log says, also of folders that can be written and that cannot, asked for twice. Then the sizes of a
# compiled step's file as JAX writes it, and after it was damaged in two ways and the step compiled again, and what the log says.
PROGRAM = """
import json, logging, os
from pathlib import Path
from jax.experimental.compilation_cache.compilation_cache import reset_cache
from pretrain.training.engines import jax_compilation as own

lines = []
class Lines(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())

logging.getLogger("pretrain").addHandler(Lines())
logging.getLogger("pretrain").setLevel("INFO")
own._GPU |= {"xla_gpu_of_another_version": True, "xla_gpu_command_buffer_scheduling_mode": "OF_ANOTHER_VERSION"}
own._GPU["xla_gpu_enable_cublaslt"] = "neither"  # as where a version has it in another type
found = {f"{platform} {count}": own.compiler_options(platform, count) for platform in ("cpu", "tpu", "gpu") for count in (1, 2, 8)}
lacking = lines.copy()
os.environ["XLA_FLAGS"] = "--xla_dump_to= --xla_gpu_enable_triton_gemm=true"
of_user = [own.compiler_options("gpu", 1) for _ in range(2)]
open("flags", "w").write("--xla_dump_to=\\n--xla_gpu_enable_triton_gemm=1 ")
for os.environ["XLA_FLAGS"] in ("flags", "no-file"):
    of_user.append(own.compiler_options("gpu", 1))
for folder in ("", "gs://bucket/folder", "kept", "kept/file/folder"):
    own.jax.config.update("jax_compilation_cache_dir", folder)
    own.keep_compiled(), own.keep_compiled()
    open("kept/file", "w").close() if folder == "kept" else None
said = {"lacking": lacking, "log": lines[len(lacking):]}
lines.clear()
reset_cache()  # its folder is that of the first compilation
own.jax.config.update("jax_compilation_cache_dir", "steps")
own.jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
own.keep_compiled()
sizes = []
for damage in (None, lambda content: content[: len(content) // 2], lambda content: b"", None):
    if damage:
        path.write_bytes(damage(path.read_bytes()))
    own.jax.clear_caches()
    own.jax.jit(lambda: 1)()
    [path] = [each for each in Path("steps").glob("*-cache") if "lambda" in each.name]
    sizes.append(path.stat().st_size)
print(json.dumps({"options": found, "of_user": of_user, "kept": os.listdir("kept"), "sizes": sizes, "replaced": lines, **said}))
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
    of_others = {
        "xla_gpu_of_another_version=true", "xla_gpu_command_buffer_scheduling_mode=OF_ANOTHER_VERSION",
        "xla_gpu_enable_cublaslt=neither",
    }  # fmt: skip
    assert {line for line in lines if line.split("=")[0] not in NEWER} == of_others
    for refusal in ("No such compile option", "is not a valid enum value", "not a valid bool value"):
        assert refusal in " ".join(found["lacking"])  # the reason, whatever XLA's words for it are
    assert len(lines) == len(lacking)  # once, not for each step that is compiled
    known = {name: value for name, value in SEVERAL.items() if name not in lacking}
    assert found["options"] == {
        **{f"{platform} {count}": {} for platform in ("cpu", "tpu") for count in (1, 2, 8)},
        "gpu 1": ONE, "gpu 2": known, "gpu 8": known,
    }  # fmt: skip
    assert found["of_user"] == [{}, {}, {}, ONE]
    *of_user, folder = found["log"]
    assert of_user == [
        f"XLA_FLAGS has xla_gpu_enable_triton_gemm={given}, which is used in place of our xla_gpu_enable_triton_gemm=false"
        for given in ("true", "1")
    ]
    assert "kept/file/folder: Not a directory. Set JAX_COMPILATION_CACHE_DIR" in folder
    assert found["kept"] == ["file"]
    assert min(found["sizes"]) > 0.9 * max(found["sizes"]) > 0
    step, again = found["replaced"]
    assert step == again
    assert step.startswith("steps/jit__lambda-")
    assert step.endswith("-cache: JAX cannot read this compiled step; it is compiled again, and the file replaced")


def test_an_unknown_flag_of_xla_ends_a_run_before_it_makes_anything(tmp_path):
    program = "import sys; from pretrain.run import main; sys.exit(main(sys.argv[1:]))"
    run = ["--experiment=bert/local", "--backend=jax", "--model_dir=run"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_unheard_of=1"}
    command = [*warm_python.COMMAND, "-c", program, *run]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Unknown flag in XLA_FLAGS: --xla_unheard_of=1" in done.stderr
    assert not (tmp_path / "run").exists()
