"""The stages of split-sentences, and what is planned between them.

    portions -> split -> [find equal documents] -> [find similar ones] -> [hash lines -> find equal lines] -> [leave out] -> shards

The units of a stage are a function of all results of the stages before it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nlpdata.corpus.splitting import repeats, units
from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.splitting.units import (
    EQUAL_DOCUMENT,
    EQUAL_LINE,
    SIMILAR_DOCUMENT,
    CompareUnit,
    LeftOut,
    RangeUnit,
    Setup,
    SplitUnit,
    TextUnit,
)
from nlpdata.corpus.types import Portion
from nlpdata.execution.executor import Report
from nlpdata.output import joining
from nlpdata.output.joining import Shard

Results = Mapping[str, Sequence[tuple[Any, dict]]]
"""Stage -> (unit, result) of all its units, in their order."""


class Stage(NamedTuple):
    """One pass of the command.

    Attributes:
      name: for progress and messages, and of its results.
      plan: its units, of the results of the stages before.
      work: does one unit in a worker that is set up.
    """

    name: str
    plan: Callable[[Setup, Results], list[Any]]
    work: Callable[[Any, Report], dict]


def stages_of(options: SplittingOptions, portions: Sequence[Portion]) -> list[Stage]:
    """The stages of a run, in their order."""
    stages = [Stage(SPLITTING, partial(_plan_splitting, tuple(portions)), units.split_portion)]
    if options.deduplicate_documents:
        stages.append(Stage(_EQUAL_DOCUMENTS, partial(_plan_ranges, SPLITTING, "documents"), units.find_range))
    if options.near_duplicates is not None:
        stages.append(Stage(_SIMILAR, _plan_comparison, units.compare))
    if options.deduplicate_lines:
        stages.append(Stage(_HASHING, partial(_plan_texts, "lines", False), units.hash_lines))
        stages.append(Stage(_EQUAL_LINES, partial(_plan_ranges, _HASHING, "lines"), units.find_range))
    if options.leaves_out_repeats:
        stages.append(Stage(LEAVING_OUT, partial(_plan_texts, "kept", True), units.leave_out))
    return [*stages, Stage(WRITING, plan_shards, units.write_shard)]


SPLITTING, LEAVING_OUT, WRITING = "splitting", "leaving out", "writing shards"
_EQUAL_DOCUMENTS, _SIMILAR = "finding equal documents", "finding similar documents"
_HASHING, _EQUAL_LINES = "hashing lines", "finding equal lines"


def _plan_splitting(portions: Sequence[Portion], setup: Setup, results: Results) -> list[SplitUnit]:
    return [SplitUnit(portion) for portion in portions]


def _plan_ranges(hashed: str, kind: str, setup: Setup, results: Results) -> list[RangeUnit]:
    files = [(portion, name) for portion, (_, result) in enumerate(results[hashed]) for name in result["runs"][kind]]
    ranges = repeats.plan_ranges(setup.folder, [name for _, name in files])
    return [RangeUnit(kind, number, slots, tuple(files)) for number, slots in enumerate(ranges)]


def _plan_comparison(setup: Setup, results: Results) -> list[CompareUnit]:
    split = results[SPLITTING]
    names = tuple(result["runs"]["signatures"][0] for _, result in split)
    equal = tuple(
        _left_out(EQUAL_DOCUMENT, results, SPLITTING, "documents", _EQUAL_DOCUMENTS, i) for i in range(len(split))
    )
    return [CompareUnit(names, equal)]


def _plan_texts(stage: str, with_lines: bool, setup: Setup, results: Results) -> list[TextUnit]:
    made = []
    for portion, (_, result) in enumerate(results[SPLITTING]):
        documents = (
            _left_out(EQUAL_DOCUMENT, results, SPLITTING, "documents", _EQUAL_DOCUMENTS, portion),
            _left_out(SIMILAR_DOCUMENT, results, "", "", _SIMILAR, portion),
        )
        lines = (_left_out(EQUAL_LINE, results, _HASHING, "lines", _EQUAL_LINES, portion),) if with_lines else ()
        counts = result["documents"], result["sentences"]
        made.append(TextUnit(stage, portion, result["file"], result["bytes"], counts, documents, lines))
    return made


def _left_out(reason: str, results: Results, hashed: str, kind: str, found: str, portion: int) -> LeftOut:
    """What two stages say of a portion; nothing of stages that the run does not have."""
    keys = results[hashed][portion][1]["runs"].get(kind, ()) if hashed in results else ()
    numbers = [name for _, result in results.get(found, ()) for name in result["runs"]["numbers"]]
    return LeftOut(reason, tuple(keys), tuple(numbers))


def finished_parts(results: Results) -> list[dict]:
    """The results of the units whose text is that of the shards."""
    return [result for _, result in results.get(LEAVING_OUT) or results[SPLITTING]]


def plan_shards(setup: Setup, results: Results) -> list[Shard]:
    """Shards of nearly equal size, cut between documents; the blank line behind the last document of each is left out."""
    parts = finished_parts(results)
    names = setup.target.shards(sum(part["bytes"] for part in parts), setup.num_shards)
    lengths = [np.frombuffer((setup.folder / part["runs"]["lengths"][0]).read_bytes(), "<i8") for part in parts]
    files = [part["file"] for part in parts]
    return [shard.without_last(1) for shard in joining.plan_shards(names, list(zip(files, lengths, strict=True)), True)]
