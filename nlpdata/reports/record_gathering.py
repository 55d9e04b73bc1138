"""Reads records for their report, in worker processes."""

from collections.abc import Mapping, Sequence

import numpy as np

from nlpdata.errors import DataError
from nlpdata.execution.executor import Progress
from nlpdata.files.paths import AnyPath, file_size
from nlpdata.files.sets import split_shard
from nlpdata.records.contract import find_meta, odd_features, read_meta, split_name
from nlpdata.records.inspection import describe, tokenizer_of
from nlpdata.records.reader import Records, open_records, stored_bytes
from nlpdata.records.verification import VerifyReport, verify
from nlpdata.reports.counting import counted
from nlpdata.reports.options import ReportRequest
from nlpdata.reports.record_survey import RecordCounts, Setup, Unit, repeated, set_up, survey_records
from nlpdata.reports.records import RecordFacts
from nlpdata.tokenizers import Tokenizer, load_tokenizer

_UNIT_RECORDS = 1 << 16
_PLACES = 64  # of a sample
_EXAMPLES, _EXAMPLE_CHARACTERS = 6, 800


def gather_records(request: ReportRequest, title: str, files: Sequence[AnyPath]) -> RecordFacts:
    """What record files hold. Raises UsageError, DataError."""
    groups, metas = _grouped(files)
    progress = Progress("opening", stored_bytes(files), quiet=not request.progress)
    opened = {name: open_records([str(path) for path in paths], progress.add) for name, paths in groups.items()}
    progress.close()
    totals = {name: len(records) for name, records in opened.items()}
    if not sum(totals.values()):
        raise DataError(f"{title}: the files hold no records")
    first = next(iter(opened.values()))
    given = load_tokenizer(request.tokenizer) if request.tokenizer is not None else None
    tokenizer, note = (given, "") if given else tokenizer_of(first, None)
    meta = first.meta or {}
    special = meta.get("tokenizer", {}).get("special_ids") or (
        {role: getattr(tokenizer, f"{role}_id") for role in ("pad", "unk", "cls", "sep", "mask")} if tokenizer else {}
    )
    size = tokenizer.vocab_size if tokenizer else meta.get("tokenizer", {}).get("vocab_size", 0)
    checked = _checked(files, request) if request.limit is None else None
    units = _units(totals, request.limit)
    paths = {name: tuple(map(str, own)) for name, own in groups.items()}
    counts, hashes = _survey(units, Setup(paths, special, size), list(groups), request)
    return RecordFacts(
        title,
        counts,
        totals,
        [(str(path), file_size(path)) for path in files],
        meta,
        metas,
        request.limit,
        tokenizer,
        note,
        repeated(hashes),
        [example for name, records in opened.items() for example in _examples(name, records, tokenizer, len(opened))],
        checked,
        [
            f"{name}: {found} is not counted: it has another type or length than such records have"
            for name, records in opened.items()
            for found in odd_features(records.features)
        ],
    )


def _grouped(files: Sequence[AnyPath]) -> tuple[dict[str, list[AnyPath]], dict[str, Mapping]]:
    """The files of each split of a fine-tuning set, or of each set of pretraining records, and the meta file of each."""
    groups: dict[str, list[AnyPath]] = {}
    metas: dict[str, Mapping] = {}
    read: dict[AnyPath, dict] = {}
    for path in files:
        found = find_meta(path)
        meta = read.setdefault(found, read_meta(found)) if found else {}
        base = split_shard(path)[0]
        name = split_name(meta, path.name) or base.name
        if name in groups and split_shard(groups[name][0])[0] != base:  # sets of one name in several folders
            name = str(base)
        groups.setdefault(name, []).append(path)
        metas.setdefault(name, meta)
    order = [name for split in ("train", "dev", "test") for name in groups if name.startswith(split)]
    names = (
        list(dict.fromkeys([*order, *groups])) if any(meta.get("splits") for meta in metas.values()) else list(groups)
    )
    return {name: groups[name] for name in names}, {name: metas[name] for name in names}


def _units(totals: Mapping[str, int], limit: int | None) -> list[Unit]:
    """All records in ranges; with a limit, ranges that are spread evenly over each group."""
    ranges: list[tuple[str, int, int]] = []
    whole = sum(totals.values())
    for name, total in totals.items():
        if limit is None or limit >= whole:
            ranges += [(name, at, min(at + _UNIT_RECORDS, total)) for at in range(0, total, _UNIT_RECORDS)]
            continue
        share = max(limit * total // whole, 1) if total else 0
        places = min(_PLACES, share)
        for place in range(places):
            start = total * place // places
            ranges.append((name, start, start + share * (place + 1) // places - share * place // places))
    return [Unit(number, *each) for number, each in enumerate(ranges)]


def _survey(
    units: Sequence[Unit], setup: Setup, names: Sequence[str], request: ReportRequest
) -> tuple[dict[str, RecordCounts], list[np.ndarray]]:
    counts = {name: RecordCounts() for name in names}
    progress = Progress(
        "reading", sum(unit.stop - unit.start for unit in units), quiet=not request.progress, rate=_rate
    )
    for unit, found in counted(survey_records, units, set_up, setup, progress, request, _place):
        counts[unit.group].add(found)
    hashes = []
    for own in counts.values():
        parts = [part for _, part in sorted(own.hashes, key=lambda numbered: numbered[0])]
        hashes.append(np.concatenate([np.empty(0, np.uint64), *parts]))
        own.hashes = []
    return counts, hashes


def _place(unit: Unit) -> str:
    return f"{unit.group}, records {unit.start} to {unit.stop}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f} records/s"


def _checked(files: Sequence[AnyPath], request: ReportRequest) -> VerifyReport:
    progress = Progress("checking", stored_bytes(files), quiet=not request.progress)
    found = verify([str(path) for path in files], progress.add)
    progress.close()
    return found


def _examples(name: str, records: Records, tokenizer: Tokenizer | None, groups: int) -> list[tuple[str, str]]:
    """Records from all parts of a group, as `nlpdata inspect` shows them."""
    most = min(max(_EXAMPLES // groups, 1), len(records))
    made = []
    for place in range(most):
        first, *lines = describe(records, len(records) * place // most, tokenizer).split("\n")
        text = " ".join(" ".join(lines).split())
        text = text if len(text) <= _EXAMPLE_CHARACTERS else f"{text[:_EXAMPLE_CHARACTERS]} ..."
        made.append((f"{name} {first}" if groups > 1 else first, text))
    return made
