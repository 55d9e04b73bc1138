"""What a create-pretraining run will do, decided before it starts: the same for the local executor and Beam runners.

A plan holds the input, the output and the division of the work. The checks that need the counters of finished
work (a lone document, no examples), the number of shards and the meta files follow from it as well.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nlpdata.corpus import CorpusFile, Portion, find_files, fingerprint, plan_portions
from nlpdata.corpus.look import dropped_accents, look_at
from nlpdata.errors import DataError, Message, UsageError, opt
from nlpdata.execution.executor import default_workers
from nlpdata.output import OutputSet, digest, output_set, set_files
from nlpdata.pretraining.buckets import MAX_FILES, Bucket, BucketWork, file_index
from nlpdata.pretraining.documents import LONGEST, PLACE, place_of
from nlpdata.pretraining.maker import MakerSpec, maker_of
from nlpdata.pretraining.objectives import find_objective
from nlpdata.pretraining.objectives.base import Objective
from nlpdata.pretraining.options import PretrainingOptions, PretrainingRequest
from nlpdata.pretraining.summary import corpus_warnings, dropped_by_reason, list_inputs, losses, meta_content
from nlpdata.records.contract import FORMAT_VERSION, record_stem
from nlpdata.text import loss
from nlpdata.tokenizers import Tokenizer, load_tokenizer
from nlpdata.tokenizers.files import copy_name

_log = logging.getLogger(__name__)

MIN_PORTION_BYTES, MAX_PORTION_BYTES = 1 << 20, 16 << 20


@dataclass(frozen=True)
class CreationResult:
    """What create_pretraining made: by split files, meta file and copy of the tokenizer; and the counters of the meta file."""

    files: dict[str, list[str]]
    meta: dict[str, str]
    tokenizer: dict[str, str]
    counters: dict
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Attributes:
      targets: the set of records of each split.
      files, portions: the corpus, and its division into units of work.
      fingerprints: of the files; in a worker's copy of the plan there are none.
      inputs: the meta files' entries of the files.
      options: see PretrainingOptions.
      tokenizer: the loaded tokenizer; None in a worker's copy of the plan.
      tokenizer_entry: the meta files' entry of it, and its `source`.
      num_shards: of the training set, if given.
      key: hash of all this: runs of equal key give equal files.
      warnings: what looks wrong about the input.
    """

    targets: dict[str, OutputSet]
    files: Sequence[CorpusFile]
    fingerprints: Sequence[str]
    portions: Sequence[Portion]
    inputs: Sequence[dict]
    options: PretrainingOptions
    tokenizer: Tokenizer | None
    tokenizer_entry: dict
    num_shards: int | None
    key: str
    warnings: Sequence[str]

    def for_workers(self) -> "Plan":
        """The plan without its large parts, which pickles."""
        files = self.files if self.bucket_work.by_file else ()  # then messages name files
        return replace(self, files=files, fingerprints=(), portions=(), tokenizer=None)

    @property
    def objective(self) -> Objective:
        """That of the options."""
        return find_objective(self.options.objective)

    @property
    def bucket_work(self) -> BucketWork:
        """What examples need from other documents."""
        return self.objective.bucket_work(self.options)

    def maker_spec(self, is_local: bool) -> MakerSpec:
        """What workers make an ExampleMaker of; in this process, one of the loaded tokenizer is ready.

        Args:
          is_local: whether workers find the tokenizer's file where it is.
        """
        assert self.tokenizer  # this is not a worker's copy
        content = None if is_local else Path(self.tokenizer.path).read_bytes()
        spec = MakerSpec(self.options, self.tokenizer.spec, content)
        maker_of(spec, self.tokenizer)
        return spec

    @property
    def input_bytes(self) -> int:
        """Bytes of the corpus on disk."""
        return sum(file.size for file in self.files)

    def tokenizer_file(self, split: str) -> str:
        """Base name of the copy of the tokenizer next to a split's records."""
        return copy_name(self.targets[split].stem, self.tokenizer_entry["source"])

    def copies(self) -> dict[str, bytes]:
        """The copies of the tokenizer by base name, with their content."""
        content = Path(self.tokenizer_entry["source"]).read_bytes()
        return {self.tokenizer_file(split): content for split in self.targets}

    def shards(self, split: str, record_bytes: int) -> list[str]:
        """Base names of a split's shards, for `record_bytes` of records."""
        return self.targets[split].shards(record_bytes, self.num_shards if split == "train" else None)

    def meta(self, split: str, shards: Sequence[dict], counters: Counter) -> dict:
        """The content of a split's meta file, from the ShardInfo of its shards as dicts."""
        entry = {name: value for name, value in self.tokenizer_entry.items() if name != "source"}
        entry["file"] = self.tokenizer_file(split)
        return meta_content(split, self.options, entry, shards, self.inputs, counters)

    def result(self, metas: dict[str, dict], warnings: Sequence[str]) -> CreationResult:
        """What the caller gets, from the meta files' contents."""
        files = {
            split: [str(self.targets[split].folder / shard["file"]) for shard in meta["shards"]]
            for split, meta in metas.items()
        }
        paths = {split: str(target.meta) for split, target in self.targets.items()}
        copies = {split: str(target.folder / self.tokenizer_file(split)) for split, target in self.targets.items()}
        return CreationResult(files, paths, copies, metas["train"]["counters"], [*self.warnings, *warnings])


