"""Archives of checkpoints, as TF-Hub publishes them: unpacked once into a temporary folder."""

import atexit
import functools
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from nlpdata.files.archives import read_tar


def unpacked(path: Path) -> Path:
    """The path itself, or, for a .tar.gz, a folder of its content that stays until the process ends."""
    if not path.is_file() or not path.name.endswith((".tar.gz", ".tgz", ".tar")):
        return path
    facts = path.stat()
    return _unpack(path.absolute(), facts.st_mtime_ns, facts.st_size)


@functools.cache
def _unpack(path: Path, *_version: int) -> Path:
    place = Path(tempfile.mkdtemp(prefix="nlpdata-archive-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    folder = place / path.name
    folder.mkdir()
    try:
        read_tar(path, lambda archive, member: _extract(archive, member, folder))
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Unpacks a file or folder. TarError for anything else, and for a name that leads out of the folder."""
    # Python has a filter for this from 3.11.4 on only.
    options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    if not (member.isreg() or member.isdir()):
        raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
    if not (folder / member.name).resolve().is_relative_to(folder.resolve()):
        raise tarfile.TarError(f"{member.name} is outside of the archive")
    archive.extract(member, folder, **options)
