"""What every record must hold: the meta file's promises, or what the first record has, and the rules of its features.

A check gets the columns of a batch and returns, for each rule, which records break it; all rules are vectorised.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from nlpdata.records.contract import choices_of_meta, features_of_meta
from nlpdata.records.decoding import Column
from nlpdata.records.verification.finetuning import Broken, finetuning_faults

_V1_NAMES = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids"}
_OF_FINETUNING = (  # numbers, as many of each in a group
    ("label_ids",),
    ("start_positions", "end_positions"),
    ("is_impossible",),
    ("token_char_start", "token_char_end"),
    ("paragraph_mask",),
    ("p_mask",),
)
_SEQUENCES = ("input_ids", "input_mask", "segment_ids", "token_boundary")
_MOST_ENDS = 1 << 16  # kinds that are counted


class RecordRules:
    """What the records of one set must hold: from the meta file, or from the first record where there is none.

    Attributes:
      shape: feature -> (dtype, width).
      ends: (first id, last id) of the texts -> records; only where no meta file says what [CLS] and [SEP] are.
      example_ids: questions that the records name (SQuAD).
    """

    def __init__(self, meta: dict | None, file: str) -> None:
        self.meta = meta = meta or {}
        tokenizer = meta.get("tokenizer", {})
        self.special = tokenizer.get("special_ids")
        self.vocab_size = tokenizer.get("vocab_size")
        features = features_of_meta(meta if "shards" in meta else None, file)
        self.shape = {f.name: (f.dtype, f.width) for f in features or ()}
        self.ends: Counter[tuple[int, int]] = Counter()
        self.example_ids: set[bytes] = set()

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
        sequence = [rows[name] for name in _SEQUENCES if name in rows]
        masked = [rows[f"masked_lm_{name}"] for name in ("positions", "ids", "weights") if f"masked_lm_{name}" in rows]
        labels = rows.get("next_sentence_labels")
        has_sequence, has_masked = "input_ids" in rows and "input_mask" in rows, len(masked) == 3
        for columns, what in (
            (sequence if has_sequence else [], ", ".join(_SEQUENCES)),
            (masked if has_masked else [], "masked_lm_positions, masked_lm_ids, masked_lm_weights"),
            ([] if labels is None else [labels], "next_sentence_labels"),
            *(([rows[name] for name in names if name in rows], ", ".join(names)) for names in _OF_FINETUNING),
        ):
            if columns and not _numbers_of_one_width(columns):
                fault = f"{what}: expected numbers, the same count of each"
                yield "shape", np.ones(len(columns[0]), bool), partial(_always, fault)
                return
        if has_sequence:
            yield from self._choices(rows) if choices_of_meta(self.meta) > 1 else self._sequence(rows)
        if has_masked:
            yield from self._masks(rows, *masked)
        if labels is not None:
            label = labels[:, 0]
            yield (
                "label",
                (label != 0) & (label != 1),
                lambda at: f"next_sentence_labels is {label[at]}, expected 0 or 1",
            )
        if "example_id" in rows and rows["example_id"].dtype == object and rows["example_id"].shape[1]:
            self.example_ids.update(rows["example_id"][:, 0])
        yield from finetuning_faults(rows, self.meta)

    def _choices(self, rows: Mapping[str, np.ndarray]) -> Iterator[Broken]:
        """The rules of sequences, for each of those that a record has; a message is of the first that breaks a rule."""
        count, width = rows["input_ids"].shape
        choices = choices_of_meta(self.meta)
        if width % choices:
            yield (
                "shape",
                np.ones(count, bool),
                partial(_always, f"{width} input_ids, expected as many for each of {choices} choices"),
            )
            return
        each = {name: rows[name].reshape(count * choices, -1) for name in _SEQUENCES if name in rows}
        for kind, broken, describe in self._sequence(each):
            of_record = broken.reshape(count, choices)
            yield kind, np.any(of_record, axis=1), partial(_of_choice, of_record, describe)

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
        if not self.special and len(self.ends) < _MOST_ENDS:
            last = ids[np.arange(n), np.maximum(lengths - 1, 0)]
            self.ends.update(zip(ids[fine, 0].tolist(), last[fine].tolist(), strict=True))
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


def _of_choice(broken: np.ndarray, describe: Callable[[int], str], at: int) -> str:
    choice = int(np.argmax(broken[at]))
    return f"choice {choice}: {describe(at * broken.shape[1] + choice)}"


def _numbers_of_one_width(columns: Sequence[np.ndarray]) -> bool:
    width = columns[0].shape[1]
    return width > 0 and all(column.shape[1] == width and column.dtype != object for column in columns)


def _pick(column: Column, sound: np.ndarray, width: int) -> np.ndarray:
    """The values of the sound records, (n, width)."""
    if (column.counts == width).all():
        return column.rows()[sound]
    starts = (np.cumsum(column.counts) - column.counts)[sound]
    return np.asarray(column.values)[starts[:, None] + np.arange(width)]