def make_plan(request: PretrainingRequest) -> Plan:
    """Looks at the input, as far as it takes to know that the run can start. Raises UsageError, DataError."""
    chosen, input = request.options, request.input
    targets = _targets(request)
    train = targets["train"]
    files, warnings = find_files(input, json_lines=chosen.text_key is not None)
    if chosen.nsp_scope == "file" and len(files) > MAX_FILES:
        raise UsageError(
            f"{opt('nsp_scope', 'file')} takes {MAX_FILES:,} files at most. Received: {len(files):,}. Join files, or use "
            f"{opt('nsp_scope', 'corpus')}"
        )
    loaded = load_tokenizer(
        request.tokenizer,
        do_lower_case=request.do_lower_case,
        keep_accents=request.keep_accents,
        digit_comma=request.digit_comma,
    )
    size = request.chunk_size
    if size is None:  # it does not depend on the workers: a run may resume with fewer
        share = sum(file.size for file in files) // (default_workers() * 8)
        size = min(max(share, MIN_PORTION_BYTES), MAX_PORTION_BYTES)
    warnings += _older_eval_set(train.output, chosen)
    for line in warnings:
        _log.warning(line)
    for note in loaded.notes:
        _log.info(note)
    pairs, invalid, key = find_objective(chosen.objective).pairs, chosen.invalid_utf8, chosen.text_key
    odd = look_at(files, invalid_utf8=invalid, text_key=key, sentences=pairs, pairs=pairs)
    for line in odd:
        _log.warning(line)
    if dropped := dropped_accents(files, loaded.as_read, invalid_utf8=invalid, text_key=key):
        _log.info(Message(dropped))
    warnings += odd
    portions = plan_portions(files, size, chosen.text_key, chosen.limit_documents)
    fingerprints = [fingerprint(file) for file in files]
    about = {
        "format": FORMAT_VERSION,
        "options": chosen.affecting_bytes(),
        "tokenizer": loaded.meta(),
        "inputs": [[file.name, file.weight, content] for file, content in zip(files, fingerprints, strict=True)],
        "plan": [
            [[part.file.path, part.start, part.stop, part.max_documents] for part in portion.byte_ranges]
            for portion in portions
        ],
        "num_shards": list(train.names) or request.num_shards,
    }
    entry = {**loaded.meta(), "source": loaded.path}
    return Plan(
        targets,
        files,
        fingerprints,
        portions,
        list_inputs(files),
        chosen,
        loaded,
        entry,
        request.num_shards,
        digest(about),
        warnings,
    )


def _targets(request: PretrainingRequest) -> dict[str, OutputSet]:
    train = output_set(str(request.output), request.meta)
    if train.names and request.num_shards not in (None, len(train.names)):
        raise UsageError(
            f"{opt('output')} names {len(train.names)} files, and {opt('num_shards')} is {request.num_shards}. Leave it out."
        )
    targets = {"train": train}
    if request.options.eval_fraction:
        stem = str(record_stem(train.output))
        targets["eval"] = output_set(f"{stem}.eval{train.output[len(stem) :] or '.tfrecord'}")
    return targets


