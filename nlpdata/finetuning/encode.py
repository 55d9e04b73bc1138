"""Rows of a sentence task -> columns of records: pure functions over a batch of rows, whoever runs them.

A record of a sentence task, L = max_seq_length ("v1" names; see RENAMED for others). With the texts "the fox" and
"jumped", L = 8 and [CLS] 2, [SEP] 3, [PAD] 0:

    input_ids        2  10  12   3  13  14   3   0     int64[L]
    input_mask       1   1   1   1   1   1   1   0     int64[L], 1 = a real token
    segment_ids      0   0   0   0   1   1   1   0     int64[L], 1 for the second text and its [SEP]
    label_ids        0                                 int64[1]; float32[1] for regression; int64[labels], 0 or 1 each,
                                                       for multilabel; absent in a split without labels
    is_real_example  1                                 int64[1]
    example_id       0                                 int64[1], the row's number in its split

A text that is too long loses tokens at its end; of a pair the longer one does, token by token, and the second where
they are equal (`_truncate_seq_pair` of google-research/bert's run_classifier.py). A second text without tokens counts
as none.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from nlpdata.records.contract import Feature
from nlpdata.records.encoding import encode_examples
from nlpdata.tokenizers import Tokenizer, count_unknown

# --feature-names -> our name -> theirs. "albert": kamalkraj/ALBERT-TF2.0, where p_mask is 1 outside of the paragraph.
RENAMED = {
    "v1": {},
    "v2": {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"},
    "albert": {"paragraph_mask": "p_mask", "class_index": "cls_index"},
}
ALBERT_FLOATS = ("paragraph_mask", "is_impossible")

Tokenized = tuple[np.ndarray, np.ndarray]
"""Ids of all rows int32, lengths of the rows int64 (n,), as Tokenizer.encode returns them."""


class Encoder(Protocol):
    """What all encoders have; `names`: of the features, as --feature-names."""

    names: str

    def features(self, split: str, labelled: bool) -> tuple[Feature, ...]:
        """The features of a split's records."""


@dataclass(frozen=True)
class Batch:
    """Neighbouring rows of one split, which are encoded together.

    Attributes:
      split: its name.
      number: the position of the batch in the split.
      first: the position of its first row in the split.
      rows: (text_a, text_b or None, label), label an id, a number or a list of ids; for choice (context, texts that
        compete, label); for squad nlpdata.finetuning.squad.Paragraphs.
      labelled: whether the rows have labels.
    """

    split: str
    number: int
    first: int
    rows: Sequence
    labelled: bool = True


class SentenceEncoder:
    """Records of single texts and pairs.

    Args:
      tokenizer: makes the ids.
      max_seq_length: tokens of a record.
      names: of the features, as --feature-names.
      kind: "classification", "regression" or "multilabel".
      num_labels: classes; 1 for regression.
    """

    def __init__(self, tokenizer: Tokenizer, max_seq_length: int, names: str, kind: str, num_labels: int) -> None:
        self.tokenizer, self.max_seq_length, self.names, self.kind = tokenizer, max_seq_length, names, kind
        self.num_labels = num_labels

    def features(self, split: str, labelled: bool) -> tuple[Feature, ...]:
        """The features of a split's records."""
        length = self.max_seq_length
        features = [Feature(name, "int64", length) for name in ("input_ids", "input_mask", "segment_ids")]
        if labelled:
            dtype = "float32" if self.kind == "regression" else "int64"
            features.append(Feature("label_ids", dtype, self.num_labels if self.kind == "multilabel" else 1))
        features += [Feature(name, "int64", 1) for name in ("is_real_example", "example_id")]
        return rename_features(features, self.names)

    def columns(self, batch: Batch) -> tuple[dict[str, np.ndarray], Counter]:
        """The columns of a batch's records (see the top of this file), and counters."""
        counters: Counter = Counter()
        a, a_lengths = self.tokenizer.encode([row[0] for row in batch.rows])
        texts_b = [row[1] or "" for row in batch.rows]
        b, b_lengths = self.tokenizer.encode(texts_b) if any(texts_b) else (a[:0], np.zeros(len(texts_b), np.int64))
        columns, cut = lay_out(self.tokenizer, self.max_seq_length, (a, a_lengths), (b, b_lengths))
        count = len(batch.rows)
        columns["is_real_example"] = np.ones((count, 1), np.uint8)
        columns["example_id"] = np.arange(batch.first, batch.first + count)[:, None]
        if batch.labelled:
            columns["label_ids"] = self._labels([row[2] for row in batch.rows])
        counters["tokens"] = int(a_lengths.sum() + b_lengths.sum())
        counters["truncated"] = int((cut > 0).sum())
        counters["tokens_truncated"] = int(cut.sum())
        counters["truncated_by_half"] = int((2 * cut > a_lengths + b_lengths).sum())
        counters["tokens_unknown"] = sum(count_unknown(ids, self.tokenizer) for ids in (a, b))
        counters["without_tokens"] = int((a_lengths == 0).sum())
        return columns, counters

    def _labels(self, labels: list) -> np.ndarray:
        if self.kind != "multilabel":
            return np.array(labels, np.float32 if self.kind == "regression" else np.int64)[:, None]
        rows = np.zeros((len(labels), self.num_labels), np.uint8)
        for i, own in enumerate(labels):
            rows[i, own] = 1
        return rows


