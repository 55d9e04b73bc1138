"""A run of create_finetuning but for its units, which an executor does: what is refused, read, and put in place."""

import gc
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nlpdata.corpus import fingerprint
from nlpdata.errors import BEGINS_ANEW, RESUMES, DataError, UsageError, opt
from nlpdata.files.paths import AnyPath, is_remote, path_of
from nlpdata.finetuning import stages
from nlpdata.finetuning.batches import ExamplesFile, Tally, label_warnings, read_batches
from nlpdata.finetuning.datasets import Dataset, Split, choose_splits, open_dataset
from nlpdata.finetuning.losses import losses
from nlpdata.finetuning.meta import meta_content
from nlpdata.finetuning.options import FinetuningOptions, FinetuningRequest
from nlpdata.output import FinishedSet, OutputSet, WorkFolder, check_output, commit, digest, output_set, store
from nlpdata.output.naming import QUESTIONS_SUFFIX
from nlpdata.records.contract import FORMAT_VERSION
from nlpdata.text import loss
from nlpdata.tokenizers import Tokenizer, load_tokenizer
from nlpdata.tokenizers.files import copy_name

_log = logging.getLogger(__name__)

# Pattern of the splits of all datasets: stems of record files that one meta file describes.
_SPLITS = "train|(dev|test)(_[A-Za-z-]+)?"


@dataclass(frozen=True)
class FinetuningResult:
    """What create_finetuning made: files by split, the meta file, its counters by split, and warnings."""

    files: dict[str, list[str]]
    meta: str
    counters: dict
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _InputFile:
    path: str
    name: str


@dataclass(frozen=True)
class Plan:
    """What is made of what. targets: the set of records of each split; all lie in one folder and share a meta file."""

    dataset: Dataset
    splits: tuple[Split, ...]
    options: FinetuningOptions
    tokenizer: Tokenizer
    tokenizer_file: str  # base name of its copy
    targets: dict[str, OutputSet]
    num_shards: int | None

    @cached_property
    def encoder(self) -> stages.EncoderSpec:
        return stages.EncoderSpec(
            self.options, self.tokenizer.spec, self.dataset.kind, len(self.dataset.labels or ()) or 1
        )

    @property
    def meta(self) -> Path:
        return next(iter(self.targets.values())).meta

    @cached_property
    def key(self) -> str:
        """Hash of all that decides about the result."""
        files = dict.fromkeys(path for split in self.splits for path in split.files)
        return digest(
            {
                "format": FORMAT_VERSION,
                "options": self.options.affecting_bytes(),
                "labels": self.dataset.labels,
                "splits": [[split, target.output] for split, target in self.targets.items()],
                "tokenizer": self.tokenizer.meta(),
                "inputs": [[str(path), fingerprint(_InputFile(str(path), path.name))] for path in files],
                "num_shards": self.num_shards,
            }
        )

    def examples_name(self, split: str) -> str:
        """Base name of the file with the questions of a split (squad)."""
        return f"{self.targets[split].stem}{QUESTIONS_SUFFIX}"

    def others(self) -> dict[str, bytes | None]:
        """Base names of what is written besides records and meta file, with their content if known."""
        content = Path(self.tokenizer.path).read_bytes()
        questions = [split.name for split in self.splits if self.dataset.kind == "squad" and split.name != "train"]
        return {self.tokenizer_file: content, **{self.examples_name(split): None for split in questions}}


