"""A run of create_finetuning except its units of work: what is refused, read, checked, and put in place."""

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nlpdata.corpus import require_unchanged
from nlpdata.corpus.look import dropped_accents_of
from nlpdata.errors import RESUMES, DataError, Message
from nlpdata.files.paths import AnyPath
from nlpdata.files.writing import write_whole
from nlpdata.finetuning import stages
from nlpdata.finetuning.batches import ExamplesFile, Tally, label_warnings, no_rows, read_batches
from nlpdata.finetuning.datasets import Split
from nlpdata.finetuning.losses import losses
from nlpdata.finetuning.meta import meta_content
from nlpdata.finetuning.plan import FinetuningResult, Plan
from nlpdata.finetuning.squad import Paragraphs
from nlpdata.output import FinishedSet, OutputRun
from nlpdata.text import loss

_log = logging.getLogger(__name__)

_LOOKED_AT = 2000  # texts


@contextmanager
def _no_collection() -> Iterator[None]:
    """Reading without garbage collection: rows make no cycles, and looking for some would double the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Run(OutputRun):
    """A run of create-finetuning, in its work folder:

        with Run(plan, overwrite) as run:
            if run.is_made:            # by an equal run, which was interrupted while it put the files in place
                return run.complete()
            units = run.read()
            ...                        # an executor does the units: their results are in the work folder
            return run.finish(units)

    `folder` is where the units find and leave their files, if that is not the work folder.

    Raises UsageError where outputs exist or another run is at work, DataError where the disk refuses.
    """

    def __init__(self, plan: Plan, overwrite: bool, folder: AnyPath | None = None) -> None:
        super().__init__("create-finetuning", list(plan.targets.values()), overwrite, plan.key, plan.others(), folder)
        self._plan = plan
        self._tallies: dict[str, Tally] = {}
        self._warnings: list[str] = []

    def complete(self) -> FinetuningResult:
        """Completes the commit that an equal run had begun: there must be one."""
        decided = self.work.decided
        assert decided
        for line in decided.notes:
            _log.warning(line)
        return self._put_in_place(decided.sets, decided.notes)

    @property
    def setup(self) -> stages.Setup:
        return stages.Setup(self._plan.encoder, self.folder, self._plan.targets, self._plan.num_shards)

    def read(self, on_rows: Callable[[int], None] = lambda count: None) -> list[stages.BatchUnit]:
        """Checks the rows of all splits and leaves them as batches for the units, with the tokenizer's file.

        on_rows: is told of the rows (of SQuAD the questions) of each batch, for progress.
        """
        content = Path(self._plan.tokenizer.path).read_bytes()
        write_whole(self.folder / self._plan.tokenizer_file, content, durable=False)
        units: list[stages.BatchUnit] = []
        with _no_collection():
            for split in self._plan.splits:
                self._tallies[split.name] = Tally(self._plan.options.on_bad_row == "skip")
                units += self._read(split, self._tallies[split.name], len(units), on_rows)
        return units

    def _read(self, split: Split, tally: Tally, number: int, on_rows: Callable[[int], None]) -> list[stages.BatchUnit]:
        units: list[stages.BatchUnit] = []
        examples = None
        if self._plan.dataset.kind == "squad" and split.name != "train":
            examples = ExamplesFile(self.work.path / self._plan.examples_name(split.name))
        try:
            for batch in read_batches(self._plan.dataset, split, self._plan.options, tally):
                if not number + len(units):
                    self._tell_accents(batch.rows)
                units.append(stages.store_batch(self.folder, batch, number + len(units)))
                rows = batch.rows
                if examples and isinstance(rows, Paragraphs):
                    examples.add(rows)
                on_rows(len(rows.ids if isinstance(rows, Paragraphs) else rows))
        finally:
            if examples:
                examples.close()
        if not units:
            self.work.remove()
            raise no_rows(split, tally)
        for line in label_warnings(self._plan.dataset, split, tally, self._plan.options):
            self._warn(line)
        return units

    def _tell_accents(self, rows: Sequence) -> None:
        """What the tokenizer drops of the accents of the first rows' first texts (SQuAD: contexts)."""
        texts = rows.contexts if isinstance(rows, Paragraphs) else [row[0] for row in rows[:_LOOKED_AT]]
        if dropped := dropped_accents_of(texts[:_LOOKED_AT], self._plan.tokenizer.as_read):
            _log.info(Message(dropped))

    def _warn(self, line: str) -> None:
        self._warnings.append(line)
        _log.warning(line)

    def finish(self, units: Sequence[stages.BatchUnit]) -> FinetuningResult:
        """Puts the shards in place, the meta file last. DataError where the input has changed meanwhile."""
        with self.work.removed_on_refusal():
            require_unchanged(self._plan.files, self._plan.fingerprints)
        results = [self._result(unit) for unit in units]
        shards: dict[str, list[dict]] = {}
        counters = {}
        for split in self._plan.targets:
            own = [result for unit, result in zip(units, results, strict=True) if unit.split == split]
            names = self.setup.shard_names(split, sum(result["bytes"] for result in own))
            shards[split] = [self._stored(name) for name in names]
            counters[split] = self._counters(split, own)
            self._check_whole(split, shards[split], counters[split]["examples"])
        self._check_loss(counters)
        return self._put_in_place(self._finished_sets(shards, counters), self._warnings)

    def _put_in_place(self, sets: Sequence[FinishedSet], warnings: Sequence[str]) -> FinetuningResult:
        self.commit(sets, warnings)
        content = sets[0].meta
        files = {
            split: [str(target.folder / shard["file"]) for shard in content["shards"] if shard["split"] == split]
            for split, target in self._plan.targets.items()
        }
        folder = next(iter(self._plan.targets.values())).folder
        others = [str(folder / name) for name in self._plan.others()]
        return FinetuningResult(files, str(self._plan.meta), others, content["splits"], list(warnings))

    def _result(self, unit: stages.BatchUnit) -> dict:
        made = self._stored(f"{unit.name}.made")
        return made if "bytes" in made else made | self._stored(f"{unit.name}.encoded")

    def _stored(self, name: str) -> dict:
        found = self.work.result(name, self.folder)
        if found is None:
            raise DataError(
                f"{name} was not made: the runner lost a unit of work. Nothing was put in place. Run it again"
            )
        return found

    def _counters(self, split: str, results: Sequence[dict]) -> dict:
        tally = self._tallies[split]
        total = sum((Counter(result["counters"]) for result in results), tally.counters)
        names = self._plan.dataset.label_names
        labels = {names[number]: count for number, count in sorted(tally.labels.items())}
        return {
            **dict(sorted(total.items())),
            **({"labels": labels} if labels else {}),
            "examples": sum(result["records"] for result in results),
            "dropped": dict(sorted(tally.dropped.items())),
            "notes": dict(sorted(tally.notes.items())),
        }

    @staticmethod
    def _check_whole(split: str, shards: Sequence[dict], examples: int) -> None:
        """DataError for a runner that loses or repeats elements."""
        records = sum(info["records"] for info in shards)
        if records != examples:
            raise DataError(
                f"the runner lost or repeated data: {examples} examples of the {split} split were made, and {records} "
                "records written. Nothing was put in place. Run it again, and if it happens again use another runner"
            )

    def _check_loss(self, counters: dict[str, dict]) -> None:
        """Warns of text that was lost; DataError where that is most of a split's, unless this is meant."""
        options, tokenizer = self._plan.options, self._plan.tokenizer.meta()
        for split, own in counters.items():
            found = losses(split, own, options, tokenizer)
            loss.refuse(found, options.accept_loss, loss.PARTS_KEPT if self.left == RESUMES else loss.NOTHING_WRITTEN)
            for line in loss.warnings(found):
                self._warn(line)

    def _finished_sets(self, shards: dict[str, list[dict]], counters: dict[str, dict]) -> list[FinishedSet]:
        plan = self._plan
        encoder = stages.encoder_of(plan.encoder, plan.tokenizer)
        features = {split.name: encoder.features(split.name, split.labelled) for split in plan.splits}
        examples = {split: plan.examples_name(split) for split in plan.targets}
        examples = {split: name for split, name in examples.items() if (self.work.path / name).exists()}
        content = meta_content(
            plan.dataset,
            plan.splits,
            plan.options,
            plan.tokenizer,
            plan.tokenizer_file,
            features,
            shards,
            examples,
            counters,
        )
        sets = []
        for number, (split, target) in enumerate(plan.targets.items()):
            files = [self.folder / info["file"] for info in shards[split]]
            files += [self.folder / plan.tokenizer_file] if number == 0 else []
            files += [self.work.path / examples[split]] if split in examples else []
            sets.append(FinishedSet(target, files, content))
        return sets
