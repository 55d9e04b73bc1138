"""A run that a call works on: its stages, and the engine of the one that is open. Its two kinds train and evaluate it."""

import gc
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from nlpdata.errors import DataError
from pretrain.registry import ENGINES, TRAINERS
from pretrain.settings.schema import ExperimentConfig
from pretrain.settings.yaml_files import compare_saved
from pretrain.training.budget import TimeBudget
from pretrain.training.checks.agreement import (
    describe_run,
    facts_of_hosts,
    refuse_other_labels,
    refuse_tokenizer_of_other_weights,
)
from pretrain.training.engines.meeting import meet_hosts
from pretrain.training.stages.built import Stage, build_stages
from pretrain.training.trainer import Trainer

_log = logging.getLogger(__name__)


class OpenRun:
    """The stages of a run, and the engine of one of them, with its weights.

    Args:
      given: configuration of the run, as the user gave it.
      configs: of its stages; of an evaluation one.
      model_dir: folder of the run.
      mode: as in run_experiment.
      started: time.monotonic() at the start of the call.

    Attributes:
      budget: the time of the call, over all stages.
      stages: of the run; an evaluation has one.
      steps: length of the run; 0 for an evaluation.
      stage, engine: those that are open.

    Raises UsageError and DataError as build_stages does.
    """

    stage: Stage

    def __init__(
        self,
        given: ExperimentConfig,
        configs: Sequence[ExperimentConfig],
        model_dir: Path,
        mode: str,
        started: float,
    ):
        self.given, self.model_dir, self.mode, self.started = given, model_dir, mode, started
        self.stages = build_stages(given, configs, mode)
        self.steps = self.stages[-1].span.end
        self.budget = TimeBudget(given.trainer.max_time, started)
        self.engine: Any = None

    def open(self, stage: Stage, step: int = 0) -> None:
        """Makes the engine of a stage, whose weights are its initial ones; the one that was open gives its memory back first.

        step: that of the checkpoint whose weights it will get. UsageError where another host has another one, or was started
        differently.
        """
        if self.engine is not None:
            self.close()
            gc.collect()  # model and graphs refer to each other
        self.stage = stage
        engine = ENGINES.get(keras.backend.backend())
        facts = facts_of_hosts(self.given, stage.data, self.steps, step)
        meet_hosts(self.given.runtime, facts | engine.facts_of_host())
        self.engine = engine(stage.task, self.engine_config(), self.steps or None)

    def close(self) -> None:
        """Lets go of the engine, if one is open."""
        if self.engine is not None:
            self.engine.close()
            self.engine = None

    def engine_config(self) -> ExperimentConfig:
        """What the engine of the stage is made from."""
        return self.stage.config

    def schedule(self) -> dict | None:
        """The learning rate of the run, for its checkpoints; None where it does not train."""
        return None

    def describe(self) -> dict[str, Any]:
        """The facts that checkpoints keep, of the stage that is open."""
        return describe_run(self.stage.config, self.stage.data, self.engine.replicas, self.schedule())

    def load(self, arrays: dict[str, np.ndarray], weights_only: bool) -> None:
        """Gives the engine the state of a checkpoint. DataError where it does not fit, with the changes of the configuration."""
        try:
            self.engine.load_state(arrays, weights_only=weights_only)
        except DataError as error:
            changes = compare_saved(self.given, self.model_dir)
            if not changes:
                raise
            raise DataError(f"{error}. Changed since the run began: {'; '.join(changes)}") from None

    def refuse_other_data(self, folder: Path, info: Mapping[str, Any], instead: str) -> None:
        """UsageError where the records do not belong to the weights of a checkpoint of the run.

        instead: what is done where init_checkpoint names other weights, which is reported, e.g. "the run resumes from".
        """
        task, data = self.stage.config.task, self.stage.data
        if task.init_checkpoint:
            _log.info(f"init_checkpoint {task.init_checkpoint} is not used: {instead} {folder}")
        refuse_tokenizer_of_other_weights(task, data, str(folder))
        refuse_other_labels(info.get("data", {}), data.own.facts)

    def new_trainer(self, info: Mapping[str, Any], end: int = 0) -> Trainer:
        """The trainer of the stage that is open.

        Args:
          info: what a checkpoint says of the step from which it continues.
          end: the step at which it ends at the latest; 0 where it only evaluates.
        """
        stage = self.stage
        return TRAINERS.get_class(stage.config.trainer.type, Trainer)(
            stage.config,
            stage.task,
            self.engine,
            self.model_dir,
            train_data=stage.data.train,
            validation_data=stage.data.validation,
            train_steps=self.steps,
            span=replace(stage.span, end=min(stage.span.end, end)),
            step=info["step"],
            interval=info.get("interval", []),
            recoveries=info.get("recoveries", []),
            info=self.describe(),
            budget=self.budget,
        )
