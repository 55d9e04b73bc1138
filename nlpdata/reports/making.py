"""`report`: what is given, a corpus, records or runs, becomes a page and its Markdown."""

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from nlpdata.errors import UsageError, opt
from nlpdata.files.disk import why_unwritable, writing
from nlpdata.files.json_files import read_object
from nlpdata.files.paths import AnyPath, file_size, is_device, is_remote, open_binary, path_of
from nlpdata.files.patterns import each_named, find_paths
from nlpdata.files.temporary import temporary
from nlpdata.files.writing import new_file
from nlpdata.options import takes
from nlpdata.records.contract import find_meta, is_record_name, read_meta
from nlpdata.records.reader import is_record_file
from nlpdata.reports import charts, overlap, page
from nlpdata.reports.corpus import corpus_report
from nlpdata.reports.finetuning import finetuning_report
from nlpdata.reports.gathering import gather_corpus
from nlpdata.reports.options import ReportRequest
from nlpdata.reports.page import Cell, Report
from nlpdata.reports.record_gathering import gather_records
from nlpdata.reports.records import pretraining_report
from nlpdata.reports.run_facts import find_runs
from nlpdata.reports.runs import runs_report

_log = logging.getLogger(__name__)

_MARKDOWN_END = "<!-- made by nlpdata report -->\n"
_HEAD_BYTES = 4096
_META_BYTES = 16 << 20


@dataclass(frozen=True)
class ReportResult:
    """What report made.

    Attributes:
      files: the page, its Markdown, and with evaluation sets the list of contaminated rows.
      kind: what it is about: "corpus", "pretraining records", "fine-tuning records" or "runs".
      figures: the figures at the top of the page.
      overlap: evaluation set -> rows, rows that are too short to tell (`too_short`), and `contaminated` ones.
    """

    files: list[str]
    kind: str
    figures: dict[str, Cell]
    overlap: dict[str, dict[str, int]] = field(default_factory=dict)


@takes(ReportRequest)
def report(request: ReportRequest) -> ReportResult:
    """Shows what is in a corpus or in records, or how runs went: `output`, an HTML page, and next to it the same as Markdown.

    Raises UsageError, DataError.
    """
    given = [request.input] if isinstance(request.input, str | os.PathLike) else list(request.input)
    inputs = [os.fspath(each) for each in given]
    targets = _Targets(request.output, bool(request.evaluation))
    runs = _run_folders(inputs)
    records = None if runs else _record_files(inputs, of_json_lines=request.text_key is not None)
    _refuse_options(request, "runs" if runs else "records" if records is not None else "text")
    targets.refuse(request.overwrite, inputs)
    charts.require_matplotlib()
    if runs:
        made = runs_report(runs)
        return ReportResult(targets.write(made, None), "runs", dict(made.facts))
    if records is not None:
        facts = gather_records(request, page.names_of(inputs), records)
        is_finetuning = any(meta.get("splits") for meta in facts.metas.values())
        made = finetuning_report(facts) if is_finetuning else pretraining_report(facts)
        kind = "fine-tuning records" if is_finetuning else "pretraining records"
        return ReportResult(targets.write(made, None), kind, dict(made.facts))
    with temporary(Path(tempfile.gettempdir(), "nlpdata-report"), folder=True) as folder:
        gathered = gather_corpus(request, inputs, folder, targets.listed.name)
    made = corpus_report(gathered.facts)
    return ReportResult(targets.write(made, gathered.matches), "corpus", dict(made.facts), gathered.overlap)


class _Targets:
    """The files that a report is."""

    def __init__(self, output: str | os.PathLike[str], with_list: bool) -> None:
        self.page = path_of(output)
        if not self.page.name.endswith((".html", ".htm")):
            raise UsageError(f"{opt('output')} is the page, e.g. report.html. Received: {os.fspath(output)!r}.")
        stem = self.page.name.rpartition(".")[0]
        self.markdown = self.page.with_name(f"{stem}.md")
        self.listed = self.page.with_name(f"{stem}.contaminated.tsv")
        self._with_list = with_list

    def refuse(self, overwrite: bool, inputs: Sequence[str]) -> None:
        """UsageError where files exist that are not to be replaced, are read, or none can be made. Writes nothing."""
        if reason := why_unwritable(self.page.parent):
            raise UsageError(f"cannot write to {self.page.parent}/: {reason}. Use another {opt('output')}.")
        of_older_report = self._with_list or _is_report(self.listed)
        wanted = [self.page, self.markdown, *([self.listed] if of_older_report else [])]
        there = [path for path in wanted if path.exists()]
        read = {
            os.path.realpath(os.fspath(name))
            for given in inputs
            for _, names in each_named(given, _find)
            for name in names
        }
        for path in there:
            if os.path.realpath(str(path)) in read:
                raise UsageError(
                    f"{opt('input')} names {path}, which the report would replace. Give {opt('output')} another name or folder."
                )
        if there and not overwrite:
            names = ", ".join(path.name for path in there)
            raise UsageError(
                f"{self.page.parent}/ already holds {names}. Use {opt('overwrite', True)}, or another {opt('output')}."
            )
        for path in there:
            if not _is_report(path):
                raise UsageError(
                    f"{path} is not of a report, and {opt('overwrite', True)} would replace it. Move it elsewhere, or use another "
                    f"{opt('output')}."
                )

    def write(self, made: Report, matches: str | None) -> list[str]:
        """Writes the files, all or none, the page last; a list of an older report goes. Their names."""
        texts = {self.markdown: f"{page.markdown(made)}\n{_MARKDOWN_END}", self.page: page.html(made)}
        if matches is not None:
            texts = {self.listed: matches, **texts}
        files = {path: text.encode("utf-8", "backslashreplace") for path, text in texts.items()}
        with writing(self.page):
            if isinstance(self.page, Path):
                self.page.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:  # they get their names once all are written, the one that was entered first last
                places: dict[AnyPath, AnyPath] = {
                    path: stack.enter_context(new_file(path)) for path in reversed(files) if isinstance(path, Path)
                }
                for path, content in files.items():
                    places.get(path, path).write_bytes(content)
            if matches is None and _is_report(self.listed):
                self.listed.unlink()
        return [str(path) for path in (self.page, self.markdown, *([self.listed] if matches is not None else []))]


