"""The stages of a run, each with its task and its data: all are built and checked before the first step of the first one."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pretrain.registry import TASKS
from pretrain.settings.schema import ExperimentConfig
from pretrain.tasks.task import Task
from pretrain.training.checks.agreement import (
    RunData,
    idle_settings,
    other_sizes,
    refuse_other_stage,
    refuse_records_of_two_tokenizers,
    refuse_two_objectives,
)
from pretrain.training.checks.settings import (
    EVALUATIONS,
    check_experiment,
    refuse_batch_size,
    used_sections,
    warn_of_known_data,
    with_metric,
)
from pretrain.training.stages.plan import Span, count_steps, of_stage, spans, stage_configs

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage of a run; a run without stages, or an evaluation, is one.

    Attributes:
      config: of the run, with what the stage changes.
      task, data: made from it; an evaluation has no training data.
      span: its steps; an evaluation has none.
    """

    config: ExperimentConfig
    task: Task
    data: RunData
    span: Span = Span(0, 0)


def build_stages(run: ExperimentConfig, configs: Sequence[ExperimentConfig], mode: str) -> list[Stage]:
    """The stages of a run; its settings were checked against its length, and the warnings logged.

    Args:
      run: configuration of the run.
      configs: those of its stages, as stage_configs gives them; of an evaluation one.
      mode: as in run_experiment.

    Raises UsageError and DataError, with the stage, for settings and data that do not fit each other.
    """
    stages: list[Stage] = []
    trains = mode not in EVALUATIONS
    for number, config in enumerate(configs):
        with of_stage(number, config, trains):
            stages.append(_build_stage(config, mode))
            if number:
                refuse_other_stage(configs[0].task, config.task, stages[0].data, stages[number].data)
    _report_idle_settings(run, mode)
    if about := _other_sizes(stages[-1].data):  # earlier stages have others on purpose
        _log.info(about)
    steps = None
    if trains:
        stages, steps = _with_spans(run, stages)
    warnings = list(warn_of_known_data(run, mode))  # of text, in whose place the stages have records
    warnings += [warning for stage in stages for warning in check_experiment(stage.config, mode, steps, stage.task)]
    for warning in dict.fromkeys(warnings):
        _log.warning(warning)
    if steps is not None:
        _report_length(run, stages)
    return [replace(stage, config=with_metric(stage.config, stage.task)) for stage in stages]


def _build_stage(config: ExperimentConfig, mode: str) -> Stage:
    task = TASKS.get(config.task_type)(config.task)
    batches = {name: task.build_inputs(getattr(config.task, name)) for name in used_sections(config, mode)}
    data = RunData(batches.get("train_data"), batches.get("validation_data"))
    refuse_records_of_two_tokenizers(config.task, data)
    if data.train is not None and data.validation is not None:
        refuse_two_objectives(data.train.facts, data.validation.facts)
    return Stage(config, task, data)


def _report_idle_settings(run: ExperimentConfig, mode: str) -> None:
    """Of the configuration as the user gave it: text has records in its place by now."""
    for name in used_sections(run, mode):
        for config in stage_configs(run):
            if about := idle_settings(getattr(config.task, name), f"task.{name}"):
                _log.info(about)
                break


def _other_sizes(data: RunData) -> str | None:
    if data.train is None or data.validation is None:
        return None
    return other_sizes(data.train.facts, data.validation.facts, "task.train_data")


def _with_spans(run: ExperimentConfig, stages: list[Stage]) -> tuple[list[Stage], int]:
    """(the stages with their steps, the length of the run in steps). The configuration of a stage has that length, too."""
    counts = []
    for number, stage in enumerate(stages):
        with of_stage(number, stage.config):
            counts.append(count_steps(stage.config, stage.data.own))
    found, total = spans(run, counts), sum(counts)
    if run.trainer.stages:
        configs = [replace(stage.config, trainer=replace(stage.config.trainer, train_steps=total)) for stage in stages]
        stages = [replace(stage, config=config) for stage, config in zip(stages, configs, strict=True)]
    return [replace(stage, span=span) for stage, span in zip(stages, found, strict=True)], total


def _report_length(run: ExperimentConfig, stages: list[Stage]) -> None:
    amounts = [
        f"{data.num_examples:,} examples, {data.steps_per_epoch:,} steps of {data.batch_size:,} an epoch"
        for data in (stage.data.own for stage in stages)
    ]
    if not run.trainer.stages:
        _log.info(f"{amounts[0]}; {stages[-1].span.end:,} steps in all")
        return
    for number, (stage, amount) in enumerate(zip(stages, amounts, strict=True), 1):
        length, layers = stage.data.own.facts.get("seq_length"), stage.span.num_hidden_layers
        more = (f", length {length}" if length else "") + (f", num_hidden_layers {layers}" if layers else "")
        _log.info(
            f"stage {number} of {len(stages)}, steps {stage.span.start + 1:,} to {stage.span.end:,}: {amount}{more}"
        )


def check_batch_sizes(stages: Sequence[Stage], replicas: int) -> None:
    """UsageError, with the stage, for batches that cannot be split over the replicas and micro-steps."""
    for number, stage in enumerate(stages):
        with of_stage(number, stage.config, stage.data.train is not None):
            _check_batch_size(stage, replicas)


def _check_batch_size(stage: Stage, replicas: int) -> None:
    train, validation = stage.data.train, stage.data.validation
    if train is not None:
        micro_steps = stage.config.trainer.gradient_accumulation_steps
        refuse_batch_size(train.name, train.batch_size, replicas, micro_steps)
    if validation is not None:
        refuse_batch_size(validation.name, validation.batch_size, replicas)
