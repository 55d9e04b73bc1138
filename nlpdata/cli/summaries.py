"""What the commands print of their results: rows of (name, number), and with --json the results themselves."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nlpdata.cli.results import Summary, table
from nlpdata.execution.executor import duration
from nlpdata.reports.charts import shown
from nlpdata.reports.page import size
from nlpdata.text.loss import counter_name

if TYPE_CHECKING:
    from nlpdata import CreationResult, FinetuningResult, ReportResult, SplittingResult, TrainingResult, VerifyReport
    from nlpdata.output.estimate import Estimate

CLASSES_SHOWN = 20

Rows = list[tuple[str, int]]


def of_splitting(result: "SplittingResult") -> Summary:
    """Of split-sentences."""
    lines = [*table(_splitting_rows(result)), f"written: {_shown(result.files)}, {result.meta}"]
    return Summary("split-sentences", vars(result), lines)


def of_training(result: "TrainingResult") -> Summary:
    """Of train-tokenizer."""
    lines = [*table(_training_rows(result)), f"written: {', '.join(result.files)}"]
    return Summary("train-tokenizer", vars(result), lines)


def of_pretraining(result: "CreationResult") -> Summary:
    """Of create-pretraining."""
    written = [
        f"written: {_shown(names)}, {result.tokenizer[split]}, {result.meta[split]}"
        for split, names in result.files.items()
    ]
    return Summary("create-pretraining", vars(result), [*table(_pretraining_rows(result)), *written])


def of_finetuning(result: "FinetuningResult") -> Summary:
    """Of create-finetuning."""
    lines = []
    for split, about in result.counters.items():
        lines += table(_finetuning_rows(split, about["counters"]))
    lines.append(f"written: {', '.join([*map(_shown, result.files.values()), *result.others, str(result.meta)])}")
    counters = {split: about["counters"] for split, about in result.counters.items()}
    return Summary("create-finetuning", {**vars(result), "counters": counters}, lines)


def of_verification(report: "VerifyReport") -> Summary:
    """Of verify; the exit code is 1 where there are faults."""
    facts = {
        "files": report.files,
        "records": report.records,
        "faults": report.counts.total(),
        "faults_by_kind": report.counts,
        "messages": report.faults,
        "not_checked": report.not_checked,
    }
    return Summary("verify", facts, [str(report)], exit_code=1 if report.faults else 0)


def of_report(result: "ReportResult") -> Summary:
    """Of report."""
    width = max(map(len, result.figures))
    lines = [f"{name:<{width}}  {shown(value):>14}" for name, value in result.figures.items()]
    for name, found in result.overlap.items():
        short = found["too_short"]
        more = f", {short:,} {'is' if short == 1 else 'are'} too short to tell" if short else ""
        lines.append(f"{name}: {found['contaminated']:,} of {found['rows']:,} rows are in the corpus{more}")
    return Summary("report", vars(result), [*lines, f"written: {', '.join(result.files)}"])


def of_estimate(command: str, estimate: "Estimate", more: Mapping[str, float] | None = None) -> Summary:
    """Of a dry run on this machine; more: figures for programs alone."""
    records = ", ".join(f"{split} {count:,}" for split, count in estimate.records.items())
    rows = {
        "would read": _read(estimate.reads),
        "would write": _listed(estimate.writes),
        "would replace": _listed(estimate.replaces) if estimate.replaces else "nothing",
        "records": records or None,
        "size": estimate.output_bytes is not None and size(estimate.output_bytes),
        "disk meanwhile": estimate.work_bytes is not None and f"{size(estimate.work_bytes)} more",
        "time": estimate.seconds is not None and f"{duration(estimate.seconds)} with {_processes(estimate.workers)}",
        "memory": estimate.memory_bytes is not None and size(estimate.memory_bytes),
    }
    lines = [f"{name:<15} {text}" for name, text in rows.items() if text]
    facts = {"dry_run": True, **vars(estimate), **(more or {})}
    return Summary(command, facts, [*lines, f"Nothing was written; {estimate.basis}."])


def _read(files: Mapping[str, int]) -> str:
    return f"{_listed(list(files))}: {size(sum(files.values()))}" if files else "no files"


def _processes(count: int) -> str:
    return f"{count} process{'es' * (count > 1)}"


def _listed(names: Sequence[str], most: int = 4) -> str:
    """Names in a line; of many the first ones, and how many there are."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])}, ... ({len(names):,} files)"


def _shown(names: Sequence[str]) -> str:
    """The files of a split."""
    return names[0] if len(names) == 1 else f"{names[0]} ... ({len(names)} shards)"


def _splitting_rows(result: "SplittingResult") -> Rows:
    rows: Rows = []
    for what in ("documents", "sentences", "bytes"):
        counters = result.counters[what]
        rows += [(f"{what} read", counters["read"])]
        rows += [(f"  left out, {reason.replace('_', ' ')}", count) for reason, count in counters["dropped"].items()]
        rows += [(f"{what} written", counters["written"])]
    return [*rows, ("sentences that were cut", result.counters["sentences_cut"])]


def _training_rows(result: "TrainingResult") -> Rows:
    return [
        ("lines read", result.lines_read),
        ("lines used", result.lines_used),
        ("left out by sampling", result.lines_left_out),
        ("left out, too long", result.lines_too_long),
        ("left out, empty", result.lines_empty),
        ("left out, invalid UTF-8", result.lines_invalid),
        ("NUL characters removed", result.nul_characters),
        ("characters, without white space", result.characters),
        ("  not in the vocabulary", result.characters_not_covered),
        ("vocabulary", result.vocab_size),
    ]


def _pretraining_rows(result: "CreationResult") -> Rows:
    counters = result.counters
    return [
        ("documents", counters["documents"]),
        *([("  set aside for evaluation", counters["documents_eval"])] if "eval" in result.files else []),
        ("sentences read", counters["sentences"]),
        ("sentences used", counters["sentences_used"]),
        *((f"  left out, {reason.replace('_', ' ')}", count) for reason, count in counters["dropped"].items()),
        ("tokens", counters["tokens"]),
        ("  cut from long pairs", counters.get("tokens_truncated", 0)),
        ("  unknown to the tokenizer", counters["tokens_unknown"]),
        *((f"examples, {split}", counters[f"examples_{split}"]) for split in result.files),
    ]


def _finetuning_rows(split: str, counters: Mapping) -> Rows:
    """Of a split's counters in the meta file of fine-tuning records."""
    plain = {name: count for name, count in counters.items() if isinstance(count, int) and name != "examples"}
    rows = [(f"{split}: records", counters["examples"]), *_classes(counters.get("labels", {}))]
    rows += [(f"  {counter_name(name)}", count) for name, count in plain.items()]
    rows += [(f"  left out, {reason.replace('_', ' ')}", n) for reason, n in counters["dropped"].items()]
    return rows + [(f"  {reason.replace('_', ' ')}", count) for reason, count in counters["notes"].items()]


def _classes(labels: Mapping[str, int]) -> Rows:
    """The classes of a split with their rows, the largest where they are many."""
    shown = sorted(labels, key=lambda name: -labels[name])[:CLASSES_SHOWN]
    rows = [(f"  label {name[:40]}", count) for name, count in labels.items() if name in shown]
    rest = labels.keys() - set(shown)
    return rows + ([(f"  {len(rest)} more labels", sum(labels[name] for name in rest))] if rest else [])
