"""A checkpoint format: what it recognises, reads and writes. Each is one class, and one line in CHECKPOINT_FORMATS.

class MyFormat(CheckpointFormat):
    def recognises(self, place): ...            whether a file or folder is of this format
    def read(self, place, model_config): ...    its Checkpoint
    def write(self, folder, checkpoint): ...    its files in a new folder

A format that only writes has no `recognises`, one that only reads no `write`.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import ClassVar

from nlpdata.errors import UsageError, opt
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.tokenizer_files import keep_tokenizer
from pretrain.registry import CHECKPOINT_FORMATS
from pretrain.settings.fields import Choice


class CheckpointFormat:
    """One format; the methods of a subclass say what it does.

    Attributes:
      place: what it recognises, for messages, e.g. "a TensorFlow checkpoint".
      places: the same for a list of all formats, e.g. "TensorFlow checkpoints (prefix or folder)"; "" where it only writes.
      writes: what it writes, for the documentation.
      written_with: the package that writing needs and that a run need not have; "": none.
      any_encoder: whether it writes every encoder, not only those that declare names for it.
      library: what loads it, as a model card names it (`library_name`); "": nothing that is known.
      holds: the facts about a model that it has a place for. The others are written to nlpdata.json in the same folder
        (pretrain.converters.facts), which every format is read with.
    """

    place: ClassVar[str] = "a checkpoint of a format of your own"
    places: ClassVar[str] = ""
    writes: ClassVar[str] = ""
    written_with: ClassVar[str] = ""
    any_encoder: ClassVar[bool] = False
    library: ClassVar[str] = ""
    holds: ClassVar[Collection[str]] = ()

    def recognises(self, place: Path) -> bool:
        """Whether a path is a whole checkpoint of this format, from what lies there; nothing is read."""
        return False

    def explain(self, place: Path) -> None:
        """UsageError or DataError for a path that no format recognises and that is nearly of this one: what it lacks."""

    def read(self, place: Path, model_config: Choice | None) -> Checkpoint:
        """The checkpoint at a path that it recognises.

        Args:
          place: a file, a folder or a prefix.
          model_config: the encoder that the user named, for a place that has no configuration.

        Raises UsageError where there is no configuration, DataError where the files are damaged.
        """
        raise NotImplementedError(f"{type(self).__name__} recognises {place} and has no `read`")

    def refuse(self, checkpoint: Checkpoint) -> None:
        """UsageError for a model that it has no place for, by its encoder and the shapes of its weights: asked before training."""

    def write(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        """Writes a checkpoint's files, without its tokenizer and nlpdata.json, into an empty folder.

        Returns notes for the user. UsageError where the format has no place for the model.
        """
        raise UsageError(
            f"{checkpoint.source}: {self.place} is only read, not written. Choose another one with {opt('format')}."
        )

    def usage(self, folder: Path, checkpoint: Checkpoint, notes: Sequence[str]) -> str:
        """A short Python program that loads what `write` wrote, for the model card; it runs in that folder. "": none is known.

        Args:
          folder: as it was written, with its tokenizer.
          checkpoint: what was written.
          notes: what writing said.
        """
        return ""

    def is_written(self) -> bool:
        """Whether it can be written at all."""
        return type(self).write is not CheckpointFormat.write

    def write_tokenizer(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        """Writes the checkpoint's tokenizer, which it has, next to its files. Returns notes for the user."""
        assert checkpoint.tokenizer is not None
        keep_tokenizer(folder, Path(checkpoint.tokenizer.path), checkpoint.tokenizer.meta())
        return []


def checkpoint_format(name: str) -> CheckpointFormat:
    """The format of that name, or at that module:attribute. UsageError where there is none."""
    return CHECKPOINT_FORMATS.get_class(name, CheckpointFormat)()


def format_of(place: Path) -> CheckpointFormat | None:
    """The format that recognises a path; None where none does.

    A format of the user's own is asked before the built-in ones, and a later one before an earlier one: it may be a special
    case of what is there. Of the built-in formats one alone may recognise the path.

    UsageError where several built-in formats recognise it: which is meant is not guessed.
    """
    found = {name: each for name in CHECKPOINT_FORMATS if (each := checkpoint_format(name)).recognises(place)}
    own = [name for name in found if not CHECKPOINT_FORMATS.is_built_in(name)]
    if len(found) > 1 and not own:
        kinds = " and ".join(each.place for each in found.values())
        raise UsageError(
            f"{place}: holds {kinds}: which is meant? Name the file, the prefix or the inner folder of one."
        )
    return found[own[-1]] if own else next(iter(found.values()), None)


def is_checkpoint(place: Path) -> bool:
    """Whether some format recognises a path."""
    return any(checkpoint_format(name).recognises(place) for name in CHECKPOINT_FORMATS)


def explain(place: Path) -> None:
    """Raises the error of the format that a path is nearly of; returns where there is none."""
    for name in CHECKPOINT_FORMATS:
        checkpoint_format(name).explain(place)


def known_places() -> str:
    """What can be read, for messages."""
    return ", ".join(each.places for each in map(checkpoint_format, CHECKPOINT_FORMATS) if each.places)


def formats_for_any_encoder() -> str:
    """The names of the formats that write every encoder, for messages."""
    return ", ".join(name for name in CHECKPOINT_FORMATS if checkpoint_format(name).any_encoder)
