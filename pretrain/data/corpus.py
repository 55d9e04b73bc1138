"""A corpus of text in place of pretraining records: create-pretraining makes them, once, next to the checkpoints.

<stem>.tfrecord, <stem>.meta.json, ...   what create-pretraining writes
<stem>.text.json                         what they were made of; written last
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nlpdata.corpus import find_files, fingerprint
from nlpdata.corpus.folders import JSON_LINES, TEXT, ending
from nlpdata.errors import DataError, NlpdataError, UsageError, as_flag, spelled_as
from nlpdata.files.json_files import read_object, write_json
from nlpdata.files.paths import path_of
from nlpdata.files.patterns import each_named, find_paths
from nlpdata.output import is_unfinished
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.records.contract import is_record_name, meta_path, read_meta
from nlpdata.records.reader import file_crc, is_record_file
from nlpdata.tokenizers import load_tokenizer
from pretrain.data.record_set import check_fits_model
from pretrain.settings.data_section import DataConfig, PretrainingDataConfig
from pretrain.settings.schema import TaskConfig
from pretrain.settings.tree import differences

_log = logging.getLogger(__name__)

_RECORDS = re.compile(r"\.tf_?record[^/]*$")
_WEIGHT = re.compile(r"@[^@/,]*$")
_FIELDS = {
    "input": "input_path",
    "tokenizer": "vocab_file",
    "max_seq_length": "seq_length",
    **{name: name for name in ("do_lower_case", "text_key", "objective", "masking")},
    **{name: name for name in ("masked_lm_prob", "max_predictions_per_seq")},
}
"""Option of create-pretraining -> field of a data section."""


def names_corpus(config: DataConfig) -> bool:
    """Whether a data section names text, not records: by the first name in it, or by that file's content where it tells nothing."""
    if not isinstance(config, PretrainingDataConfig) or not config.input_path:
        return False
    given = config.input_path if isinstance(config.input_path, str) else config.input_path[0]
    name = _WEIGHT.sub("", given.split(",")[0].strip())
    if _has_text_name(name) or _RECORDS.search(name):
        return _has_text_name(name)
    try:
        found = each_named(given, _named)[0][1]
        return bool(found) and _is_text(found[0])
    except NlpdataError:  # its reader reports it
        return False


def _named(pattern: str) -> list[str]:
    return find_paths(pattern) or find_paths(_WEIGHT.sub("", pattern))


def _has_text_name(name: str) -> bool:
    return ending(name) in (*TEXT, *JSON_LINES)


def _is_text(name: str) -> bool:
    if _has_text_name(name) or is_record_name(name):
        return _has_text_name(name)
    place = path_of(name)
    if place.is_dir():
        return not any(is_record_name(each.name) for each in place.iterdir())
    return not is_record_file(place) and bool(find_files(name))


@dataclass(frozen=True)
class Corpus:
    """A text, and how records are made of it.

    Attributes:
      section, name: the data section, and its dotted path.
      options: of create-pretraining.
      facts: what decides the records; JSON-able.
    """

    section: PretrainingDataConfig
    name: str
    options: PretrainingOptions
    facts: dict[str, Any]


def find_corpus(config: PretrainingDataConfig, task: TaskConfig, name: str) -> Corpus:
    """The text that a data section names, and how its records are made.

    Args:
      config: the section; names_corpus is true of it.
      task: whose model and objective the records are for.
      name: dotted path of the section; messages name the options of create-pretraining by its fields.

    Raises UsageError, DataError, also where the records would not fit the model.
    """
    if not config.vocab_file:
        raise UsageError(
            f"{name}.vocab_file is missing: {_shown(config)} is text. Name a tokenizer's file, or a checkpoint that has one; or "
            "records of nlpdata create-pretraining."
        )
    with spelled_as(partial(as_field, name)):
        options = PretrainingOptions(**_options(config, task))
        tokenizer = load_tokenizer(config.vocab_file, do_lower_case=config.do_lower_case)
        files, _ = find_files(config.input_path, json_lines=options.text_key is not None)
        inputs = [
            {"file": each.name, "weight": each.weight, "bytes": each.size, "digest": fingerprint(each)}
            for each in files
        ]
    use = tokenizer.meta()
    if options.objective == "none" and getattr(task, "use_next_sentence_label", False):
        raise UsageError(
            f"{name}.objective none makes no sentence pairs, and task.use_next_sentence_label is true. Set it to false, or the "
            "objective to sop or nsp."
        )
    check_fits_model({"tokenizer": use}, options.max_seq_length, task.model.encoder.options, name, of_text=True)
    return Corpus(config, name, options, {"inputs": inputs, "options": options.affecting_bytes(), "tokenizer": use})


