"""What a run of create_finetuning will do, decided before it starts: the same for every executor."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nlpdata.corpus import CorpusFile, fingerprint
from nlpdata.errors import UsageError, opt
from nlpdata.files import PathName
from nlpdata.files.paths import AnyPath, is_remote, path_of
from nlpdata.files.patterns import as_names
from nlpdata.finetuning import stages
from nlpdata.finetuning.datasets import SPLIT_NAMES, Dataset, Split, choose_splits, open_dataset
from nlpdata.finetuning.options import FinetuningOptions, FinetuningRequest
from nlpdata.output import OutputSet, digest, output_set
from nlpdata.output.naming import QUESTIONS_SUFFIX
from nlpdata.records.contract import FORMAT_VERSION
from nlpdata.tokenizers import Tokenizer, load_tokenizer
from nlpdata.tokenizers.files import copy_name

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FinetuningResult:
    """What create_finetuning made.

    Attributes:
      files: record files by split.
      meta: the meta file.
      others: the copy of the tokenizer, and of SQuAD the questions.
      counters: the meta file's entry of each split.
      warnings: those that were logged.
    """

    files: dict[str, list[str]]
    meta: str
    others: list[str]
    counters: dict
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Attributes:
      dataset, splits: the source, and its splits to be made.
      options: that decide how rows become records.
      tokenizer: the loaded one.
      tokenizer_file: base name of its copy next to the records.
      targets: the set of records of each split; all are in one folder and share a meta file.
      num_shards: record files of the training split; None: by size.
    """

    dataset: Dataset
    splits: tuple[Split, ...]
    options: FinetuningOptions
    tokenizer: Tokenizer
    tokenizer_file: str
    targets: dict[str, OutputSet]
    num_shards: int | None

    @cached_property
    def encoder(self) -> stages.EncoderSpec:
        return stages.EncoderSpec(self.options, self.tokenizer.spec, self.dataset.kind, self.dataset.num_labels)

    @property
    def meta(self) -> AnyPath:
        return next(iter(self.targets.values())).meta

    @cached_property
    def files(self) -> list[CorpusFile]:
        """The files that are read, each once."""
        paths = dict.fromkeys(path for split in self.splits for path in split.files)
        return [CorpusFile(str(path), path.name, 0, 0, "none") for path in paths]

    @cached_property
    def fingerprints(self) -> list[str]:
        """Of the files, as they are when they are asked for first."""
        return [fingerprint(file) for file in self.files]

    @cached_property
    def key(self) -> str:
        """Hash of all that decides about the result."""
        return digest(
            {
                "format": FORMAT_VERSION,
                "options": self.options.affecting_bytes(),
                "labels": self.dataset.labels,
                "splits": [[split, target.output] for split, target in self.targets.items()],
                "tokenizer": self.tokenizer.meta(),
                "inputs": [[file.path, content] for file, content in zip(self.files, self.fingerprints, strict=True)],
                "num_shards": self.num_shards,
            }
        )

    def examples_name(self, split: str) -> str:
        """Base name of the file with the questions of a split (squad)."""
        return f"{self.targets[split].stem}{QUESTIONS_SUFFIX}"

    def others(self) -> dict[str, bytes | None]:
        """Base names of the files that are written next to records and meta file, with their content if known."""
        content = Path(self.tokenizer.path).read_bytes()
        questions = [split.name for split in self.splits if self.dataset.kind == "squad" and split.name != "train"]
        return {self.tokenizer_file: content, **{self.examples_name(split): None for split in questions}}


def make_plan(request: FinetuningRequest) -> Plan:
    """Looks at the dataset, as far as it takes to know that the run can start. Raises UsageError, DataError."""
    chosen = request.options
    inputs = as_names(() if request.input is None else request.input)
    if request.tokenizer is None:
        raise UsageError(f"{opt('tokenizer')} is missing, e.g. {opt('tokenizer', 'tok/spm.model')}.")
    named = {"train": request.train_output, "dev": request.dev_output, "test": request.test_output}
    names = _Names(request.output, request.meta, named)
    given = ",".join([*inputs, *as_names(chosen.dev_input or ()), *as_names(chosen.test_input or ())])
    for path in filter(is_remote, map(str.strip, given.split(","))):
        raise UsageError(f"datasets are read from this machine. Received: {path}. Copy it here, and name the copy.")
    dataset = open_dataset(inputs, chosen)
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
    targets = names.targets([split.name for split in splits])
    return Plan(dataset, splits, chosen, loaded, copy_name(names.stem, loaded.path), targets, request.num_shards)


class _Names:
    """Names of the files to write."""

    def __init__(self, folder: PathName | None, meta: str | None, named: dict[str, str | None]) -> None:
        given = {split: path for split, path in named.items() if path}
        if folder is None and not given:
            raise UsageError(f"{opt('output')} is missing, e.g. {opt('output', 'out/mrpc')} (a folder).")
        if folder is not None and str(folder).endswith((".tfrecord", ".tf_record")):
            raise UsageError(
                f"{opt('output')} names the folder of the record files, e.g. out/mrpc. Received: {folder!r}."
            )
        if folder is not None and path_of(folder).exists() and not path_of(folder).is_dir():
            raise UsageError(f"{opt('output', folder)} is a file; expected a folder.")
        self._folder = path_of(folder) if folder is not None else path_of(next(iter(given.values()))).parent
        other = [path for path in given.values() if path_of(path).parent != self._folder]
        if other:
            raise UsageError(f"all record files must be in one folder. Received: {self._folder} and {other[0]}.")
        self._meta = path_of(meta) if meta else self._folder / "meta.json"
        self._named = given

    def targets(self, splits: Sequence[str]) -> dict[str, OutputSet]:
        """The record file of each split.

        A name given for `dev` is that of dev_matched, where this is the only dev set; of several, each gets its own kind added.
        """
        kinds = Counter(split.partition("_")[0] for split in splits)
        return {split: self._target(split, kinds[split.partition("_")[0]] > 1) for split in splits}

    def _target(self, split: str, several: bool) -> OutputSet:
        base, _, kind = split.partition("_")
        name = self._named.get(base)
        if name and several:
            path = path_of(name)
            name = str(path.with_name(f"{path.stem}_{kind}{path.suffix}"))
        return output_set(name or str(self._folder / f"{split}.tfrecord"), str(self._meta), SPLIT_NAMES, self.stem)

    @property
    def stem(self) -> str:
        """The stem of the tokenizer's copy."""
        return "" if self._meta == self._folder / "meta.json" else self._meta.name.removesuffix(".json")
