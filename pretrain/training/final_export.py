"""The trained model for others to read, written at the end of a run: trainer.export_formats."""

import hashlib
import logging
import os
import tempfile
from pathlib import Path

import numpy as np

from nlpdata.errors import NlpdataError, UsageError, missing_package
from nlpdata.files.paths import AnyPath, is_remote, path_of
from nlpdata.files.remote import RemotePath
from nlpdata.files.writing import remove_tree, rename_folder, send_folder
from pretrain.converters import native, read_checkpoint
from pretrain.converters.card import NAME as CARD
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.format import checkpoint_format
from pretrain.encoders.model import EncoderModel, weights_by_path
from pretrain.settings.backend import is_installed
from pretrain.settings.fields import Choice
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.training.checks.settings import format_names

_log = logging.getLogger(__name__)

_MARK = ".exported"  # in a folder that a run has written, and may replace
_NEW_CARD = f"{Path(CARD).stem}.new.md"


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


def refuse_unwritable(trainer: TrainerConfig, encoder: Choice | None, model: EncoderModel, model_dir: Path) -> None:
    """UsageError where a format of trainer.export_formats has no place for the model that is to be trained."""
    names = format_names(trainer)
    if not names or encoder is None:
        return
    shapes = {path: np.broadcast_to(np.float32(0), weight.shape) for path, weight in weights_by_path(model).items()}
    for name in names:
        try:
            checkpoint_format(name).refuse(Checkpoint("native", str(model_dir), encoder, shapes))
        except UsageError as error:
            raise UsageError(f"trainer.export_formats: {error}") from None


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

    edited = _edited_card(folder)
    if isinstance(folder, RemotePath):
        with tempfile.TemporaryDirectory(prefix="nlpdata-export-") as made:
            new = Path(made, "model")
            convert(read_checkpoint(str(source)), str(new), name)
            _finish(new, folder, edited)
            folder.remove_tree()
            send_folder(new, folder)
        return
    new = folder.with_name(f".{folder.name}.new")
    if edited is None and (new / _MARK).exists():  # a call was killed before it gave this its name
        edited = _edited_card(new)
    remove_tree(new)
    convert(read_checkpoint(str(source)), str(new), name)
    _finish(new, folder, edited)
    _remove_export(folder)
    rename_folder(new, folder)


def _edited_card(folder: AnyPath) -> bytes | None:
    """The model card of an export, where it is not the one that was written; else None."""
    card, mark = (path.read_bytes() if path.exists() else None for path in (folder / CARD, folder / _MARK))
    return None if card is None or _digest(card) == mark else card


def _finish(new: Path, folder: AnyPath, edited: bytes | None) -> None:
    """Puts the model card that the user has edited into a new export, next to the one that was written, and marks it as finished.

    The mark tells that a run may replace the export, and holds the checksum of the card that was written.
    """
    digest = _digest((new / CARD).read_bytes())
    if edited is not None:
        os.replace(new / CARD, new / _NEW_CARD)
        (new / CARD).write_bytes(edited)
        _log.warning(f"{folder / CARD} was edited, and is kept. The card of the new model is {_NEW_CARD} next to it.")
    (new / _MARK).write_bytes(digest)


def _digest(card: bytes) -> bytes:
    return hashlib.sha256(card).hexdigest().encode()


def _remove_export(folder: Path) -> None:
    """Removes an earlier export, its mark last: what a killed run leaves of it may be replaced, too."""
    for path in folder.iterdir() if folder.is_dir() and not folder.is_symlink() else ():
        if path.is_dir():
            remove_tree(path)
        elif path.name != _MARK:
            path.unlink()
    remove_tree(folder)
