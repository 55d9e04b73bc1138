"""Which Keras backend a command computes on: chosen without Keras, which reads KERAS_BACKEND when it is imported."""

import contextlib
import importlib.util
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path

from nlpdata.errors import EXTRAS, DataError, UsageError, closest, install_command
from nlpdata.files.json_files import read_object
from nlpdata.reports.run_facts import CHECKPOINTS, STATE_FILE
from pretrain.registry import ENGINES

_log = logging.getLogger(__name__)

_OF_XLA = re.compile(r"[EF]\d{4} ")  # errors that end the process

BACKENDS = ("auto", *ENGINES.names())  # values of --backend


def choose_backend(
    flag: str | None,
    environment: Mapping[str, str],
    runs: Sequence[Path] = (),
    find_accelerator: Callable[[], str | None] | None = None,
) -> tuple[str, str]:
    """(backend, why). A run that is resumed keeps its own, and so does a sweep; else the flag, KERAS_BACKEND, auto, in that order.

    auto takes JAX where it finds a GPU or TPU, else TensorFlow, or whichever is installed.

    Args:
      flag: value of --backend.
      environment: with KERAS_BACKEND.
      runs: folders of the run that is resumed, or of those of a sweep, as far as they have checkpoints.
      find_accelerator: () -> JAX's platform ("gpu", "tpu") or None; default: asks JAX in another process.

    Raises UsageError for an unknown backend, and for one that is not installed.
    """
    wanted, source = (flag, "--backend") if flag else (environment.get("KERAS_BACKEND") or "auto", "KERAS_BACKEND")
    if wanted not in BACKENDS:
        raise UsageError(
            f"{source}={wanted}: there is no engine for this backend.{closest(wanted, BACKENDS)} Known: {', '.join(BACKENDS)}."
        )
    own = next(filter(None, map(_backend_of, runs)), None)
    if own:
        other = f"; {source}={wanted} is not used" if wanted not in ("auto", own) else ""
        return _installed(own, f"that of the run{'s of this sweep' if len(runs) > 1 else ''}{other}")
    if wanted != "auto":
        return _installed(wanted, source)
    if is_installed("jax") and (platform := (find_accelerator or _accelerator)()):
        return "jax", f"auto: JAX finds a {platform.upper()}"
    if is_installed("tensorflow"):
        why = "JAX finds no GPU or TPU" if is_installed("jax") else "JAX is not installed"
        return "tensorflow", f"auto: {why}"
    if is_installed("jax"):
        return "jax", "auto: TensorFlow is not installed"
    raise UsageError(
        "neither TensorFlow nor JAX is installed. In the folder of nlpdata: "
        f"{install_command('train')} for TensorFlow, {install_command('jax')} for JAX."
    )


def set_backend(flag: str | None, environment: MutableMapping[str, str], runs: Sequence[Path] = ()) -> str:
    """Chooses a backend as choose_backend does, and sets KERAS_BACKEND to it, for Keras to come; what the log is to say of it."""
    backend, why = choose_backend(flag, environment, runs)
    environment["KERAS_BACKEND"] = backend
    return f"backend: {backend} ({why})"


def use_installed(environment: MutableMapping[str, str]) -> None:
    """Sets KERAS_BACKEND where the user has not and TensorFlow, which Keras would take, is not there."""
    if not environment.get("KERAS_BACKEND") and not is_installed("tensorflow") and is_installed("jax"):
        environment["KERAS_BACKEND"] = "jax"


def _backend_of(run: Path) -> str | None:
    """The backend in the newest whole state.json of a run's checkpoints; None where there is none."""
    folders = [path.parent for path in Path(run).glob(f"{CHECKPOINTS}/step-*/{STATE_FILE}")]
    for folder in sorted(folders, reverse=True):
        with contextlib.suppress(DataError):  # the run skips a damaged one, and reports it
            name = read_object(folder / STATE_FILE).get("backend")
            return name if name in ENGINES.names() else None
    return None


def _installed(backend: str, why: str) -> tuple[str, str]:
    if backend in EXTRAS and not is_installed(backend):
        raise UsageError(
            f"the backend is {backend} ({why}), but it is not installed. In the folder of nlpdata: "
            f"{install_command(EXTRAS[backend])}. A run can also start from the weights of another one, on either backend: "
            "--init_checkpoint=RUN with a new --model_dir."
        )
    return backend, why


def is_installed(package: str) -> bool:
    """Whether a package can be imported; imports nothing."""
    try:
        return importlib.util.find_spec(package) is not None
    except ImportError:
        return False


def _accelerator(run: Callable = subprocess.run) -> str | None:
    """JAX's platform if it is not the CPU. Asked in another process: this one may still have to choose devices and hosts."""
    if not (is_installed("jax_plugins") or is_installed("libtpu")):
        return None
    code = "import jax; print(jax.default_backend())"
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    try:
        done = run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        lines = done.stderr.splitlines() or ["it says nothing"]
        reason = next(
            (line for line in lines if _OF_XLA.match(line)), lines[-1]
        )  # below it, XLA lists all flags that there are
        _log.warning(f"JAX does not start, so its devices are not looked for: {reason[:300]}")
        return None
    platform = done.stdout.split()[-1] if done.stdout.split() else ""
    return platform if platform in ("gpu", "tpu") else None
