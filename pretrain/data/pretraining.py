"""Pretraining records to batches: what the meta file, the configuration and the records say must agree before step 0."""

import logging
import math
from collections.abc import Mapping

import numpy as np

from nlpdata import keys
from nlpdata.errors import DataError, UsageError
from nlpdata.keys import Purpose
from nlpdata.pretraining.masking import MaskingRule, mask_batch
from nlpdata.records.contract import V2_NAMES, is_pretraining
from nlpdata.records.reader import Records
from pretrain.data.batches import Batches
from pretrain.data.corpus import names_corpus
from pretrain.data.packing import used_lengths
from pretrain.data.record_set import check_fits_model, check_range, ends_of_files, kind_of, open_record_set, set_mask
from pretrain.settings.data_section import DataConfig
from pretrain.settings.schema import TaskConfig

_log = logging.getLogger(__name__)

EVALUATION_PROB = 0.15  # of dynamic records, whatever training masks: evaluations stay comparable
_EVALUATION_KEY = 0x6576616C  # "eval": the masks of an evaluation depend on nothing else
_MASKED = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_SEQUENCE = ("input_ids", "input_mask", "segment_ids")


def pretraining_batches(config: DataConfig, task: TaskConfig) -> Batches:
    """Batches of pretraining records, ours or another tool's.

    Args:
      config: data section that names the records.
      task: whose model and objective they must fit; has use_next_sentence_label.

    A batch has input_ids, input_mask, segment_ids int32 (b, L); masked_lm_positions, masked_lm_ids int32 (b, P),
    masked_lm_weights float32 (b, P); next_sentence_labels int32 (b, 1) where the task uses it. With pack_sequences, see
    pretrain.data.packing.packed.

    Raises UsageError where configuration and records do not fit, DataError where a record file is damaged.
    """
    name = f"task.{'train_data' if config.is_training else 'validation_data'}"
    if names_corpus(config):
        raise UsageError(
            f"{name}.input_path is text. A single run makes records of it in its model_dir; for several runs, or from Python, make "
            "them with nlpdata create-pretraining."
        )
    records, meta = open_record_set(config, name)
    source = _Source(records, meta, config, task, name)
    return Batches(records, config, source.transform, name, source.facts(), packs=True)


def masked_share(config: DataConfig, meta: Mapping) -> float:
    """Share of the tokens that dynamic masking of a data section predicts; `meta`: of its records."""
    if not config.is_training:
        return EVALUATION_PROB
    own = config.masked_lm_prob
    return meta.get("options", {}).get("masked_lm_prob", 0.15) if own is None else own


def check_meta(
    meta: Mapping, length: int, predictions: int | None, config: DataConfig, task: TaskConfig, name: str
) -> None:
    """UsageError where records do not agree with their meta file, the configuration or the model.

    Args:
      meta: what the meta file says; {} where there is none.
      length: of the records.
      predictions: of a record; None where they are not masked.
      config, name: the data section, and its dotted path.
      task: whose model they are for.
    """
    for what, found, expected, where in (
        ("max_seq_length", length, config.seq_length, f"{name}.seq_length"),
        ("max_predictions_per_seq", predictions, config.max_predictions_per_seq, f"{name}.max_predictions_per_seq"),
        ("max_seq_length", length, meta.get("max_seq_length"), "the meta file"),
        ("max_predictions_per_seq", predictions, meta.get("max_predictions_per_seq"), "the meta file"),
    ):
        if found is not None and expected is not None and found != expected:
            raise UsageError(
                f"{name}: the records have {what} {found}, {where} says {expected}. Set it to {found} (or leave it "
                f"out), or make records with --{what.replace('_', '-')} {expected}."
            )
    task_type = meta.get("task_type")
    if task_type is not None and not is_pretraining(task_type):
        raise UsageError(
            f"{name}: the meta file says task_type {task_type!r}; this task learns from pretraining records, such as "
            "bert_pretraining or albert_pretraining. Was another task meant?"
        )
    check_fits_model(meta, length, task.model.encoder.options, name)


