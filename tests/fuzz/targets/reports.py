"""Reports of corpora, evaluation sets and records that are damaged: their page as Markdown, now and then the whole command."""

import json
import shutil
from pathlib import Path

from nlpdata.cli.commands import main
from nlpdata.reports import page
from nlpdata.reports.contamination import make_index
from nlpdata.reports.corpus import corpus_report
from nlpdata.reports.evaluation import open_evaluation
from nlpdata.reports.finetuning import finetuning_report
from nlpdata.reports.gathering import gather_corpus
from nlpdata.reports.inputs import named_paths, record_files
from nlpdata.reports.options import ReportRequest
from nlpdata.reports.record_gathering import gather_records
from nlpdata.reports.records import pretraining_report
from nlpdata.reports.runs import runs_report
from tests.fuzz.cases import ROOT, Case, target
from tests.fuzz.targets.records import _give, _give_finetuning
from tests.nlpdata.reports.test_runs import write_run

TEXT = (ROOT / "examples/corpus/hindi.txt").read_bytes() + (ROOT / "examples/corpus/english_house.txt").read_bytes()[
    :900
]
TABLE = (ROOT / "examples/languages.tsv").read_bytes()[:3000]
MODEL = str(ROOT / "tests/nlpdata/golden/spm.model")


@target("reports/corpus")
def _corpus(case: Case) -> None:
    text = str(case.write("a.txt", case.damaged(TEXT)))
    rows = str(case.write("rows.txt", TEXT[:1500]))
    if case.draw.random() < 0.05:
        case.command(main, "report", text, "--output", case.folder / "r.html", "--evaluation", rows, "--workers", 1)
        return
    limit = case.draw.choice((None, 1, 5))
    request = ReportRequest(text, "r.html", MODEL, evaluation=rows, workers=1, limit=limit)
    page.markdown(corpus_report(gather_corpus(request, [text], case.folder, "r.tsv").facts))


@target("reports/evaluation")
def _evaluation(case: Case) -> None:
    name = case.draw.choice(
        ("rows.tsv", "rows.csv", "rows.txt", "rows.jsonl", "rows.json", "RTE/dev.tsv", "MRPC/test.tsv")
    )
    squad = {"data": [{"paragraphs": [{"context": "a b", "qas": [{"id": "1", "question": "a", "answers": []}]}]}]}
    content = case.odd_json(squad) if name.endswith("json") else case.damaged(TABLE)
    make_index(open_evaluation([str(case.write(name, content))]), 13)


@target("reports/records", give=_give)
def _records(case: Case) -> None:
    shutil.copytree(case.given, case.folder, dirs_exist_ok=True)
    hurt = case.folder / case.draw.choice(("r.meta.json", "r.tfrecord"))
    content = hurt.read_bytes()
    hurt.write_bytes(case.odd_json(json.loads(content)) if hurt.suffix == ".json" else case.damaged(content))
    _report(case, case.folder)


@target("reports/records-finetuning", give=_give_finetuning)
def _finetuning(case: Case) -> None:
    folder = case.given / case.draw.choice(("out", "own"))
    shutil.copytree(folder, case.folder, dirs_exist_ok=True)
    meta = json.loads((folder / "meta.json").read_bytes())
    (case.folder / "meta.json").write_bytes(case.odd_json(meta))
    _report(case, case.folder)


@target("reports/runs")
def _runs(case: Case) -> None:
    folder = write_run(case.folder / "run")
    hurt = folder / case.draw.choice(
        ("run.json", "eval_data.json", "eval_results.json", "params.yaml", "metrics.jsonl")
    )
    content = hurt.read_bytes()
    is_odd = hurt.suffix == ".json" and case.draw.random() < 0.5
    hurt.write_bytes(case.odd_json(json.loads(content)) if is_odd else case.damaged(content))
    page.markdown(runs_report([folder]))


def _report(case: Case, folder: Path) -> None:
    if case.draw.random() < 0.05:
        case.command(main, "report", folder, "--output", case.folder / "r.html", "--workers", 1)
        return
    files = record_files(named_paths([str(folder)]))
    assert files
    facts = gather_records(
        ReportRequest(str(folder), "r.html", workers=1, limit=case.draw.choice((None, 3))), "x", files
    )
    page.markdown(finetuning_report(facts) if facts.meta.get("splits") else pretraining_report(facts))
