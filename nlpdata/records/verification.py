"""Verification of record files: framing, checksums, the meta file's promises, and what every record must hold.

A check gets the columns of a batch and returns, for each rule, which records break it; all rules are vectorised.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

import numpy as np

from nlpdata.errors import DataError, NlpdataError
from nlpdata.files import PathNames
from nlpdata.files.paths import AnyPath
from nlpdata.records.contract import features_of_meta, find_meta, read_meta, refuse_while_committing, split_shard
from nlpdata.records.decoding import Column, MalformedExample, decode_examples
from nlpdata.records.finetuning_checks import Broken, finetuning_faults
from nlpdata.records.reader import RecordFile, file_crc, find_records

MAX_SHOWN = 20  # faults of one kind that are listed; all are counted
_BATCH = 1024

_V1_NAMES = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}


@dataclass
class VerifyReport:
    """What verification found. `faults` is empty where all is well.

    Attributes:
      faults: messages, at most MAX_SHOWN of a kind.
      counts: faults by kind, all of them.
      files, records: what was read.
      not_checked: what could not be checked, and why.
    """

    faults: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    files: int = 0
    records: int = 0
    not_checked: list[str] = field(default_factory=list)

    def add(self, kind: str, message: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= MAX_SHOWN:
            self.faults.append(message)

    def __str__(self) -> str:
        lines = list(self.faults)
        lines += [
            f"... {count - MAX_SHOWN} more: {kind}" for kind, count in sorted(self.counts.items()) if count > MAX_SHOWN
        ]
        lines += [f"not checked: {text}" for text in self.not_checked]
        total = sum(self.counts.values())
        lines.append(
            f"{_count(self.files, 'file')}, {_count(self.records, 'record')}: "
            + (_count(total, "fault") if total else "no faults")
        )
        return "\n".join(lines)


def verify(paths: PathNames) -> VerifyReport:
    """Verifies record files (paths or patterns) against their meta files.

    Record numbers in messages count from 0. Raises UsageError where a pattern matches nothing, DataError where a set is
    being replaced; every other fault is in the report.
    """
    report = VerifyReport()
    sets: dict[AnyPath, list[AnyPath]] = {}
    for path in find_records(paths):
        refuse_while_committing(path)
        sets.setdefault(split_shard(path)[0], []).append(path)
    for base, files in sets.items():
        meta = _read_meta(base, report)
        if meta is not None:
            _check_set(base, files, meta, report)
        if not (meta or {}).get("shards"):
            _check_numbers(base, files, report)
        rules = _Rules(meta, files[0].name)  # of the whole set: its files must agree
        promised = {shard["file"]: shard["records"] for shard in (meta or {}).get("shards", [])}
        for path in files:
            _check_file(path, promised.get(path.name), rules, report)
    return report


def _read_meta(base: AnyPath, report: VerifyReport) -> dict | None:
    try:
        found = find_meta(base)
        meta = read_meta(found) if found else None
    except NlpdataError as error:
        report.add("meta file", str(error))
        return None
    if meta is None or "shards" not in meta:
        why = "there is no meta file next to it" if meta is None else "its meta file is an older tool's"
        what = "number of records, file checksums, vocabulary range, special ids, tokenizer"
        report.not_checked.append(f"{base}: {what} ({why})")
    return meta


def _check_set(base: AnyPath, files: list[AnyPath], meta: dict, report: VerifyReport) -> None:
    """Files, their counts and checksums, and the tokenizer, against the meta file."""
    expected = {shard["file"]: shard for shard in meta.get("shards", [])}
    given = {path.name for path in files}
    for name in sorted(expected.keys() - given):
        if not (base.parent / name).exists():
            report.add("missing file", f"{base.parent / name}: missing; the meta file lists it")
    for path in files:
        if expected and path.name not in expected:
            listed = ", ".join(sorted(expected)[:5]) + (" ..." if len(expected) > 5 else "")
            report.add("extra file", f"{path}: not in the meta file, which lists {listed}")
        elif expected:
            wanted, found = expected[path.name]["crc32c"], file_crc(path)
            if found != wanted:
                report.add("file checksum", f"{path}: crc32c is {found}, the meta file says {wanted}")
    tokenizer = meta.get("tokenizer", {})
    if "file" in tokenizer and "sha256" in tokenizer:
        file = base.parent / tokenizer["file"]
        if not file.exists():
            report.add("tokenizer", f"{file}: missing; the meta file names it as the tokenizer")
        elif sha256(file.read_bytes()).hexdigest() != tokenizer["sha256"]:
            report.add("tokenizer", f"{file}: is not the tokenizer of these records (its sha256 differs)")


def _check_numbers(base: AnyPath, files: list[AnyPath], report: VerifyReport) -> None:
    """Whether all shards are there that their names promise; for sets without a list of them."""
    for count in sorted({split_shard(path)[2] for path in files} - {1}):
        present = {split_shard(path)[1] for path in base.parent.iterdir() if split_shard(path)[::2] == (base, count)}
        if len(present) < count:
            first = next(i for i in range(count) if i not in present)
            report.add("missing file", f"{base}: {len(present)} of {count} shards are there; {first:05d} is missing")


def _check_file(path: AnyPath, promised: int | None, rules: "_Rules", report: VerifyReport) -> None:
    """A file's records, of which the meta file may promise a number."""
    report.files += 1
    try:
        file = RecordFile(path)
    except DataError as error:
        report.add("framing", str(error))
        return
    report.records += len(file)
    if promised is not None and promised != len(file):
        report.add("record count", f"{path}: {len(file)} records, the meta file says {promised}")
    for first in range(0, len(file), _BATCH):
        stop = min(first + _BATCH, len(file))
        intact = [i for i in range(first, stop) if file.crc_matches(i)]
        for i in sorted(set(range(first, stop)) - set(intact)):
            report.add("record checksum", f"{path}, record {i}: the data fails its checksum")
        for rows, batch in _decode(file, intact, path, report):
            for kind, broken, describe in rules.check(batch, len(rows)):
                for at in np.flatnonzero(broken).tolist():
                    report.add(kind, f"{path}, record {rows[at]}: {describe(at)}")


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


