"""split_sentences: raw documents -> text files of one sentence a line, and a JSON file about them, on this machine.

Each stage is a pass over units of work (see stages.py). Every finished unit leaves a small result file, so an interrupted run
resumes where it was. At the end the text files move into place, the JSON file last.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from nlpdata.corpus.source import require_unchanged
from nlpdata.corpus.splitting import stages
from nlpdata.corpus.splitting.options import LocalSplittingRequest
from nlpdata.corpus.splitting.plan import (
    Plan,
    SplittingResult,
    make_plan,
    meta_content,
    require_documents,
    result_warnings,
    totals,
)
from nlpdata.corpus.splitting.units import Setup, set_up
from nlpdata.errors import DataError
from nlpdata.execution.executor import default_workers, run_stage
from nlpdata.files.paths import AnyPath
from nlpdata.options import takes
from nlpdata.output import FinishedSet, OutputRun

_log = logging.getLogger(__name__)

Work = Callable[[stages.Stage, list[Any], list[dict | None]], list[dict]]
"""Does the units of a stage that have no result yet; all results, in the order of the units."""


@takes(LocalSplittingRequest)
def split_sentences(request: LocalSplittingRequest) -> SplittingResult:
    """Splits raw documents into sentences: `output` (in shards where it is large), and `<stem>.sentences.json`.

    Raises UsageError, DataError.
    """
    return split_plan(make_plan(request), request.overwrite, request.workers or default_workers(), request.progress)


def split_plan(plan: Plan, overwrite: bool, workers: int, progress: bool) -> SplittingResult:
    """Does what a plan says, in processes of this machine."""
    with Run(plan, overwrite) as run:

        def work(stage: stages.Stage, units: list[Any], results: list[dict | None]) -> list[dict]:
            sizes = [unit.size for unit in units]
            return run_stage(
                stage.name,
                stage.work,
                units,
                results,
                workers=workers,
                initializer=set_up,
                initargs=(run.setup,),
                total=sum(sizes),
                describe=_place,
                quiet=not progress,
                sizes=sizes,
            )

        return run.complete() if run.is_made else run.finish(run.results(work))


def _place(unit: Any) -> str:
    return getattr(unit, "place", unit.name)


class Run(OutputRun):
    """A run of split-sentences except its units of work, in its work folder.

        with Run(plan, overwrite) as run:
            if run.is_made:            # by an equal run, which was interrupted while it put the files in place
                return run.complete()
            return run.finish(run.results(work))

    `folder` is where the units find and leave their files, if that is not the work folder.

    Raises UsageError where outputs exist or another run is at work, DataError where the disk refuses.
    """

    def __init__(self, plan: Plan, overwrite: bool, folder: AnyPath | None = None) -> None:
        super().__init__("split-sentences", [plan.target], overwrite, plan.key, folder=folder)
        self._plan = plan

    @property
    def setup(self) -> Setup:
        return setup_of(self._plan, self.folder, self.left)

    def results(self, work: Work) -> stages.Results:
        """The results of all stages, one stage after the other."""
        self.require_input()
        found: dict[str, Sequence[tuple[Any, dict]]] = {}
        for stage in stages.stages_of(self._plan.options, self._plan.portions):
            units = stage.plan(self.setup, found)
            results = work(stage, units, [self._stored(unit.name) for unit in units])
            found[stage.name] = list(zip(units, results, strict=True))
            if stage.name == stages.LEAVING_OUT or (
                stage.name == stages.SPLITTING and not self._plan.options.leaves_out_repeats
            ):
                self._require_documents(found)
        return found

    def require_input(self) -> None:
        """DataError where all files are empty: there is no unit of work."""
        if not self._plan.portions:
            self.work.remove()
            require_documents({"documents": {"read": 0, "written": 0}}, len(self._plan.files))

    def _stored(self, name: str) -> dict | None:
        """The stored result of a finished unit, if its files are there."""
        result = self.work.result(name, self.folder)
        files = [file for names in (result or {}).get("runs", {}).values() for file in names]
        return result if all((self.folder / file).exists() for file in files) else None

    def stored(self, stage: stages.Stage, units: list[Any], results: list[dict | None]) -> list[dict]:
        """A Work for a job that has done all units. DataError where one has no result."""
        for unit, result in zip(units, results, strict=True):
            if result is None:
                raise DataError(
                    f"{unit.name} was not made: the runner lost a unit of work. Nothing was put in place. Run it again"
                )
        return [result for result in results if result is not None]

    def _require_documents(self, results: stages.Results) -> None:
        """What is left out is left out again the next time: the finished parts of a run without text are of no use."""
        with self.work.removed_on_refusal():
            require_documents(self._counters(results), len(self._plan.files))

    def _counters(self, results: stages.Results) -> dict:
        split, dropped = (
            [result["counters"] for _, result in results.get(name, ())]
            for name in (stages.SPLITTING, stages.LEAVING_OUT)
        )
        return totals(stages.finished_parts(results), split, dropped)

    def finish(self, results: stages.Results) -> SplittingResult:
        """Puts the text files in place, the JSON file last. DataError where the input has changed meanwhile."""
        with self.work.removed_on_refusal():
            require_unchanged(self._plan.files, self._plan.fingerprints)
        shards, counters = [result for _, result in results[stages.WRITING]], self._counters(results)
        files = [self.folder / info["file"] for info in shards]
        finished = FinishedSet(self._plan.target, files, meta_content(self._plan, shards, counters))
        return self._put_in_place([finished], result_warnings(counters, self._plan.options))

    def complete(self) -> SplittingResult:
        """Completes the commit that an equal run had begun: there must be one."""
        decided = self.work.decided
        assert decided
        return self._put_in_place(decided.sets, decided.notes)

    def _put_in_place(self, sets: Sequence[FinishedSet], warnings: Sequence[str]) -> SplittingResult:
        self.commit(sets, warnings)
        for line in warnings:
            _log.warning(line)
        content, target = sets[0].meta, self._plan.target
        files = [str(target.folder / shard["file"]) for shard in content["shards"]]
        return SplittingResult(files, str(target.meta), content["counters"], [*self._plan.warnings, *warnings])


def setup_of(plan: Plan, folder: AnyPath, left: str) -> Setup:
    """What workers are sent."""
    return Setup(plan.options, folder, plan.target, plan.num_shards, len(plan.portions), left)
