"""Chunks -> segment pairs -> the columns of a batch of records. Pure functions over arrays.

Tokens stay where the tokenizer put them, in one flat array; a segment is a slice (start, length) of it until the batch
is laid out. Every draw comes from the example's key, so an example is the same in any batch.
"""

from dataclasses import dataclass

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose
from nlpdata.pretraining.masking import MaskingRule, mask_batch
from nlpdata.pretraining.ragged import copy_slices


@dataclass(frozen=True)
class Segments:
    """A batch of examples as slices of a flat token array; int64 (n,) each.

    Attributes:
      start_a, length_a, start_b, length_b: the segments; length_b 0 where there is no second one.
      label: next_sentence_labels.
    """

    start_a: np.ndarray
    length_a: np.ndarray
    start_b: np.ndarray
    length_b: np.ndarray
    label: np.ndarray

    def take(self, rows: slice | np.ndarray) -> "Segments":
        """The examples of a slice, a mask or indices."""
        return Segments(
            self.start_a[rows], self.length_a[rows], self.start_b[rows], self.length_b[rows], self.label[rows]
        )


def single_segments(start: np.ndarray, length: np.ndarray) -> Segments:
    """Examples of one segment without a label. start, length: int64 (n,)."""
    nothing = np.zeros_like(start)
    return Segments(start, length, nothing, nothing, nothing)


def truncate(segments: Segments, budget: int, example_keys: np.ndarray) -> tuple[Segments, np.ndarray]:
    """Cuts pairs to `budget` tokens: the longer segment loses a token from its front or its back, until they fit.

    That is truncate_seq_pair of the originals (B loses where both are equally long), its coin flips counted at once.

    Returns the segments, and the number of tokens cut from each example, int64 (n,).
    """
    a, b = segments.length_a, segments.length_b
    excess = np.maximum(a + b - budget, 0)
    # The longer one goes down to the other's length first; then they lose in turn, B first.
    longer = np.minimum(excess, np.abs(a - b))
    rest = excess - longer
    cut_a = np.where(a > b, longer, 0) + rest // 2
    cut_b = np.where(a > b, 0, longer) + rest - rest // 2
    front_a = _coin_flips(cut_a, keys.fold(example_keys, Purpose.TRUNCATE_A))
    front_b = _coin_flips(cut_b, keys.fold(example_keys, Purpose.TRUNCATE_B))
    cut = Segments(segments.start_a + front_a, a - cut_a, segments.start_b + front_b, b - cut_b, segments.label)
    return cut, excess


def _coin_flips(count: np.ndarray, flip_keys: np.ndarray) -> np.ndarray:
    """The number of heads in `count` fair coin flips, int64 (n,)."""
    heads = np.zeros(len(count), np.int64)
    rows = np.flatnonzero(count)
    for word in range((int(count.max(initial=0)) + 63) // 64):
        rows = rows[count[rows] > word * 64]
        unused = np.maximum(64 - (count[rows] - word * 64), 0).astype(np.uint64)
        heads[rows] += np.bitwise_count(keys.draw(flip_keys[rows], word) << unused)
    return heads


@dataclass(frozen=True)
class Layout:
    """The layout of a batch's rows.

    Attributes:
      max_seq_length: L.
      pairs: `[CLS] A [SEP] B [SEP]`; else `[CLS] A [SEP]`.
      cls_id, sep_id, pad_id: special ids.
      word_start: which ids start a word, bool (vocab_size,).
      masking: the rule of static masking, or None for records that the loader masks.
      feature_names: "v1" or "v2".
    """

    max_seq_length: int
    pairs: bool
    cls_id: int
    sep_id: int
    pad_id: int
    word_start: np.ndarray
    masking: MaskingRule | None
    feature_names: str

    @property
    def budget(self) -> int:
        """Tokens that fit next to the special ones."""
        return self.max_seq_length - (3 if self.pairs else 2)


def make_columns(
    tokens: np.ndarray, segments: Segments, example_keys: np.ndarray, layout: Layout
) -> dict[str, np.ndarray]:
    """The columns of a batch of records, name -> (n, width), ready for nlpdata.records.encoding.encode_examples."""
    n, width = len(segments.start_a), layout.max_seq_length
    second = 2 + segments.length_a  # where B starts
    lengths = second + segments.length_b + 1 if layout.pairs else second
    ids = np.full((n, width), layout.pad_id, np.int32)
    ids[:, 0] = layout.cls_id
    row = np.arange(n)
    copy_slices(tokens, segments.start_a, segments.length_a, ids, row * width + 1)
    ids[row, second - 1] = layout.sep_id
    if layout.pairs:
        copy_slices(tokens, segments.start_b, segments.length_b, ids, row * width + second)
        ids[row, lengths - 1] = layout.sep_id
    position = np.arange(width)
    real = position < lengths[:, None]
    boundary = (layout.word_start[ids] | (ids == layout.cls_id) | (ids == layout.sep_id)) & real
    segment_ids = (position >= second[:, None]) & real

    v2 = layout.feature_names == "v2"
    columns = {
        "input_mask": real.view(np.uint8),
        "input_type_ids" if v2 else "segment_ids": segment_ids.view(np.uint8),
        "token_boundary": boundary.view(np.uint8),
    }
    if layout.pairs:
        columns["next_sentence_labels"] = segments.label[:, None]
    if layout.masking is not None:
        masked = mask_batch(ids, lengths, boundary, keys.fold(example_keys, Purpose.MASKING), layout.masking)
        ids = masked.input_ids
        columns["masked_lm_positions"] = masked.positions
        columns["masked_lm_ids"] = masked.label_ids
        columns["masked_lm_weights"] = masked.weights
    columns["input_word_ids" if v2 else "input_ids"] = ids
    return columns
