"""What the configuration alone shows wrong about toy records, before they are made."""

from collections.abc import Sequence
from typing import Any

from pretrain.data.pretraining import check_meta, no_pairs
from pretrain.data.toy import PREDICTIONS, SEQ_LENGTH, toy_meta, toy_objective
from pretrain.settings.schema import ExperimentConfig
from pretrain.tasks.configs import PretrainingConfig
from pretrain.training.checks.agreement import refuse_other_labels, refuse_two_objectives
from pretrain.training.checks.settings import EVALUATIONS, used_sections
from pretrain.training.stages.plan import of_stage

Metas = dict[str, dict[str, Any]]
"""Field of the task -> what the meta file of its toy records will say."""


def check_toys(configs: Sequence[ExperimentConfig], mode: str) -> bool:
    """Whether the stages of a run use toy records.

    UsageError, with the stage, where those would not fit the model, the data section or each other.
    """
    metas = [_metas(config, mode) for config in configs]
    for number, (config, found) in enumerate(zip(configs, metas, strict=True)):
        if isinstance(config.task, PretrainingConfig):  # a task of the user's own reads them in its own way
            with of_stage(number, config, mode not in EVALUATIONS):
                _check(config.task, metas[0], found)
    return any(metas)


def _metas(config: ExperimentConfig, mode: str) -> Metas:
    named = {name: toy_objective(getattr(config.task, name).input_path) for name in used_sections(config, mode)}
    return {name: toy_meta(objective) for name, objective in named.items() if objective}


def _check(task: PretrainingConfig, first: Metas, found: Metas) -> None:
    """first: of the first stage."""
    for name, meta in found.items():
        check_meta(meta, SEQ_LENGTH, PREDICTIONS, getattr(task, name), task, f"task.{name}")
        if meta["objective"] == "none" and task.use_next_sentence_label:
            raise no_pairs(f"task.{name}")
    if task.use_next_sentence_label:
        train = found.get("train_data", {})
        refuse_other_labels(first.get("train_data", {}), train)
        refuse_two_objectives(train, found.get("validation_data", {}))
