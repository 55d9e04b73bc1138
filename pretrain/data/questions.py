"""SQuAD records to batches; and what else of them scoring needs, which stays on the host."""

import gzip
import json
import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import JSON_FAULTS
from nlpdata.files.paths import AnyPath, open_binary
from nlpdata.records.reader import Records
from pretrain.data.batches import Batches
from pretrain.data.question_files import with_records
from pretrain.data.record_set import (
    RENAME,
    SEQUENCE,
    check_fits_model,
    check_length,
    check_range,
    ends_of_files,
    kind_of,
    meta_of,
    open_record_set,
    sequence_features,
)
from pretrain.layers.answer_places import may_answer
from pretrain.settings.data_section import DataConfig
from pretrain.settings.schema import TaskConfig

_log = logging.getLogger(__name__)

_POSITIONS = ("start_positions", "end_positions")
PLACES = ("token_char_start", "token_char_end", "token_is_max_context", "example_id")


@dataclass(frozen=True)
class Question:
    """A question of `<split>.examples.jsonl.gz`: answers as in the source, a list of {"text", "answer_start"}."""

    id: str
    context: str
    answers: list[dict]
    text: str = ""


def question_batches(
    config: DataConfig, task: TaskConfig, labelled: bool = True, in_context: bool = False
) -> tuple[Batches, "QuestionSource"]:
    """Batches of SQuAD records, and their source.

    Args:
      config: data section that names the records, or (QuestionDataConfig) a file of questions.
      task: QuestionAnsweringConfig whose model they must fit.
      labelled: whether the answers must be known; else the positions of records without are 0, for predictions.
      in_context: whether an answer must be of the second segment, without its [SEP], or the first token, which means none.

    A batch has input_ids, input_mask, segment_ids int32 (b, L); start_positions, end_positions, record int32 (b,), the
    last being the number of the record in its files. Evaluation takes the records of dev, which know their texts.

    Raises UsageError where configuration and records do not fit, DataError where a record file is damaged.
    """
    name = f"task.{'train_data' if config.is_training else 'validation_data'}"
    made = with_records(config, name)
    records, meta = open_record_set(made, name)
    source = QuestionSource(records, meta, made, task, name, labelled, made is not config, in_context)
    if not meta:
        _log.info(f"{name}: no meta file next to {records.paths[0]}; length {source.length}")
    return Batches(records, made, source.transform, name, source.facts()), source


