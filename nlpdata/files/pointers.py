"""Pointers of Git LFS: the few lines of text that a clone without Git LFS leaves in place of a large file."""

from pathlib import Path

from nlpdata.errors import DataError
from nlpdata.files.disk import reading

_MAGIC = b"version https://git-lfs"
_FEWEST = 12  # bytes that tell: the header of a record has no more


def refuse_pointer_at(path: Path) -> None:
    """As refuse_pointer, of a local file. DataError also where it cannot be read."""
    with reading(path):
        if path.is_file():
            with open(path, "rb") as file:
                refuse_pointer(path, file.read(32))


def refuse_pointer(path: object, head: bytes) -> None:
    """DataError where the first bytes of a file are those of a pointer."""
    if len(head) >= _FEWEST and head.startswith(_MAGIC[: len(head)]):
        raise DataError(f"{path}: is a pointer of Git LFS, not the file itself: fetch it with `git lfs pull`")