class _Rules:
    """What the records of one set must hold: from the meta file, or from the first record where there is none."""

    def __init__(self, meta: dict | None, file: str) -> None:
        self.meta = meta = meta or {}
        tokenizer = meta.get("tokenizer", {})
        self.special = tokenizer.get("special_ids")
        self.vocab_size = tokenizer.get("vocab_size")
        features = features_of_meta(meta if "shards" in meta else None, file)
        self.shape = {f.name: (f.dtype, f.width) for f in features or ()}

    def check(self, columns: Mapping[str, Column], count: int) -> Iterator[Broken]:
        """Each rule that some record breaks, with those records."""
        if not self.shape:
            self.shape = {name: (column.dtype, int(column.counts[0])) for name, column in columns.items()}
        sound = None
        for name in [*self.shape, *(name for name in columns if name not in self.shape)]:
            broken, describe = self._shape_fault(name, columns, count)
            if broken.any():
                yield "shape", broken, describe
            sound = ~broken if sound is None else sound & ~broken
        if sound is None or not sound.any():
            return
        rows = {_V1_NAMES.get(name, name): _pick(columns[name], sound, self.shape[name][1]) for name in self.shape}
        index = np.flatnonzero(sound)
        for kind, broken, describe in self._content(rows):
            if broken.any():
                full = np.zeros(len(sound), bool)
                full[index] = broken
                yield kind, full, _by_position(describe, np.cumsum(sound) - 1)

    def _shape_fault(
        self, name: str, columns: Mapping[str, Column], count: int
    ) -> tuple[np.ndarray, Callable[[int], str]]:
        if name not in self.shape:
            dtype, counts = columns[name].dtype, columns[name].counts
            return counts > 0, lambda at: f"has a feature {name!r} ({counts[at]} of {dtype}) that the set does not have"
        column = columns.get(name)
        dtype, width = self.shape[name]
        if column is None:
            return np.ones(count, bool), lambda at: f"lacks feature {name!r}; expected {width} values of {dtype}"
        wrong = (column.counts != width) | (column.dtype != dtype)
        return (
            wrong,
            lambda at: (
                f"feature {name!r} has {column.counts[at]} values of {column.dtype}, expected {width} of {dtype}"
            ),
        )

    def _content(self, rows: Mapping[str, np.ndarray]) -> Iterator[Broken]:
        """Rules about values. One that builds on another leaves out the records that break the other."""
        sequence = [rows[name] for name in ("input_ids", "input_mask", "segment_ids", "token_boundary") if name in rows]
        masked = [rows[f"masked_lm_{name}"] for name in ("positions", "ids", "weights") if f"masked_lm_{name}" in rows]
        labels = rows.get("next_sentence_labels")
        has_sequence, has_masked = "input_ids" in rows and "input_mask" in rows, len(masked) == 3
        for columns, what in (
            (sequence if has_sequence else [], "input_ids, input_mask, segment_ids, token_boundary"),
            (masked if has_masked else [], "masked_lm_positions, masked_lm_ids, masked_lm_weights"),
            ([] if labels is None else [labels], "next_sentence_labels"),
        ):
            if columns and not _numbers_of_one_width(columns):
                fault = f"{what}: expected numbers, the same count of each"
                yield "shape", np.ones(len(columns[0]), bool), partial(_always, fault)
                return
        if has_sequence:
            yield from self._sequence(rows)
        if has_masked:
            yield from self._masks(rows, *masked)
        if labels is not None:
            label = labels[:, 0]
            yield (
                "label",
                (label != 0) & (label != 1),
                lambda at: f"next_sentence_labels is {label[at]}, expected 0 or 1",
            )
        yield from finetuning_faults(rows, self.meta)

    def _sequence(self, rows: Mapping[str, np.ndarray]) -> Iterator[Broken]:
        ids, mask = rows["input_ids"], rows["input_mask"]
        n, width = ids.shape
        lengths = (mask == 1).sum(axis=1)
        prefix = np.arange(width) < lengths[:, None]
        fine = (mask == prefix).all(axis=1)
        yield "input_mask", ~fine, lambda at: "input_mask is not ones followed by zeros"
        outside = self._outside(ids)
        yield (
            "input_ids",
            np.any(outside, axis=1),
            lambda at: f"input_ids[{np.argmax(outside[at])}] is {ids[at][outside[at]][0]}, expected {self._range}",
        )
        segment = rows.get("segment_ids", np.zeros_like(ids))
        padded = fine & ((segment == 0) | prefix).all(axis=1)
        ordered = ((segment == 0) | (segment == 1)).all(axis=1) & ~((np.diff(segment) < 0) & prefix[:, 1:]).any(axis=1)
        yield "segment_ids", fine & ~(padded & ordered), lambda at: "segment_ids are not 0 then 1, and 0 on padding"
        if self.special:
            pad, cls, sep = (self.special[name] for name in ("pad", "cls", "sep"))
            rest = (ids != pad) & ~prefix & ~outside & fine[:, None]
            yield "padding", rest.any(axis=1), lambda at: f"padding holds ids other than {pad}"
            yield "[CLS]", ids[:, 0] != cls, lambda at: f"starts with id {ids[at, 0]}, expected [CLS] ({cls})"
            last = ids[np.arange(n), np.maximum(lengths - 1, 0)]
            yield "[SEP]", fine & (last != sep), lambda at: f"ends with id {last[at]}, expected [SEP] ({sep})"
            fine &= last == sep
            packed = self.meta.get("options", {}).get("pack_across_documents", False)
            pairs = np.full(n, 2 if "next_sentence_labels" in rows else 1)
            if self.meta.get("splits"):  # of a fine-tuning set: some records have a second text, some none
                pairs += (segment == 1).any(axis=1)
            is_sep = (ids == sep) & prefix
            found = is_sep.sum(axis=1)
            if packed:  # any number, between documents; never at the start or one behind the other
                empty = (is_sep[:, 1:] & (is_sep[:, :-1] | (ids[:, :-1] == cls))).any(axis=1)
                yield "[SEP]", fine & empty, lambda at: "holds [SEP] with no document in front of it"
                pairs = found
            yield "[SEP]", fine & (found != pairs), lambda at: f"holds [SEP] {found[at]} times, expected {pairs[at]}"
            behind = (np.cumsum(is_sep, axis=1) - is_sep > 0) & prefix & (not packed)
            wrong = fine & (found == pairs) & padded & ordered & (segment != behind).any(axis=1)
            if "segment_ids" in rows:
                what = "are not 0" if packed else "do not change behind the first [SEP]"
                yield "segment_ids", wrong, lambda at: f"segment_ids {what}"
        if "token_boundary" in rows:
            boundary = rows["token_boundary"]
            odd = ((boundary != 0) & (boundary != 1)) | ((boundary != 0) & ~prefix & fine[:, None])
            yield "token_boundary", odd.any(axis=1), lambda at: "token_boundary is not 0 or 1, and 0 on padding"

    def _masks(
        self, rows: Mapping[str, np.ndarray], positions: np.ndarray, labels: np.ndarray, weights: np.ndarray
    ) -> Iterator[Broken]:
        count = (weights == 1).sum(axis=1)
        used = np.arange(positions.shape[1]) < count[:, None]
        fine = (weights == used).all(axis=1)
        yield "masked_lm_weights", ~fine, lambda at: "masked_lm_weights is not ones followed by zeros"
        yield "no prediction", fine & (count == 0), lambda at: "has no masked position"
        rest = ((positions != 0) | (labels != 0)) & ~used & fine[:, None]
        yield "masked_lm padding", rest.any(axis=1), lambda at: "masked_lm positions or ids behind the last are not 0"
        used &= fine[:, None]
        limits = (rows["input_mask"] == 1).sum(axis=1) if "input_mask" in rows else np.full(len(used), 1 << 62)
        outside = ((positions < 0) | (positions >= limits[:, None])) & used
        yield (
            "masked_lm_positions",
            outside.any(axis=1),
            lambda at: f"masks position {positions[at][outside[at]][0]} of a sequence of {limits[at]}",
        )
        falls = (np.diff(positions) <= 0) & used[:, 1:]
        falls = falls.any(axis=1) & ~outside.any(axis=1)
        yield "masked_lm_positions", falls, lambda at: "masked_lm_positions do not ascend"
        special = [self.special[name] for name in ("pad", "cls", "sep", "mask")] if self.special else []
        strange = (self._outside(labels) | np.isin(labels, special)) & used
        yield (
            "masked_lm_ids",
            strange.any(axis=1),
            lambda at: f"masked_lm_ids holds {labels[at][strange[at]][0]}, a special id or not in the vocabulary",
        )
        if self.special and "input_ids" in rows:
            ids = rows["input_ids"]
            at_masks = np.take_along_axis(ids, np.clip(positions, 0, ids.shape[1] - 1), axis=1)
            ends = [self.special["cls"], self.special["sep"]]
            on_special = np.isin(at_masks, ends) & used & ~outside
            yield "masked special token", on_special.any(axis=1), lambda at: "masks [CLS] or [SEP]"

    def _outside(self, ids: np.ndarray) -> np.ndarray:
        return (ids < 0) | (ids >= self.vocab_size) if self.vocab_size else ids < 0

    @property
    def _range(self) -> str:
        return f"0 to {self.vocab_size - 1}" if self.vocab_size else "0 or more"


def _by_position(describe: Callable[[int], str], position: np.ndarray) -> Callable[[int], str]:
    return lambda at: describe(int(position[at]))


def _always(fault: str, at: int) -> str:
    return fault


def _numbers_of_one_width(columns: Sequence[np.ndarray]) -> bool:
    width = columns[0].shape[1]
    return width > 0 and all(column.shape[1] == width and column.dtype != object for column in columns)


def _pick(column: Column, sound: np.ndarray, width: int) -> np.ndarray:
    """The values of the sound records, (n, width)."""
    if (column.counts == width).all():
        return column.rows()[sound]
    starts = (np.cumsum(column.counts) - column.counts)[sound]
    return np.asarray(column.values)[starts[:, None] + np.arange(width)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
