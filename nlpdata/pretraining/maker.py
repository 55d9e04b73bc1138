"""What makes records in a worker, and the form in which they leave it: see nlpdata.pretraining.build."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose
from nlpdata.pretraining.assemble import Layout, Segments, make_columns
from nlpdata.pretraining.masking import MaskingRule
from nlpdata.pretraining.objectives import find_objective
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.records.contract import pretraining_features
from nlpdata.records.encoding import encode_examples
from nlpdata.tokenizers import Tokenizer, TokenizerSpec, load_tokenizer

SPLITS = ("train", "eval")
BATCH_TOKENS = 1 << 18  # cells (examples x length) laid out, masked and encoded at a time


@dataclass(frozen=True)
class Keyed:
    """Byte strings with a sort key: what goes to a spill or a shuffle.

    Attributes:
      kind: "records" (framed TFRecords), "documents" (what a bucket needs of them: see nlpdata.pretraining.buckets;
        the last tie of a document's first or only entry is 0) or "waiting" (chunks that become examples in a bucket).
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


class ExampleMaker:
    """The options, the loaded tokenizer and what follows from them: all that making records needs besides text.

    Attributes:
      options, tokenizer: as given.
      objective, bucket_work: of the options.
      dupe_factor: how often each document is used.
      features: of the records.
      seed_key: the key of the seed.
      token_dtype: of tokens that are stored.
      layout: of the records.
    """

    def __init__(self, options: PretrainingOptions, tokenizer: Tokenizer) -> None:
        self.options, self.tokenizer = options, tokenizer
        self.objective = find_objective(options.objective)
        self.bucket_work = self.objective.bucket_work(options)
        predictions, dupe_factor = options.max_predictions_per_seq, options.dupe_factor
        assert predictions is not None  # as PretrainingOptions leaves them
        assert dupe_factor is not None
        self.dupe_factor = dupe_factor
        self.features = pretraining_features(
            options.max_seq_length,
            predictions,
            pairs=self.objective.pairs,
            masking=options.masking,
            names=options.feature_names,
        )
        self.seed_key = keys.fold_int(keys.ROOT, options.seed)
        self.token_dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.int32)
        rule = MaskingRule(
            masked_lm_prob=options.masked_lm_prob,
            max_predictions=predictions,
            max_ngram=options.max_ngram,
            whole_word=options.whole_word,
            favor_shorter_ngram=options.favor_shorter_ngram,
            mask_id=tokenizer.mask_id,
            special_ids=tuple({tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id}),
            ordinary_ids=tokenizer.ordinary_ids,
        )
        self.layout = Layout(
            max_seq_length=options.max_seq_length,
            pairs=self.objective.pairs,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
            word_start=tokenizer.word_start,
            masking=rule if options.masking == "static" else None,
            feature_names=options.feature_names,
        )

    def encode(
        self, split: str, tokens: np.ndarray, segments: Segments, example_keys: np.ndarray, ties: np.ndarray
    ) -> Iterator[Keyed]:
        """Lays out, masks and encodes examples, a batch at a time.

        Args:
          split: the examples'.
          tokens: what the segments are slices of.
          segments: n examples, none longer than the layout's budget.
          example_keys: uint64 (n,).
          ties: uint64 (n, 3).
        """
        step = max(1, BATCH_TOKENS // self.layout.max_seq_length)
        for at in range(0, len(example_keys), step):
            part = slice(at, at + step)
            batch_keys = example_keys[part]
            batch = segments.take(part)
            columns = make_columns(tokens, batch, batch_keys, self.layout)
            payload, lengths = encode_examples(self.features, columns)
            yield Keyed("records", split, keys.draw(batch_keys, Purpose.ORDER), ties[part], payload, lengths)


@dataclass(frozen=True)
class MakerSpec:
    """All it takes to make an ExampleMaker: small, picklable, and equal specs make equal records.

    Attributes:
      options: see PretrainingOptions.
      tokenizer: what to load.
      content: of the tokenizer's file, for a worker on another machine; None where the worker finds the file.
    """

    options: PretrainingOptions
    tokenizer: TokenizerSpec
    content: bytes | None = None


_makers: dict[MakerSpec, ExampleMaker] = {}  # of this process: the last one used


def maker_of(spec: MakerSpec, tokenizer: Tokenizer | None = None) -> ExampleMaker:
    """The maker of a spec, made once in a process; of `tokenizer` where that is loaded."""
    maker = _makers.get(spec)
    if maker is None:
        maker = ExampleMaker(spec.options, tokenizer or _load(spec))
        _makers.clear()
        _makers[spec] = maker
    return maker  # not what is stored now: threads of a process may do the same


def _load(spec: MakerSpec) -> Tokenizer:
    if spec.content is None:
        return load_tokenizer(spec.tokenizer)
    with tempfile.TemporaryDirectory(prefix="nlpdata-") as folder:
        path = Path(folder, Path(spec.tokenizer.path).name)
        path.write_bytes(spec.content)
        return load_tokenizer(replace(spec.tokenizer, path=str(path)))
