"""What a command says when the disk or the memory ends its work."""

from collections.abc import Iterator
from contextlib import contextmanager

from nlpdata.errors import RESUMES, DataError, opt
from nlpdata.files.disk import disk_fault


@contextmanager
def disk_errors(doing: str, where: object, left: str = RESUMES) -> Iterator[None]:
    """What the disk or the memory refuses while the block works becomes a DataError of one line.

    Args:
      doing: the command or the stage, e.g. "tokenizing".
      where: what it works on, for the message.
      left: what is left of the work: RESUMES or BEGINS_ANEW.
    """
    try:
        yield
    except OSError as error:
        named = f" ({error.filename})" if error.filename else ""
        raise DataError(
            f"{doing} ({where}): {disk_fault(error) or error}{named}. Nothing was put in place. {left}"
        ) from error
    except MemoryError as error:
        raise DataError(f"{doing} ({where}): memory ran out. Use fewer {opt('workers')}") from error
