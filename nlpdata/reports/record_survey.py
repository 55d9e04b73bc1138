"""What record files hold, counted in one pass over ranges of records, which workers do in any order.

Memory: a batch of records in each worker, and 8 bytes for each record, by which equal ones are found.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from nlpdata.execution.executor import Report
from nlpdata.records.contract import V2_NAMES, choices_of_meta, odd_features
from nlpdata.records.reader import Records, open_records
from nlpdata.reports.counting import add_counts

_BATCH = 1024
_BATCH_VALUES = 1 << 23  # of a batch: records of very many values are read a few at a time
_V1_NAMES = {new: old for old, new in V2_NAMES.items()}


@dataclass(frozen=True)
class Setup:
    """What a worker is sent once; picklable.

    Attributes:
      paths: name of a group of records (a set or a split) -> its files.
      special: role (pad, unk, cls, sep, mask) -> id; empty where nobody knows.
      pieces: size of the vocabulary; 0 where nobody knows.
    """

    paths: Mapping[str, Sequence[str]]
    special: Mapping[str, int]
    pieces: int


class Unit(NamedTuple):
    """Records [start, stop) of a group; number: its place among all units."""

    number: int
    group: str
    start: int
    stop: int


@dataclass
class RecordCounts:
    """What records hold.

    Attributes:
      records, tokens: how many; tokens are without padding, special ones included.
      width: ids of a record, padding included.
      lengths: tokens of a record, or of each of its choices -> how many.
      unknown: tokens that read [UNK].
      pieces: how often each piece occurs, the true one where it is masked: int64; empty where the vocabulary is not known.
      predictions: masked tokens of a record -> records.
      shown: what stands in the place of masked tokens: "[MASK]", "the word itself" or "another word" -> tokens.
      runs: words that are masked in a row (tokens where records do not say where words begin) -> how often.
      next_sentence: label -> records.
      labels: label (or place in a row of several labels) -> records; numbers of a regression are rounded to tenths.
      none: records of several labels that have none.
      starts: token at which an answer starts -> records (windows) that hold one.
      answers: tokens of an answer -> records that hold one.
      no_answer: records (windows) that hold none.
      hashes: (number of the unit, hashes of its records' true tokens, uint64).
    """

    records: int = 0
    tokens: int = 0
    width: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    unknown: int = 0
    pieces: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    predictions: Counter[int] = field(default_factory=Counter)
    shown: Counter[str] = field(default_factory=Counter)
    runs: Counter[int] = field(default_factory=Counter)
    next_sentence: Counter[int] = field(default_factory=Counter)
    labels: Counter[float] = field(default_factory=Counter)
    none: int = 0
    starts: Counter[int] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)
    no_answer: int = 0
    hashes: list[tuple[int, np.ndarray]] = field(default_factory=list)

    @property
    def has_labels(self) -> bool:
        """Whether there are labels or answers, as in fine-tuning records."""
        return bool(self.labels or self.starts or self.no_answer)

    @property
    def positions(self) -> int:
        """Places for tokens, padding included."""
        return self.records * self.width

    @property
    def padding(self) -> int:
        """Positions without a token."""
        return self.positions - self.tokens

    @property
    def masked(self) -> int:
        """Masked tokens of all records."""
        return sum(number * count for number, count in self.predictions.items())

    def add(self, other: "RecordCounts") -> None:
        """Adds what other records hold."""
        width = max(self.width, other.width)
        add_counts(self, other)
        self.width = width


_setup: Setup  # of a worker process
_opened: dict[str, Records]


def set_up(setup: Setup) -> None:
    """Sets up this process, before its first unit."""
    global _setup, _opened
    _setup, _opened = setup, {}


def survey_records(unit: Unit, report: Report) -> RecordCounts:
    """Counts what a range of records holds."""
    if unit.group not in _opened:
        _opened[unit.group] = open_records(list(_setup.paths[unit.group]))
    records, made = _opened[unit.group], RecordCounts()
    made.pieces = np.zeros(_setup.pieces, np.int64)
    odd, hashes = {feature.name for feature in odd_features(records.features)}, []
    batch = max(min(_BATCH, _BATCH_VALUES // max(sum(feature.width for feature in records.features), 1)), 1)
    for start in range(unit.start, unit.stop, batch):
        stop = min(start + batch, unit.stop)
        rows = {_V1_NAMES.get(name, name): values for name, values in records[start:stop].items() if name not in odd}
        count = stop - start
        made.records += count
        if "input_ids" in rows:
            hashes.append(_count_sequence(made, rows, choices_of_meta(records.meta)))
        _count_labels(made, rows)
        report(count)
    made.hashes = [(unit.number, np.concatenate(hashes))] if hashes else []
    return made


def _count_sequence(made: RecordCounts, rows: Mapping[str, np.ndarray], choices: int) -> np.ndarray:
    """Counts tokens and masks of records with `choices` sequences each; the hashes of the records."""
    ids = rows["input_ids"].copy()
    count, made.width = ids.shape
    mask = rows.get("input_mask", np.ones_like(ids)) == 1
    each = mask.reshape(count * choices, -1) if made.width % choices == 0 else mask
    lengths = each.sum(axis=1)
    made.tokens += int(lengths.sum())
    made.lengths.update(lengths.tolist())
    if {f"masked_lm_{name}" for name in ("positions", "ids", "weights")} <= rows.keys():
        _count_masks(made, rows)
        chosen = rows["masked_lm_weights"] > 0
        record = np.nonzero(chosen)[0]
        ids[record, np.clip(rows["masked_lm_positions"][chosen], 0, made.width - 1)] = rows["masked_lm_ids"][chosen]
    if len(made.pieces):
        inside = ids[mask & (ids >= 0) & (ids < len(made.pieces))]
        made.pieces += np.bincount(inside, minlength=len(made.pieces))
    if "unk" in _setup.special:
        made.unknown += int(((ids == _setup.special["unk"]) & mask).sum())
    digests = b"".join(blake2b(ids[row][mask[row]].tobytes(), digest_size=8).digest() for row in range(count))
    return np.frombuffer(digests, "<u8")


def _count_masks(made: RecordCounts, rows: Mapping[str, np.ndarray]) -> None:
    chosen = rows["masked_lm_weights"] > 0
    made.predictions.update(chosen.sum(axis=1).tolist())
    record, positions, truth = np.nonzero(chosen)[0], rows["masked_lm_positions"][chosen], rows["masked_lm_ids"][chosen]
    if not len(positions):
        return
    positions = np.clip(positions, 0, rows["input_ids"].shape[1] - 1)
    shown = rows["input_ids"][record, positions]
    if "mask" in _setup.special:
        masked, kept = shown == _setup.special["mask"], shown == truth
        for what, which in (("[MASK]", masked), ("the word itself", kept & ~masked), ("another word", ~masked & ~kept)):
            made.shown[what] += int(which.sum())
    begins = np.ones(len(positions), bool)
    begins[1:] = (positions[1:] != positions[:-1] + 1) | (record[1:] != record[:-1])
    words = (
        rows["token_boundary"][record, positions] == 1 if "token_boundary" in rows else np.ones(len(positions), bool)
    )
    made.runs.update(np.maximum(np.add.reduceat(words.astype(np.int64), np.flatnonzero(begins)), 1).tolist())


def _count_labels(made: RecordCounts, rows: Mapping[str, np.ndarray]) -> None:
    if "next_sentence_labels" in rows:
        made.next_sentence.update(rows["next_sentence_labels"][:, 0].tolist())
    labels = rows.get("label_ids")
    if labels is not None and labels.dtype.kind == "f":
        scores = labels[:, 0].astype(np.float64)
        made.labels.update(np.round(scores[np.isfinite(scores)], 1).tolist())
    elif labels is not None and labels.shape[1] == 1:
        made.labels.update(labels[:, 0].tolist())
    elif labels is not None:
        made.labels.update({place: int(count) for place, count in enumerate((labels != 0).sum(axis=0).tolist())})
        made.none += int((labels == 0).all(axis=1).sum())
    if "start_positions" in rows and "end_positions" in rows:
        start, end = rows["start_positions"][:, 0], rows["end_positions"][:, 0]
        held = start > 0
        made.starts.update(start[held].tolist())
        made.answers.update((end - start + 1)[held].tolist())
        made.no_answer += int((~held).sum())


def repeated(hashes: Sequence[np.ndarray]) -> list[tuple[int, int]]:
    """For each group in order: (records equal to an earlier one of it, records that an earlier group has, too)."""
    made, before = [], np.empty(0, np.uint64)
    for own in hashes:
        once = np.unique(own)
        made.append((len(own) - len(once), int(np.isin(own, before).sum())))
        before = np.union1d(before, once)
    return made
