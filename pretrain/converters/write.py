"""Writing a checkpoint in another format: into a temporary folder next to the target, which then takes its name."""

import os
import tempfile
from pathlib import Path

from nlpdata.errors import UsageError
from nlpdata.files.disk import writing
from nlpdata.files.paths import AnyPath, is_remote, path_of
from nlpdata.files.writing import new_folder, send_folder
from pretrain.converters.card import write_card
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.facts import write_facts
from pretrain.converters.format import checkpoint_format


def write_checkpoint(folder: str | os.PathLike, checkpoint: Checkpoint, format: str) -> list[str]:
    """Writes a checkpoint, its tokenizer and its model card as a new folder; whatever happens, the folder is whole or is not there.

    Args:
      folder: must not exist, or be empty; local, or remote (gs://, s3://, hdfs://).
      checkpoint: what to write.
      format: a name of CHECKPOINT_FORMATS, or module:attribute.

    Returns notes for the user. Raises UsageError for an unknown format, a model that it has no place for, or a folder with
    content; DataError where the disk refuses.
    """
    chosen = checkpoint_format(format)
    refuse_existing(folder)
    if is_remote(folder):
        return _send(path_of(folder), checkpoint, format)
    folder = Path(folder)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(folder) as made:
            notes = chosen.write(made, checkpoint)
            write_facts(made, checkpoint, but=chosen.holds)
            if checkpoint.tokenizer is not None:
                notes += chosen.write_tokenizer(made, checkpoint)
            write_card(made, checkpoint, chosen, notes)
    return notes


def refuse_existing(folder: str | os.PathLike) -> None:
    """UsageError where a folder to write, local or remote, has content."""
    place = path_of(folder) if is_remote(folder) else Path(folder)
    if isinstance(place, Path):
        is_taken = os.path.lexists(place) and (not place.is_dir() or any(place.iterdir()))
    else:
        is_taken = place.exists()
    if is_taken:
        raise UsageError(f"{place} already exists. Name a new folder.")


def _send(target: AnyPath, checkpoint: Checkpoint, format: str) -> list[str]:
    """Writes a checkpoint as a new folder of a remote file system."""
    with tempfile.TemporaryDirectory(prefix="nlpdata-export-") as scratch:
        made = Path(scratch, "model")
        notes = write_checkpoint(made, checkpoint, format)
        send_folder(made, target)
    return notes
