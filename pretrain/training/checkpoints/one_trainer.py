"""One process at a time trains in a model_dir: two would write checkpoints and lines of metrics.jsonl over each other's."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from nlpdata.errors import DataError, UsageError, opt

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def one_trainer(model_dir: Path) -> Iterator[None]:
    """Holds the folder, which is made where it is missing, while the block trains there.

    The lock is on the folder itself: it leaves no file, and ends with the process, however that ends.

    Raises UsageError where another process holds it, DataError where the folder cannot be made.
    """
    try:
        model_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot write {model_dir}: {error.strerror or error}") from None
    if fcntl is None:
        yield
        return
    folder = os.open(model_dir, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            _lock(folder, model_dir)
        yield
    finally:
        os.close(folder)


def _lock(folder: int, model_dir: Path) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"another process trains in {model_dir} now. Wait until it ends, or use another {opt('model_dir')}."
        ) from None
