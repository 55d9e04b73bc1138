"""What a split-sentences run will do, decided before it starts: the same for the local executor and Beam runners."""

import importlib.util
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata

from nlpdata.corpus.find import find_files
from nlpdata.corpus.reading import plan_byte_ranges, portions_of
from nlpdata.corpus.source import fingerprint
from nlpdata.corpus.splitting.documents import LONGEST
from nlpdata.corpus.splitting.formats import ENDINGS, Format, documents_of, format_of, is_text
from nlpdata.corpus.splitting.options import SplittingOptions, SplittingRequest
from nlpdata.corpus.types import MAX_LINE_BYTES, ByteRange, CorpusFile, Portion
from nlpdata.errors import DataError, Message, UsageError, missing_package, opt
from nlpdata.execution.executor import default_workers
from nlpdata.files.paths import path_of, shown_name
from nlpdata.output import OutputSet, digest, set_files, text_set

_log = logging.getLogger(__name__)

TASK_TYPE = "split_sentences"
MIN_PORTION_BYTES, MAX_PORTION_BYTES = 1 << 20, 16 << 20
MANY_CUT = 0.05  # of the sentences: more are reported
LONG_DOCUMENT = 10_000  # sentences; more is reported, as by create-pretraining
_MOST_LISTED = 10_000  # input files that are listed by name
_COUNTED = ("documents", "sentences", "bytes")


