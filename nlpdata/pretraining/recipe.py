"""What examples are made with, and the form in which they leave the core: see nlpdata.pretraining.build."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose
from nlpdata.pretraining.assemble import Layout, Segments, make_columns
from nlpdata.pretraining.masking import MaskingRule
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.records.contract import pretraining_features
from nlpdata.records.encoding import encode_examples
from nlpdata.tokenizers import Tokenizer

SPLITS = ("train", "eval")
BATCH_TOKENS = 1 << 18  # cells (examples x length) laid out, masked and encoded at a time


@dataclass(frozen=True)
class Keyed:
    """Byte strings with a sort key: what goes to a spill or a shuffle.

    Attributes:
      kind: "records" (framed TFRecords), "documents" (what a bucket needs of them: see nlpdata.pretraining.random_next
        and .packing; the last tie of a document's first or only entry is 0) or "waiting" (see random_next).
      split: "train" or "eval".
      sort_keys: uint64 (n,).
      ties: uint64 (n, 3), the order among equal keys.
      payload, lengths: n byte strings, one after the other, and their lengths, int64 (n,).
    """

    kind: str
    split: str
    sort_keys: np.ndarray
    ties: np.ndarray
    payload: bytes
    lengths: np.ndarray


class Recipe:
    """All that making examples needs besides text: options, tokenizer, and what follows from them."""

    def __init__(self, options: PretrainingOptions, tokenizer: Tokenizer):
        self.options, self.tokenizer = options, tokenizer
        self.features = pretraining_features(
            options.max_seq_length,
            options.max_predictions_per_seq,
            options.objective,
            options.masking,
            options.feature_names,
        )
        self.seed_key = keys.fold_int(keys.ROOT, options.seed)
        self.token_dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32)
        rule = MaskingRule(
            masked_lm_prob=options.masked_lm_prob,
            max_predictions=options.max_predictions_per_seq,
            max_ngram=options.max_ngram,
            whole_word=options.whole_word,
            favor_shorter_ngram=options.favor_shorter_ngram,
            mask_id=tokenizer.mask_id,
            special_ids=tuple({tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id}),
            ordinary_ids=tokenizer.ordinary_ids,
        )
        self.layout = Layout(
            max_seq_length=options.max_seq_length,
            pairs=options.objective != "none",
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
            word_start=tokenizer.word_start,
            masking=rule if options.masking == "static" else None,
            feature_names=options.feature_names,
        )

    def encode(self, split, tokens, segments: Segments, example_keys, ties) -> Iterator[Keyed]:
        """Lays out, masks and encodes examples, a batch at a time."""
        step = max(1, BATCH_TOKENS // self.layout.max_seq_length)
        for at in range(0, len(example_keys), step):
            part = slice(at, at + step)
            batch_keys = example_keys[part]
            batch = segments.take(part)
            columns = make_columns(tokens, batch, batch_keys, self.layout)
            payload, lengths = encode_examples(self.features, columns)
            yield Keyed("records", split, keys.draw(batch_keys, Purpose.ORDER), ties[part], payload, lengths)
