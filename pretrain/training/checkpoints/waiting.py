"""Waiting for the first checkpoint of a run that another process trains. Without Keras."""

import logging
import time
from pathlib import Path

from nlpdata.errors import UsageError, closest
from nlpdata.execution.executor import duration
from nlpdata.reports.run_facts import CHECKPOINTS, CONFIG_FILE
from pretrain.converters import native

_log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
_OF_A_RUN = (CHECKPOINTS, CONFIG_FILE)
# Of checkpoints that others wrote.
_OTHERS = ("config.json", "saved_model.pb", "*.safetensors", "*.h5", "*.bin", "*.index")


def checkpoints_folder(path: Path) -> Path:
    """The folder with the checkpoints of a run: the path itself where it is that folder, else the one in it."""
    return path if path.name == CHECKPOINTS or native.finished(path) else path / CHECKPOINTS


def wait_for_checkpoint(path: Path, timeout: float, name: str) -> None:
    """Returns when a run, or folder of checkpoints, has one, or after `timeout` seconds without.

    Args:
      path: the run's folder, which it may make later.
      timeout: trainer.continuous_eval_timeout.
      name: the option that names it, for messages.

    UsageError where there is something that is not a run.
    """
    end = time.monotonic() + timeout
    if not native.finished(checkpoints_folder(path)):
        _refuse_other(path, name)
        _log.info(
            f"waiting for the first checkpoint in {checkpoints_folder(path)}, at most {duration(timeout)} "
            "(trainer.continuous_eval_timeout)"
        )
        if not path.exists():
            others = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
            _log.warning(f"{name}: there is no folder {path} yet. Is a run to begin there?{closest(path.name, others)}")
    while not native.finished(checkpoints_folder(path)) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)


def _refuse_other(path: Path, name: str) -> None:
    """UsageError for a file, and for a folder with a checkpoint of another format, in which no run has begun."""
    if path.is_file():
        raise UsageError(f"{name}: {path} is a file. Name the model_dir of the run to follow.")
    if any(next(path.glob(each), None) for each in _OF_A_RUN):
        return
    if other := next((found for each in _OTHERS for found in path.glob(each)), None):
        raise UsageError(
            f"{name}: {path} is not the folder of a run: it holds {other.name}, and neither checkpoints nor {CONFIG_FILE}. Name "
            "the model_dir of the run to follow; from a checkpoint that is complete, train with --mode=train_and_eval."
        )