def _is_report(path: AnyPath) -> bool:
    """Whether a path is a file that a report is made of."""
    if not path.exists() or path.is_dir() or is_device(path):
        return False
    with open_binary(path) as file:
        if path.name.endswith(".md"):
            file.seek(max(file_size(path) - len(_MARKDOWN_END), 0))
            return file.read() == _MARKDOWN_END.encode()
        head = file.read(_HEAD_BYTES)
    return (
        head.startswith(overlap.LIST_HEAD.encode()) if path.name.endswith(".tsv") else page.GENERATOR.encode() in head
    )


def _refuse_options(request: ReportRequest, kind: str) -> None:
    """UsageError for options of another kind of input than is given: text, records or runs."""
    of_text = {"evaluation": request.evaluation, "text_key": request.text_key}
    of_both = {"tokenizer": request.tokenizer, "limit": request.limit}
    for name, value in (of_text | of_both).items():
        if value is not None and (kind == "runs" or (kind == "records" and name in of_text)):
            raise UsageError(
                f"{opt(name)} is for text{'' if name in of_text else ' and records'}, and {kind} are given."
            )


def _run_folders(inputs: Sequence[str]) -> list[Path]:
    """The folders that inputs name where they are of runs, or hold some; none where they are something else."""
    named = [path_of(name) for given in inputs for _, names in each_named(given, _find) for name in names]
    found = [path for path in named if isinstance(path, Path) and path.is_dir() and find_runs(path)]
    others = [path for path in named if path not in found]
    if found and others:
        raise UsageError(
            f"{opt('input')}: {found[0]} holds runs, and {others[0]} does not. A report is of one kind: name the "
            "folders of runs alone."
        )
    return found


def _record_files(inputs: Sequence[str], of_json_lines: bool = False) -> list[AnyPath] | None:
    """The record files that inputs name; None where they name text. UsageError where they name both.

    of_json_lines: whether a file that ends in .json is text, and no meta file.
    """
    records: list[AnyPath] = []
    others: list[AnyPath] = []
    for given in inputs:
        for _, names in each_named(given, _find):
            for name in names:
                path = path_of(name)
                is_text = of_json_lines and path.name.endswith(".json")
                own = [] if is_text else _records_at(path, is_first=not records and not others)
                records += own
                others += [] if own else [path_of(name)]
    if records and others:
        belongs = _next_to(records)
        others = [path for path in others if path not in belongs]
    if records and others:
        raise UsageError(
            f"{opt('input')}: {records[0]} holds records, and {others[0]} does not. A report is of one kind: name the record files "
            "or their meta file alone, or the text alone."
        )
    return list(dict.fromkeys(records)) or None


def _find(pattern: str) -> list[str]:
    return find_paths(pattern if is_remote(pattern) else os.path.expanduser(pattern))


def _records_at(path: AnyPath, is_first: bool) -> list[AnyPath]:
    """The record files of a folder or a meta file, or a record file itself; none where it is something else."""
    if path.is_dir():
        return sorted((each for each in path.iterdir() if is_record_name(each)), key=str)
    if path.name.endswith(".json"):
        meta = _meta(path)
        if meta and not meta.get("shards"):
            raise UsageError(
                f"{opt('input')}: {path} is a meta file that lists no record files. Name the record files."
            )
        return [path.parent / shard["file"] for shard in meta.get("shards", ())]
    if is_record_name(path) or (is_first and path.exists() and is_record_file(path)):
        return [path]
    return []


def _next_to(records: Sequence[AnyPath]) -> set[AnyPath]:
    """The tokenizer files and files of questions of record sets, which a pattern may match as well."""
    found: set[AnyPath] = set()
    for meta in {find_meta(path) for path in records}:
        if meta is None:
            continue
        content = read_meta(meta)
        names = [content.get("tokenizer", {}).get("file")]
        names += [split.get("examples") for split in content.get("splits", {}).values()]
        found |= {meta.parent / name for name in names if name}
    return found


def _meta(path: AnyPath) -> Mapping:
    """A meta file of records; {} where a file of this name is something else."""
    if isinstance(path, Path) and path.stat().st_size <= _META_BYTES and "task_type" in read_object(path):
        return read_meta(path)
    return {}
