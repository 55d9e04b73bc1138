"""create_pretraining: corpus files -> shards of pretraining records and a meta file, on this machine.

Stages: (1) chunks of the corpus become keyed records in sorted runs; (2) next-sentence examples get their random
second segment, bucket by bucket; (3) runs are merged into shards; (4) the shards move into place, the meta file last.
Every finished task leaves a small result file, so an interrupted run goes on where it was.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nlpdata.corpus import CorpusFile, find_files, fingerprint, plan_chunks
from nlpdata.errors import DataError, UsageError
from nlpdata.local import Progress, default_workers, run_tasks
from nlpdata.output import OutputSet, WorkFolder, check_output, commit, output_set, set_files, work_key
from nlpdata.pretraining import random_next
from nlpdata.pretraining.build import SPLITS
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.pretraining.summary import corpus_warnings, dropped_by_reason, meta_content
from nlpdata.pretraining.tasks import Indexed, Setup, disk_errors, make_buckets, make_chunk, make_shard, set_up
from nlpdata.records import FORMAT_VERSION, record_stem, shard_names
from nlpdata.spill import Merge
from nlpdata.tokenizers import Tokenizer, load_tokenizer
from nlpdata.tokenizers.files import copy_name

SHARD_BYTES = 112 << 20  # records of a shard, unless their number is given
MIN_CHUNK_BYTES, MAX_CHUNK_BYTES = 1 << 20, 16 << 20
BUCKETS_BYTES = 4 << 20  # candidates of the buckets of a task; not of the workers either


@dataclass(frozen=True)
class CreationResult:
    """What create_pretraining made: files by split, the meta files, and the counters of the meta file."""

    files: dict[str, list[str]]
    meta: dict[str, str]
    counters: dict
    warnings: list[str] = field(default_factory=list)


def create_pretraining(
    input,
    output: str,
    tokenizer,
    *,
    meta: str | None = None,
    num_shards: int | None = None,
    workers: int | None = None,
    chunk_size: int | None = None,
    overwrite: bool = False,
    do_lower_case: bool | None = None,
    keep_accents: bool | None = None,
    digit_comma: bool | None = None,
    log: Callable[[str], None] | None = None,
    progress: bool = False,
    **options,
) -> CreationResult:
    """Makes pretraining records of text files.

    Args:
      input: paths or patterns (see nlpdata.corpus.find_files).
      output: the record file; `X` or `X.tfrecord`.
      tokenizer: a tokenizer file (see nlpdata.tokenizers.load_tokenizer).
      meta: the meta file, if not beside the records.
      num_shards: record files; default: one for each 112 MiB.
      workers: processes; default: one a core. Does not change the result, nor does `chunk_size` (input bytes a task).
      overwrite: replace an older result of the same name.
      do_lower_case, keep_accents, digit_comma: normalisation, if not as stored with the tokenizer.
      log: receives lines for the user.
      progress: show progress on standard error.
      options: see PretrainingOptions.

    Raises UsageError, DataError.
    """
    log = log or (lambda line: None)
    unknown = sorted(options.keys() - PretrainingOptions.__dataclass_fields__.keys())
    if unknown:
        raise UsageError(f"unknown option {unknown[0]!r}; known: {', '.join(PretrainingOptions.__dataclass_fields__)}")
    options = PretrainingOptions(**options)
    for name, value, low in (("workers", workers, 1), ("num-shards", num_shards, 1), ("chunk-size", chunk_size, 1)):
        if value is not None and value < low:
            raise UsageError(f"--{name} must be at least {low}. Received: {value}.")
    targets = _targets(output, meta, options)
    files, warnings = find_files([input] if isinstance(input, str | Path) else list(input))
    loaded = load_tokenizer(tokenizer, do_lower_case=do_lower_case, keep_accents=keep_accents, digit_comma=digit_comma)
    workers = workers or default_workers()
    if chunk_size is None:  # not of the workers: a run that was interrupted may go on with fewer
        share = sum(file.size for file in files) // (default_workers() * 8)
        chunk_size = min(max(share, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES)
    warnings += _older_eval_set(output, options)
    for line in [*warnings, *loaded.notes]:
        log(line)
    run = _Run(targets, files, loaded, options, num_shards, workers, chunk_size, log, progress)
    run.open_work_folder(overwrite)
    try:
        with disk_errors("create-pretraining", run.folder):
            return run.execute(warnings)
    finally:
        run.close()


def _targets(output: str, meta: str | None, options: PretrainingOptions) -> dict[str, OutputSet]:
    output = str(output)
    targets = {"train": output_set(output, meta)}
    if options.eval_fraction:
        suffix = output[len(str(record_stem(output))) :] or ".tfrecord"
        targets["eval"] = output_set(f"{record_stem(output)}.eval{suffix}")
    return targets


def _older_eval_set(output: str, options: PretrainingOptions) -> list[str]:
    """A warning, where an eval set of an older run would stay beside training records that may hold its documents."""
    left = [] if options.eval_fraction else set_files(output_set(f"{record_stem(output)}.eval.tfrecord"))
    if not left:
        return []
    return [f"{left[0]} is of another run, and its documents may be in the new training set: do not evaluate on it"]


class _Run:
    def __init__(
        self,
        targets,
        files: list[CorpusFile],
        tokenizer: Tokenizer,
        options,
        num_shards,
        workers,
        chunk_size,
        log,
        progress,
    ):
        self._targets, self._files, self._tokenizer, self._options = targets, files, tokenizer, options
        self._num_shards, self._workers, self._log, self._progress = num_shards, workers, log, progress
        self._chunks = plan_chunks(files, chunk_size, options.text_key, options.limit_documents)
        inputs = [[file.name, file.weight, fingerprint(file)] for file in files]
        plan = [[chunk.file.path, chunk.start, chunk.stop, chunk.max_documents] for chunk in self._chunks]
        self._key = {
            "format": FORMAT_VERSION,
            "options": options.affecting_bytes(),
            "tokenizer": tokenizer.meta(),
            "inputs": inputs,
            "plan": plan,
            "num_shards": num_shards,
        }
        self.folder = targets["train"].folder
        self._counters: Counter = Counter()
        self._runs: dict[str, list[str]] = {}

    def open_work_folder(self, overwrite: bool) -> None:
        """Refuses outputs that exist (UsageError), and finds or makes the work folder."""
        digest = work_key(self._key)
        check_output(list(self._targets.values()), overwrite, digest)
        self._work = WorkFolder(self._targets["train"], digest, self._log)

    def close(self) -> None:
        self._work.close()

    def execute(self, warnings: list[str]) -> CreationResult:
        self._make_chunks()
        if self._options.objective == "nsp":
            self._make_buckets()
        self._require_examples()
        shards = self._make_shards()
        meta = self._commit(shards)
        self._work.remove()
        found = corpus_warnings(self._counters)
        for line in found:
            self._log(f"warning: {line}")
        return CreationResult(
            {
                split: [str(self._targets[split].folder / info["file"]) for info in infos]
                for split, infos in shards.items()
            },
            {split: str(target.meta) for split, target in self._targets.items()},
            meta["train"]["counters"],
            [*warnings, *found],
        )

    def _stage(self, name, function, tasks, task_names, total, describe) -> list[dict]:
        """Runs the tasks that have no stored result yet; all results, in task order."""
        results = {i: self._stored(task_name) for i, task_name in enumerate(task_names)}
        left = [(i, task) for i, task in enumerate(tasks) if results[i] is None]
        progress = Progress(name, total, quiet=not self._progress)
        setup = Setup(self._options, self._tokenizer, self._work.path)
        if left:
            for (i, _), result in run_tasks(
                Indexed(function),
                left,
                workers=self._workers,
                initializer=set_up,
                initargs=(setup,),
                on_progress=progress,
                describe=lambda item: f"{describe(item[1])} ({name})",
            ):
                results[i] = result
        progress.close()
        return [results[i] for i in range(len(tasks))]

    def _stored(self, task_name: str) -> dict | None:
        """The stored result of a finished task, if the files that it names are whole."""
        result = self._work.result(task_name)
        if result is None:
            return None
        try:
            if "file" in result:
                path = self._work.path / result["file"]
                if not path.exists():  # it was moved into place already, before an interruption
                    return None
                if path.stat().st_size != result["bytes"]:
                    raise OSError(f"{path} is damaged: {path.stat().st_size} bytes instead of {result['bytes']}")
            Merge([self._work.path / run for runs in result.get("runs", {}).values() for run in runs])
        except OSError as error:
            self._log(f"{error}; it is made again.")
            return None
        return result

    def _collect(self, results: list[dict]) -> None:
        for result in results:
            longest = max(self._counters["longest_document"], result["counters"].pop("longest_document", 0))
            self._counters.update(result["counters"])
            self._counters["longest_document"] = longest
            for kind, runs in result["runs"].items():
                self._runs.setdefault(kind, []).extend(runs)

    def _make_chunks(self) -> None:
        index = {file.path: i for i, file in enumerate(self._files)}
        results = self._stage(
            "tokenizing",
            make_chunk,
            [(index[chunk.file.path], chunk) for chunk in self._chunks],
            [f"chunk-{chunk.index:06d}" for chunk in self._chunks],
            sum(file.size for file in self._files),
            lambda task: f"{task[1].file.path}, bytes {task[1].start}-{task[1].stop or 'end'}",
        )
        self._collect(results)

    def _make_buckets(self) -> None:
        tasks = []
        by_file = self._options.nsp_scope == "file"
        for split in SPLITS:
            candidates = self._runs.get(f"candidates-{split}", [])
            waiting = self._runs.get(f"waiting-{split}", [])
            merge = Merge([self._work.path / run for run in candidates])
            buckets = random_next.plan_buckets(merge.histogram(random_next.slot_shift(by_file)), by_file)
            for low, _, documents in buckets:
                if documents < 2:
                    self._refuse_lone_document(split, low >> 44 if by_file else None)
            for group in random_next.group_buckets(buckets, -(-merge.bytes // BUCKETS_BYTES)):
                tasks.append((len(tasks), split, group, candidates, waiting))
        names = [f"bucket-{i:06d}" for i in range(len(tasks))]
        results = self._stage(
            "random segments", make_buckets, tasks, names, len(tasks), lambda task: f"bucket {task[0]}"
        )
        self._collect(results)

    def _refuse_lone_document(self, split: str, file_index: int | None) -> None:
        self._work.remove()
        where, hint = "the corpus", "a blank line separates documents"
        if self._options.eval_fraction:
            where, hint = f"the {split} split", f"{'raise' if split == 'eval' else 'lower'} or drop --eval-fraction"
        if file_index is not None:
            where, hint = self._files[file_index].path, "use --nsp-scope corpus"
        raise DataError(
            f"next-sentence prediction takes a random second segment from another document, and {where} has only one "
            f"document: {hint}; or use --objective sop or none"
        )

    def _require_examples(self) -> None:
        for split in self._targets:
            if self._counters[f"examples_{split}"]:
                continue
            self._work.remove()
            dropped = ", ".join(f"{count} {reason}" for reason, count in dropped_by_reason(self._counters).items())
            documents, fraction = self._counters["documents"], self._options.eval_fraction
            other = next((name for name in self._targets if self._counters[f"examples_{name}"]), None)
            if other:  # the text is fine, its division is not
                advice = f"--eval-fraction {fraction} gave it {self._counters[f'documents_{split}']} documents: "
                advice += "raise it, or drop it" if split == "eval" else "lower it"
            else:
                advice = "Expected one sentence a line and a blank line between documents"
                if self._options.objective == "sop":
                    advice += " (sentence order needs documents of two or more)"
            raise DataError(
                f"no examples for the {split} split: read {documents} documents with "
                f"{self._counters['sentences']} sentences" + (f", dropped {dropped}" if dropped else "") + f". {advice}"
            )

    def _make_shards(self) -> dict[str, list[dict]]:
        tasks, names, total = [], [], 0
        for split, target in self._targets.items():
            runs = self._runs[f"records-{split}"]
            size = Merge([self._work.path / run for run in runs]).bytes
            total += size
            count = self._num_shards if self._num_shards and split == "train" else -(-size // SHARD_BYTES)
            for i, name in enumerate(shard_names(target.output, count)):
                names.append(Path(name).name)
                tasks.append((split, i, count, Path(name).name, runs))
        results = self._stage("writing shards", make_shard, tasks, names, total, lambda task: task[3])
        shards: dict[str, list[dict]] = {split: [] for split in self._targets}
        for task, info in zip(tasks, results, strict=True):
            shards[task[0]].append(info)
        return shards

    def _commit(self, shards: dict[str, list[dict]]) -> dict[str, dict]:
        metas, sets = {}, []
        for split, target in self._targets.items():
            copy = self._work.path / copy_name(target.stem, self._tokenizer.path)
            shutil.copyfile(self._tokenizer.path, copy)
            metas[split] = meta_content(
                split, self._options, self._tokenizer, copy.name, shards[split], self._files, self._counters
            )
            finished = [self._work.path / info["file"] for info in shards[split]]
            sets.append((target, finished, [copy], metas[split]))
        commit(sets, work_key(self._key))
        return metas
