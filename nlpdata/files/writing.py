"""Writing files: in one step, so that nobody ever reads half of one, and moves and removals that go with it."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from nlpdata.errors import NlpdataError
from nlpdata.files import PathName
from nlpdata.files.paths import AnyPath, is_device, path_of
from nlpdata.files.remote import RemotePath
from nlpdata.files.temporary import temporary

_NO_RENAME_OF_FOLDERS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.EMFILE}  # what gcsfuse says, by its version


@contextmanager
def new_file(path: PathName, durable: bool = True) -> Iterator[Path]:
    """The place where the block writes a local file, which then takes the name `path`; after an error it is removed.

    Args:
      path: the file; an older one is replaced.
      durable: the file outlives a crash of the machine, and what killed processes left for the same name is removed.
        Without, it is faster: for the many files of a work folder, which is removed as a whole.
    """
    if durable:
        with temporary(path) as made:
            yield made
            with open(made, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(made, path)
        return
    made = Path(f"{os.fspath(path)}.{uuid4().hex}.tmp")
    try:
        yield made
        os.replace(made, path)
    finally:
        with suppress(OSError):
            made.unlink(missing_ok=True)


@contextmanager
def new_folder(path: PathName, replace: bool = False) -> Iterator[Path]:
    """As new_file, for a folder, which the block fills. OSError where `path` has content, unless that is to be replaced."""
    path = Path(path)
    with temporary(path, folder=True) as made:
        yield made
        if replace:
            remove_tree(path)
        elif path.exists():
            path.rmdir()
        rename_folder(made, path)
    sync_folder(path.parent)


def rename_folder(folder: Path, path: Path) -> None:
    """Gives a folder the name `path`, where nothing is.

    Cloud Storage FUSE, which mounts the buckets of a job, does not rename folders that hold anything. The files are then moved one
    by one, and for a moment the new folder holds a part of them.
    """
    try:
        os.replace(folder, path)
        return
    except OSError as error:
        if error.errno not in _NO_RENAME_OF_FOLDERS or not folder.is_dir():
            raise
    path.mkdir()
    for source in sorted(folder.rglob("*")):
        target = path / source.relative_to(folder)
        if source.is_dir():
            target.mkdir(exist_ok=True)
        else:
            os.replace(source, target)
    shutil.rmtree(folder, ignore_errors=True)


def write_whole(path: PathName | AnyPath, data: bytes, durable: bool = True) -> None:
    """Writes a file in one step, here or remote: nobody ever reads half of it. durable: see new_file."""
    path = path_of(path)
    if isinstance(path, RemotePath) or is_device(path):
        path.write_bytes(data)
        return
    with new_file(path, durable) as made:
        made.write_bytes(data)


def write_durably(path: Path, data: bytes) -> None:
    """Writes a local file, and returns when it is on the disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def move(source: PathName | AnyPath, target: PathName | AnyPath) -> None:
    """Moves a file to where `target` appears in one step; a local one also to a remote file system.

    FileNotFoundError where there is no source.
    """
    source, target = path_of(source), path_of(target)
    if isinstance(source, Path) and isinstance(target, Path):
        os.replace(source, target)
    elif isinstance(source, Path) and isinstance(target, RemotePath):
        target.receive(source)
        source.unlink()
    elif isinstance(source, RemotePath) and isinstance(target, RemotePath):
        source.rename(target)
    else:
        raise ValueError(f"{source} is remote, and {target} is not")


def send_folder(folder: Path, target: AnyPath) -> None:
    """Uploads the files of a local folder, with those of its folders, to a folder of a remote file system."""
    assert isinstance(target, RemotePath)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = target
        for part in path.relative_to(folder).parts:
            place = place / part
        place.receive(path)


@contextmanager
def local_folder(folder: PathName | AnyPath) -> Iterator[Path]:
    """A folder of this machine for a file on its way to `folder`: itself, or where that is remote a temporary one."""
    place = path_of(folder)
    if isinstance(place, Path):
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="nlpdata-") as scratch:
        yield Path(scratch)


def remove_tree(folder: PathName | AnyPath) -> None:
    """Removes a folder that is no longer needed, with all below it; what cannot be removed stays.

    Of a link to a folder the link goes, and what it leads to stays.
    """
    folder = path_of(folder)
    if isinstance(folder, RemotePath):
        with suppress(NlpdataError):
            folder.remove_tree()
    elif folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def sync_folder(folder: PathName | AnyPath) -> None:
    """Makes renames in `folder` durable, where the system can do that."""
    place = path_of(folder)
    if isinstance(place, RemotePath):
        return
    try:
        descriptor = os.open(place, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse
        pass
    finally:
        os.close(descriptor)
