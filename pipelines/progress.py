"""Progress of steps that run in the command's own process (DirectRunner in memory)."""

from collections.abc import Iterator
from contextlib import contextmanager

from nlpdata.execution.executor import Progress
from pipelines import watching

_show: Progress | None = None
_done = 0


def report(count: int) -> None:
    """Adds input bytes that a step has read. Ends the step of a job that is given up."""
    global _done
    watching.check()
    _done += count
    if _show is not None:
        _show(_done)


@contextmanager
def shown(show: Progress) -> Iterator[None]:
    """Shows what steps report while the context lasts; `show` is a nlpdata.execution.executor.Progress."""
    global _show, _done
    _show, _done = show, 0
    try:
        yield
    finally:
        _show = None
        show.close()
