"""Choices of a fine-tuned multiple-choice model: contexts with questions and choices -> the choice that fits best."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np

from nlpdata.errors import UsageError
from nlpdata.files.json_kinds import is_characters
from nlpdata.finetuning.choice import lay_out_choices, with_choice
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.records.meta_types import LEAST_CHOICES, MOST_CHOICES
from nlpdata.tokenizers import Tokenizer
from pretrain.prediction.batching import Batching, Example
from pretrain.prediction.rows import CHOICES, Asked, Row


class ChoiceOptions(NamedTuple):
    """How a question and a choice become a text, as in the records that the model learned from: see nlpdata.finetuning.choice."""

    max_qa_length: int
    blank: str | None


def choice_options(facts: Mapping) -> ChoiceOptions:
    """By what a checkpoint says of its data; where it says nothing, as create-finetuning does by default."""
    return ChoiceOptions(facts.get("max_qa_length") or FinetuningOptions.max_qa_length, facts.get("blank"))


class Choosing(NamedTuple):
    """The row that a choice belongs to, and its number in the order of the rows."""

    number: int
    asked: Asked
    choices: tuple[str, ...]


class ChoicePredictor:
    """Rows of contexts, questions and choices -> {"prediction", "choice", "scores"} for each.

    prediction: the number of the best choice, from 0. choice: its text. scores: the probability of each choice, in their order.

    Args:
      batching: gives "logits" (1,) of each choice. Contexts that are longer than its examples leave room for are cut, and counted.
      tokenizer: the model's.
      options: how texts are made.
    """

    kind = CHOICES
    columns = ("prediction", "choice", "score")

    def __init__(self, batching: Batching, tokenizer: Tokenizer, options: ChoiceOptions) -> None:
        self._batching, self._tokenizer, self._options = batching, tokenizer, options
        self.counters: Counter = Counter()

    def __call__(self, rows: Iterable[Row]) -> Iterator[tuple[Asked, dict]]:
        outputs = self._batching.outputs(self._examples(rows))
        for choosing, group in groupby(outputs, key=lambda item: item[0].owner):
            logits = np.array([scores["logits"][0] for _, scores in group], np.float64)
            weights = np.exp(logits - logits.max())
            best = int(logits.argmax())
            scores = (weights / weights.sum()).tolist()
            yield choosing.asked, {"prediction": best, "choice": choosing.choices[best], "scores": scores}

    def cells(self, result: dict) -> list[list[str]]:
        """The lines of a table for a row, without its index: one, with the values of `columns`."""
        best = result["prediction"]
        return [[str(best), " ".join(result["choice"].split()), f"{result['scores'][best]:.6f}"]]

    def _examples(self, rows: Iterable[Row]) -> Iterator[Example]:
        """The choices of rows, as many rows tokenized at once as a batch has examples."""
        rows, number = iter(rows), 0
        while part := list(islice(rows, self._batching.batch_size)):
            of = np.repeat(np.arange(len(part)), [len(row.choices) for row in part])
            texts = [with_choice(row.second, choice, self._options.blank) for row in part for choice in row.choices]
            encode = self._tokenizer.encode
            columns, cut = lay_out_choices(
                self._tokenizer,
                self._batching.longest,
                self._options.max_qa_length,
                encode([row.first for row in part]),
                encode(texts),
                of,
            )
            self.counters["rows"] += len(part)
            self.counters["truncated"] += len(np.unique(of[cut > 0]))
            self.counters["tokens_truncated"] += int(cut.sum())
            owners = [
                Choosing(number + i, Asked(row.name, row.line, False, None if row.label is None else row), row.choices)
                for i, row in enumerate(part)
            ]
            number += len(part)
            used = columns["input_mask"].sum(axis=1, dtype=np.int64).tolist()
            for owner, ids, segments, count in zip(
                of.tolist(), columns["input_ids"], columns["segment_ids"], used, strict=True
            ):
                yield Example(ids[:count].copy(), segments[:count].astype(np.int32), owners[owner])


def choice_rows(items: Any) -> list[Row]:
    """(context, question, choices), or (context, choices), as rows. UsageError for anything else."""
    expected = "(context, question, [choice, ...]) or (context, [choice, ...])"
    if not isinstance(items, list):
        raise UsageError(
            f"predict takes a list of {expected}. Received: {str(items)[:60]!r}. Put it into a list: [...]."
        )
    rows = []
    for number, item in enumerate(items):
        *texts, choices = item if isinstance(item, tuple | list) and item else (None,)
        every = [*texts, *choices] if isinstance(choices, tuple | list) else [None]
        if len(texts) not in (1, 2) or not all(isinstance(text, str) and is_characters(text) for text in every):
            raise UsageError(f"item {number}: expected {expected}, of text. Received: {ascii(item)[:60]}.")
        if not LEAST_CHOICES <= len(choices) <= MOST_CHOICES or not all(map(str.strip, choices)):
            raise UsageError(
                f"item {number}: expected {LEAST_CHOICES} to {MOST_CHOICES} choices, none of them empty. Received: "
                f"{ascii(choices)[:60]}."
            )
        rows.append(Row(str(number), texts[0], texts[1] if len(texts) == 2 else "", choices=tuple(choices)))
    return rows