def truncate_pair(a: np.ndarray, b: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """What is left of lengths a and b (n,) when tokens go one by one from the longer, from b where they are equal.

    Closed form of `_truncate_seq_pair` in google-research/bert, run_classifier.py.
    """
    kept_b = np.minimum(b, np.maximum(budget // 2, budget - a))
    return np.minimum(a, budget - kept_b), kept_b


def lay_out(
    tokenizer: Tokenizer, length: int, first: Tokenized, second: Tokenized
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """[CLS] a [SEP] b [SEP], or [CLS] a [SEP] where b has no tokens, padded to `length`.

    first, second: the texts of all rows.
    Returns (input_ids int32, input_mask uint8, segment_ids uint8, all (n, length); tokens cut from each row int64 (n,)).
    """
    (a, a_lengths), (b, b_lengths) = first, second
    pair = b_lengths > 0
    kept_a, kept_b = truncate_pair(a_lengths, b_lengths, length - 3)
    kept_a = np.where(pair, kept_a, np.minimum(a_lengths, length - 2))
    count = len(a_lengths)
    ids = np.full((count, length), tokenizer.pad_id, np.int32)
    ids[:, 0] = tokenizer.cls_id
    row = np.arange(count)
    _place(ids, a, a_lengths, kept_a, np.ones(count, np.int64))
    ids[row, kept_a + 1] = tokenizer.sep_id
    _place(ids, b, b_lengths, kept_b, kept_a + 2)
    ids[row[pair], (kept_a + kept_b + 2)[pair]] = tokenizer.sep_id
    used = kept_a + 2 + np.where(pair, kept_b + 1, 0)
    place = np.arange(length)
    mask = place < used[:, None]
    segment = mask & (place >= (kept_a + 2)[:, None])
    columns: dict[str, np.ndarray] = {
        "input_ids": ids,
        "input_mask": mask.view(np.uint8),
        "segment_ids": segment.view(np.uint8),
    }
    return columns, a_lengths - kept_a + b_lengths - kept_b


def _place(ids: np.ndarray, tokens: np.ndarray, lengths: np.ndarray, kept: np.ndarray, start: np.ndarray) -> None:
    """Writes the first `kept` of each row's tokens into `ids`, from column `start` on."""
    within = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    stays = within < np.repeat(kept, lengths)
    flat = (np.repeat(np.arange(len(lengths)) * ids.shape[1] + start, lengths) + within)[stays]
    ids.reshape(-1)[flat] = tokens[stays]


def rename_features(features: Sequence[Feature], names: str) -> tuple[Feature, ...]:
    """Features under the names and dtypes of --feature-names, in the order in which they are written: by name."""
    renamed = []
    for feature in features:
        if names == "albert" and feature.name in ALBERT_FLOATS:
            feature = replace(feature, dtype="float32")
        renamed.append(replace(feature, name=RENAMED[names].get(feature.name, feature.name)))
    return tuple(sorted(renamed, key=lambda feature: feature.name))


def encode_columns(
    encoder: Encoder, features: Sequence[Feature], columns: Mapping[str, Any]
) -> tuple[bytes, np.ndarray]:
    """Columns under our names -> framed records under those of `features`: (bytes, length of each int64 (n,))."""
    renamed = RENAMED[encoder.names]
    if encoder.names == "albert":
        columns = dict(columns)
        if "paragraph_mask" in columns:
            columns["paragraph_mask"] = (1 - columns["paragraph_mask"].small()).astype(np.float32)
        if "is_impossible" in columns:
            columns["is_impossible"] = columns["is_impossible"].astype(np.float32)
    return encode_examples(features, {renamed.get(name, name): column for name, column in columns.items()})
