"""The tokenizer that a run keeps in its model_dir; texts that it tokenizes itself take it where no other is named."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from pretrain.converters.tokenizer_files import find_tokenizer, keep_tokenizer
from pretrain.data.tokenizers import reads_text, tokenizer_of
from pretrain.settings.schema import ExperimentConfig

_log = logging.getLogger(__name__)


def with_own_tokenizer(config: ExperimentConfig, model_dir: Path) -> ExperimentConfig:
    """The configuration with a vocab_file in each data section that reads text and names none.

    It is the tokenizer that the model_dir keeps, else that of init_checkpoint; where neither has one, nothing changes.
    """
    task = config.task
    for name in ("train_data", "validation_data"):
        section: Any = getattr(task, name)
        if reads_text(section) and not section.vocab_file and (found := _tokenizer_of(model_dir, task.init_checkpoint)):
            _log.info(f"task.{name}.vocab_file: {found}, which is the model's")
            task = replace(task, **{name: replace(section, vocab_file=str(found))})
    return replace(config, task=task)


def keep_own_tokenizer(config: ExperimentConfig, model_dir: Path) -> None:
    """Copies the training data's tokenizer into the model_dir: predictions and exports need no records."""
    found = tokenizer_of(config.task.train_data, "task.train_data")
    if found is None:
        _log.info("no tokenizer next to the training records: predict and export will ask for --tokenizer")
    else:
        keep_tokenizer(model_dir, *found)


def _tokenizer_of(model_dir: Path, init_checkpoint: str) -> Path | None:
    own = find_tokenizer(model_dir) if model_dir.is_dir() else None
    return own or (find_tokenizer(init_checkpoint) if init_checkpoint else None)