def _older_eval_set(output: str, options: PretrainingOptions) -> list[str]:
    """A warning where an eval set of an older run would stay next to training records that may hold its documents."""
    left = [] if options.eval_fraction else set_files(output_set(f"{record_stem(output)}.eval.tfrecord"))
    if not left:
        return []
    return [f"{left[0]} is of another run, and its documents may be in the new training set: do not evaluate on it"]


def add_counters(total: Counter, more: Mapping[str, int]) -> None:
    """Adds a unit's counters to `total`: counts add up, of documents the longest counts, of places the first."""
    longest, at = max((each.get("longest_document", 0), -each.get(LONGEST, 0)) for each in (total, more))
    places = {name: min(code, total.get(name, code)) for name, code in more.items() if name.startswith(PLACE)}
    total.update({name: count for name, count in more.items() if name not in places})
    for name, code in {**places, "longest_document": longest, LONGEST: -at}.items():
        total[name] = code


def refuse_lone_documents(plan: Plan, split: str, buckets: Sequence[Bucket]) -> None:
    """DataError where a bucket has one document and its work needs another: only where the corpus (or a file) has one."""
    work = plan.bucket_work
    if not work.needs_another:
        return
    for low, _, documents in buckets:
        if documents >= 2:
            continue
        where, hint = "the corpus", "a blank line separates documents"
        if plan.options.eval_fraction:
            change = "raise" if split == "eval" else "lower"
            where, hint = f"the {split} split", f"{change} or drop {opt('eval_fraction')}"
        if work.by_file:
            where, hint = plan.files[file_index(low)].path, f"use {opt('nsp_scope', 'corpus')}"
        raise DataError(
            f"{work.needs_another}, and {where} has only one document: {hint}; or use {opt('objective', 'sop')} or none"
        )


def require_examples(plan: Plan, counters: Counter) -> None:
    """DataError where a split got no examples, with what became of the text."""
    for split in plan.targets:
        if counters[f"examples_{split}"]:
            continue
        left_out = ", ".join(
            f"{count} {reason.replace('_', ' ')}" for reason, count in dropped_by_reason(counters).items()
        )
        documents, fraction = counters["documents"], plan.options.eval_fraction
        other = next((name for name in plan.targets if counters[f"examples_{name}"]), None)
        if other:  # the text is fine, its division is not
            advice = f"{opt('eval_fraction', fraction)} gave it {counters[f'documents_{split}']} documents: "
            advice += "raise it, or drop it" if split == "eval" else "lower it"
        elif counters["dropped/weight_below_one"] == counters["sentences"] > 0:
            advice = "The weights behind @ chose none of the documents: raise them"
        else:
            advice = "Expected one sentence a line and a blank line between documents"
            if plan.objective.advice:
                advice += f" ({plan.objective.advice}), or {opt('objective', 'none')}"
        raise DataError(
            f"no examples for the {split} split: read {documents} documents with "
            f"{counters['sentences']} sentences" + (f", left out: {left_out}" if left_out else "") + f". {advice}"
        )


def refuse_loss(plan: Plan, counters: Counter, ending: str = loss.NOTHING_WRITTEN) -> None:
    """DataError where most of the text is cut off or unknown, unless --accept-loss allows it."""
    found = losses(counters, plan.options, plan.tokenizer_entry)
    loss.refuse(found, plan.options.accept_loss, ending)


def result_warnings(plan: Plan, counters: Mapping) -> list[str]:
    """What looks wrong about the corpus and what became of it; `counters`: as counted, or of a meta file."""
    codes = {name.removeprefix(PLACE): code for name, code in counters.items() if name.startswith(PLACE)}
    where = {name: place_of(code, plan.files) for name, code in codes.items()}
    pairs = find_objective(plan.options.objective).pairs
    return corpus_warnings(counters, where, pairs) + loss.warnings(losses(counters, plan.options, plan.tokenizer_entry))
