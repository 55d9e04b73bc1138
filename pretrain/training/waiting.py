"""Waiting for the first checkpoint of a run that another process trains. Without Keras."""

import logging
import time
from pathlib import Path

from pretrain.converters import native

_log = logging.getLogger(__name__)

POLL_SECONDS = 1.0


def checkpoints_folder(path: Path) -> Path:
    """The folder with the checkpoints of a run: the path itself where it is that folder, else the one in it."""
    return path if path.name == "checkpoints" or native.finished(path) else path / "checkpoints"


def wait_for_checkpoint(path: Path, timeout: float) -> None:
    """Returns when a run, or folder of checkpoints, has one, or after `timeout` seconds without."""
    end = time.monotonic() + timeout
    if not native.finished(checkpoints_folder(path)):
        _log.info(f"waiting for the first checkpoint in {checkpoints_folder(path)}")
    while not native.finished(checkpoints_folder(path)) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