@dataclass(frozen=True)
class SplittingResult:
    """What split_sentences made: the text files, the JSON file next to them, and its counters."""

    files: list[str]
    meta: str
    counters: dict
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Attributes:
      target: the set of text.
      files, portions: the input, and its division into units of work.
      fingerprints: of the files.
      options: see SplittingOptions.
      versions: of the libraries that decide about the text.
      num_shards: if given.
      key: hash of all this: runs of equal key give equal files.
      warnings: what looks wrong about the input.
    """

    target: OutputSet
    files: Sequence[CorpusFile]
    fingerprints: Sequence[str]
    portions: Sequence[Portion]
    options: SplittingOptions
    versions: dict[str, str]
    num_shards: int | None
    key: str
    warnings: Sequence[str]

    @property
    def input_bytes(self) -> int:
        """Bytes of the input on disk."""
        return sum(file.size for file in self.files)


def make_plan(request: SplittingRequest) -> Plan:
    """Looks at the input, as far as it takes to know that the run can start. Raises UsageError, DataError."""
    options, target = request.options, text_set(str(request.output))
    files, warnings = find_files(request.input, endings=ENDINGS, is_text=lambda path: is_text(path, options))
    own = {str(path) for path in set_files(target)}
    if both := [file.path for file in files if str(path_of(file.path)) in own]:
        raise UsageError(
            f"{opt('output')}: {both[0]} is among the input. Use another {opt('output')}, or a narrower {opt('input')}."
        )
    if any(file.weight != 1 for file in files):
        warnings = [*warnings, "weights (GLOB@2) have no effect here: every document is written once"]
    forms = [format_of(file, options) for file in files]
    used = list({form.name: form for form in forms}.values())
    versions = _versions(_packages(used, options))
    _report(files, forms, options)
    for line in warnings:
        _log.warning(line)
    portions, fingerprints = _portions(files, forms, options, request.chunk_size), [fingerprint(file) for file in files]
    key = {
        "task": TASK_TYPE,
        "options": options.affecting_bytes(),
        "versions": versions,
        "inputs": [[file.name, content] for file, content in zip(files, fingerprints, strict=True)],
        "plan": [[[part.file.path, part.start, part.stop] for part in portion.byte_ranges] for portion in portions],
        "num_shards": request.num_shards,
    }
    return Plan(target, files, fingerprints, portions, options, versions, request.num_shards, digest(key), warnings)


def _portions(
    files: Sequence[CorpusFile], forms: Sequence[Format], options: SplittingOptions, size: int | None
) -> list[Portion]:
    """Parts of files that can be divided, and whole files."""
    if size is None:  # it does not depend on the workers: a run may resume with fewer
        share = sum(file.size for file in files) // (default_workers() * 8)
        size = min(max(share, MIN_PORTION_BYTES), MAX_PORTION_BYTES)
    byte_ranges: list[ByteRange] = []
    for file, form in zip(files, forms, strict=True):
        if form.is_divisible and documents_of(file, form, options) != "file":
            byte_ranges += plan_byte_ranges([file], size)
        elif file.size:
            byte_ranges.append(ByteRange(0, file, 0, None))
    return portions_of(byte_ranges, size)


def _packages(forms: Sequence[Format], options: SplittingOptions) -> dict[str, str]:
    """The packages that the run needs, as imported -> what for, in words."""
    needed = {"sentencex": "split-sentences"}
    if options.identifies_languages:
        named = "keep_languages" if options.keep_languages else "language"
        needed["py3langid"] = opt(named, (options.keep_languages or ["auto"])[0])
    if options.near_duplicates is not None:
        needed["datasketch"] = opt("near_duplicates")
    return needed | {package: f"reading {form.called}" for form in forms for package in form.packages}


_DISTRIBUTIONS = {"markdown_it": "markdown-it-py"}  # of packages that are imported by another name


def _versions(packages: Mapping[str, str]) -> dict[str, str]:
    """The version of each distribution. UsageError where a package is not installed."""
    for package, what in packages.items():
        if importlib.util.find_spec(package) is None:
            raise missing_package(what, package)
    return {name: metadata.version(name) for name in sorted(_DISTRIBUTIONS.get(each, each) for each in packages)}


def _report(files: Sequence[CorpusFile], forms: Sequence[Format], options: SplittingOptions) -> None:
    """Says how the files are read."""
    kinds: Counter[tuple[str, str, str]] = Counter()
    for file, form in zip(files, forms, strict=True):
        kinds[form.called, documents_of(file, form, options), options.line_breaks or form.line_breaks] += 1
    for (called, documents, line_breaks), count in kinds.items():
        what = {"file": "each file", "line": "each line", "record": "each record"}.get(
            documents, "text between blank lines"
        )
        breaks = "line breaks in a paragraph are spaces" if line_breaks == "join" else "each line ends a sentence"
        text = f"{count} {'file' if count == 1 else 'files'} of {called}: {what} is a document, {breaks}"
        _log.info(Message(f"{text} ({opt('documents', documents)}, {opt('line_breaks', line_breaks)})"))


def totals(parts: Sequence[dict], split: Sequence[dict], dropped: Sequence[dict]) -> dict:
    """The counters of a run: of documents, sentences and bytes what was read, written and left out by reason.

    Args:
      parts: results of the units whose text is written.
      split, dropped: counters of all units.

    Raises DataError where they do not add up: a runner has lost or repeated work.
    """
    total: Counter[str] = sum((Counter(each) for each in (*split, *dropped)), Counter())
    documents, sentences = (sum(part[name] for part in parts) for name in ("documents", "sentences"))
    written = {"documents": documents, "sentences": sentences}
    written["bytes"] = sum(part["bytes"] for part in parts) - sentences - documents
    counters: dict = {}
    for what in _COUNTED:
        prefix = f"{what}_dropped/"
        reasons = {
            name.removeprefix(prefix): count for name, count in total.items() if name.startswith(prefix) and count
        }
        counters[what] = {
            "read": total[f"{what}_read"],
            "written": written[what],
            "dropped": dict(sorted(reasons.items())),
        }
        if total[f"{what}_read"] != written[what] + sum(reasons.values()):
            raise DataError(
                f"the runner lost or repeated data: of {total[f'{what}_read']} {what} {written[what]} are written and "
                f"{sum(reasons.values())} left out. Nothing was put in place. Run it again, and if it happens again use another "
                "runner"
            )
    longest = max((each.get(LONGEST, 0) for each in split), default=0)
    return {**counters, "sentences_cut": total["sentences_cut"], LONGEST: longest}


def require_documents(counters: Mapping, files: int) -> None:
    """DataError where nothing is left to be written, with what became of the documents."""
    documents = counters["documents"]
    if documents["written"]:
        return
    if not documents["read"]:
        raise DataError(f"the input ({files} files) holds no text")
    parts = [f"{count} {reason.replace('_', ' ')}" for reason, count in documents["dropped"].items()]
    lines = {
        reason: count
        for reason, count in counters["sentences"]["dropped"].items()
        if count and reason not in documents["dropped"]
    }
    parts += [f"of lines {count} {reason.replace('_', ' ')}" for reason, count in lines.items()]
    remedy = (
        f". A line may have {MAX_LINE_BYTES >> 20} MiB: break longer ones, e.g. with fold -s"
        if "line_too_long" in lines
        else ""
    )
    raise DataError(f"no document is left of {documents['read']}. Left out: {', '.join(parts)}{remedy}")


def result_warnings(counters: Mapping, options: SplittingOptions) -> list[str]:
    """What looks wrong about the text."""
    sentences, cut = counters["sentences"]["written"], counters["sentences_cut"]
    found = []
    if counters[LONGEST] > LONG_DOCUMENT and options.documents in (None, "file"):
        found.append(
            f"the longest document has {counters[LONGEST]:,} sentences. Where a file holds many documents, say what one is: "
            f"{opt('documents', 'blank-lines')} or {opt('documents', 'line')}"
        )
    if cut > MANY_CUT * sentences:
        found.append(
            f"{cut} sentences were longer than {options.max_sentence_bytes} bytes, and were cut. Is "
            f"{opt('language', options.language)} the language of the text, and does it have marks at the ends of sentences? "
            f"{opt('max_sentence_bytes')} allows longer ones"
        )
    return [str(Message(line)) for line in found]


def meta_content(plan: Plan, shards: Sequence[dict], counters: Mapping) -> dict:
    """The JSON file next to the text. It holds no time, host or absolute path."""
    listed = [{"file": shown_name(file.name), "bytes": file.size} for file in plan.files[:_MOST_LISTED]]
    if others := plan.files[_MOST_LISTED:]:
        listed.append({"file": "*", "bytes": sum(file.size for file in others), "files": len(others)})
    return {
        "task_type": TASK_TYPE,
        "options": plan.options.affecting_bytes(),
        "versions": plan.versions,
        "inputs": listed,
        "shards": [{name: info[name] for name in ("file", "records", "bytes", "crc32c")} for info in shards],
        "counters": dict(counters),
    }
