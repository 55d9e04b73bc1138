"""What the first host does for all: it says what is the same on all of them, and makes files, in a folder that all see.

How others know that it is at work: it changes a file there.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from nlpdata.cli.messages import warnings_alone
from nlpdata.errors import DataError
from nlpdata.execution.executor import duration
from pretrain.settings.schema import RuntimeConfig
from pretrain.training.checkpoints.waiting import POLL_SECONDS
from pretrain.training.engines.cluster import has_several_hosts, is_chief

_log = logging.getLogger(__name__)

BEAT_SECONDS = 5.0
SILENT_SECONDS = 180.0  # a network file system may show a change a minute later
_SIGNS = ".at-work"  # of the first host
_OF_EACH_HOST = ("pretrain.training.engines", __name__)  # loggers of what a host says of itself


def said_by_first_host(runtime: RuntimeConfig) -> contextlib.AbstractContextManager:
    """In it other hosts than the first say what concerns them alone, and warnings: all else is the same on all hosts."""
    if is_chief(runtime, os.environ):
        return contextlib.nullcontext()
    return warnings_alone("pretrain", but=_OF_EACH_HOST)


@contextlib.contextmanager
def first_host(runtime: RuntimeConfig, folder: Path, works: bool) -> Iterator["FirstHost | None"]:
    """None on the host that makes the files of a folder, which shows that it is at work; on others, what they see of it.

    works: whether there is something to make.
    """
    signs = folder / _SIGNS
    if not works or not has_several_hosts(runtime):
        yield None
    elif is_chief(runtime, os.environ):
        with showing_signs(signs):
            yield None
    else:
        yield FirstHost(signs, runtime.host_timeout)


@contextlib.contextmanager
def showing_signs(path: Path) -> Iterator[None]:
    """On the first host: while it lasts, the file changes every few seconds; then it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = threading.Event()

    def show() -> None:
        while True:
            with contextlib.suppress(OSError):  # of a full disk the work itself tells
                path.write_text(str(time.time_ns()))
            if done.wait(BEAT_SECONDS):
                return

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


class FirstHost:
    """The first host, as another one sees it.

    Args:
      path: the file of `showing_signs`; what an earlier run has left there is not a sign.
      limit: seconds within which it must begin (runtime.host_timeout).
    """

    def __init__(self, path: Path, limit: float) -> None:
        self._path, self._limit = path, limit
        self._last, self._since, self._has_begun = _content(path), time.monotonic(), False

    def wait(self, made: str, is_made: Callable[[], bool]) -> None:
        """Returns when the first host has made it. DataError where it has not begun within the limit, or has ended.

        made: what it makes, for messages, e.g. "run1/records/train.tfrecord".
        """
        if is_made():
            return
        _log.info(
            f"waiting for the first host to make {made}, which it must begin within {duration(self._limit)} "
            "(runtime.host_timeout)"
        )
        while not is_made():
            self._check(f"the first host was to make {made}")
            time.sleep(POLL_SECONDS)

    def _check(self, task: str) -> None:
        found = _content(self._path)
        if found != self._last:
            self._last, self._since, self._has_begun = found, time.monotonic(), True
        silent = time.monotonic() - self._since
        if self._has_begun and silent > SILENT_SECONDS:
            raise DataError(
                f"{task}, and has given no sign of life for {duration(silent)}: it has ended. Its own "
                "messages say why; then run the command on all hosts again, which resumes"
            )
        if not self._has_begun and silent > self._limit:
            raise DataError(
                f"{task}, and has not begun within {duration(self._limit)} (runtime.host_timeout). Does it "
                "run, with the same model_dir, which all hosts must see? Run the command on all hosts again"
            )


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:  # not there, or being replaced
        return ""
