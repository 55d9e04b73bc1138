"""Counts of units of work, which workers make, and which are added up."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from nlpdata.execution.executor import Progress, Report, default_workers, run_units
from nlpdata.reports.options import ReportRequest


def counted(
    function: Callable[[Any, Report], Any],
    units: Sequence[Any],
    set_up: Callable,
    setup: Any,
    progress: Progress,
    request: ReportRequest,
    describe: Callable[[Any], str],
) -> Iterator[tuple[Any, Any]]:
    """(unit, its counts) as units finish; see nlpdata.execution.executor.run_units. set_up: takes `setup` in each worker."""
    yield from run_units(
        function,
        units,
        workers=min(request.workers or default_workers(), max(len(units), 1)),
        initializer=set_up,
        initargs=(setup,),
        on_progress=progress,
        describe=describe,
        stage="reading",
    )
    progress.close()


def add_counts(counts: Any, other: Any) -> None:
    """Adds the fields of a dataclass of counts to those of another.

    Numbers, Counters, lists, and arrays of one shape, or none yet; dicts stay as they are.
    """
    for name, value in vars(other).items():
        own = getattr(counts, name)
        if isinstance(value, Counter):
            own.update(value)
        elif isinstance(value, np.ndarray):
            setattr(counts, name, own + value if len(own) and len(value) else own if len(own) else value)
        elif isinstance(value, list):
            own.extend(value)
        elif not isinstance(value, dict):
            setattr(counts, name, own + value)
