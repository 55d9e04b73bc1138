"""Predictions of a fine-tuned sentence model: texts -> class names, numbers or labels, with scores."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from nlpdata.finetuning.encode import Tokenized, lay_out
from nlpdata.tokenizers import Tokenizer
from pretrain.converters.checkpoint import Head
from pretrain.prediction.batching import Batching, Example
from pretrain.prediction.rows import TEXTS, Asked, Row


class SentencePredictor:
    """Rows -> {"prediction", "scores"} for each: see `judge`.

    Args:
      batching: gives "logits" (classes,). Texts that are longer than its examples are cut, and counted.
      head: what logits mean.
      tokenizer: the model's.
    """

    kind = TEXTS

    def __init__(self, batching: Batching, head: Head, tokenizer: Tokenizer) -> None:
        self._batching, self._head, self._tokenizer = batching, head, tokenizer
        self.counters: Counter = Counter()
        self.columns = ("prediction", *(() if head.kind == "regression" else head.names))

    def __call__(self, rows: Iterable[Row]) -> Iterator[tuple[Asked, dict]]:
        examples = encoded(rows, self._tokenizer.encode, self._tokenizer, self._batching, self.counters)
        for example, outputs in self._batching.outputs(examples):
            if example.owner.is_empty:
                yield example.owner, {"prediction": None, "scores": {}}
                continue
            prediction, scores = judge(self._head, outputs["logits"].astype(np.float64))
            yield example.owner, {"prediction": prediction, "scores": scores}

    def cells(self, result: dict) -> list[list[str]]:
        """The lines of a table for a row, without its index: one, with the values of `columns`."""
        scores = [f"{result['scores'][name]:.6f}" if result["scores"] else "" for name in self.columns[1:]]
        return [[_cell(result["prediction"]), *scores]]

    def glue_cells(self, result: dict) -> list[list[str]]:
        """The same for GLUE's server: the prediction alone, a number on the scale of STS-B."""
        prediction = result["prediction"]
        return [[_cell(min(max(prediction, 0.0), 5.0) if isinstance(prediction, float) else prediction)]]


def _cell(prediction: str | float | list[str] | None) -> str:
    if prediction is None:
        return ""
    if isinstance(prediction, float):
        return f"{prediction:.3f}"
    return ",".join(prediction) if isinstance(prediction, list) else prediction


def encoded(
    rows: Iterable[Row],
    encode: Callable[[Sequence[str]], Tokenized],
    tokenizer: Tokenizer,
    batching: Batching,
    counters: Counter,
) -> Iterator[Example]:
    """The examples of rows, a batch's number of rows tokenized at a time; counts rows, empty and truncated ones, tokens cut.

    encode: texts -> their tokens, as Tokenizer.encode.
    """
    rows = iter(rows)
    while part := list(islice(rows, batching.batch_size)):
        texts = [row.first for row in part], [row.second for row in part]
        columns, cut = lay_out(tokenizer, batching.longest, encode(texts[0]), encode(texts[1]))
        asked = [
            Asked(row.name, row.line, not (row.first.strip() or row.second.strip()), None if row.label is None else row)
            for row in part
        ]
        counters["rows"] += len(part)
        counters["empty"] += sum(each.is_empty for each in asked)
        counters["truncated"] += int((cut > 0).sum())
        counters["tokens_truncated"] += int(cut.sum())
        used = columns["input_mask"].sum(axis=1, dtype=np.int64).tolist()
        for owner, ids, segments, count in zip(asked, columns["input_ids"], columns["segment_ids"], used, strict=True):
            yield Example(ids[:count].copy(), segments[:count].copy(), owner)


def judge(head: Head, logits: np.ndarray) -> tuple[str | float | list[str], dict[str, float]]:
    """The prediction of logits, float64 (classes,): a class name, a number (regression) or a list of labels (multilabel); and
    the probability of each class or label, none for a number."""
    if head.kind == "regression":
        return float(logits[0]), {}
    if head.kind == "multilabel":
        scores = 1 / (1 + np.exp(-logits))
        chosen = [name for name, value in zip(head.names, logits, strict=True) if value > 0]
        return chosen, dict(zip(head.names, scores.tolist(), strict=True))
    weights = np.exp(logits - logits.max())
    return head.names[int(logits.argmax())], dict(zip(head.names, (weights / weights.sum()).tolist(), strict=True))
