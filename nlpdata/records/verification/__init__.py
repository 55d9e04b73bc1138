"""Verification of record files: framing, checksums, the meta file's promises, and what every record must hold.

docs/records.md has the list of what is checked.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from nlpdata.errors import DataError, NlpdataError
from nlpdata.files import PathNames
from nlpdata.files.paths import AnyPath, is_device
from nlpdata.files.sets import split_shard
from nlpdata.records.contract import find_meta, read_meta, refuse_while_committing
from nlpdata.records.decoding import Column, MalformedExample, decode_examples
from nlpdata.records.reader import RecordFile, file_crc, find_records, stored_bytes
from nlpdata.records.verification.report import MAX_SHOWN, VerifyReport
from nlpdata.records.verification.rules import RecordRules
from nlpdata.records.verification.sets import check_mixed, check_questions, check_set, check_shards

__all__ = ["MAX_SHOWN", "VerifyReport", "verify"]

_BATCH = 1024
_KEYS = ("task_type", "shards", "processor_type", "train_data_size", "max_seq_length", "tokenizer")
"""A file with none of these is not a meta file of records, ours or an older tool's."""


def verify(paths: PathNames, on_bytes: Callable[[int], None] = lambda count: None) -> VerifyReport:
    """Verifies record files (paths or patterns) against their meta files.

    Args:
      paths: record files, as in open_records.
      on_bytes: is told of the files' bytes, part by part, as they are verified, for progress.

    Record numbers in messages count from 0. Raises UsageError where a pattern matches nothing, DataError where a set is
    being replaced; every other fault is in the report.
    """
    report = VerifyReport()
    sets: dict[AnyPath, list[AnyPath]] = {}
    for path in find_records(paths):
        refuse_while_committing(path)
        sets.setdefault(split_shard(path)[0], []).append(path)
    alone: dict[AnyPath, list[tuple[AnyPath, RecordRules]]] = {}  # sets without a meta file, by folder
    for base, files in sets.items():
        there = _check_files(files, report)
        faults = report.counts["meta file"]
        meta = _read_meta(base, report)
        if meta is not None:
            check_set(base, there, meta, report)
        listed = (meta or {}).get("shards", [])
        if not listed:
            check_shards(base, there, report)
        rules = RecordRules(meta, files[0].name)  # of the whole set: its files must agree
        promised = {shard["file"]: shard for shard in listed}
        for path in there:
            passes = _Passes(stored_bytes([path]), on_bytes)
            _check_file(path, promised.get(path.name), rules, report, passes)
            passes.end()
        if meta is not None:
            check_questions(base, meta, there, rules, report)
        elif report.counts["meta file"] == faults:
            alone.setdefault(base.parent, []).append((base, rules))
    for found in alone.values():
        check_mixed(found, report)
    return report


def _check_files(files: list[AnyPath], report: VerifyReport) -> list[AnyPath]:
    """Those that are files; a device or a FIFO would never end."""
    found = []
    for path in files:
        if is_device(path):
            report.files += 1
            report.add("not a file", f"{path}: is a device or a pipe, not a file")
        else:
            found.append(path)
    return found


def _read_meta(base: AnyPath, report: VerifyReport) -> dict | None:
    """The meta file of a set; None where there is none, or it is at fault, which is reported."""
    try:
        found = find_meta(base)
        meta = read_meta(found) if found else None
    except NlpdataError as error:
        report.add("meta file", str(error))
        return None
    if meta is not None and not any(key in meta for key in _KEYS):
        report.add("meta file", f"{found}: is not a meta file of records: it has none of {', '.join(_KEYS)}")
        return None
    if meta is None or "shards" not in meta:
        folder = base.parent / "meta.json"
        none = f"{folder} does not list it" if folder.exists() else "there is no meta file next to it"
        why = none if meta is None else "its meta file is an older tool's"
        what = "number of records, file checksums, vocabulary range, special ids, tokenizer"
        report.not_checked.append(f"{base}: {what} ({why})")
    return meta


class _Passes:
    """The bytes of a file that are verified, for progress: it is read for its checksum, to find its records, and record by record,
    which takes most of the time."""

    def __init__(self, size: int, on_bytes: Callable[[int], None]) -> None:
        self._size, self._on_bytes = size, on_bytes
        self._done, self._told = 0.0, 0

    def quick(self, count: int) -> None:
        """So many bytes of the first or the second pass are done."""
        self._add(count / 10)

    def records(self, share: float) -> None:
        """This share of the records is done."""
        self._add(self._size * share * 0.8)

    def end(self) -> None:
        """The file is done, whichever passes it took."""
        self._add(self._size)

    def _add(self, count: float) -> None:
        self._done = min(self._done + count, self._size)
        told, self._told = self._told, int(self._done)
        self._on_bytes(self._told - told)


def _check_file(
    path: AnyPath, promised: Mapping | None, rules: RecordRules, report: VerifyReport, passes: _Passes
) -> None:
    """A file's checksum and number of records, where the meta file promises them, and its records."""
    report.files += 1
    try:
        if promised and (found := file_crc(path, passes.quick)) != promised["crc32c"]:
            report.add("file checksum", f"{path}: crc32c is {found}, the meta file says {promised['crc32c']}")
        file = RecordFile(path, on_bytes=passes.quick)
    except DataError as error:
        report.add("framing", str(error))
        return
    report.records += len(file)
    if promised is None and not len(file):
        report.add("no records", f"{path}: holds no records")
    if promised and promised["records"] != len(file):
        report.add("record count", f"{path}: {len(file)} records, the meta file says {promised['records']}")
    for first in range(0, len(file), _BATCH):
        stop = min(first + _BATCH, len(file))
        intact = [i for i in range(first, stop) if file.crc_matches(i)]
        for i in sorted(set(range(first, stop)) - set(intact)):
            report.add("record checksum", f"{path}, record {i}: the data fails its checksum")
        for rows, batch in _decode(file, intact, path, report):
            for kind, broken, describe in rules.check(batch, len(rows)):
                for at in np.flatnonzero(broken).tolist():
                    report.add(kind, f"{path}, record {rows[at]}: {describe(at)}")
        passes.records((stop - first) / len(file))


def _decode(
    file: RecordFile, rows: list[int], path: AnyPath, report: VerifyReport
) -> Iterator[tuple[list[int], Mapping[str, Column]]]:
    """The columns of records; a record that is not an Example is reported and left out."""

    def decode(rows: list[int]) -> Mapping[str, Column]:
        parts = [file.record(i) for i in rows]
        stops = np.cumsum([len(part) for part in parts])
        return decode_examples(b"".join(parts), stops - [len(part) for part in parts], stops)

    while rows:
        try:
            yield rows, decode(rows)
            return
        except MalformedExample as error:
            good, rows = rows[: error.record], rows[error.record :]
            if good:  # those before it are in order; next time it is the first
                yield good, decode(good)
                continue
            report.add("not an Example", f"{path}, record {rows[0]}: {error.reason}")
            rows = rows[1:]
