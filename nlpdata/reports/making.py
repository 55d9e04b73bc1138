"""`report`: what is given, a corpus, records or runs, becomes a page and its Markdown."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from nlpdata.errors import UsageError, opt
from nlpdata.files.patterns import as_names
from nlpdata.files.temporary import temporary
from nlpdata.options import takes
from nlpdata.reports import charts, page
from nlpdata.reports.charts import Cell
from nlpdata.reports.corpus import corpus_report
from nlpdata.reports.finetuning import finetuning_report
from nlpdata.reports.gathering import gather_corpus
from nlpdata.reports.inputs import named_paths, record_files, run_folders
from nlpdata.reports.options import ReportRequest
from nlpdata.reports.record_gathering import gather_records
from nlpdata.reports.records import pretraining_report
from nlpdata.reports.runs import runs_report
from nlpdata.reports.targets import Targets


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
    inputs = as_names(request.input)
    named = named_paths(inputs)
    targets = Targets(request.output, bool(request.evaluation), request.overwrite, named)
    runs = run_folders(named)
    records = None if runs else record_files(named, of_json_lines=request.text_key is not None)
    _refuse_options(request, "runs" if runs else "records" if records is not None else "text")
    targets.refuse()
    charts.require_matplotlib()
    if runs:
        made = runs_report(runs)
        return ReportResult(targets.write(made, None), "runs", dict(made.facts))
    if records is not None:
        facts = gather_records(request, page.names_of(inputs), records)
        is_finetuning = facts.whole.has_labels or any(meta.get("splits") for meta in facts.metas.values())
        made = finetuning_report(facts) if is_finetuning else pretraining_report(facts)
        kind = "fine-tuning records" if is_finetuning else "pretraining records"
        return ReportResult(targets.write(made, None), kind, dict(made.facts))
    with temporary(Path(tempfile.gettempdir(), "nlpdata-report"), folder=True) as folder:
        gathered = gather_corpus(request, inputs, folder, targets.listed.name)
    made = corpus_report(gathered.facts)
    return ReportResult(targets.write(made, gathered.matches), "corpus", dict(made.facts), gathered.overlap)


def _refuse_options(request: ReportRequest, kind: str) -> None:
    """UsageError for options of another kind of input than is given: text, records or runs."""
    of_text = {"evaluation": request.evaluation, "text_key": request.text_key}
    of_both = {"tokenizer": request.tokenizer, "limit": request.limit}
    for name, value in (of_text | of_both).items():
        if value is not None and (kind == "runs" or (kind == "records" and name in of_text)):
            raise UsageError(
                f"{opt(name)} is for text{'' if name in of_text else ' and records'}, and {kind} are given."
            )
