"""Archives of checkpoints, as TF-Hub hands them out: unpacked into a temporary folder while they are read."""

import contextlib
import gzip
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from nlpdata.errors import DataError


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The path itself, or, for a .tar.gz, a folder of its content that lasts as long as the context."""
    if not path.is_file() or not path.name.endswith((".tar.gz", ".tgz", ".tar")):
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            with (open if path.suffix == ".tar" else gzip.open)(path, "rb") as file:
                with tarfile.open(fileobj=file) as archive:
                    _extract(archive, Path(folder))
                while file.read(1 << 20):  # to the end, where the checksum is
                    pass
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise DataError(f"{path}: cannot be unpacked: {error}") from None
        place = Path(folder)
        inside = list(place.iterdir())
        yield inside[0] if len(inside) == 1 and inside[0].is_dir() else place


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpacks files and folders. TarError for anything else, and for names that lead out of the folder."""
    # Python has a filter for this from 3.11.4 on only.
    options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    for member in archive:
        if not (member.isreg() or member.isdir()):
            raise tarfile.TarError(f"{member.name} is neither a file nor a folder")
        if not (folder / member.name).resolve().is_relative_to(folder.resolve()):
            raise tarfile.TarError(f"{member.name} lies outside of the archive")
        archive.extract(member, folder, **options)
