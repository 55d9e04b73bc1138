"""Writing a checkpoint in another format: into a temporary folder beside the target, which then takes its name."""

import os
from pathlib import Path

from nlpdata.errors import DataError, UsageError
from nlpdata.files.temporary import temporary
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.tokenizer_files import write_tokenizer
from pretrain.registry import CHECKPOINT_WRITERS as WRITERS


def write_checkpoint(folder: str | os.PathLike, checkpoint: Checkpoint, format: str) -> list[str]:
    """Writes a checkpoint, and its tokenizer, as a new folder; whatever happens, the folder is whole or is not there.

    Args:
      folder: must not exist, or be empty.
      format: native, hf, tf1, h5, savedmodel or hub.

    Returns notes for the user. Raises UsageError for an unknown format, a model that it has no place for, or a folder with
    content; DataError where the disk refuses.
    """
    folder = Path(folder)
    write = WRITERS.get(format)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already exists. Name a new folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary(folder, folder=True) as made:
            notes = write(made, checkpoint) or []
            if checkpoint.tokenizer is not None:
                notes += write_tokenizer(made, checkpoint, format)
            if folder.exists():
                folder.rmdir()
            os.replace(made, folder)
            return notes
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror or error}") from None