def no_pairs(name: str) -> UsageError:
    """The error of records without sentence pairs in a data section of a task that learns them."""
    return UsageError(
        f"{name}: the records have no next_sentence_labels (objective none), and task.use_next_sentence_label is true. Set it to "
        "false, or make records with --objective sop or nsp."
    )


class _Source:
    """Records that fit the model; `transform` makes a batch's arrays of their rows."""

    def __init__(self, records: Records, meta: Mapping, config: DataConfig, task: TaskConfig, name: str):
        self._records, self._meta, self._config, self._name = records, meta, config, name
        self._uses_pairs = getattr(task, "use_next_sentence_label", False)
        self._encoder = task.model.encoder.options
        self._rename = {new: old for old, new in V2_NAMES.items()}
        self._widths = {self._rename.get(f.name, f.name): f.width for f in records.features}
        self._check_features()
        check_meta(meta, self._length, self._widths.get("masked_lm_positions"), config, task, name)
        self._check_shards()
        self._rule = self._masking_rule() if self._is_dynamic() else None
        if self._rule is None and config.masked_lm_prob is not None:
            _log.warning(
                f"{name}.masked_lm_prob {config.masked_lm_prob:g} has no effect: the records are masked already. Make "
                "them with nlpdata create-pretraining --masking dynamic."
            )
        if not meta:
            _log.info(f"{name}: no meta file next to {records.paths[0]}; from its first record: {self._describe()}")

    def facts(self) -> dict:
        """What must not change between the runs of one model."""
        objective = self._meta.get("objective")
        return {
            "tokenizer_sha256": self._meta.get("tokenizer", {}).get("sha256"),
            "seq_length": self._length,
            **({"objective": objective} if self._uses_pairs and objective else {}),
        }

    def _describe(self) -> str:
        predictions = self._widths.get("masked_lm_positions")
        return f"max_seq_length {self._length}" + (f", max_predictions_per_seq {predictions}" if predictions else "")

    def _is_dynamic(self) -> bool:
        return not any(name in self._widths for name in _MASKED)

    @property
    def _length(self) -> int:
        return self._widths["input_ids"]

    def _check_features(self) -> None:
        needed = [*_SEQUENCE, *(() if self._is_dynamic() else _MASKED)]
        if self._uses_pairs:
            needed.append("next_sentence_labels")
        missing = [name for name in needed if name not in self._widths]
        if "label_ids" in self._widths or "start_positions" in self._widths:
            is_choice = kind_of(self._meta) == "choice"
            kind = "squad" if "start_positions" in self._widths else "sentence_prediction"
            kind = "multiple_choice" if is_choice else kind
            raise UsageError(
                f"{self._name}: the records of {self._records.paths[0]} are fine-tuning records: was "
                f"--experiment=albert/{kind} or bert/{kind} meant?"
            )
        if missing == ["next_sentence_labels"]:
            raise no_pairs(self._name)
        if missing:
            raise UsageError(
                f"{self._name}: {self._records.paths[0]} does not hold pretraining records: {', '.join(missing)} is missing. "
                f"Its records have {', '.join(f.name for f in self._records.features)}."
            )

    def _check_shards(self) -> None:
        """Reads the first and last record of every file, which finds most files of another kind before the first step."""
        ends = ends_of_files(self._records)
        self.transform_rows(self._records[ends], ends)

    def _masking_rule(self) -> MaskingRule:
        tokenizer, options = self._meta.get("tokenizer", {}), self._meta.get("options", {})
        if "special_ids" not in tokenizer or "token_boundary" not in self._widths:
            raise UsageError(
                f"{self._name}: the records are not masked, and to mask them takes a meta file with the tokenizer's "
                "special_ids and a feature token_boundary. Make them with nlpdata create-pretraining --masking dynamic."
            )
        own, prob = self._config.masked_lm_prob, masked_share(self._config, self._meta)
        if not self._config.is_training and own not in (None, prob):
            raise UsageError(f"{self._name}.masked_lm_prob is {own}; evaluation always masks {prob}.")
        made = self._config.max_predictions_per_seq or self._meta.get("max_predictions_per_seq")
        self._report_fewer(made, math.ceil(self._length * prob))
        special = tokenizer["special_ids"]
        return MaskingRule(
            masked_lm_prob=prob,
            max_predictions=made or math.ceil(self._length * prob),
            max_ngram=options.get("max_ngram", 3),
            whole_word=options.get("whole_word", True),
            favor_shorter_ngram=options.get("favor_shorter_ngram", True),
            mask_id=special["mask"],
            special_ids=tuple({special[role] for role in ("pad", "cls", "sep", "mask")}),
            ordinary_ids=np.concatenate([np.arange(a, b, dtype=np.int32) for a, b in tokenizer["ordinary_ids"]]),
        )

    def _report_fewer(self, made: int | None, wanted: int) -> None:
        """Tells where examples get fewer predictions than the section's masked_lm_prob asks for."""
        if self._config.masked_lm_prob is None or not made or made >= wanted:
            return
        field = f"{self._name}.max_predictions_per_seq"
        whose = field if self._config.max_predictions_per_seq else "max_predictions_per_seq of the records' meta file"
        _log.warning(
            f"{self._name}.masked_lm_prob {self._config.masked_lm_prob:g} of {self._length} tokens are {wanted} predictions, but "
            f"an example gets {made} at most ({whose}). Set {field}={wanted}."
        )

    def transform(self, rows: dict[str, np.ndarray], examples: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        """The arrays of a batch; see pretraining_batches."""
        batch = self.transform_rows(rows, examples)
        boundary = rows.get("token_boundary")
        if self._rule is not None and boundary is not None:
            lengths = batch["input_mask"].sum(axis=1)
            masked = mask_batch(batch["input_ids"], lengths, boundary, self._example_keys(examples, epoch), self._rule)
            batch["input_ids"] = masked.input_ids
            batch |= dict(zip(_MASKED, (masked.positions, masked.label_ids, masked.weights), strict=True))
        return batch

    def transform_rows(self, rows: dict[str, np.ndarray], examples: np.ndarray) -> dict[str, np.ndarray]:
        """The features that the task reads, in their types and checked, still without dynamic masks."""
        rows = {self._rename.get(name, name): values for name, values in rows.items()}
        names = [*_SEQUENCE, *(name for name in _MASKED if name in rows)]
        names += ["next_sentence_labels"] if self._uses_pairs else []
        for name, limit in (("input_ids", self._encoder.vocab_size), ("masked_lm_ids", self._encoder.vocab_size),
                            ("masked_lm_positions", self._length), ("next_sentence_labels", 2),
                            ("segment_ids", self._encoder.type_vocab_size), ("input_mask", 2)):  # fmt: skip
            if name in names:
                check_range(self._records, name, rows[name], limit, examples)
        batch = {name: rows[name].astype(np.float32 if name == "masked_lm_weights" else np.int32) for name in names}
        set_mask(batch, self._records, self._config, examples)
        if "masked_lm_weights" in batch:
            self._check_predictions(batch, examples)
        return batch

    def _check_predictions(self, batch: Mapping[str, np.ndarray], examples: np.ndarray) -> None:
        """DataError where a prediction is behind the text, or its weight is not a number of at least 0.

        In a packed row such a place belongs to another example.
        """
        weights, positions = batch["masked_lm_weights"], batch["masked_lm_positions"]
        lengths = used_lengths(batch["input_mask"])
        wrong = ((weights != 0) & (positions >= lengths[:, None])) | ~((weights >= 0) & np.isfinite(weights))
        if wrong.any():
            row, place = np.argwhere(wrong)[0].tolist()
            raise DataError(
                f"{self._records.where(int(examples[row]))}: masked_lm_positions[{place}] is {positions[row, place]}, of weight "
                f"{weights[row, place]:g}; expected a position of the text, of {lengths[row]} tokens, and a weight from 0 on: "
                "the record is damaged. Make it again"
            )

    def _example_keys(self, examples: np.ndarray, epoch: int) -> np.ndarray:
        if self._config.is_training:
            key = keys.fold_int(keys.fold_int(keys.ROOT, self._config.seed), epoch)
        else:
            key = keys.fold_int(keys.ROOT, _EVALUATION_KEY)
        return keys.fold(keys.fold(np.uint64(key), examples.astype(np.uint64)), Purpose.MASKING)
