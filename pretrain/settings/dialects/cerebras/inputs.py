"""The data of a Cerebras YAML: records, prepared sets of TensorFlow Datasets, or an input function of one's own."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlpdata.errors import DataError
from nlpdata.finetuning.tfds import find_prepared
from nlpdata.records.contract import find_meta
from pretrain.settings.values import parse_value

_log = logging.getLogger(__name__)

SECTIONS = {"train_input": "train_data", "eval_input": "validation_data"}
_BEGINNINGS = {"train_input": ("train",), "eval_input": ("dev", "eval", "val")}  # of the names of their records
_OF_RECORDS = {
    *("BertTfRecordsProcessor", "BertMlmOnlyTfRecordsStaticMaskProcessor", "QuestionAnsweringDataProcessor"),
    "BertMlmOnlyTfRecordsDynamicMaskProcessor",
}


@dataclass(frozen=True)
class TextSet:
    """A set of TensorFlow Datasets that one of their data processors reads: its name, classes, and splits to evaluate on."""

    name: str
    classes: int
    evaluated: str


TEXT_SETS = {
    "Sst2DataProcessor": TextSet("glue/sst2", 2, "validation"),
    "MnliDataProcessor": TextSet("glue/mnli", 3, "validation_matched+validation_mismatched"),
}


def input_fields(section: str, content: Mapping[str, Any], vocab_file: Path | None, where: str) -> dict[str, Any]:
    """Fields of the data section that the data of train_input or eval_input become.

    Args:
      section: its name.
      content: what the file says in it.
      vocab_file: the vocabulary that it names, where that is there.
      where: "--params FILE", for messages.
    """
    processor = str(content.get("data_processor") or "")
    if ":" in processor:
        return {"input_function": processor, "invert_mask": content.get("invert_mask", "true")}
    if processor in TEXT_SETS and not _has_only_records(TEXT_SETS[processor].name, content.get("data_dir")):
        return _text_fields(section, content, TEXT_SETS[processor], vocab_file)
    if processor and processor not in _OF_RECORDS and processor not in TEXT_SETS:
        _log.info(
            f"{where}: {section}.data_processor: {processor} is not known here, so records of data_dir are read. A function of "
            "your own is named as module:function (docs/extending.md)."
        )
    return _record_fields(section, content, where)


def _text_fields(section: str, content: Mapping[str, Any], found: TextSet, vocab_file: Path | None) -> dict[str, Any]:
    return {
        "tfds_name": found.name,
        "tfds_data_dir": str(content.get("data_dir") or ""),
        "tfds_split": "train" if section == "train_input" else found.evaluated,
        "vocab_file": str(vocab_file or ""),
        "do_lower_case": content.get("do_lower", "true" if vocab_file else None),
    }


def _has_only_records(name: str, folder: Any) -> bool:
    """Whether a data_dir has records of ours and no prepared set of that name."""
    if not isinstance(folder, str):
        return False
    try:
        find_prepared(Path(folder), name)
    except DataError:
        return any(Path(folder).glob("*.tf*record*"))
    return False


def _record_fields(section: str, content: Mapping[str, Any], where: str) -> dict[str, Any]:
    given = content.get("data_file") or content.get("data_dir")
    if not given:
        return {}
    patterns, found = [], []
    for path in given if isinstance(given, list) else [given]:
        pattern, files = _record_files(path, "data_file" in content, _BEGINNINGS[section])
        patterns.append(pattern)
        found += files
    fields: dict[str, Any] = {"input_path": patterns}
    if not found:
        flag = "--input_files" if section == "train_input" else "--eval_files"
        _log.info(f"{where}: {section}: no records at {', '.join(patterns)}. Name others with {flag}.")
    elif find_meta(found[0]) is None:
        inverted = parse_value(bool, content.get("invert_mask", "true"))
        fields["invert_mask"] = inverted
        meaning = "read as Cerebras's, with 1 on padding" if inverted else "invert_mask is false: 1 on real tokens"
        _log.info(f"{where}: {section}: no meta file next to {found[0]}: {meaning}")
    return fields


def _record_files(path: str, is_file: bool, beginnings: tuple[str, ...]) -> tuple[str, list[Path]]:
    """(pattern, files that it matches) of a data_file or data_dir; of a folder with several splits, those of one."""
    if is_file:
        return path, [Path(path)] if Path(path).exists() else []
    for beginning in (*beginnings, ""):
        pattern = f"{beginning}*.tf*record*"
        files = sorted(Path(path).glob(pattern))
        if files or not beginning:
            break
    return f"{path.rstrip('/')}/{pattern}", files
