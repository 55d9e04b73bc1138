"""Fine-tuning records of sentence tasks to batches, after checks of the records against task and model."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.finetuning.in_memory import EncodedSplit
from pretrain.data.batches import Batches
from pretrain.data.chosen import Chosen, usable
from pretrain.data.decoded import decoded, decoding_tokenizer, numbered
from pretrain.data.examples import Examples
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
from pretrain.data.texts import encode_texts
from pretrain.settings.data_section import DataConfig, TextDataConfig
from pretrain.settings.schema import KINDS

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Labels:
    """What a label is: kind (one of KINDS), number of classes (1 for regression), their names in id order (() unknown)."""

    kind: str
    num_classes: int
    names: tuple[str, ...] = ()


def sentence_batches(config: DataConfig, task: Any) -> tuple[Batches, Labels]:
    """Batches of records of a sentence task, ours or another tool's, and what their labels are.

    Args:
      config: data section that names the records, or (TextDataConfig) the TensorFlow dataset.
      task: SentencePredictionConfig whose kind, classes and model they must fit.

    A batch has input_ids, input_mask, segment_ids int32 (b, L); label_ids int32 (b,), (b, labels) for multilabel, float32
    (b,) for regression; record int32 (b,), the number of the record in its files; is_real_example int32 (b,). With pack_sequences,
    see pretrain.data.packing.packed.

    Raises UsageError where configuration and records do not fit, DataError where a record file is damaged.
    """
    data = sentence_data(config, task)
    return data.batches(), data.labels


def sentence_data(config: DataConfig, task: Any, examples: Examples | None = None) -> "SentenceData":
    """The records of a data section, or examples in their place; arguments and errors as of sentence_batches."""
    name = f"task.{'train_data' if config.is_training else 'validation_data'}"
    records: Any
    if examples is not None:
        records, meta = examples, examples.meta
    elif _is_text(config):
        records, meta = encode_texts(config, name)
    else:
        records, meta = open_record_set(config, name)
    data = SentenceData(records, meta, config, task, name)
    if not meta:
        _log.info(f"{name}: no meta file next to {records.paths[0]}; taken as {data.labels.kind}, length {data.length}")
    return data


def _is_text(config: DataConfig) -> TypeGuard[TextDataConfig]:
    return isinstance(config, TextDataConfig) and bool(config.tfds_name)


class SentenceData:
    """Records that fit the model.

    Attributes:
      records: with the interface of `nlpdata.open_records`.
      labels: what their labels are.
      length: tokens of a record.
      sources: the files, or the splits of a TensorFlow dataset.
    """

    def __init__(self, records: Any, meta: Mapping, config: DataConfig, task: Any, name: str):
        self.records, self._meta, self._config, self._name = records, meta, config, name
        self._encoder = task.model.encoder.options
        splits = config.tfds_splits if _is_text(config) and isinstance(records, EncodedSplit) else ()
        self.sources = Sources(records, splits)
        self._features = {RENAME.get(f.name, f.name): f for f in records.features}
        self._check_features()
        self.labels = self._find_labels(task)
        self.length = self._features["input_ids"].width
        check_length(self.length, config, meta, name)
        check_fits_model(meta, self.length, self._encoder, name, _is_text(config))
        self._check_label_feature()
        if getattr(config, "on_bad_row", "fail") == "skip":
            self._leave_out_bad_labels()
        ends = ends_of_files(self.records)
        self.transform(self.records[ends], ends, 0)

    def batches(self) -> Batches:
        """As sentence_batches gives them."""
        return Batches(self.records, self._config, self.transform, self._name, self.facts(), packs=True)

    def shown(self, record: np.ndarray) -> list[dict[str, Any]]:
        """The records of these numbers, int64 (n,), for people.

        Each has its number as record; id, the number of its row in the source, where records have it; and, where their tokenizer
        is known, text and text_b, decoded from the pieces.
        """
        at = np.searchsorted(self.records.numbers, record) if isinstance(self.records, Chosen) else record
        rows = {RENAME.get(name, name): values for name, values in self.records[at].items()}
        entries = numbered(record, rows)
        tokenizer = decoding_tokenizer(self._config, self._name) if len(record) else None
        if tokenizer is None:
            return entries
        texts = decoded(self.transform(rows, at, 0), tokenizer)
        return [{**entry, "text": a, "text_b": b} for entry, (a, b) in zip(entries, texts, strict=True)]

    def facts(self) -> dict:
        """What must not change between the runs of one model."""
        return {
            "tokenizer_sha256": self._meta.get("tokenizer", {}).get("sha256"),
            "seq_length": self.length,
            "kind": self.labels.kind,
            "label_names": list(self.labels.names),
        }

    def _check_features(self) -> None:
        missing = [name for name in SEQUENCE if name not in self._features]
        if missing:
            raise UsageError(
                f"{self._name}: {self.records.paths[0]} does not hold fine-tuning records: {', '.join(missing)} is missing. Its "
                f"records have {', '.join(f.name for f in self.records.features)}."
            )
        if "label_ids" not in self._features:
            instead = "Use `pretrain predict` for texts without labels."
            if "masked_lm_positions" in self._features:
                instead = "They are pretraining records: was --experiment=albert/pretraining or bert/pretraining meant?"
            elif "start_positions" in self._features:
                instead = "They are of a question answering task: was --experiment=albert/squad or bert/squad meant?"
            raise UsageError(f"{self._name}: the records of {self.records.paths[0]} have no label_ids. {instead}")

    def _find_labels(self, task: Any) -> Labels:
        meta, name = self._meta, self._name
        kind, wanted = kind_of(meta), task.model.num_classes or None
        if kind is not None and kind not in KINDS:
            other = "bert/multiple_choice or albert/multiple_choice" if kind == "choice" else "another experiment"
            raise UsageError(
                f"{name}: the meta file says task_type {meta['task_type']!r}; sentence prediction learns from "
                f"{', '.join(KINDS)}. Was {other} meant?"
            )
        if task.kind and kind and task.kind != kind:
            raise UsageError(f"{name}: the records are of a {kind} task (meta file), task.kind says {task.kind}.")
        kind = kind or task.kind or ("regression" if wanted == 1 else "classification")
        names = tuple(meta.get("label_names") or ())
        told = meta.get("num_labels")
        if names and kind != "regression" and told not in (None, len(names)):
            raise DataError(
                f"{name}: the meta file contradicts itself: num_labels is {told}, label_names has {len(names)} names "
                f"({', '.join(names[:8])})."
            )
        found = 1 if kind == "regression" else len(names) or told
        if found is None and kind == "multilabel":
            found = self._features["label_ids"].width
        if wanted and found and wanted != found:
            listed = f" ({', '.join(names[:8])})" if names else ""
            raise UsageError(
                f"{name}: the records have {found} classes{listed}, task.model.num_classes says {wanted}. Set it to {found}, "
                "or leave it out."
            )
        classes = wanted or found
        if not classes:
            raise UsageError(f"{name}: no meta file says how many classes there are. Set task.model.num_classes.")
        return Labels(kind, classes, names)

    def _check_label_feature(self) -> None:
        feature, labels = self._features["label_ids"], self.labels
        width = labels.num_classes if labels.kind == "multilabel" else 1
        is_number = feature.dtype.startswith("float")
        if is_number and labels.kind != "regression":
            raise UsageError(
                f"{self._name}: label_ids of {self.records.paths[0]} are numbers ({feature.dtype}), but the task is "
                f"{labels.kind}, whose labels are int64. Set task.kind=regression, or make records of another --task."
            )
        if feature.width != width:
            raise UsageError(
                f"{self._name}: a record has {feature.width} label_ids, expected {width} ({labels.kind}, "
                f"{labels.num_classes} classes)."
            )

    def transform(self, rows: dict[str, np.ndarray], examples: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        """The arrays of a batch; see sentence_batches."""
        rows = {RENAME.get(name, name): values for name, values in rows.items()}
        batch = sequence_features(self.records, rows, self._config, self._encoder, examples)
        real = real_examples(rows, len(examples))
        batch["label_ids"] = self._label_ids(rows["label_ids"], examples, real)
        numbers = self.records.numbers[examples] if isinstance(self.records, Chosen) else examples
        batch["record"] = numbers.astype(np.int32)
        batch["is_real_example"] = real.astype(np.int32)
        return batch

    def _leave_out_bad_labels(self) -> None:
        """Keeps the records whose labels can be used. DataError where none is left."""

        def is_usable(rows: dict[str, np.ndarray]) -> np.ndarray:
            labels = rows["label_ids"]
            return ~self._wrong_labels(labels).any(axis=1) | ~real_examples(rows, len(labels))

        numbers, total = usable(self.records, is_usable), len(self.records)
        if len(numbers) == total:
            return
        what = f"{total - len(numbers)} of {total} records, whose label_ids are not {self._expected()}"
        if not len(numbers):
            raise DataError(f"{self._name}: no example is left without {what}")
        _log.info(f"{self._name}: left out {what}")
        self.records = Chosen(self.records, numbers)

    def _wrong_labels(self, values: np.ndarray) -> np.ndarray:
        """Which of the labels (n, width) cannot be labels: bool (n, width)."""
        if self.labels.kind == "regression":
            return ~np.isfinite(values.astype(np.float32))
        limit = 2 if self.labels.kind == "multilabel" else self.labels.num_classes
        return (values < 0) | (values >= limit)

    def _expected(self) -> str:
        if self.labels.kind == "regression":
            return "a number"
        classes = self.labels.num_classes
        return (
            "0 or 1 for each label" if self.labels.kind == "multilabel" else f"0 to {classes - 1} ({classes} classes)"
        )

    def _label_ids(self, values: np.ndarray, examples: np.ndarray, real: np.ndarray) -> np.ndarray:
        wrong = self._wrong_labels(values)
        if self.labels.kind != "regression":
            wrong &= real[:, None]
        bad = np.flatnonzero(wrong.any(axis=1))
        if len(bad):
            found = values[bad[0]][wrong[bad[0]]][0]
            raise DataError(
                f"{self.records.where(int(examples[bad[0]]))}: label_ids holds {found}, expected {self._expected()}. "
                f"Correct the records, or leave such ones out with {self._name}.on_bad_row=skip"
            )
        if self.labels.kind == "regression":
            return values.astype(np.float32)[:, 0]
        return values.astype(np.int32) if self.labels.kind == "multilabel" else values.astype(np.int32)[:, 0]
