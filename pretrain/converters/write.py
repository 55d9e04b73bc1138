"""Writing a checkpoint in another format: into a temporary folder next to the target, which then takes its name."""

import os
from pathlib import Path

from nlpdata.errors import UsageError
from nlpdata.files.disk import writing
from nlpdata.files.writing import new_folder
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.facts import write_facts
from pretrain.converters.format import checkpoint_format


def write_checkpoint(folder: str | os.PathLike, checkpoint: Checkpoint, format: str) -> list[str]:
    """Writes a checkpoint, and its tokenizer, as a new folder; whatever happens, the folder is whole or is not there.

    Args:
      folder: must not exist, or be empty.
      checkpoint: what to write.
      format: a name of CHECKPOINT_FORMATS, or module:attribute.

    Returns notes for the user. Raises UsageError for an unknown format, a model that it has no place for, or a folder with
    content; DataError where the disk refuses.
    """
    folder = Path(folder)
    chosen = checkpoint_format(format)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already exists. Name a new folder.")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(folder) as made:
            notes = chosen.write(made, checkpoint)
            write_facts(made, checkpoint, but=chosen.holds)
            if checkpoint.tokenizer is not None:
                notes += chosen.write_tokenizer(made, checkpoint)
    return notes
