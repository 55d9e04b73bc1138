"""The report of pretraining records: their counts and meta files as a page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nlpdata.corpus.splitting.filters import script_of
from nlpdata.records.inspection import label_in_words
from nlpdata.records.verification import VerifyReport
from nlpdata.reports.charts import Cell, bars, histogram, quantile
from nlpdata.reports.corpus import coverage
from nlpdata.reports.page import Examples, Item, Notes, Report, Section, Table, count_of, percent, size
from nlpdata.reports.record_survey import RecordCounts
from nlpdata.text.loss import counter_name
from nlpdata.tokenizers import Tokenizer

_SHOWN = 16  # files
_FAULTS = 10
_OPTIONS = 100  # and counters: there are fewer in files of ours
_HOW_TO_READ = (
    "[MASK:river] is a masked piece with the true one behind the colon, [bee:river] a replaced one, [=river] one that was left as "
    "it is."
)


@dataclass(frozen=True)
class RecordFacts:
    """What is known of records.

    Attributes:
      title: what was given.
      groups: name of a set or a split -> its counts, in their order.
      totals: name -> all its records, of which the counts may be a sample.
      files: (path, bytes) of the record files.
      meta: the meta file of the first group; {} where there is none.
      metas: name -> the meta file of each group.
      limit: records that were to be read at most; None: all were read.
      tokenizer: None where there is none, and `note` says why.
      note: about the tokenizer.
      repeated: of each group: records equal to an earlier one of it, and those that an earlier group has.
      examples: (where, the record in words).
      checked: what verification found; None where only a sample was read.
      not_counted: features whose values are not counted, and why.
    """

    title: str
    groups: Mapping[str, RecordCounts]
    totals: Mapping[str, int]
    files: Sequence[tuple[str, int]]
    meta: Mapping
    metas: Mapping[str, Mapping]
    limit: int | None
    tokenizer: Tokenizer | None
    note: str
    repeated: Sequence[tuple[int, int]]
    examples: Sequence[tuple[str, str]]
    checked: VerifyReport | None
    not_counted: Sequence[str] = ()

    @cached_property
    def whole(self) -> RecordCounts:
        """The counts of all groups together."""
        made = RecordCounts()
        for counts in self.groups.values():
            made.add(counts)
        return made

    @property
    def what_was_read(self) -> str:
        """A sentence for below the title."""
        records, files = sum(self.totals.values()), count_of(len(self.files), "file")
        if self.limit is None:
            return f"{count_of(records, 'record')} in {files}, read as a whole."
        read = sum(counts.records for counts in self.groups.values())
        return (
            f"A sample: {read:,} of {count_of(records, 'record')} in {files}, spread evenly. The charts and shares are of the "
            "sample alone, and the records were not checked."
        )


def unknown_share(facts: RecordFacts, counts: RecordCounts) -> str | None:
    """The share of unknown tokens; None where neither a meta file nor a tokenizer says which id they have."""
    return percent(counts.unknown, counts.tokens) if facts.tokenizer or facts.meta.get("tokenizer") else None


def pretraining_report(facts: RecordFacts) -> Report:
    """The report of one or several sets of pretraining records."""
    every = facts.whole
    figures: list[tuple[str, Cell]] = [
        ("records", sum(facts.totals.values())),
        ("files", len(facts.files)),
        ("size", size(sum(count for _, count in facts.files))),
        ("sequence length, in tokens", every.width),
        ("padding", percent(every.padding, every.positions)),
        ("masked tokens", percent(every.masked, every.tokens) if every.predictions else "none: dynamic masking"),
        ("unknown tokens", unknown_share(facts, every)),
    ]
    names = facts.meta.get("label_names") or []
    sections = [
        _group(f"Records of {name}" if len(facts.groups) > 1 else "Records", counts, names)
        for name, counts in facts.groups.items()
    ]
    if every.predictions:
        sections.append(_masking(every, facts.meta))
    sections += [
        vocabulary(facts),
        _repeated(facts),
        left_out(facts),
        made_of(facts, facts.meta.get("options", {})),
        *checks(facts),
        examples(facts),
    ]
    return Report(f"Pretraining records {facts.title}", facts.what_was_read, tuple(figures), tuple(sections))


def _group(title: str, counts: RecordCounts, names: Sequence[str]) -> Section:
    items: list[Item] = [lengths(counts)]
    if counts.next_sentence:
        labels = {label_in_words(label, names): count for label, count in sorted(counts.next_sentence.items())}
        items.append(bars("Order of the two segments", {"records": labels}, "label"))
    items.append(token_table(counts))
    return Section(title, "", tuple(items))


def lengths(counts: RecordCounts, title: str = "Length of records", choices: int = 1) -> Item:
    """A histogram of tokens without padding: of records, or of the choices that each of them has."""
    what = "record" if choices == 1 else "choice"
    room = f"A {what} has room for {counts.width // choices:,} tokens."
    return histogram(title, counts.lengths, "tokens", f"{what}s", room)


def token_table(counts: RecordCounts) -> Table:
    """Figures about tokens."""
    rows: list[tuple[Cell, ...]] = [
        ("records", counts.records),
        ("tokens", counts.tokens),
        ("tokens of a record, on average", counts.tokens / counts.records if counts.records else None),
        ("half of the records have up to", quantile(counts.lengths, 0.5)),
        ("records that are full", percent(counts.lengths[counts.width], counts.records)),
        ("padding", percent(counts.padding, counts.positions)),
        ("unknown tokens", counts.unknown),
    ]
    return Table(("", ""), tuple(rows), "Tokens, special ones included")


def _masking(counts: RecordCounts, meta: Mapping) -> Section:
    options = meta.get("options", {})
    asked = options.get("masked_lm_prob")  # of a file that anybody may have written
    rows: list[tuple[Cell, ...]] = [("share of the tokens that are masked", percent(counts.masked, counts.tokens))]
    if isinstance(asked, int | float) and abs(asked) <= 1:
        rows.append(("share asked for (masked_lm_prob)", percent(asked, 1)))
    most = meta.get("max_predictions_per_seq")
    if most:
        rows.append((f"records with the most there may be ({most})", percent(counts.predictions[most], counts.records)))
    items: list[Item] = [
        Table(("", ""), tuple(rows)),
        histogram("Masked tokens of a record", counts.predictions, "masked tokens", "records"),
        bars(
            "Words masked in a row",
            {"runs": {str(n): count for n, count in sorted(counts.runs.items())}},
            "words",
            "Neighbours count as one run, also where they were drawn one by one.",
        ),
    ]
    if counts.shown:
        total = counts.shown.total()
        note = ", ".join(f"{what} {percent(count, total)}" for what, count in counts.shown.items())
        items.append(
            bars(
                "What stands in a masked place",
                {"tokens": dict(counts.shown)},
                "shown",
                f"{note}. Usual are 80%, 10% and 10%.",
            )
        )
    return Section("Masking", "", tuple(items))


def vocabulary(facts: RecordFacts) -> Section:
    """How much of the vocabulary is used, and by which scripts."""
    if facts.tokenizer is None:
        return Section("Vocabulary", facts.note)
    pieces, loaded = facts.whole.pieces, facts.tokenizer
    items: list[Item] = [Table(("", ""), tuple(coverage(pieces, loaded.ordinary_ids)), "Pieces")]
    scripts = _scripts(pieces, loaded)
    if scripts:
        shown = dict(sorted(scripts.items(), key=lambda item: (-item[1], item[0])))
        items.append(
            bars(
                "Letters by script",
                {"letters": shown},
                "script",
                "Letters of the pieces, as the tokenizer normalises them.",
            )
        )
    return Section("Vocabulary", f"{loaded.kind}, {loaded.vocab_size:,} pieces.", tuple(items))


def _scripts(pieces: np.ndarray, tokenizer: Tokenizer) -> Counter[str]:
    used = tokenizer.ordinary_ids[pieces[tokenizer.ordinary_ids] > 0].tolist()
    scripts: Counter[str] = Counter()
    for piece, count in zip(tokenizer.pieces(used), pieces[used].tolist(), strict=True):
        for script in filter(lambda script: script is not None, map(script_of, piece)):
            scripts[script or "other scripts"] += count
    return scripts


def _repeated(facts: RecordFacts) -> Section:
    duplicates = facts.meta.get("options", {}).get("dupe_factor")
    text = "Records whose tokens are equal, whatever is masked in them."
    if isinstance(duplicates, int) and duplicates > 1:
        text += f" Each document was cut {duplicates} times (dupe_factor): short ones give the same record each time."
    return repeated(facts, "set", text)


def repeated(facts: RecordFacts, kind: str, text: str) -> Section:
    """How many records are equal to others.

    Args:
      facts: about the records.
      kind: what its groups are, e.g. "split".
      text: what the section says first.
    """
    columns, rows = [kind, "records", f"equal to an earlier one of its {kind}", "share"], []
    if several := len(facts.groups) > 1:
        columns += [f"also in a {kind} above", f"share of the {kind}"]
    for (name, counts), (own, others) in zip(facts.groups.items(), facts.repeated, strict=True):
        of_others = (others, percent(others, counts.records)) if several else ()
        rows.append((name, counts.records, own, percent(own, counts.records), *of_others))
    return Section("Repeated records", text, (Table(tuple(columns), tuple(rows)),))


def left_out(facts: RecordFacts) -> Section:
    """The counters of the meta files: what was read, used and left out, by reason."""
    items: list[Item] = []
    for name, meta in facts.metas.items():
        split = meta.get("splits", {}).get(name, {})
        counters = (split if isinstance(split, Mapping) else {}).get("counters") or meta.get("counters") or {}
        rows = tuple(counter_rows(counters))
        if rows and (not items or split):
            items.append(Table(("what", "count"), rows, name if split else "Counters of create-pretraining"))
    if not items:
        return Section("What was left out", "No meta file says what was left out.")
    return Section("What was read and left out", "", tuple(items))


def counter_rows(counters: object) -> list[tuple[Cell, ...]]:
    """Counters of a meta file as rows; what is of another kind is not shown."""
    rows: list[tuple[Cell, ...]] = []
    counters = counters if isinstance(counters, Mapping) else {}
    for name, value in counters.items():
        if name == "examples" and "examples_train" in counters:  # of pretraining: those of one of the two, again
            continue
        if isinstance(value, int | float):
            rows.append((counter_name(str(name)), value))
        elif isinstance(value, Mapping) and name in ("dropped", "notes"):
            what = "left out" if name == "dropped" else "noted"
            rows += [
                (f"{what}: {reason.replace('_', ' ')}", count)
                for reason, count in value.items()
                if isinstance(count, int)
            ]
    return rows[:_OPTIONS]


def made_of(facts: RecordFacts, options: Mapping) -> Section:
    """These options, and tokenizer, input and files, from the meta file."""
    meta = facts.meta
    items: list[Item] = []
    if options:
        rows = tuple((name, _plain(value)) for name, value in sorted(options.items())[:_OPTIONS] if value is not None)
        items.append(Table(("option", "value"), rows, "Options"))
    entry = meta.get("tokenizer", {})
    if entry:
        shown = ("type", "vocab_size", "do_lower_case", "keep_accents", "file", "sha256")
        items.append(Table(("tokenizer", ""), tuple((name, _plain(entry[name])) for name in shown if name in entry)))
    listed = meta.get("inputs")
    inputs = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    if inputs:
        rows = tuple(
            (str(each.get("file")), size(count) if isinstance(count := each.get("bytes"), int) else None)
            for each in inputs[:_SHOWN]
        )
        more = f", the first {_SHOWN} of {len(inputs):,}" if len(inputs) > _SHOWN else ""
        items.append(Table(("input", "size"), rows, f"Made of{more}"))
    more = f", the first {_SHOWN} of {len(facts.files):,}" if len(facts.files) > _SHOWN else ""
    items.append(
        Table(
            ("file", "size"), tuple((path, size(count)) for path, count in facts.files[:_SHOWN]), f"Record files{more}"
        )
    )
    text = "" if meta else "There is no meta file: how the records were made is not known."
    return Section("How it was made", text, tuple(items))


def _plain(value: object) -> Cell:
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def checks(facts: RecordFacts) -> list[Section]:
    """What `nlpdata verify` found."""
    found = facts.checked
    if found is None:
        return [Section("Checks", "", (Notes(tuple(facts.not_counted)),))] if facts.not_counted else []
    total = sum(found.counts.values())
    lines = [
        f"{count_of(found.records, 'record')} checked: {count_of(total, 'fault') if total else 'no faults'}.",
        *found.faults[:_FAULTS],
    ]
    if total > _FAULTS:
        lines.append("nlpdata verify lists more.")
    lines += [f"Not checked: {each}" for each in found.not_checked]
    return [Section("Checks", "", (Notes((*lines, *facts.not_counted)),))]


def examples(facts: RecordFacts) -> Section:
    """Records in words."""
    has_masks = any(counts.predictions for counts in facts.groups.values())
    shown = Examples("Records", tuple(facts.examples))
    return Section("Examples", _HOW_TO_READ if has_masks else "", (shown,))
