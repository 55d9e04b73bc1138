"""A file of SQuAD's form in place of records: create-finetuning makes its records when the run starts."""

import atexit
import functools
import logging
import os
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from typing import TypeVar

from nlpdata.errors import UsageError, spelled_as
from nlpdata.files.fetching import fetched
from nlpdata.files.unpacking import named_as_given, shown
from nlpdata.finetuning.squad import is_named_squad
from pretrain.data.texts import as_field
from pretrain.settings.data_section import DataConfig, EvalQuestionDataConfig, QuestionDataConfig

_log = logging.getLogger(__name__)

_OPTIONS = {
    "doc_stride": "doc_stride",
    "query_length": "max_query_length",
    "seq_length": "max_seq_length",
    "version_2_with_negative": "version_2_with_negative",
    "do_lower_case": "do_lower_case",
    "on_bad_row": "on_bad_row",
}
"""Field of a data section -> option of create-finetuning."""

Section = TypeVar("Section", bound=DataConfig)


def names_questions(config: DataConfig) -> bool:
    """Whether a data section names a file of SQuAD's form (.json, also compressed), not records."""
    is_text = isinstance(config, QuestionDataConfig | EvalQuestionDataConfig)
    return is_text and any(map(is_named_squad, _paths(config)))


def _paths(config: DataConfig) -> list[str]:
    """The files that a section names, as a list or separated by commas; a file of the very name goes first."""
    given = config.input_path
    if not isinstance(given, str):
        return list(given)
    return [given] if os.path.exists(given) else [part.strip() for part in given.split(",") if part.strip()]


def with_records(config: Section, name: str) -> Section:
    """The section with the records of its file of questions in input_path; one that names records stays as it is.

    The records lie in a temporary folder until the process ends, and are made once for equal sections.

    Args:
      config: the section.
      name: its dotted path, e.g. task.validation_data; messages name the options of create-finetuning by its fields.

    Raises UsageError, DataError.
    """
    if not isinstance(config, QuestionDataConfig | EvalQuestionDataConfig) or not names_questions(config):
        return config
    path, *others = _paths(config)
    if others:
        raise UsageError(f"{name}.input_path: expected one file of questions. Received: {', '.join([path, *others])}.")
    if not config.vocab_file:
        raise UsageError(
            f"{name}.vocab_file is missing: {path} is text. Name a tokenizer's file, or a checkpoint that has one; or records of "
            "nlpdata create-finetuning --task squad."
        )
    path = str(fetched(path))
    given = ((option, getattr(config, field)) for field, option in _OPTIONS.items())
    options = tuple((option, value) for option, value in given if value is not None)
    version = (os.path.getmtime(path), os.path.getsize(path)) if os.path.exists(path) else ()
    return replace(config, input_path=_made(name, path, version, config.vocab_file, config.is_training, options))


@functools.cache
def _made(name: str, path: str, version: tuple, vocab_file: str, is_training: bool, options: tuple) -> str:
    """The path of the records of a file of questions. `version`: what tells that its content has changed."""
    from nlpdata import create_finetuning

    folder = tempfile.mkdtemp(prefix="nlpdata-questions-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    split = "train" if is_training else "dev"
    with named_as_given(), spelled_as(partial(as_field, name)):
        made = create_finetuning(
            path, folder, vocab_file, task="squad", splits=split, workers=1, overwrite=True, **dict(options)
        )
    counters = made.counters[split]["counters"]
    _log.info(
        f"{name}: {counters['questions']:,} questions of {shown(path)}, tokenized: {counters['examples']:,} windows"
    )
    return str(made.files[split][0])
