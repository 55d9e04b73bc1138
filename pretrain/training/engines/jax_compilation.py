"""How steps are compiled on JAX: XLA's options, and the folder that keeps what was compiled."""

import logging
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import jax
from jaxlib import xla_client

from nlpdata.files.disk import disk_fault
from nlpdata.files.paths import is_remote
from pretrain.training.engines.xla_flags import flags_of

_log = logging.getLogger(__name__)

Value = bool | int | str
Options = dict[str, Value]

# cuBLAS was 3% of a step faster than the kernels that XLA makes by Triton.
_GPU: Options = {"xla_gpu_enable_triton_gemm": False}
# GPUs give each other the gradients of a layer while they compute those of the layers below: 2 to 3% of a step of two GPUs. GPUs of
# one process do so by their copy engines: another 1%, since NCCL's kernels take multiprocessors from the products.
_SEVERAL_GPUS: Options = {
    "xla_gpu_experimental_collective_start_as_early_as_possible": True,
    "xla_gpu_experimental_parallel_collective_overlap_limit": 64,
    "xla_gpu_collective_permute_mode": "COLLECTIVES_PEER_MEMORY",
}
# Seconds that it took to compile. JAX's own choice is one, below which many lengths of predictions stay.
_WORTH_KEEPING = 0.2
# What JAX logs before it compiles a step; nothing else tells the names of its files.
_MISS = "PERSISTENT COMPILATION CACHE MISS for '%s' with key %r"


def read_flags() -> None:
    """Lets XLA read XLA_FLAGS, once in a process. XLA ends the process, with a message, where it does not know one of them."""
    with suppress(AttributeError):  # of a version that lacks this, XLA reads them later
        xla_client.CompileOptions()


def compiler_options(platform: str, replicas: int) -> Options:
    """XLA's options for steps on that many devices of a platform (cpu, gpu or tpu).

    Without those that this version lacks, and those that the user sets in XLA_FLAGS, which they would override.
    """
    if platform != "gpu":
        return {}
    options = _GPU | (_SEVERAL_GPUS if replicas > 1 else {})
    flags = flags_of(os.environ)
    return {
        name: value
        for name, value in options.items()
        if not _is_set_by_user(name, value, flags.get(name)) and _is_known(name, value)
    }


@cache
def _is_set_by_user(name: str, value: Value, given: str | None) -> bool:
    if given is not None:
        _log.info(f"XLA_FLAGS has {name}={given}, which is used in place of our {_as_flag(name, value)}")
    return given is not None


@cache
def _is_known(name: str, value: Value) -> bool:
    """Whether this version of XLA compiles with that option; it refuses one that it lacks, or lacks in that value."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError as error:
        reason = str(error).strip().partition("\n")[0][:200]
        _log.info(
            f"JAX {jax.__version__} does not take XLA's option {_as_flag(name, value)}, which makes steps a little faster: it is "
            f"left out ({reason})"
        )
        return False
    return True


def _as_flag(name: str, value: Value) -> str:
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"


def keep_compiled() -> None:
    """Keeps compiled steps in JAX_COMPILATION_CACHE_DIR or the user's cache folder, so that the next run starts faster.

    Warns where that folder takes no files: JAX compiles without it. A file of it that JAX cannot read is replaced, with a warning.
    """
    if jax.config.jax_compilation_cache_dir is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(base, "nlpdata", "jax")))
        if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)
    folder = jax.config.jax_compilation_cache_dir
    if folder and not is_remote(folder):
        _try_folder(folder)
        compiler = logging.getLogger("jax._src.compiler")
        compiler.setLevel(logging.DEBUG)
        compiler.addFilter(_delete_unreadable)


@cache
def _try_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"1")
    except OSError as error:
        _log.warning(
            f"compiled steps are not kept, and every run compiles them again: {folder}: {disk_fault(error) or error.strerror}. Set "
            "JAX_COMPILATION_CACHE_DIR to a folder that can be written; to nothing, to keep none"
        )


def _delete_unreadable(record: logging.LogRecord) -> bool:
    """Deletes a compiled step that JAX has not found in its folder, as a record of its log says, though the file is there.

    Such a file is damaged, or of a compression that came or went with a library. JAX compiles the step and never writes over a
    file, so it would compile in every run. Of the log this lets through what is shown without it.
    """
    if record.msg == _MISS and isinstance(record.args, tuple) and not jax.config.jax_compilation_cache_check_contents:
        file = Path(jax.config.jax_compilation_cache_dir, f"{record.args[1]}-cache")
        unreadable = f"{file}: JAX cannot read this compiled step"
        try:
            file.unlink()
            _log.warning(f"{unreadable}; it is compiled again, and the file replaced")
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning(f"{unreadable}, and every run compiles it again: delete the file ({error.strerror})")
    return record.levelno >= logging.getLogger("jax").getEffectiveLevel()
