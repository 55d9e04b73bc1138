"""The trained model for others to read, written at the end of a run: trainer.export_formats."""

import logging
import os
import tempfile
from pathlib import Path

from nlpdata.errors import NlpdataError, UsageError, missing_package
from nlpdata.files.paths import AnyPath, is_remote, path_of
from nlpdata.files.remote import RemotePath
from nlpdata.files.writing import remove_tree, rename_folder, send_folder
from pretrain.converters import native, read_checkpoint
from pretrain.converters.format import checkpoint_format
from pretrain.settings.backend import is_installed
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.training.checks import format_names

_log = logging.getLogger(__name__)

_MARK = ".exported"  # in a folder that a run has written, and may replace


def export_folders(trainer: TrainerConfig, model_dir: Path) -> dict[str, AnyPath]:
    """format -> the folder that it is written into: that name in trainer.export_dir.

    trainer.export_dir is in the model_dir unless it is an absolute path or remote (gs://, s3://).

    UsageError for a format that there is not, that is only read, or whose package is not installed.
    """
    formats = format_names(trainer)
    for name in formats:
        chosen = checkpoint_format(name)
        if not chosen.is_written():
            raise UsageError(f"trainer.export_formats: {name} is only read, not written.")
        if chosen.written_with and not is_installed(chosen.written_with):
            raise missing_package(f"trainer.export_formats {name}", chosen.written_with)
    place = trainer.export_dir
    base = path_of(place) if is_remote(place) else model_dir / place
    return {name: base / name.rpartition(":")[2] for name in formats}


def check_export(trainer: TrainerConfig, model_dir: Path) -> None:
    """UsageError where the export at the end would fail for what is known before: found at the start, not after the training."""
    for name, folder in export_folders(trainer, model_dir).items():
        if isinstance(folder, RemotePath):
            folder.exists()  # the package for this kind of path is there, and the store answers
        elif os.path.lexists(folder) and not (folder / _MARK).exists() and not _is_empty(folder):
            raise UsageError(
                f"trainer.export_dir: {folder} is there, and no run has written it; the {name} of this one would replace it. Name "
                "another --export_dir, or remove it."
            )


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def export_final(trainer: TrainerConfig, model_dir: Path) -> None:
    """Writes the run's newest checkpoint in every format of trainer.export_formats, in place of an earlier export.

    Raises UsageError where a format has no place for the model, DataError where the disk or the store refuses. The run's
    checkpoints are whole then, and the message says how to export them.
    """
    folders = export_folders(trainer, model_dir)
    source = native.locate(model_dir) if folders else None
    if source is None:
        return
    for name, folder in folders.items():
        try:
            _export(source, name, folder)
        except NlpdataError as error:
            raise type(error)(
                f"the model is trained, but not exported: {error}. Later: pretrain export {model_dir} DEST --format "
                f"{name}"
            ) from error
        _log.info(f"exported: {folder} ({name})")


def _export(source: Path, name: str, folder: AnyPath) -> None:
    from pretrain.converters.convert import convert

    if isinstance(folder, RemotePath):
        with tempfile.TemporaryDirectory(prefix="nlpdata-export-") as made:
            convert(read_checkpoint(str(source)), str(Path(made, "model")), name)
            folder.remove_tree()
            send_folder(Path(made, "model"), folder)
        return
    new = folder.with_name(f".{folder.name}.new")
    remove_tree(new)
    convert(read_checkpoint(str(source)), str(new), name)
    (new / _MARK).touch()
    _remove_export(folder)
    rename_folder(new, folder)


def _remove_export(folder: Path) -> None:
    """Removes an earlier export, its mark last: what a killed run leaves of it may be replaced, too."""
    for path in folder.iterdir() if folder.is_dir() and not folder.is_symlink() else ():
        if path.is_dir():
            remove_tree(path)
        elif path.name != _MARK:
            path.unlink()
    remove_tree(folder)
