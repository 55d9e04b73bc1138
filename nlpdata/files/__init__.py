"""Files: paths here and on remote file systems, writing in one step, compression, archives, temporary and mapped files."""

from collections.abc import Sequence
from os import PathLike
from typing import Protocol

PathName = str | PathLike[str]
PathNames = PathName | Sequence[PathName]


class Readable(Protocol):
    """A binary file or stream, from front to back."""

    def read(self, size: int, /) -> bytes: ...
