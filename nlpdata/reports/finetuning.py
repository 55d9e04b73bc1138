"""The report of fine-tuning records: the counts of their splits and the meta file as a page."""

from collections import Counter
from collections.abc import Mapping, Sequence

from nlpdata.finetuning.uses import options_in_use
from nlpdata.records.contract import choices_of_meta
from nlpdata.reports.charts import Cell, bars, binned, held, histogram
from nlpdata.reports.page import Item, Report, Section, Table, percent, size
from nlpdata.reports.record_survey import RecordCounts
from nlpdata.reports.records import (
    RecordFacts,
    checks,
    examples,
    left_out,
    lengths,
    made_of,
    repeated,
    unknown_share,
    vocabulary,
)

_LABELS = 24  # that are shown
_REPEATED = (
    "Records whose tokens are equal. A row of dev or test that is also in train measures what was learned by heart."
)


def finetuning_report(facts: RecordFacts) -> Report:
    """The report of a set of fine-tuning records."""
    every, choices = facts.whole, choices_of_meta(facts.meta)
    figures: list[tuple[str, Cell]] = [
        ("dataset", str(facts.meta.get("processor_type", "unknown"))),
        *((f"records, {name}", total) for name, total in facts.totals.items()),
        ("size", size(sum(count for _, count in facts.files))),
        *([("choices of a record", choices)] if choices > 1 else []),
        ("sequence length, in tokens", every.width // choices),
        ("unknown tokens", unknown_share(facts, every)),
    ]
    sections = [_splits(facts), _labels(facts), _lengths(facts), repeated(facts, "split", _REPEATED), vocabulary(facts)]
    options = options_in_use(facts.meta.get("options", {}))
    sections += [left_out(facts), made_of(facts, options), *checks(facts), examples(facts)]
    shown = tuple(section for section in sections if section.items or section.text)
    return Report(f"Fine-tuning records {facts.title}", facts.what_was_read, tuple(figures), shown)


def _counters(facts: RecordFacts, split: str) -> Mapping:
    entry = facts.meta.get("splits", {}).get(split, {})
    counters = entry.get("counters", {}) if isinstance(entry, Mapping) else {}
    return counters if isinstance(counters, Mapping) else {}


def _splits(facts: RecordFacts) -> Section:
    rows = []
    choices = choices_of_meta(facts.meta)
    what = "record" if choices == 1 else "choice"
    for name, counts in facts.groups.items():
        own = _counters(facts, name)
        cut = next(
            (own[key] for key in ("truncated", "answers_cut") if isinstance(own.get(key), int)), 0 if own else None
        )
        units = next((own[key] for key in ("rows_used", "questions") if isinstance(own.get(key), int)), counts.records)
        mean = counts.tokens / counts.records / choices if counts.records else None
        share, padding = None if cut is None else percent(cut, units), percent(counts.padding, counts.positions)
        rows.append((name, facts.totals[name], mean, padding, share, unknown_share(facts, counts)))
    columns = ("split", "records", f"tokens of a {what}, on average", "padding", "cut off", "unknown tokens")
    return Section(
        "Splits",
        "Cut off: the share of texts that are longer than a record, or of answers that no window holds."
        if choices == 1
        else "Cut off: the share of records of which a choice is longer than its room.",
        (Table(columns, tuple(rows)),),
    )


def _labels(facts: RecordFacts) -> Section:
    groups = {name: counts for name, counts in facts.groups.items() if counts.has_labels}
    items: list[Item] = []
    if any(counts.starts or counts.no_answer for counts in groups.values()):
        for name, counts in groups.items():
            items += _answers(name, counts)
        return Section("Answers", "", tuple(items))
    names = facts.meta.get("label_names") or []
    names = names if len(set(names)) == len(names) else []  # two labels of one name would be one bar
    if not groups:
        return Section("Labels")
    if facts.meta.get("label_type") == "float":
        for name, counts in groups.items():
            items.append(bars(f"Scores of {name}", {"records": _score_bins(counts.labels)}, "score"))
        return Section("Scores", "", tuple(items))
    every = sum((counts.labels for counts in groups.values()), Counter())
    chosen = sorted(sorted(every, key=lambda label: -every[label])[:_LABELS])
    labelled = {name: {_name(each, names): counts.labels[each] for each in chosen} for name, counts in groups.items()}
    shares = tuple(
        (_name(each, names), *(percent(counts.labels[each], counts.records) for counts in groups.values()))
        for each in chosen
    )
    more = f"The {_LABELS} most frequent of {len(every):,} labels." if len(every) > _LABELS else ""
    items = [
        bars("Records by label", labelled, "label", more),
        Table(("label", *labelled), shares, "Shares of the records"),
    ]
    if any(counts.none for counts in groups.values()):
        items.append(
            Table(("split", "records without a label"), tuple((name, counts.none) for name, counts in groups.items()))
        )
    unlabelled = [name for name in facts.groups if name not in groups]
    text = f"No labels: {', '.join(unlabelled)}." if unlabelled else ""
    return Section("Labels", text, tuple(items))


def _score_bins(labels: Mapping[float, int]) -> dict[str, int]:
    """Scores, which are rounded to tenths, in at most 12 bins of one width."""
    least = min(labels)
    tenths = {round(10 * (score - least)): count for score, count in labels.items()}
    edges, heights, _ = binned(tenths, 12)
    ends = (tuple(f"{least + end / 10:g}" for end in bin) for bin in held(edges, tenths))
    names = [low if low == high else f"{low} to {high}" for low, high in ends]
    return dict(zip(names, heights, strict=True))


def _name(label: float, names: Sequence[str]) -> str:
    place = int(label)
    return names[place] if 0 <= place < len(names) else f"{label:g}"


def _answers(name: str, counts: RecordCounts) -> list[Item]:
    answered = sum(counts.starts.values())
    return [
        bars(
            f"Windows of {name}", {"windows": {"with an answer": answered, "without one": counts.no_answer}}, "window"
        ),
        histogram(f"Where answers start, {name}", counts.starts, "token of the window", "windows"),
        histogram(f"Length of answers, {name}", counts.answers, "tokens", "windows"),
    ]


def _lengths(facts: RecordFacts) -> Section:
    choices = choices_of_meta(facts.meta)
    what = "records" if choices == 1 else "choices"
    items = tuple(lengths(counts, f"Length of {what}, {name}", choices) for name, counts in facts.groups.items())
    return Section("Lengths", "", items)