def make_plan(request: FinetuningRequest) -> Plan:
    """Looks at the dataset, as far as it takes to know that the run can start. Raises UsageError, DataError."""
    input, chosen = request.input, request.options
    given = [input] if isinstance(input, str | Path) else list(input or [])
    if request.tokenizer is None:
        raise UsageError(f"{opt('tokenizer')} is missing, e.g. {opt('tokenizer', 'tok/spm.model')}.")
    named = {"train": request.train_output, "dev": request.dev_output, "test": request.test_output}
    names = _Names(request.output, request.meta, named)
    for path in filter(is_remote, [*given, chosen.dev_input, chosen.test_input]):
        raise UsageError(f"datasets are read from this machine. Received: {path}. Copy it here, and name the copy.")
    dataset = open_dataset([str(path) for path in given], chosen)
    splits = choose_splits(dataset, chosen.splits)
    if not splits:
        raise UsageError(f"{dataset.name}: nothing to make: the input holds no split.")
    loaded = load_tokenizer(
        request.tokenizer,
        do_lower_case=request.do_lower_case,
        keep_accents=request.keep_accents,
        digit_comma=request.digit_comma,
    )
    for line in dataset.warnings:
        _log.warning(line)
    for line in loaded.notes:
        _log.info(line)
    targets = {split.name: names.target(split.name) for split in splits}
    return Plan(dataset, splits, chosen, loaded, copy_name(names.stem, loaded.path), targets, request.num_shards)


class _Names:
    """Names of the files to write."""

    def __init__(self, folder: str | None, meta: str | None, named: dict[str, str | None]):
        given = {split: path for split, path in named.items() if path}
        if folder is None and not given:
            raise UsageError("--output is missing, e.g. --output out/mrpc (a folder).")
        if folder is not None and str(folder).endswith((".tfrecord", ".tf_record")):
            raise UsageError(f"--output names the folder of the record files, e.g. out/mrpc. Received: {folder!r}.")
        if folder is not None and path_of(folder).exists() and not path_of(folder).is_dir():
            raise UsageError(f"--output {folder} is a file; expected a folder.")
        self._folder = path_of(folder) if folder is not None else path_of(next(iter(given.values()))).parent
        other = [path for path in given.values() if path_of(path).parent != self._folder]
        if other:
            raise UsageError(f"all record files of one run lie in one folder. Received: {self._folder} and {other[0]}.")
        self._meta = path_of(meta) if meta else self._folder / "meta.json"
        self._named = given

    def target(self, split: str) -> OutputSet:
        """The record file of a split; a name that was given for `dev` is that of dev_matched as well."""
        base, _, rest = split.partition("_")
        name = self._named.get(base)
        if name and rest:
            path = path_of(name)
            name = str(path.with_name(f"{path.stem}_{rest}{path.suffix}"))
        return output_set(name or str(self._folder / f"{split}.tfrecord"), str(self._meta), _SPLITS, self.stem)

    @property
    def stem(self) -> str:
        """Of the tokenizer's copy."""
        return "" if self._meta == self._folder / "meta.json" else self._meta.stem


