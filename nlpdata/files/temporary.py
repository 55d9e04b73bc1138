"""Temporary files and folders next to what they will become, recognised as left over where the process that made them is gone.

One for `train.meta.json` is named `.train.meta.json.<32 hexadecimal digits>.tmp`. Who makes it holds a lock on it until
it has its final name or is removed. One of this name that nobody holds was left by a killed process, and the next one
that is made for the same name removes it.

What an object keeps for itself is in a file without a name.
"""

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import uuid4

from nlpdata.files import PathName

try:
    import fcntl
except ImportError:  # Windows, which does not remove open files: nothing is recognised there
    fcntl = None  # type: ignore[assignment]

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def temporary(path: PathName, folder: bool = False) -> Iterator[Path]:
    """A new, empty file or folder, which the block fills and renames to `path`; one that is not renamed is removed.

    Removes what killed processes left for the same name. OSError where the disk refuses.
    """
    path = Path(path)
    remove_left(path)
    made, descriptor = _make(path, folder)
    try:
        yield made
    finally:
        _remove(made)
        if descriptor is not None:
            os.close(descriptor)


def file_of(owner: object) -> IO[bytes]:
    """A new file without a name, to write and to read, which is closed when its owner is collected."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with its owner)
    weakref.finalize(owner, _close, file)
    return file


def _close(file: IO[bytes]) -> None:
    """Closes a file; what could not be written, and closing tries once more, has been reported."""
    with suppress(OSError):
        file.close()


def remove_left(path: PathName) -> None:
    """Removes the temporary files and folders for `path` that killed processes left; never through a link."""
    path = Path(path)
    _remove_left(path.parent, re.escape(path.name.lstrip(".")))


def remove_left_in(folder: PathName, start: str) -> None:
    """As remove_left, for all names in a folder that begin so."""
    _remove_left(Path(folder), f"{re.escape(start)}.*")


def _remove_left(folder: Path, names: str) -> None:
    if fcntl is None:
        return
    pattern = re.compile(rf"\.{names}\.[0-9a-f]{{32}}\.tmp")
    with suppress(OSError):
        for name in os.listdir(folder):
            if pattern.fullmatch(name):
                _remove_unheld(folder / name)


def _make(path: Path, folder: bool) -> tuple[Path, int | None]:
    while True:
        made = path.with_name(f".{path.name.lstrip('.')}.{uuid4().hex}.tmp")
        if folder:
            made.mkdir()
        if fcntl is None:
            return made, None
        descriptor = os.open(made, os.O_RDONLY if folder else os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # some network file systems have no locks: nothing is recognised there
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if made.exists():  # else it was taken for one that a killed process left
            return made, descriptor
        os.close(descriptor)


def _remove_unheld(path: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
