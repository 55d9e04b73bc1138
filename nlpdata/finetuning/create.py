"""create_finetuning: a dataset -> record files of its splits and one meta file, on this machine.

Stages: (1) the source is read and checked, and lies in the work folder as chunks of rows; (2) chunks become records
(for SQuAD in two steps, since a window's number depends on all windows before); (3) records are joined to shards in
the order of the source; (4) the files move into place, the meta file last. An interrupted run goes on where it was.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nlpdata.corpus import fingerprint
from nlpdata.errors import DataError, UsageError
from nlpdata.finetuning import tasks
from nlpdata.finetuning.chunks import ExamplesFile, Tally, read_chunks
from nlpdata.finetuning.datasets import Dataset, Split, choose_splits, open_dataset
from nlpdata.finetuning.meta import meta_content
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.local import default_workers, run_stage
from nlpdata.options import check_range, from_keywords
from nlpdata.output import OutputSet, WorkFolder, check_output, commit, output_set, work_key
from nlpdata.records import FORMAT_VERSION
from nlpdata.tokenizers import Tokenizer, load_tokenizer
from nlpdata.tokenizers.files import copy_name


@dataclass(frozen=True)
class FinetuningResult:
    """What create_finetuning made: files by split, the meta file, its counters by split, and warnings."""

    files: dict[str, list[str]]
    meta: str
    counters: dict
    warnings: list[str] = field(default_factory=list)


def create_finetuning(
    input=None,
    output: str | None = None,
    tokenizer=None,
    *,
    meta: str | None = None,
    train_output: str | None = None,
    dev_output: str | None = None,
    test_output: str | None = None,
    num_shards: int | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    do_lower_case: bool | None = None,
    keep_accents: bool | None = None,
    digit_comma: bool | None = None,
    log: Callable[[str], None] | None = None,
    progress: bool = False,
    **options,
) -> FinetuningResult:
    """Makes fine-tuning records of a dataset: `output`/{train,dev,test}.tfrecord and `output`/meta.json.

    Args:
      input: the dataset's folder or file (see the module of its family), or several paths where it takes them.
      output: the folder of the records.
      tokenizer: a tokenizer file (see nlpdata.tokenizers.load_tokenizer).
      meta: the meta file, if not `output`/meta.json.
      train_output, dev_output, test_output: record files, if not under the standard names; all in one folder.
      num_shards: record files of the training split; default: one for each 112 MiB.
      workers: processes; default: one a core. Does not change the result.
      overwrite: replace an older result.
      do_lower_case, keep_accents, digit_comma: normalisation, if not as stored with the tokenizer.
      log: receives lines for the user.
      progress: show progress on standard error.
      options: see FinetuningOptions; `task` or `tfds` is one of them.

    Raises UsageError, DataError.
    """
    log = log or (lambda line: None)
    given = [input] if isinstance(input, str | Path) else list(input or [])
    chosen = from_keywords(FinetuningOptions, options)
    for name, value in (("workers", workers), ("num-shards", num_shards)):
        check_range(name, value, 1, None)
    if tokenizer is None:
        raise UsageError("--tokenizer is missing, e.g. --tokenizer tok/spm.model.")
    outputs = _Outputs(output, meta, {"train": train_output, "dev": dev_output, "test": test_output})
    dataset = open_dataset([str(path) for path in given], chosen)
    splits = choose_splits(dataset, chosen.splits)
    if not splits:
        raise UsageError(f"{dataset.name}: nothing to make: the input holds no split.")
    loaded = load_tokenizer(tokenizer, do_lower_case=do_lower_case, keep_accents=keep_accents, digit_comma=digit_comma)
    for line in [*dataset.warnings, *loaded.notes]:
        log(line)
    run = _Run(outputs, dataset, splits, loaded, chosen, num_shards, workers or default_workers(), log, progress)
    run.open_work_folder(overwrite)
    try:
        return run.execute()
    except OSError as error:
        raise DataError(
            f"create-finetuning: {error.strerror or error}" + (f" ({error.filename})" if error.filename else "")
        ) from error
    finally:
        run.close()


class _Outputs:
    """Names of the files to write."""

    def __init__(self, folder: str | None, meta: str | None, named: dict[str, str | None]):
        given = {split: path for split, path in named.items() if path}
        if folder is None and "train" not in given and not given:
            raise UsageError("--output is missing, e.g. --output out/mrpc (a folder).")
        if folder is not None and Path(folder).suffix in (".tfrecord", ".tf_record"):
            raise UsageError(f"--output names the folder of the record files, e.g. out/mrpc. Received: {folder!r}.")
        if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
            raise UsageError(f"--output {folder} is a file; expected a folder.")
        self.folder = Path(folder) if folder is not None else Path(next(iter(given.values()))).parent
        other = [path for path in given.values() if Path(path).parent != self.folder]
        if other:
            raise UsageError(f"all record files of one run lie in one folder. Received: {self.folder} and {other[0]}.")
        self.meta = Path(meta) if meta else self.folder / "meta.json"
        self._named = given

    def target(self, split: str) -> OutputSet:
        """The record file of a split; a name that was given for `dev` is that of dev_matched as well."""
        base, _, rest = split.partition("_")
        name = self._named.get(base)
        if name and rest:
            path = Path(name)
            name = str(path.with_name(f"{path.stem}_{rest}{path.suffix}"))
        return output_set(name or str(self.folder / f"{split}.tfrecord"), str(self.meta))

    @property
    def stem(self) -> str:
        """Of the tokenizer's copy."""
        return "" if self.meta == self.folder / "meta.json" else self.meta.stem