@contextmanager
def _no_collection():
    """Rows make no cycles, and to look for some among so many objects would double the time of reading them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Run:
    """The work on a plan, in its work folder:

        with Run(plan, overwrite) as run:
            if run.is_made:            # by an equal run, which was interrupted while it put the files in place
                return run.complete()
            parts = run.read()
            ...                        # an executor does the units: their results lie in the work folder
            return run.finish(parts)

    `folder` is where the units find and leave their files, if that is not the work folder.

    Raises UsageError where outputs exist or another run is at work, DataError where the disk refuses.
    """

    def __init__(self, plan: Plan, overwrite: bool, folder: AnyPath | None = None):
        self._plan = plan
        targets = list(plan.targets.values())
        check_output(targets, overwrite, plan.key, plan.others())
        self._resumes = folder is None  # a Beam job makes all parts anew
        self.work = WorkFolder(targets, plan.key, resumable=self._resumes)
        self._folder = folder or self.work.path
        self._tallies: dict[str, Tally] = {}
        self._warnings: list[str] = []

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self.work.close()
        if isinstance(error, OSError):
            where = f" ({error.filename})" if error.filename else ""
            raise DataError(
                f"create-finetuning ({self._folder}): {error.strerror or error}{where}. Nothing was put in place. "
                f"{RESUMES if self._resumes else BEGINS_ANEW}"
            ) from error

    @property
    def is_made(self) -> bool:
        return self.work.decided is not None

    def complete(self) -> FinetuningResult:
        """Completes the commit that an equal run had begun."""
        for line in self.work.decided.notes:
            _log.warning(line)
        return self._put_in_place(self.work.decided.sets, self.work.decided.notes)

    @property
    def setup(self) -> stages.Setup:
        return stages.Setup(self._plan.encoder, self._folder, self._plan.targets, self._plan.num_shards)

    def read(self) -> list[stages.Part]:
        """Checks the rows of all splits and leaves them as batches for the units, the tokenizer's file beside."""
        store(self._folder / self._plan.tokenizer_file, Path(self._plan.tokenizer.path).read_bytes())
        parts: list[stages.Part] = []
        with _no_collection():
            for split in self._plan.splits:
                self._tallies[split.name] = Tally(self._plan.options.on_bad_row == "skip")
                parts += self._read(split, self._tallies[split.name], len(parts))
        return parts

    def _read(self, split: Split, tally: Tally, number: int) -> list[stages.Part]:
        parts: list[stages.Part] = []
        examples = None
        if self._plan.dataset.kind == "squad" and split.name != "train":
            examples = ExamplesFile(self.work.path / self._plan.examples_name(split.name))
        for batch in read_batches(self._plan.dataset, split, self._plan.options, tally):
            parts.append(stages.store_batch(self._folder, batch, number + len(parts)))
            if examples:
                examples.add(batch.rows)
        if examples:
            examples.close()
        if not parts:
            dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.dropped.items()))
            self.work.remove()
            raise DataError(
                f"{split.files[0]}: no rows for the {split.name} split" + (f" (left out: {dropped})" if dropped else "")
            )
        for line in label_warnings(self._plan.dataset, split, tally, self._plan.options):
            self._warn(line)
        return parts

    def _warn(self, line: str) -> None:
        self._warnings.append(line)
        _log.warning(line)

    def finish(self, parts: Sequence[stages.Part]) -> FinetuningResult:
        """Puts the shards in place, the meta file last."""
        results = [self._result(part) for part in parts]
        shards: dict[str, list[dict]] = {}
        counters = {}
        for split in self._plan.targets:
            own = [result for part, result in zip(parts, results, strict=True) if part.split == split]
            names = self.setup.shard_names(split, sum(result["bytes"] for result in own))
            shards[split] = [self._stored(name) for name in names]
            counters[split] = self._counters(split, own)
            self._check_whole(split, shards[split], counters[split]["examples"])
        self._check_loss(counters)
        return self._put_in_place(self._finished_sets(shards, counters), self._warnings)

    def _put_in_place(self, sets: Sequence[FinishedSet], warnings: Sequence[str]) -> FinetuningResult:
        waiting = self.work.path if self._folder == self.work.path else None
        commit(sets, self._plan.key, waiting, warnings, self.work.found)  # in this process, also of a Beam job
        self.work.remove()
        content = sets[0].meta
        files = {
            split: [str(target.folder / shard["file"]) for shard in content["shards"] if shard["split"] == split]
            for split, target in self._plan.targets.items()
        }
        return FinetuningResult(files, str(self._plan.meta), content["splits"], list(warnings))

    def _result(self, part: stages.Part) -> dict:
        made = self._stored(f"{part.name}.made")
        return made if "bytes" in made else made | self._stored(f"{part.name}.encoded")

    def _stored(self, name: str) -> dict:
        found = self.work.result(name, self._folder)
        if found is None:
            raise DataError(
                f"{name} was not made: the runner lost a unit of work. Nothing was put in place. Run it again"
            )
        return found

    def _counters(self, split: str, results: Sequence[dict]) -> dict:
        tally = self._tallies[split]
        total = sum((Counter(result["counters"]) for result in results), tally.counters)
        names = self._plan.dataset.labels or ()
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
        """A runner that loses or repeats elements is found out."""
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
            loss.refuse(found, options.accept_loss, loss.PARTS_KEPT if self._resumes else loss.NOTHING_WRITTEN)
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
            files = [self._folder / info["file"] for info in shards[split]]
            files += [self._folder / plan.tokenizer_file] if number == 0 else []
            files += [self.work.path / examples[split]] if split in examples else []
            sets.append(FinishedSet(target, files, content))
        return sets
