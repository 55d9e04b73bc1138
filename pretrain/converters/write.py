"""Writing a checkpoint in another format: into a temporary folder next to the target, which then takes its name."""

import os
import tempfile
from pathlib import Path

from nlpdata.errors import UsageError
from nlpdata.files.disk import writing
from nlpdata.files.paths import AnyPath, is_remote, path_of
from nlpdata.files.writing import new_folder, send_folder
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.facts import write_facts
from pretrain.converters.format import checkpoint_format


def write_checkpoint(folder: str | os.PathLike, checkpoint: Checkpoint, format: str) -> list[str]:
    """Writes a checkpoint, and its tokenizer, as a new folder; whatever happens, the folder is whole or is not there.

    Args:
      folder: must not exist, or be empty; local, or remote (gs://, s3://, hdfs://).
      checkpoint: what to write.
      format: a name of CHECKPOINT_FORMATS, or module:attribute.

    Returns notes for the user. Raises UsageError for an unknown format, a model that it has no place for, or a folder with
    content; DataError where the disk refuses.
    """
    chosen = checkpoint_format(format)
    if is_remote(folder):
        return _send(path_of(folder), checkpoint, format)
    folder = Path(folder)
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already exists. Name a new folder.")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(folder) as made:
            notes = chosen.write(made, checkpoint)
            write_facts(made, checkpoint, but=chosen.holds)
            if checkpoint.tokenizer is not None:
                notes += chosen.write_tokenizer(made, checkpoint)
    return notes


def _send(target: AnyPath, checkpoint: Checkpoint, format: str) -> list[str]:
    """Writes a checkpoint as a new folder of a remote file system."""
    if target.exists():
        raise UsageError(f"{target} already exists. Name a new folder.")
    with tempfile.TemporaryDirectory(prefix="nlpdata-export-") as scratch:
        made = Path(scratch, "model")
        notes = write_checkpoint(made, checkpoint, format)
        send_folder(made, target)
    return notes
