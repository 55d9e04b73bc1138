"""Writers that need Keras on TensorFlow, from a process that computes on JAX: they run in their own process."""

import ast
import os
import pickle
import subprocess
import sys
from pathlib import Path

from nlpdata.errors import DataError, UsageError
from pretrain.converters.checkpoint import Checkpoint
from pretrain.settings.backend import is_installed

_CODE = (
    "import pickle, sys; from pretrain.converters.format import checkpoint_format; "
    "format, folder, checkpoint = pickle.loads(sys.stdin.buffer.read()); "
    "notes = checkpoint_format(format).write(folder, checkpoint); sys.stdout.flush(); "
    "sys.stderr.write('\\nNOTES ' + repr(notes))"
)


def write(format: str, folder: Path, checkpoint: Checkpoint) -> list[str]:
    """Runs the writer of a format in another process; returns its notes.

    Raises UsageError where TensorFlow is not installed, DataError where the other process fails.
    """
    if not is_installed("tensorflow"):
        raise UsageError(
            f"the format {format} is TensorFlow's, which is not installed here. Copy the checkpoint to where it is, and run: "
            f"KERAS_BACKEND=tensorflow pretrain convert {checkpoint.source} DEST --format {format}"
        )
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        input=pickle.dumps((format, Path(folder), checkpoint)),
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        check=False,
    )
    output = done.stderr.decode(errors="replace").strip()
    last = output.splitlines()[-1] if output else ""
    if done.returncode or not last.startswith("NOTES "):
        raise DataError(f"{folder}: the process that writes it on TensorFlow failed: {last or done.returncode}")
    return ast.literal_eval(last.removeprefix("NOTES "))
