"""Checkpoints of every supported format, read as weights by our paths, and written as others expect them.

checkpoint = read_checkpoint("albert_base_v2/")     finds out which format it is
report = assign(model, checkpoint)                  what matched, what is missing, what was not used
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nlpdata.errors import UsageError, closest
from nlpdata.files.unpacking import named_as_given, shown, unpacked
from nlpdata.registry import user_modules
from pretrain.converters import native, places
from pretrain.converters.checkpoint import Checkpoint, NoConfigurationError, stored_encoder
from pretrain.converters.facts import read_facts
from pretrain.converters.format import explain, format_of, is_checkpoint, known_places
from pretrain.converters.heads import settled
from pretrain.converters.report import LoadReport, assign
from pretrain.converters.sizes import refuse_larger
from pretrain.settings.fields import Choice

_log = logging.getLogger(__name__)

_HARMLESS = 1 << 24  # numbers that any machine has room for
_MOST_LISTED = 200  # entries of a folder that are looked at for a message

__all__ = ["Checkpoint", "LoadReport", "assign", "read_checkpoint", "read_encoder"]


def read_checkpoint(path: str, model_config: Choice | None = None, import_modules: Sequence[str] = ()) -> Checkpoint:
    """Reads a checkpoint of any supported format.

    Args:
      path: a folder, a prefix, a file or an archive (.zip, .tar.gz, ...) of it; the URL of a module, or the id of a Hugging Face
        model, that is cached (see pretrain.converters.places).
      model_config: the encoder's configuration; needed where the checkpoint has none.
      import_modules: modules of the user's own parts that the checkpoint may name (nlpdata.registry.user_modules).

    Returns its encoder and the heads that can be used; Checkpoint.left_out says which cannot.

    Raises UsageError where there is no checkpoint or no configuration, DataError where it is damaged or contradicts itself.
    """
    given = places.find(str(path))
    place = unpacked(given)
    with user_modules(import_modules), named_as_given():
        format = format_of(place)
        if format is not None:
            checkpoint = format.read(place, model_config)
            checkpoint = replace(checkpoint, source=shown(str(given if place != given else checkpoint.source)))
            for note in checkpoint.notes:
                _log.info(f"{checkpoint.source}: {note}")
            return settled(replace(checkpoint, extras=read_facts(place) | checkpoint.extras))
        explain(place)
        raise UsageError(_nothing_found(place))


def read_encoder(path: str, default: Choice | None = None) -> Choice | None:
    """The encoder of a checkpoint; `default` where it names none. Raises as read_checkpoint does."""
    with named_as_given():
        own = native.locate_info(places.find(str(path)))
    if own is None:
        try:
            return read_checkpoint(path).encoder
        except NoConfigurationError as error:
            return _as_default(path, default, error)
    folder, info = own
    stored = info.get("encoder")
    if not stored:
        return default
    encoder, arrays = stored_encoder(stored, str(folder / native.INFO)), folder / native.ARRAYS
    if arrays.is_file():
        size = arrays.stat().st_size
        most = max(size // 4, _HARMLESS)
        refuse_larger(encoder, most, most, str(folder), f"its {native.ARRAYS} of {size} bytes is")
    return encoder


def _as_default(path: str, default: Choice | None, missing: NoConfigurationError) -> Choice | None:
    """The encoder of weights that do not say it, if they can be of the default one; else the error that says what is missing."""
    try:
        return read_checkpoint(path, default).encoder
    except UsageError:
        raise missing from None


def _nothing_found(path: Path) -> str:
    known = f"Known: {known_places()}"
    if not path.exists():
        siblings = [p.name for p in path.parent.glob("[!.]*")] if path.parent.is_dir() else []
        return (
            f"{path}: no such file, folder or checkpoint prefix.{closest(path.name, siblings, 3)} {known}. A Hugging Face id "
            "is looked up in that library's cache only: download the model on a machine with a network, and name its folder."
        )
    folders = [each for each in sorted(path.iterdir())[:_MOST_LISTED] if each.is_dir()] if path.is_dir() else []
    if inside := sorted((each.name for each in folders if is_checkpoint(each)), key=lambda name: (len(name), name)):
        return f"{path}: no checkpoint in this folder itself. Name one of its folders: {', '.join(inside[:6])}."
    if path.is_dir():
        names = sorted(p.name for p in path.glob("[!.]*"))[:6]
        return f"{path}: no checkpoint in this folder. It holds {', '.join(names) or 'nothing'}. {known}."
    return f"{path}: not a checkpoint of a known format. {known}."
