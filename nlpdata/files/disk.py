"""What a disk refuses, told from the exceptions of those who read and write: Python, and libraries that quote the system."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nlpdata.errors import DataError, NlpdataError
from nlpdata.files.paths import AnyPath

_FAULTS = ("EACCES", "EDQUOT", "EFBIG", "EIO", "EMFILE", "ENAMETOOLONG", "ENFILE", "ENOSPC", "EPERM", "EROFS", "ESTALE")


def disk_fault(error: BaseException) -> str | None:
    """The system's reason, e.g. "No space left on device"; None where an exception is about something else.

    TensorFlow and HDF5 have classes of their own, or an OSError without a number, and quote the reason.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or str(error)
    text = str(error)
    if isinstance(error, ValueError) and "embedded null" in text:  # from a configuration or meta file
        return "a path holds a NUL character"
    reasons = (os.strerror(getattr(errno, name)) for name in _FAULTS if hasattr(errno, name))
    return next((reason for reason in reasons if reason in text), None)


def why_unwritable(folder: AnyPath) -> str | None:
    """Why no file can be made in a folder of this machine, which may be missing; None where it seems possible. Writes nothing."""
    if not isinstance(folder, Path):
        return None
    place = folder.absolute()
    above = next(path for path in (place, *place.parents) if os.path.lexists(path))
    if not above.is_dir():
        return f"{above} is not a folder"
    if os.access(above, os.W_OK | os.X_OK):
        return None
    is_read_only = hasattr(os, "statvfs") and os.statvfs(above).f_flag & os.ST_RDONLY
    return f"no file can be made in {above}: {os.strerror(errno.EROFS if is_read_only else errno.EACCES)}"


@contextmanager
def reading(path: object) -> Iterator[None]:
    """What the system, or a decompressor, refuses while the block reads becomes a DataError that names `path`."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


@contextmanager
def writing(path: object) -> Iterator[None]:
    """What the disk refuses while the block writes becomes a DataError that names `path`."""
    try:
        yield
    except NlpdataError:
        raise
    except Exception as error:
        reason = disk_fault(error) or (str(error) if isinstance(error, OSError) else None)
        if reason is None:
            raise
        raise DataError(f"{path}: cannot be written: {reason}") from error
