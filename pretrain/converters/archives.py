"""Archives of checkpoints, as TF-Hub hands them out: unpacked into a temporary folder while they are read."""

import contextlib
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nlpdata.archives import read_tar


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The path itself, or, for a .tar.gz, a folder of its content that lasts as long as the context."""
    if not path.is_file() or not path.name.endswith((".tar.gz", ".tgz", ".tar")):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        read_tar(path, lambda archive, member: _extract(archive, member, Path(folder)))
        place = Path(folder)
        inside = list(place.iterdir())
        yield inside[0] if len(inside) == 1 and inside[0].is_dir() else place


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Unpacks a file or folder. TarError for anything else, and for a name that leads out of the folder."""
    # Python has a filter for this from 3.11.4 on only.
    options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    if not (member.isreg() or member.isdir()):
        raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
    if not (folder / member.name).resolve().is_relative_to(folder.resolve()):
        raise tarfile.TarError(f"{member.name} lies outside of the archive")
    archive.extract(member, folder, **options)
