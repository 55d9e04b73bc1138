"""How steps are compiled on JAX: XLA's options, and the folder that keeps what was compiled."""

import logging
import os
import tempfile
from functools import cache
from pathlib import Path

import jax

from nlpdata.files.disk import disk_fault
from nlpdata.files.paths import is_remote

_log = logging.getLogger(__name__)

# cuBLAS was 3% of a step faster than the kernels that XLA makes by Triton.
_GPU = {"xla_gpu_enable_triton_gemm": False}
# GPUs give each other the gradients of a layer while they compute those of the layers below: 2 to 3% of a step of two GPUs.
_SEVERAL_GPUS = {
    "xla_gpu_experimental_collective_start_as_early_as_possible": True,
    "xla_gpu_experimental_parallel_collective_overlap_limit": 64,
}


def compiler_options(platform: str, replicas: int) -> dict[str, bool | int]:
    """XLA's options for steps on that many devices of a platform (cpu, gpu or tpu).

    Without those that this version lacks, and those that the user sets in XLA_FLAGS, which they would override.
    """
    if platform != "gpu":
        return {}
    options = _GPU | (_SEVERAL_GPUS if replicas > 1 else {})
    flags = os.environ.get("XLA_FLAGS", "")
    return {
        name: value
        for name, value in options.items()
        if not _is_set_by_user(name, value, flags) and _is_known(name, value)
    }


@cache
def _is_set_by_user(name: str, value: bool | int, flags: str) -> bool:
    given = [word.lstrip("-") for word in flags.split() if word.lstrip("-").partition("=")[0] == name]
    if given:
        _log.info(f"XLA_FLAGS has {given[-1]}, which is used in place of our {name}={str(value).lower()}")
    return bool(given)


@cache
def _is_known(name: str, value: bool | int) -> bool:
    """Whether this version of XLA has that option. It refuses to compile with one that it lacks."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        _log.info(
            f"JAX {jax.__version__} does not have XLA's option {name}, which makes steps a little faster: it is left out"
        )
        return False
    return True


def keep_compiled() -> None:
    """Keeps compiled steps in JAX_COMPILATION_CACHE_DIR or the user's cache folder, so that the next run starts faster.

    Warns where that folder takes no files: JAX compiles without it.
    """
    if jax.config.jax_compilation_cache_dir is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(base, "nlpdata", "jax")))
    folder = jax.config.jax_compilation_cache_dir
    if not folder or is_remote(folder):
        return
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"1")
    except OSError as error:
        _log.warning(
            f"compiled steps are not kept, and every run compiles them again: {folder}: {disk_fault(error) or error.strerror}. Set "
            "JAX_COMPILATION_CACHE_DIR to a folder that can be written; to nothing, to keep none"
        )
