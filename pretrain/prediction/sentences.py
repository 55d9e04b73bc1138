"""Predictions of a fine-tuned sentence model: texts -> class names, numbers or labels, with scores."""

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import Tokenizer
from pretrain.converters.checkpoint import Checkpoint, Head
from pretrain.prediction.texts import Texts

if TYPE_CHECKING:
    import keras

_log = logging.getLogger(__name__)


def predict_texts(checkpoint: Checkpoint, tokenizer: Tokenizer, texts: Texts, batch_size: int) -> list[dict]:
    """The predictions of a checkpoint with a classifier: a row for each text, see `rows_of`.

    Args:
      checkpoint: encoder and classifier.
      tokenizer: the model's.
      texts: what to predict for. A text that is longer than the model's examples is cut, which is reported.
      batch_size: texts computed at a time.

    Raises UsageError where it has no classifier, DataError where its scores are not numbers.
    """
    from nlpdata.finetuning.encode import lay_out
    from pretrain.converters.load import load_model

    head = checkpoint.head
    if head is None:
        raise UsageError(
            f"{checkpoint.source} has no classifier: fine-tune it with --experiment=bert/sentence_prediction."
        )
    model, length = load_model(checkpoint), checkpoint.sequence_length
    columns, cut = lay_out(tokenizer, length, tokenizer.encode(texts.first), tokenizer.encode(texts.second))
    truncated = int((cut > 0).sum())
    if truncated:
        _log.info(
            f"{truncated} of {len(cut)} texts are longer than {length} tokens: their ends were cut ({int(cut.sum())} tokens)"
        )
    logits = list(_logits(model, {k: v.astype(np.int32) for k, v in columns.items()}, batch_size))
    rows = rows_of(head, texts, np.concatenate(logits))
    empty = sum(row["prediction"] is None for row in rows)
    if empty:
        _log.info(f"{empty} of {len(rows)} texts are empty: they have no prediction")
    return rows


def _logits(model: "keras.Model", columns: Mapping[str, np.ndarray], batch_size: int) -> Iterator[np.ndarray]:
    from keras import ops

    from pretrain.data.batches import trimmed

    for at in range(0, len(columns["input_ids"]), batch_size):
        batch = trimmed({name: values[at : at + batch_size] for name, values in columns.items()})
        logits = np.asarray(ops.convert_to_numpy(model(batch)["logits"]), np.float32)
        if not np.isfinite(logits).all():
            raise DataError(
                "the model's scores are not numbers (nan or inf): its weights are damaged, or training diverged."
            )
        yield logits


def rows_of(head: Head, texts: Texts, logits: np.ndarray) -> list[dict]:
    """The predictions of logits: {"index", "prediction", "scores"} for each text.

    Args:
      head: kind and class names of the classifier.
      texts: the texts, whose names become the index.
      logits: float array (texts, classes).

    "prediction" is a class name, a number (regression) or a list of labels (multilabel); "scores" has the probability of each
    class or label, and is empty for a number. An empty text gets the prediction None and no scores: there is nothing to judge.
    """
    rows: list[dict] = []
    for name, first, second, row in zip(texts.names, texts.first, texts.second, logits.astype(np.float64), strict=True):
        if not (first.strip() or second.strip()):
            rows.append({"index": name, "prediction": None, "scores": {}})
            continue
        prediction, scores = _judge(head, row)
        rows.append({"index": name, "prediction": prediction, "scores": scores})
    return rows


def _judge(head: Head, logits: np.ndarray) -> tuple[str | float | list[str], dict[str, float]]:
    if head.kind == "regression":
        return float(logits[0]), {}
    if head.kind == "multilabel":
        scores = 1 / (1 + np.exp(-logits))
        chosen = [name for name, value in zip(head.names, logits, strict=True) if value > 0]
        return chosen, dict(zip(head.names, scores.tolist(), strict=True))
    weights = np.exp(logits - logits.max())
    return head.names[int(logits.argmax())], dict(zip(head.names, (weights / weights.sum()).tolist(), strict=True))