@dataclass(frozen=True)
class _InputFile:
    path: str
    name: str


class _Run:
    def __init__(
        self,
        outputs: _Outputs,
        dataset: Dataset,
        splits: Sequence[Split],
        tokenizer: Tokenizer,
        options: FinetuningOptions,
        num_shards: int | None,
        workers: int,
        log: Callable[[str], None],
        progress: bool,
    ):
        self._outputs, self._dataset, self._splits, self._tokenizer = outputs, dataset, splits, tokenizer
        self._options, self._num_shards, self._workers = options, num_shards, workers
        self._log, self._progress = log, progress
        self._targets = {split.name: outputs.target(split.name) for split in splits}
        self._recipe = tasks.Recipe(options, tokenizer.spec, dataset.kind, len(dataset.labels or ()) or 1)
        files = dict.fromkeys(path for split in splits for path in split.files)
        self._key = work_key(
            {
                "format": FORMAT_VERSION,
                "options": options.affecting_bytes(),
                "labels": dataset.labels,
                "splits": [[split.name, self._targets[split.name].output] for split in splits],
                "tokenizer": tokenizer.meta(),
                "inputs": [[str(path), fingerprint(_InputFile(str(path), path.name))] for path in files],
                "num_shards": num_shards,
            }
        )
        self._warnings: list[str] = []

    def open_work_folder(self, overwrite: bool) -> None:
        """Refuses outputs that exist (UsageError), and finds or makes the work folder."""
        targets = list(self._targets.values())
        check_output(targets, overwrite, self._key)
        self._work = WorkFolder(targets[0], self._key, self._log)

    def close(self) -> None:
        self._work.close()

    def execute(self) -> FinetuningResult:
        tallies, parts = {}, {}
        for split in self._splits:
            tallies[split.name] = Tally(self._options.on_bad_row == "skip", self._log)
            parts[split.name] = self._read(split, tallies[split.name])
        everything = [part for own in parts.values() for part in own]
        made = self._stage("encoding", tasks.make_columns, everything, ".made")
        if tasks.make_encoder(self._recipe).numbered:
            everything = self._numbered(everything, made)
            numbered = self._stage("numbering", tasks.number_records, everything, ".numbered")
            made = [first | second for first, second in zip(made, numbered, strict=True)]
        shards, counters = self._shards(parts, dict(zip(everything, made, strict=True)), tallies)
        content = self._commit(shards, counters)
        self._work.remove()
        for line in self._warnings:
            self._log(f"warning: {line}")
        files = {
            split: [str(self._targets[split].folder / info["file"]) for info in infos]
            for split, infos in shards.items()
        }
        return FinetuningResult(files, str(self._outputs.meta), content["splits"], self._warnings)

    def _read(self, split: Split, tally: Tally) -> list[tasks.Part]:
        """Checks a split's rows and leaves them as chunks in the work folder."""
        parts = []
        examples = None
        if self._dataset.kind == "squad" and split.name != "train":
            examples = ExamplesFile(self._work.path / self._examples_name(split.name))
        for chunk in read_chunks(self._dataset, split, self._options.label_separator, tally):
            name = f"{split.name}-{chunk.number:06d}"
            tasks.store_chunk(self._work.path, name, chunk)
            parts.append(tasks.Part(name, split.name, split.labelled, len(chunk.rows)))
            if examples:
                examples.add(chunk.rows)
        if examples:
            examples.close()
        if not parts:
            dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.dropped.items()))
            self._work.remove()
            raise DataError(
                f"{split.files[0]}: no rows for the {split.name} split" + (f" (left out: {dropped})" if dropped else "")
            )
        if len(tally.labels) == 1 and tally.counters["rows_used"] > 1 and split.name == "train":
            name = self._dataset.labels[next(iter(tally.labels))]
            self._warnings.append(
                f"{split.files[0]}: all {tally.counters['rows_used']} training rows have the label {name!r}"
            )
        return parts

    def _examples_name(self, split: str) -> str:
        return f"{self._targets[split].stem}.examples.jsonl.gz"

    def _stage(self, name: str, function, items: list, suffix: str) -> list[dict]:
        """Runs the tasks that have no stored result yet; all results, in their order."""
        return run_stage(
            name,
            function,
            items,
            [self._work.result(f"{item.name}{suffix}") for item in items],
            workers=self._workers,
            initializer=tasks.set_up,
            initargs=(tasks.Setup(self._recipe, self._work.path),),
            total=sum(getattr(item, "size", 1) for item in items),
            describe=lambda item: item.name,
            quiet=not self._progress,
        )

    @staticmethod
    def _numbered(parts: list[tasks.Part], made: list[dict]) -> list[tasks.Part]:
        """The parts with the number of records of their split before them."""
        before: Counter = Counter()
        numbered = []
        for part, result in zip(parts, made, strict=True):
            numbered.append(replace(part, first=before[part.split]))
            before[part.split] += result["records"]
        return numbered

    def _shards(self, parts, made: dict, tallies: dict[str, Tally]) -> tuple[dict[str, list[dict]], dict[str, dict]]:
        """Joins the records of each split to shards; and the counters of each split."""
        plans, counters = {}, {}
        for split, target in self._targets.items():
            results = [result for part, result in made.items() if part.split == split]
            size = sum(result["bytes"] for result in results)
            names = target.shards(size, self._num_shards if split == "train" else None)
            plans[split] = tasks.plan_shards(self._work.path, names, parts[split])
            total = sum((Counter(result["counters"]) for result in results), tallies[split].counters)
            counters[split] = {
                **dict(sorted(total.items())),
                "examples": sum(result["records"] for result in results),
                "dropped": dict(sorted(tallies[split].dropped.items())),
                "notes": dict(sorted(tallies[split].notes.items())),
            }
        done = iter(self._stage("writing shards", tasks.make_shard, [s for plan in plans.values() for s in plan], ""))
        return {split: [next(done) for _ in plan] for split, plan in plans.items()}, counters

    def _commit(self, shards: dict[str, list[dict]], counters: dict[str, dict]) -> dict:
        path = self._tokenizer.path
        copy = self._work.path / copy_name(self._outputs.stem, path)
        shutil.copyfile(path, copy)
        features = {
            split.name: tasks.make_encoder(self._recipe).features(split.name, split.labelled) for split in self._splits
        }
        examples = {
            split: self._examples_name(split)
            for split in self._targets
            if (self._work.path / self._examples_name(split)).exists()
        }
        content = meta_content(
            self._dataset, self._splits, self._options, self._tokenizer, copy.name, features, shards, examples, counters
        )
        sets = []
        for number, (split, target) in enumerate(self._targets.items()):
            extra = [copy] if number == 0 else []
            if split in examples:
                extra.append(self._work.path / examples[split])
            sets.append((target, [self._work.path / info["file"] for info in shards[split]], extra, content))
        commit(sets, self._key)
        return content