def _options(config: PretrainingDataConfig, task: TaskConfig) -> dict[str, Any]:
    of_encoder = getattr(task.model.encoder.options, "sentence_objective", "nsp")
    wanted = {
        "objective": config.objective or (of_encoder if getattr(task, "use_next_sentence_label", False) else "none"),
        "masking": config.masking,
        "max_seq_length": config.seq_length,
        "max_predictions_per_seq": config.max_predictions_per_seq,
        "masked_lm_prob": config.masked_lm_prob,
        "text_key": config.text_key or None,
        "dupe_factor": None if config.is_training else 1,  # an evaluation sees each document once
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _shown(config: DataConfig) -> str:
    given = config.input_path
    return given if isinstance(given, str) else ", ".join(given)


def as_field(section: str, option: str, value: object = None) -> str:
    """The configuration's spelling of an option of create-pretraining; one without a field is named as that command's."""
    if option == "output":
        return "model_dir"
    if option not in _FIELDS:
        return f"{as_flag(option, value)} of nlpdata create-pretraining"
    field = f"{section}.{_FIELDS[option]}"
    return field if value is None else f"{field}={str(value).lower() if isinstance(value, bool) else value}"


# -------------------------------------------------------------------------------------------------------------- records


def changes(corpus: Corpus, stem: Path) -> list[str] | None:
    """What is not as it was when the records at `stem` were made; None where there are none, or they are not finished."""
    output = f"{stem}.tfrecord"
    if not meta_path(output).exists() or is_unfinished(output):
        return None
    try:
        before = read_object(_facts_file(stem))
    except DataError:
        return [f"{_facts_file(stem)}, which says what they were made of, is missing or damaged"]
    inputs, others = _by_file(before), {key: value for key, value in before.items() if key != "inputs"}
    now, facts = _by_file(corpus.facts), {key: value for key, value in corpus.facts.items() if key != "inputs"}
    lines = differences(others, facts)
    lines += [f"{name} is new" for name in now if name not in inputs]
    lines += [f"{name} is left out" for name in inputs if name not in now]
    return lines + [
        f"{name} has other content or another weight" for name in now if inputs.get(name, now[name]) != now[name]
    ]


def _by_file(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs by name; of files of equal names, the second one is "wiki.txt (2)"."""
    found: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    inputs = facts.get("inputs")
    for each in inputs if isinstance(inputs, list) else ():
        name = str(each.get("file")) if isinstance(each, dict) else str(each)
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name} ({seen[name]})"] = each
    return found


def _facts_file(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.text.json")


def record_files(stem: Path) -> list[str]:
    """The record files of a finished set."""
    return [str(stem.with_name(shard["file"])) for shard in _shards(stem)]


def damaged_files(stem: Path) -> list[str]:
    """Those that are missing, or not as they were written."""
    expected = {str(stem.with_name(shard["file"])): shard["crc32c"] for shard in _shards(stem)}
    return [path for path, crc in expected.items() if not os.path.exists(path) or file_crc(path) != crc]


def _shards(stem: Path) -> list[dict[str, Any]]:
    path = meta_path(stem)
    shards = read_meta(path).get("shards")
    if not shards:
        raise DataError(
            f"{path}: lists no record files, so it is damaged. Remove {path.parent}, and the records are made again"
        )
    return shards


def make_records(corpus: Corpus, stem: Path) -> None:
    """Makes the records of a text at `stem`, in place of those that are there; resumes where an equal call was interrupted."""
    from nlpdata import create_pretraining

    _log.info(f"{corpus.name}: making records of {_shown(corpus.section)}: {stem}.tfrecord")
    stem.parent.mkdir(parents=True, exist_ok=True)
    section = corpus.section
    if changes(corpus, stem):
        _facts_file(stem).unlink(missing_ok=True)  # a call that is interrupted must not leave it with other records
    with spelled_as(partial(as_field, corpus.name)):
        made = create_pretraining(
            section.input_path,
            f"{stem}.tfrecord",
            section.vocab_file,
            do_lower_case=section.do_lower_case,
            overwrite=True,
            progress=True,
            **asdict(corpus.options),
        )
    write_json(_facts_file(stem), corpus.facts)
    _log.info(f"{corpus.name}: {made.counters['examples_train']:,} examples")


def with_records(corpus: Corpus, paths: Sequence[str]) -> PretrainingDataConfig:
    """The data section with records that were made of its text."""
    is_dynamic = corpus.options.masking == "dynamic"
    prob = corpus.section.masked_lm_prob if is_dynamic else None  # static masks are made
    return replace(corpus.section, input_path=list(paths), masked_lm_prob=prob)
