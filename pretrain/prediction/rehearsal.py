"""A dry run of predictions: those of the first rows, in memory, for the time and the disk that all of them would take."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from nlpdata.output.estimate import Estimate, existing, peak_memory, sizes
from pretrain.prediction.inputs import Input
from pretrain.prediction.predictor import Predictor
from pretrain.prediction.rows import Asked
from pretrain.prediction.writing import ANSWER_FILES, is_standard_output, row_lines

ROWS = 256

Results = Callable[[Input, Predictor], Iterator[tuple[Asked, dict]]]
"""The predictions of an input."""


def rehearse(
    source: Input,
    predictor: Predictor,
    results: Results,
    format: str,
    input: Path,
    output: Path,
    reports: Sequence[Path] = (),
) -> Estimate:
    """What the predictions of an input would take; `records` has the number of rows where it is known, and estimated. The first
    rows are predicted twice, since the first time compiles.

    Raises what predicting these rows raises.
    """
    rows, windows = list(islice(source.rows, ROWS)), None
    if source.windows is not None:
        windows = list(islice(source.windows, ROWS))
    sample = windows or rows
    done = len(sample) if windows else rows[-1].line
    whole = len(sample) < ROWS
    scale = 1.0 if whole else None if source.total is None else max(source.total / done, 1.0)
    taken = []
    for _ in range(2):
        here = replace(source, rows=iter(rows), windows=None if windows is None else iter(windows))
        begun = time.monotonic()
        found = list(results(here, predictor))
        taken.append(time.monotonic() - begun)
    count, size = len(found), None
    if format != "squad" and scale is not None:
        _, lines_of = row_lines(predictor, format)
        size = sum(len(line.encode()) + 1 for asked, result in found for line in lines_of(asked.name, result))
        size = round(size * scale)
    names = [output / name for name in ANSWER_FILES] if format == "squad" else [output, *reports]
    return Estimate(
        sizes([input]) if input.is_file() else {},
        [str(name) for name in names],
        [] if is_standard_output(output) else existing(names),
        f"estimated from {'all' if whole else 'the first'} {count:,} rows"
        + ("; how many there are is not known" if scale is None else ""),
        {} if scale is None else {"rows": round(count * scale)},
        size,
        seconds=None if scale is None else taken[0] + taken[1] * (scale - 1),
        memory_bytes=peak_memory(),
    )
