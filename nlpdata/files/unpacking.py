"""Archives that stand for the folder in them: unpacked once into a temporary folder, and named by their own name.

unpacked(Path("uncased_L-12.zip"))      # /tmp/nlpdata-archive-.../uncased_L-12.zip/uncased_L-12
shown("/tmp/nlpdata-archive-.../uncased_L-12.zip/uncased_L-12/vocab.txt")     # uncased_L-12.zip/uncased_L-12/vocab.txt
"""

import atexit
import contextlib
import functools
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nlpdata.errors import NlpdataError
from nlpdata.files.archives import is_tar, read_tar, read_zip
from nlpdata.files.paths import is_plain_name

_DEEPEST = 100  # folders, one in the other

_roots: dict[str, str] = {}  # a temporary folder -> the archive that is unpacked there, or what it is a copy of


def unpacked(path: Path) -> Path:
    """The path itself, or, for a tar archive (also compressed) or a .zip, the folder in it, which stays until the process ends.

    That is the outermost folder with more than one entry in it. DataError where the archive is damaged, or holds anything
    but files and folders of its own.
    """
    if not path.is_file() or not (path.suffix == ".zip" or is_tar(path)):
        return path
    facts = path.stat()
    return _unpack(path.absolute(), str(path), facts.st_mtime_ns, facts.st_size)


def show_as(folder: Path, name: str) -> None:
    """From now on a temporary folder is shown to the user as `name`, that of what was copied or unpacked there."""
    _roots[str(folder)] = name


def shown(text: str) -> str:
    """A text for the user, in which places in temporary folders are those of which they are copies."""
    for root, archive in _roots.items():
        text = text.replace(root, archive)
    return text


@contextlib.contextmanager
def named_as_given() -> Iterator[None]:
    """While the context lasts, errors show what was given in place of its temporary copies."""
    try:
        yield
    except NlpdataError as error:
        raise type(error)(shown(error.message.text)) from None


@functools.cache
def _unpack(path: Path, name: str, *_version: int) -> Path:
    place = Path(tempfile.mkdtemp(prefix="nlpdata-archive-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    folder = place / path.name
    folder.mkdir()
    show_as(folder, name)
    try:
        if path.suffix == ".zip":
            read_zip(path, lambda archive, member: _extract_zipped(archive, member, folder))
        else:
            read_tar(path, lambda archive, member: _extract(archive, member, folder))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    while len(inside := _entries(folder)) == 1 and inside[0].is_dir():
        folder = inside[0]
    return folder


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, without what macOS adds."""
    return [entry for entry in folder.iterdir() if entry.name not in ("__MACOSX", ".DS_Store")]


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Unpacks a file or folder. TarError for anything else, and for a name that leads out of the folder."""
    # Python has a filter for this from 3.11.4 on only.
    options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    if not (member.isreg() or member.isdir()):
        raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
    if fault := _name_fault(member.name, folder):
        raise tarfile.TarError(fault)
    member.mtime = 0  # it may be beyond all clocks
    archive.extract(member, folder, **options)


def _extract_zipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
    """The same of a .zip: BadZipFile."""
    kind = (
        member.external_attr >> 28
    )  # of Unix's file modes: 8 a file, 4 a folder, 0 where the archive is of another system
    if kind not in (0, 4, 8):
        raise zipfile.BadZipFile(f"{member.filename} is neither a file nor a folder")
    if fault := _name_fault(member.filename, folder):
        raise zipfile.BadZipFile(fault)
    archive.extract(member, folder)


def _name_fault(name: str, folder: Path) -> str | None:
    """What keeps a member from being unpacked into the folder under its name."""
    parts = [part for part in name.split("/") if part]
    if len(parts) > _DEEPEST or not all(part in (".", "..") or is_plain_name(part) for part in parts):
        return f"{name[:60]}... has a name that a file cannot have: longer than 255 bytes, or in more than {_DEEPEST} folders"
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        return f"{name} is outside of the archive"
    return None