class QuestionSource:
    """SQuAD records that fit the model.

    Attributes:
      version_2_with_negative: whether questions may have no answer; None where no meta file says so.
    """

    def __init__(
        self,
        records: Records,
        meta: Mapping,
        config: DataConfig,
        task: Any,
        name: str,
        labelled: bool = True,
        of_text: bool = False,
        in_context: bool = False,
    ):
        self._records, self._meta, self._config, self._name = records, meta, config, name
        self._encoder, self._in_context = task.model.encoder.options, in_context
        self.version_2_with_negative = meta.get("version_2_with_negative")
        widths = {RENAME.get(feature.name, feature.name): feature.width for feature in records.features}
        self._needed = (*SEQUENCE, *(_POSITIONS if labelled else ()))
        self._check_features(widths)
        self.length = widths["input_ids"]
        check_length(self.length, config, meta, name)
        check_fits_model(meta, self.length, self._encoder, name, of_text)
        ends = ends_of_files(records)
        self.transform(records[ends], ends, 0)

    def facts(self) -> dict:
        """What must not change between the runs of one model, and what its predictions do as the records do."""
        options = self._meta.get("options", {})
        return {
            "tokenizer_sha256": self._meta.get("tokenizer", {}).get("sha256"),
            "seq_length": self.length,
            "kind": "squad",
            "version_2_with_negative": self.version_2_with_negative,
            "doc_stride": options.get("doc_stride"),
            "max_query_length": options.get("max_query_length"),
        }

    def _check_features(self, widths: Mapping[str, int]) -> None:
        kind, first = kind_of(self._meta), self._records.paths[0]
        if kind not in (None, "squad"):
            raise UsageError(
                f"{self._name}: the meta file says task_type {self._meta['task_type']!r}; question answering learns from "
                "squad records. Was another experiment meant?"
            )
        missing = [name for name in self._needed if name not in widths]
        if missing:
            raise UsageError(
                f"{self._name}: {first} holds no SQuAD records with answers: {', '.join(missing)} is missing. Its records have "
                f"{', '.join(widths)}."
            )
        places = [name for name in PLACES if name not in widths]
        if places and not self._config.is_training:
            raise UsageError(
                f"{self._name}: {first} does not say where its tokens stand in the text ({', '.join(places)} is missing), which "
                "scoring needs. Use the dev records of nlpdata create-finetuning --task squad."
            )

    def transform(self, rows: dict[str, np.ndarray], examples: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        """The arrays of a batch; see question_batches."""
        rows = {RENAME.get(name, name): values for name, values in rows.items()}
        batch = sequence_features(self._records, rows, self._config, self._encoder, examples)
        for name in _POSITIONS:
            if name not in rows and name not in self._needed:
                batch[name] = np.zeros(len(examples), np.int32)
                continue
            check_range(self._records, name, rows[name], self.length, examples)
            batch[name] = rows[name].astype(np.int32)[:, 0]
            if self._in_context:
                self._check_in_context(name, batch, examples)
        batch["record"] = examples.astype(np.int32)
        return batch

    def _check_in_context(self, name: str, batch: Mapping[str, np.ndarray], examples: np.ndarray) -> None:
        """DataError, with file and record, for an answer whose score would be that of a token that cannot be one."""
        wrong = np.flatnonzero(~may_answer(batch, np)[np.arange(len(examples)), batch[name]])
        if len(wrong):
            raise DataError(
                f"{self._records.where(int(examples[wrong[0]]))}: {name} is {batch[name][wrong[0]]}, which is not a token of "
                "the context (segment_ids 1, without the [SEP] at its end). Set task.model.answer_layer to span, which learns "
                "from such records, too, or make them with nlpdata create-finetuning --task squad."
            )

    def places(self, records: np.ndarray) -> dict[str, Any]:
        """token_char_start, token_char_end, token_is_max_context int64 (n, L), and example_id, a list of n texts, of records."""
        rows = self._records[records]
        places = {name: rows[name] for name in PLACES[:3]}
        return places | {"example_id": [name.decode() for name in rows["example_id"][:, 0]]}

    def questions(self) -> dict[str, Question]:
        """The questions of the split by id, from the file that the meta file names for it."""
        found = {}
        for path in self._records.paths:
            file = self._examples_file(path)
            if file not in found:
                found[file] = read_questions(file)
        return {question.id: question for part in found.values() for question in part}

    def _examples_file(self, path: AnyPath) -> AnyPath:
        meta = self._meta
        split = next((shard.get("split") for shard in meta.get("shards", []) if shard["file"] == path.name), None)
        name = meta.get("splits", {}).get(split, {}).get("examples")
        if not name:
            raise UsageError(
                f"{self._name}: no meta file says where the questions of {path} are, which scoring needs. Keep meta.json and "
                "dev.examples.jsonl.gz next to the records, as nlpdata create-finetuning --task squad writes them."
            )
        meta_path = meta_of(self._config, path)
        assert meta_path is not None  # its content was read
        return meta_path.parent / name


def read_questions(path: AnyPath) -> list[Question]:
    """The questions of an examples file. DataError, with the line, where it is missing or damaged."""
    questions, number = [], 0
    try:
        with open_binary(path) as raw, gzip.open(raw, "rt", encoding="utf-8") as file:
            for text in file:
                number += 1
                line = json.loads(text)
                text = str(line.get("question", ""))
                questions.append(Question(line["example_id"], line["context"], line["answers"] or [], text))
    except (OSError, EOFError, zlib.error, KeyError, TypeError, *JSON_FAULTS) as error:
        raise DataError(f"{path}:{number}: cannot be read as questions: {error}. Make the records again") from None
    return questions
