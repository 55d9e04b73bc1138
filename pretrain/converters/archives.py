"""Archives of checkpoints, as TF-Hub hands them out: unpacked into a temporary folder while they are read."""

import contextlib
import tarfile
import tempfile
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
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
        except (tarfile.TarError, EOFError, OSError) as error:
            raise DataError(f"{path}: cannot be unpacked: {error}") from None
        place = Path(folder)
        inside = list(place.iterdir())
        yield inside[0] if len(inside) == 1 and inside[0].is_dir() else place
