"""Multiple-choice records to batches: an example is several sequences, one for each choice, next to each other in a record."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.records.meta_types import LEAST_CHOICES, MOST_CHOICES
from pretrain.data.batches import Batches
from pretrain.data.decoded import decoded, decoding_tokenizer, numbered
from pretrain.data.record_set import (
    RENAME,
    SEQUENCE,
    Sources,
    check_fits_model,
    check_length,
    ends_of_files,
    kind_of,
    open_record_set,
    real_examples,
    sequence_features,
)
from pretrain.settings.data_section import DataConfig

_log = logging.getLogger(__name__)

KIND = "choice"


def choice_data(config: DataConfig, task: Any) -> "ChoiceData":
    """The records of a data section.

    Args:
      config: the section.
      task: MultipleChoiceConfig whose model and num_choices they must fit.

    Raises UsageError where configuration and records do not fit, DataError where a record file is damaged.
    """
    name = f"task.{'train_data' if config.is_training else 'validation_data'}"
    records, meta = open_record_set(config, name)
    if config.input_function:
        meta = {}  # what is guessed of examples is for sentences
    data = ChoiceData(records, meta, config, task, name)
    if not meta and not config.input_function:
        _log.info(f"{name}: no meta file next to {records.paths[0]}; {data.choices} choices of length {data.length}")
    return data


class ChoiceData:
    """Records that fit the model.

    Attributes:
      choices: of each example.
      length: tokens of one choice.
      sources: the files.
    """

    def __init__(self, records: Any, meta: Mapping, config: DataConfig, task: Any, name: str) -> None:
        self._records, self._meta, self._config, self._name = records, meta, config, name
        self._encoder = task.model.encoder.options
        self._check_features({RENAME.get(each.name, each.name): each for each in records.features})
        width = next(each.width for each in records.features if RENAME.get(each.name, each.name) == "input_ids")
        self.choices = self._find_choices(task.num_choices, width)
        self.length = width // self.choices
        check_length(self.length, config, meta, name)
        check_fits_model(meta, self.length, self._encoder, name)
        self.sources = Sources(records)
        ends = ends_of_files(records)
        self.transform(records[ends], ends, 0)

    def batches(self) -> Batches:
        """Batches of input_ids, input_mask, segment_ids int32 (b, choices, L); label_ids int32 (b,), the right choice; record
        int32 (b,), the number of the record in its files; is_real_example int32 (b,)."""
        return Batches(self._records, self._config, self.transform, self._name, self.facts(), sequences=self.choices)

    def facts(self) -> dict:
        """What must not change between the runs of one model, and what predictions need to know: how a question and a choice
        became a text."""
        options = self._meta.get("options", {})
        return {
            "tokenizer_sha256": self._meta.get("tokenizer", {}).get("sha256"),
            "seq_length": self.length,
            "kind": KIND,
            "num_choices": self.choices,
            "max_qa_length": options.get("max_qa_length"),
            "blank": options.get("blank"),
        }

    def shown(self, record: np.ndarray) -> list[dict[str, Any]]:
        """The records of these numbers, int64 (n,), for people: each has its number as record; id, where records have it; and,
        where their tokenizer is known, text (of the first choice's first segment) and choices, decoded from the pieces."""
        rows = {RENAME.get(name, name): values for name, values in self._records[record].items()}
        entries = numbered(record, rows)
        tokenizer = decoding_tokenizer(self._config, self._name) if len(record) else None
        if tokenizer is None:
            return entries
        batch = self.transform(rows, record, 0)
        texts = decoded({name: batch[name].reshape(-1, self.length) for name in SEQUENCE}, tokenizer)
        parts = [texts[at : at + self.choices] for at in range(0, len(texts), self.choices)]
        return [
            {**entry, "text": own[0][0], "choices": [choice for _, choice in own]}
            for entry, own in zip(entries, parts, strict=True)
        ]

    def transform(self, rows: dict[str, np.ndarray], examples: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        """The arrays of a batch; see batches."""
        rows = {RENAME.get(name, name): values for name, values in rows.items()}
        batch = sequence_features(self._records, rows, self._config, self._encoder, examples)
        for name in SEQUENCE:
            batch[name] = batch[name].reshape(-1, self.choices, self.length)
        real = real_examples(rows, len(examples))
        self._check_starts(batch, examples, real)
        batch["label_ids"] = self._label_ids(rows["label_ids"][:, 0], examples, real)
        batch["record"] = examples.astype(np.int32)
        batch["is_real_example"] = real.astype(np.int32)
        return batch

    def _check_features(self, features: Mapping[str, Any]) -> None:
        name, first, meta = self._name, self._records.paths[0], self._meta
        if kind_of(meta) not in (None, KIND):
            raise UsageError(
                f"{name}: the meta file says task_type {meta['task_type']!r}; multiple choice learns from records of nlpdata "
                "create-finetuning --task race, swag or choice. Was another experiment meant?"
            )
        missing = [each for each in (*SEQUENCE, "label_ids") if each not in features]
        if missing:
            instead = " Use `pretrain predict` for questions without answers." if missing == ["label_ids"] else ""
            raise UsageError(
                f"{name}: {first} does not hold labelled multiple-choice records: {', '.join(missing)} is missing. Its records "
                f"have {', '.join(features)}.{instead}"
            )
        label = features["label_ids"]
        if label.width != 1 or label.dtype != "int64":
            raise UsageError(
                f"{name}: label_ids of {first} is {label}, expected one int64, the number of the right choice from 0."
            )

    def _find_choices(self, wanted: int | None, width: int) -> int:
        name, told = self._name, self._meta.get("num_choices")
        if told is not None and told < LEAST_CHOICES:
            raise DataError(
                f"{name}: num_choices of the meta file is {told}, expected {LEAST_CHOICES} to {MOST_CHOICES}."
            )
        if wanted and told and wanted != told:
            raise UsageError(
                f"{name}: the records have {told} choices, task.num_choices says {wanted}. Set it to {told}, or leave it out."
            )
        choices = told or wanted
        if not choices:
            raise UsageError(f"{name}: no meta file says how many choices an example has. Set task.num_choices.")
        if width % choices:
            raise UsageError(
                f"{name}: input_ids of {self._records.paths[0]} has {width} numbers, which {choices} choices of one length cannot "
                "have. Set task.num_choices, or make the records again."
            )
        return choices

    def _check_starts(self, batch: Mapping[str, np.ndarray], examples: np.ndarray, real: np.ndarray) -> None:
        """DataError where a real example is cut into choices at the wrong places: one begins with padding, with another token
        than the first ([CLS]), or has padding inside."""
        ids, mask = batch["input_ids"], batch["input_mask"]
        for what, wrong in (
            ("begins with padding", mask[:, :, 0] == 0),
            ("begins with another token than choice 0", ids[:, :, 0] != ids[:, :1, 0]),
            ("has padding inside", (mask[:, :, 1:] > mask[:, :, :-1]).any(axis=2)),
        ):
            found = np.argwhere(wrong & real[:, None])
            if len(found):
                example, choice = map(int, found[0])
                raise DataError(
                    f"{self._records.where(int(examples[example]))}: choice {choice} of {self.choices} {what}; it is at number "
                    f"{choice * self.length} of input_ids. Do the records have {self.choices} choices of {self.length} tokens?"
                )

    def _label_ids(self, labels: np.ndarray, examples: np.ndarray, real: np.ndarray) -> np.ndarray:
        bad = np.flatnonzero(((labels < 0) | (labels >= self.choices)) & real)
        if len(bad):
            raise DataError(
                f"{self._records.where(int(examples[bad[0]]))}: label_ids holds {labels[bad[0]]}, expected 0 to "
                f"{self.choices - 1}, the number of the right choice. Correct the records"
            )
        return np.where(real, labels, 0).astype(np.int32)  # others may have any, of which a loss makes nan
