"""Vocabulary training: a corpus in, a tokenizer file with its normalisation options out.

    result = train_tokenizer("data/*.txt", "tok/spm", vocab_size=30000)     # tok/spm.model, .vocab, .tokenizer.json

The corpus is read twice: first to count the lines that can be used, then to hand them, or an exact sample of them, to
the trainer (see nlpdata.tokenizers.training.trainers).
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from nlpdata.corpus import Block, Portion, find_files, plan_portions, read_portion
from nlpdata.corpus.look import look_at
from nlpdata.corpus.types import MAX_LINE_BYTES
from nlpdata.errors import DataError, Message, opt
from nlpdata.execution.executor import Progress, Report, default_workers, run_units
from nlpdata.files.paths import AnyPath
from nlpdata.options import takes
from nlpdata.output import digest
from nlpdata.text import loss
from nlpdata.tokenizers.training import writing
from nlpdata.tokenizers.training.coverage import CharacterCounts, lost_lines, uncovered_characters
from nlpdata.tokenizers.training.options import LocalTrainingRequest, TrainingOptions, TrainingRequest
from nlpdata.tokenizers.training.sampling import LineSampler
from nlpdata.tokenizers.training.trainers import TooFewPieces, TrainedVocabulary, Trainer, make_trainer, too_few_pieces

_log = logging.getLogger(__name__)

# The options that the sidecar repeats.
_IN_SIDECAR = {field.name for field in fields(TrainingOptions)} - {"type", "do_lower_case", "keep_accents"}
_PORTION_BYTES = 64 << 20


@dataclass(frozen=True)
class TrainingResult:
    """The result of train_tokenizer."""

    path: str  # the tokenizer file
    files: list[str]  # all files written
    type: str
    vocab_size: int  # may be below what was asked for, without hard_vocab_limit
    lines_read: int  # lines of the corpus that are not blank
    lines_used: int
    lines_left_out: int  # by sampling
    lines_too_long: int  # over max_line_bytes after normalisation, or too long to be read at all
    lines_empty: int  # nothing left after normalisation
    lines_invalid: int  # invalid UTF-8, with invalid_utf8="skip"
    nul_characters: int  # removed
    warnings: list[str] = field(default_factory=list)
    characters: int = 0  # of the lines used, white space left out
    characters_not_covered: int = 0  # of them, those that the vocabulary lacks

    def __post_init__(self) -> None:
        parts = (self.lines_used, self.lines_left_out, self.lines_too_long, self.lines_empty, self.lines_invalid)
        assert self.lines_read == sum(parts)


@takes(LocalTrainingRequest)
def train_tokenizer(request: LocalTrainingRequest) -> TrainingResult:
    """Trains a vocabulary on text files, and writes `<output>.model` or `<output>.txt` with its sidecar.

    The result depends on the text in the order of the files and on the options, never on `workers` or the machine.

    Raises UsageError for options, patterns and outputs that exist, DataError for the text and the disk.
    """
    plan = make_plan(request)
    counts = _count(plan, request)
    require_lines(counts, plan.reader.options, plan.files)
    return train(plan, counts, lambda: _train(plan, counts["usable"], request))


@dataclass(frozen=True)
class TrainingPlan:
    """What a run will do, decided before it starts: the same for the local executor and Beam runners.

    Attributes:
      reader: takes the lines out of a portion.
      portions: the corpus, divided into units.
      files: the number of its files.
      paths: to be written, the tokenizer file first, the sidecar last.
      key: hash of all that decides about the result.
      warnings: what was odd about the input.
      accept_loss: train also where most of the text is left out.
    """

    reader: "LineReader"
    portions: Sequence[Portion]
    files: int
    paths: Sequence[AnyPath]
    key: str
    warnings: Sequence[str]
    accept_loss: bool = False

    @property
    def bytes(self) -> int:
        """Of the corpus on disk."""
        return sum(portion.bytes for portion in self.portions)


def make_plan(request: TrainingRequest, dry_run: bool = False) -> TrainingPlan:
    """Looks at the input, as far as it takes to know that the run can start; a dry run makes no folder. Raises UsageError,
    DataError."""
    trainer = make_trainer(request.options)
    files, warnings = find_files(request.input, json_lines=request.text_key is not None)
    key = digest(
        {
            "options": asdict(request.options),
            "invalid_utf8": request.invalid_utf8,
            "text_key": request.text_key,
            "inputs": [[file.name, file.size] for file in files],
        }
    )
    paths = writing.prepare_output(request.output, trainer.suffixes, request.overwrite, key, dry_run)
    if any(file.weight != 1 for file in files):
        warnings = [*warnings, "weights (GLOB@2) have no effect on vocabulary training: every line counts once"]
    warnings += look_at(
        files,
        invalid_utf8=request.invalid_utf8,
        text_key=request.text_key,
        unigram=request.options.type == "unigram",
        normalize=None if request.options.keep_accents else trainer.normalize,
    )
    for warning in warnings:
        _log.warning(warning)
    return TrainingPlan(
        LineReader(request.options, request.invalid_utf8, request.text_key),
        plan_portions(files, _PORTION_BYTES),
        len(files),
        paths,
        key,
        warnings,
        request.accept_loss,
    )


def train(plan: TrainingPlan, counts: Counter, trained_vocabulary: Callable[[], TrainedVocabulary]) -> TrainingResult:
    """Trains on the sampled lines of the corpus that `counts` is about, and writes the files."""
    options = plan.reader.options
    used = min(counts["usable"], options.sample_lines)
    _log.info(
        f"Training a {options.type} vocabulary of {options.vocab_size:,} pieces on {used:,} of {counts['read']:,} lines"
    )
    lost = lost_lines(counts, options.max_line_bytes)
    loss.refuse(lost, plan.accept_loss, loss.NOTHING_WRITTEN)
    try:
        trained = trained_vocabulary()
    except TooFewPieces as error:
        raise too_few_pieces(options, error.most, *_why_so_few(options, counts)) from None
    missing = uncovered_characters(trained.characters, trained.uncovered, options.character_coverage)
    loss.refuse([missing], plan.accept_loss, loss.NOTHING_WRITTEN)
    training = {
        **{name: value for name, value in asdict(options).items() if name in _IN_SIDECAR},
        "lines_read": counts["read"],
        "lines_used": used,
    }
    writing.write(plan.paths, trained.files, {"format_version": 1, **trained.sidecar, "training": training}, plan.key)
    _log.info(f"Wrote {plan.paths[0]} with {trained.vocab_size} pieces")
    if trained.uncovered and missing.share < missing.reported:
        _log.info(Message(missing.message))
    found = loss.warnings([*lost, missing])
    for line in found:
        _log.warning(line)
    result = _result(plan.paths, options.type, trained.vocab_size, counts, used, [*plan.warnings, *found])
    return replace(result, characters=trained.characters, characters_not_covered=trained.uncovered.total())


def _why_so_few(options: TrainingOptions, counts: Counter) -> tuple[str, ...]:
    """(what yields too few pieces, what to do), where part of the corpus was left out; () where all was used."""
    read, long, invalid = counts["read"], counts["too_long"], counts["invalid"]
    if long * 10 > read or counts["characters_too_long"] * 10 > counts["characters"]:
        return (
            f"what is left of this corpus without the {long} of {read} lines that are longer than "
            f"{opt('max_line_bytes', options.max_line_bytes)}",
            f"Split the text into sentences, raise {opt('max_line_bytes')}, use more text",
        )
    if invalid * 10 > read:
        return (
            f"what is left of this corpus without the {invalid} of {read} lines that are not UTF-8",
            "Convert the text to UTF-8, e.g. with iconv, use more text",
        )
    if counts["usable"] > options.sample_lines:
        return (
            f"a sample of {opt('sample_lines', options.sample_lines)} of {counts['usable']} lines",
            f"Raise {opt('sample_lines')}",
        )
    return ()


def train_vocabulary(options: TrainingOptions, lines: Iterator[str]) -> TrainedVocabulary:
    """Trains on normalised lines, and counts the characters that the vocabulary lacks."""
    trainer = make_trainer(options)
    counts = CharacterCounts(trainer.spelt)
    trained = trainer.train(counts.of(lines))
    characters, uncovered = counts.uncovered(trainer.can_spell(trained))
    return replace(trained, characters=characters, uncovered=uncovered)


def _result(
    paths: Sequence[AnyPath], type: str, vocab_size: int, counts: Counter, used: int, warnings: list[str]
) -> TrainingResult:
    return TrainingResult(
        path=str(paths[0]),
        files=[str(path) for path in paths],
        type=type,
        vocab_size=vocab_size,
        lines_read=counts["read"],
        lines_used=used,
        lines_left_out=counts["usable"] - used,
        lines_too_long=counts["too_long"],
        lines_empty=counts["empty"],
        lines_invalid=counts["invalid"],
        nul_characters=counts["nul"],
        warnings=list(warnings),
    )


@dataclass(frozen=True)
class LineReader:
    """Takes the lines that training can use out of a portion of the corpus; picklable."""

    options: TrainingOptions
    invalid_utf8: str
    text_key: str | None

    def read(self, portion: Portion, report: Report = lambda count: None) -> Iterator[tuple[list[str], Counter]]:
        """Yields (lines, counts) block by block: the usable normalised lines, and a Counter of all that was read.

        `report` is told of the bytes of each block.

        No line holds a line ending (SentencePiece would take it for one sentence, and its own file reader for two:
        google/sentencepiece#717): the corpus is cut at them, inside JSON text too, and normalisation collapses the rest.
        """
        trainer = make_trainer(self.options)
        for block in read_portion(portion, invalid_utf8=self.invalid_utf8, text_key=self.text_key):
            yield self._usable(block, trainer)
            report(block.bytes_read)

    def _usable(self, block: Block, trainer: Trainer) -> tuple[list[str], Counter]:
        counts = Counter(read=len(block.lines) + sum(block.dropped.values()))
        counts["invalid"] = block.dropped.get("invalid_utf8", 0)
        counts["too_long"] = block.dropped.get("line_too_long", 0)
        lines = block.lines
        counts["characters_too_long"] = counts["characters"] = counts["too_long"] * MAX_LINE_BYTES  # or more
        counts["nul"] = "\n".join(lines).count("\0")
        if counts["nul"]:  # SentencePiece stops at one ("Found null character", s-JoL/Open-Llama#12)
            lines = [line.replace("\0", "") for line in lines]
        usable, limit = [], self.options.max_line_bytes
        for given, line in zip(lines, trainer.normalize(lines), strict=True):
            counts["characters"] += len(given)
            if not line.strip():
                counts["empty"] += 1
            elif 4 * len(line) > limit and len(line.encode("utf-8", "surrogatepass")) > limit:
                counts["too_long"] += 1
                counts["characters_too_long"] += len(given)
            else:
                usable.append(line)
        counts["usable"] = len(usable)
        return usable, counts

    def count(self, portion: Portion, report: Report = lambda count: None) -> Counter:
        """The counts of a whole portion."""
        return sum((counts for _, counts in self.read(portion, report)), Counter())

    def sampler(self, usable: int, seen: int = 0, taken: int = 0) -> LineSampler:
        """The sampler of a corpus with `usable` lines that can be used; see LineSampler."""
        return LineSampler(usable, min(usable, self.options.sample_lines), self.options.seed, seen, taken)

    def sampled(
        self, portion: Portion, sampler: LineSampler, report: Report = lambda count: None
    ) -> Iterator[list[str]]:
        """Yields the lines of a portion that the sampler selects, block by block."""
        for lines, _ in self.read(portion, report):
            yield [lines[i] for i in sampler.select(len(lines))]


def _count(plan: TrainingPlan, request: LocalTrainingRequest) -> Counter:
    """The counts of all portions together, by several processes where there are several portions."""
    progress = Progress("counting lines", plan.bytes, quiet=not request.progress)
    counted: Any = run_units(
        _count_portion,
        plan.portions,
        workers=request.workers or default_workers(),
        initializer=_set_up,
        initargs=(plan.reader,),
        on_progress=progress,
        describe=_place,
        stage="counting lines",
    )
    total: Counter = sum((counts for _, counts in counted), Counter())
    progress.close()
    return total


def _place(portion: Any) -> str:
    return portion.place


_reader: LineReader  # of a worker process


def _set_up(reader: LineReader) -> None:
    global _reader
    _reader = reader


def _count_portion(portion: Portion, report: Report) -> Counter:
    return _reader.count(portion, report)


def _train(plan: TrainingPlan, usable: int, request: LocalTrainingRequest) -> TrainedVocabulary:
    """Of a large corpus in a worker: an interruption of this process need not wait for the end of SentencePiece's call."""
    progress = Progress("reading lines", plan.bytes, quiet=not request.progress)
    progress.note = "(SentencePiece then trains, and shows nothing)"
    trained: Any = run_units(
        _train_here,
        [(plan, usable)],
        workers=request.workers or default_workers(),
        initializer=_set_up,
        initargs=(plan.reader,),
        on_progress=progress,
        describe=lambda unit: "the vocabulary",
        stage="training",
        apart=len(plan.portions) > 1,
    )
    ((_, vocabulary),) = trained
    progress.close()
    return vocabulary


def _train_here(unit: tuple[TrainingPlan, int], report: Report) -> TrainedVocabulary:
    plan, usable = unit
    return train_vocabulary(plan.reader.options, _sample(plan, plan.reader.sampler(usable), usable, report))


def _sample(plan: TrainingPlan, sampler: LineSampler, usable: int, report: Report) -> Iterator[str]:
    """The selected lines in their order; memory holds one block."""
    for portion in plan.portions:
        for lines in plan.reader.sampled(portion, sampler, report):
            yield from lines
            if sampler.seen > usable:
                break
    refuse_change(usable, sampler.seen)


def refuse_change(counted: int, found: int) -> None:
    """DataError where a second reading found another number of usable lines than the first."""
    if found != counted:
        raise DataError(
            f"the input has changed while it was read: {counted} usable lines when counted, then {found}. "
            "Start again when it is complete"
        )


def require_lines(counts: Counter, options: TrainingOptions, files: int) -> None:
    """DataError if there is nothing to train on, with the reason."""
    if counts["usable"]:
        return
    if not counts["read"]:
        raise DataError(f"the input ({files} files) holds no text: all its lines are blank")
    if counts["too_long"]:
        raise DataError(
            f"no line can be used: {counts['too_long']} of {counts['read']} lines are longer than "
            f"{options.max_line_bytes} bytes (one sentence a line is expected). Split the text into sentences, or "
            f"raise {opt('max_line_bytes')}."
        )
    raise DataError(
        f"no line can be used: of {counts['read']} lines {counts['empty']} are empty after normalisation and "
        f"{counts['invalid']} are not valid UTF-8"
    )
