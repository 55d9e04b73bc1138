"""Predictions of a pretrained model: texts with [MASK] -> the pieces that fit there, with scores."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from nlpdata.errors import DataError
from nlpdata.finetuning.encode import Tokenized
from nlpdata.options import check_range
from nlpdata.tokenizers import Tokenizer
from pretrain.prediction.batching import Batching, Example, Outputs
from pretrain.prediction.rows import TEXTS, Asked, Row
from pretrain.prediction.sentences import encoded

MASK = "[MASK]"
_MOST_WAITING = 1000  # predictions that are held back until there is one


class MaskPredictor:
    """Rows -> {"prediction", "masks"} for each.

    "masks" has for each [MASK] its best pieces, [{"piece", "score"}, ...], best first, and "prediction" the best one of each.
    A text without [MASK], or whose [MASK] is cut off, gets the prediction None.

    Args:
      batching: gives "mlm_logits" (P, V). Texts that are longer than its examples are cut, and counted.
      tokenizer: the model's.
      top_k: pieces for each [MASK].
    """

    kind = TEXTS
    columns = ("prediction", "score", "mask")

    def __init__(self, batching: Batching, tokenizer: Tokenizer, top_k: int) -> None:
        self._logits, self._batching = batching.compute, replace(batching, compute=self._best)
        self._tokenizer, self._encode = tokenizer, masked_encoder(tokenizer)
        check_range("top_k", top_k, 1, 1000)
        self._top_k = min(top_k, tokenizer.vocab_size)
        self.counters: Counter = Counter()

    def __call__(self, rows: Iterable[Row]) -> Iterator[tuple[Asked, dict]]:
        for example, outputs in self._batching.outputs(self._examples(rows)):
            if example.owner.is_empty:
                yield example.owner, {"prediction": None, "masks": []}
                continue
            assert example.positions is not None
            count = len(example.positions)
            pieces = [self._tokenizer.pieces(ids) for ids in outputs["ids"][:count].astype(int).tolist()]
            masks = [
                [{"piece": piece, "score": score} for piece, score in zip(*each, strict=True)]
                for each in zip(pieces, outputs["scores"][:count].tolist(), strict=True)
            ]
            yield example.owner, {"prediction": [each[0]["piece"] for each in masks], "masks": masks}

    def cells(self, result: dict) -> list[list[str]]:
        """The lines of a table for a row, without its index: one for each piece."""
        lines = [
            [each["piece"], f"{each['score']:.6f}", str(number)]
            for number, mask in enumerate(result["masks"])
            for each in mask
        ]
        return lines or [["", "", ""]]

    def _examples(self, rows: Iterable[Row]) -> Iterator[Example]:
        for example in encoded(rows, self._encode, self._tokenizer, self._batching, self.counters):
            positions = np.flatnonzero(example.ids == self._tokenizer.mask_id)
            if len(positions):
                yield example._replace(positions=positions.astype(np.int32))
                continue
            self.counters["unmasked"] += not example.owner.is_empty
            ends = np.array([0, -1])  # [CLS] and [SEP] take its place: nothing is asked of it
            yield Example(
                example.ids[ends],
                example.segments[:2],
                example.owner._replace(is_empty=True),
                np.zeros(1, np.int32),
            )

    def _best(self, batch: dict[str, np.ndarray]) -> Outputs:
        """The best pieces: the scores of a whole vocabulary would fill the memory while rows wait for others."""
        logits = self._logits(batch)["mlm_logits"][..., : self._tokenizer.vocab_size]  # a model may have further rows
        best = np.argpartition(logits, -self._top_k, axis=-1)[..., -self._top_k :]
        best.sort(axis=-1)
        order = np.argsort(-np.take_along_axis(logits, best, axis=-1), axis=-1, kind="stable")
        best = np.take_along_axis(best, order, axis=-1)
        shifted = (logits - logits.max(axis=-1, keepdims=True)).astype(np.float64)
        scores = np.exp(shifted)
        return {"ids": best, "scores": np.take_along_axis(scores, best, axis=-1) / scores.sum(axis=-1, keepdims=True)}


def some_masked(results: Iterator[tuple[Asked, dict]], counters: Counter) -> Iterator[tuple[Asked, dict]]:
    """The predictions of a MaskPredictor; those of texts without [MASK] that come first, together with the first that has one.

    counters: of the predictor. DataError, in place of all, where no text has a [MASK], or none of the first 1,000.
    """
    waiting, found = [], False
    for each in results:
        waiting.append(each)
        found = each[1]["prediction"] is not None
        if found or len(waiting) == _MOST_WAITING:
            break
    if counters["unmasked"] and not found:
        raise DataError(
            f"no text has a [MASK] ({len(waiting):,} read, from line {waiting[0][0].line} on): a pretrained model predicts the "
            "pieces that fit there. For classes or answers, fine-tune it first."
        )
    yield from waiting
    yield from results


def masked_encoder(tokenizer: Tokenizer) -> Callable[[Sequence[str]], Tokenized]:
    """As Tokenizer.encode, but "[MASK]" in a text, and the vocabulary's own entry for it, is the masked token."""
    marks = sorted({MASK, *tokenizer.pieces([tokenizer.mask_id])}, key=len, reverse=True)
    split = re.compile("|".join(map(re.escape, marks))).split
    mask = np.array([tokenizer.mask_id], np.int32)

    def encode(texts: Sequence[str]) -> Tokenized:
        parts = [split(text) for text in texts]
        ids, lengths = tokenizer.encode([part for each in parts for part in each])
        pieces = iter(np.split(ids, np.cumsum(lengths)[:-1]))
        joined, counts = [ids[:0]], []
        for each in parts:
            mine = [next(pieces)]
            for _ in each[1:]:
                mine += [mask, next(pieces)]
            joined += mine
            counts.append(sum(map(len, mine)))
        return np.concatenate(joined), np.array(counts, np.int64)

    return encode
