"""Remote files for what reads this machine's: copied once into a temporary folder, and shown by their own name.

fetched("gs://bucket/albert/model.ckpt-best")     # /tmp/nlpdata-remote-.../albert/model.ckpt-best, with what lies next to it
shown("/tmp/nlpdata-remote-.../albert/vocab.txt") # gs://bucket/albert/vocab.txt (nlpdata.files.unpacking)
"""

import atexit
import functools
import re
import shutil
import tempfile
from pathlib import Path

from nlpdata.errors import UsageError
from nlpdata.files import PathName
from nlpdata.files.paths import is_remote
from nlpdata.files.remote import RemotePath
from nlpdata.files.unpacking import show_as

_SMALL = (
    ".json",
    ".txt",
    ".model",
    ".vocab",
    ".yaml",
    ".yml",
    ".examples.jsonl.gz",
)  # about weights or records, next to them


def fetched(path: PathName, neighbours: bool = False) -> Path:
    """A path on this machine: a local one as it is, of a remote one a copy, which stays until the process ends.

    Args:
      path: a file, or a folder, which is copied with all that is in it.
      neighbours: the path may also be the prefix of several files, which are copied; and so are the small files next to it
        (configurations, vocabularies).

    Raises UsageError where there is nothing, or a package for such paths is missing; DataError where the store refuses.
    """
    return _fetched(str(path), neighbours) if is_remote(path) else Path(path)


def local_only(path: PathName, what: str, instead: str) -> None:
    """UsageError for a remote path.

    Args:
      path: as the user gave it.
      what: what it is, e.g. "--output" (`nlpdata.errors.opt`).
      instead: end of the message: what to do.
    """
    if is_remote(path):
        raise UsageError(f"{what} {path}: expected a path of this machine. {instead}")


@functools.cache
def _fetched(url: str, neighbours: bool) -> Path:
    source = RemotePath(url)
    is_folder, exists = source.is_dir(), source.exists()
    beside = [] if is_folder or not neighbours else _beside(source)
    if not exists and not any(each.name.startswith(f"{source.name}.") for each in beside):
        raise UsageError(f"{url}: no such file, folder{' or checkpoint prefix' if neighbours else ''}.")
    root = Path(tempfile.mkdtemp(prefix="nlpdata-remote-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    show_as(root / source.parent.name, str(source.parent))
    place = root / source.parent.name / source.name
    if is_folder:
        _copy_folder(source, place)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        for each in [source, *beside] if exists else beside:
            each.copy_to(place.with_name(each.name))
    return place


def _beside(source: RemotePath) -> list[RemotePath]:
    """The files next to a file or prefix that belong to it."""
    if not source.parent.is_dir():
        return []
    entries = [each for each in source.parent.iterdir() if each.name != source.name]
    return [each for each in entries if belongs(each.name, source.name) and not each.is_dir()]


def belongs(name: str, given: str) -> bool:
    """Whether a file next to the given one, or to the prefix of that name, is read with it.

    Those are the files of one TensorFlow checkpoint, the files of weights that an index lists, and what is said about either.
    """
    if given == "checkpoint":  # it names one of the checkpoints next to it
        return True
    prefix = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", given)
    listed = re.fullmatch(r"(.+)\.(safetensors|bin)\.index(\.\w+)?\.json", given)
    return name.startswith(f"{prefix}.") or name.endswith(_SMALL) or bool(listed and name.startswith(listed[1]))


def _copy_folder(source: RemotePath, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for each in source.iterdir():
        if not each.name or (each.name == source.name and not each.is_dir()):  # some stores list the folder itself
            continue
        if each.is_dir():
            _copy_folder(each, place / each.name)
        else:
            each.copy_to(place / each.name)
