"""A call that trains: from the newest checkpoint, or initial weights, through the stages; or that only tries this out."""

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pretrain.data.batches import Batches
from pretrain.optimizers.curve import description, in_words, is_older, with_older_rule
from pretrain.settings.schema import ExperimentConfig
from pretrain.settings.yaml_files import compare_saved, save
from pretrain.training.checkpoints.manager import Checkpoints, Found
from pretrain.training.checkpoints.one_trainer import one_trainer
from pretrain.training.checks.agreement import idle_rows, refuse_tokenizer_of_other_weights, report_changes
from pretrain.training.checks.settings import check_weights
from pretrain.training.final_export import export_final, refuse_unwritable
from pretrain.training.logs.plot import plot_loss
from pretrain.training.logs.run_file import Call, outcome
from pretrain.training.open_run import OpenRun
from pretrain.training.own_tokenizer import keep_own_tokenizer
from pretrain.training.rehearsal import rehearse
from pretrain.training.stages.built import Stage, check_batch_sizes
from pretrain.training.stages.stacking import refuse_unstackable
from pretrain.training.trainer import Trainer

_log = logging.getLogger(__name__)


class TrainingRun(OpenRun):
    """The modes train, train_and_eval, validate_only, compile_only and dry_run."""

    _follows_older_rule = False

    def execute(self) -> dict[str, float]:
        """Does what the mode says; returns what run_experiment does."""
        found = Checkpoints(self.model_dir).newest()
        if found and self.mode == "train" and found[1]["step"] >= self.steps:
            self._report_done(found[1]["step"])
            export_final(self.given.trainer, self.model_dir)
            return {}
        self._follows_older_rule = found is not None and is_older(found[1])
        try:
            step = found[1]["step"] if found else 0
            self.open(self._stage_at(step), step)
            check_batch_sizes(self.stages, self.engine.replicas)
            self._check_weights()
            info = self._restore(found) if found else self._start()
            if self.mode in ("validate_only", "compile_only"):
                return self._check_only()
            if self.mode == "dry_run":
                return self._rehearse(info["step"])
            with one_trainer(self.model_dir) if self._is_chief else contextlib.nullcontext():
                return self._train(info)
        finally:
            self.close()

    @property
    def _is_chief(self) -> bool:
        return self.engine.host[0] == 0

    def _stage_at(self, step: int) -> Stage:
        """The stage that has written the checkpoint of a step."""
        return next((stage for stage in self.stages if step <= stage.span.end), self.stages[-1])

    def _end_of_call(self, step: int) -> int:
        """The step to which a call trains that resumes after `step`."""
        most = self.given.trainer.steps_a_call
        return self.steps if most is None else min(self.steps, step + most)

    def _report_done(self, step: int) -> None:
        _log.info(
            f"nothing to do: {self.model_dir} holds a checkpoint of step {step}, and the run has {self.steps} "
            "steps. Raise train_steps (or num_train_epochs) to train further, or use another model_dir."
        )

    # ---------------------------------------------------------------------------------------------------------- weights

    def engine_config(self) -> ExperimentConfig:
        """The configuration; where the run resumes from a checkpoint of the older rule, with that rule's decay."""
        config = self.stage.config
        if not self._follows_older_rule:
            return config
        optimization = with_older_rule(config.trainer.optimizer_config, self.steps)
        return replace(config, trainer=replace(config.trainer, optimizer_config=optimization))

    def schedule(self) -> dict:
        """The learning rate of the run, for its checkpoints."""
        return description(self.stage.config.trainer.optimizer_config, self.steps, self._follows_older_rule)

    def _check_weights(self) -> None:
        paths = (weight.path for weight in self.engine.model.trainable_variables)
        for warning in check_weights(self.stage.config, paths):
            _log.warning(warning)
        encoder = getattr(getattr(self.stage.config.task, "model", None), "encoder", None)
        refuse_unwritable(self.given.trainer, encoder, self.engine.model, self.model_dir)
        layers = self.stage.span.num_hidden_layers
        if layers is not None:
            refuse_unstackable(self.engine.state(), layers)

    def _start(self) -> dict:
        """A run without checkpoints: initial weights, or those of init_checkpoint. Returns what a checkpoint would say of it."""
        task = self.stage.config.task
        if task.init_checkpoint:
            refuse_tokenizer_of_other_weights(task, self.stage.data, task.init_checkpoint)
        elif about := idle_rows(task):
            _log.info(about)
        _log.info(f"learning rate: {in_words(self.schedule())}")
        if self.stage.task.initialize(self.engine.model) is not None:
            _log.info(f"step 0, from the weights of {task.init_checkpoint}")
        return {"step": 0}

    def _restore(self, found: Found) -> dict:
        """Loads a checkpoint; returns what it says of the run."""
        folder, info, arrays = found
        self.refuse_other_data(folder, info, "the run resumes from")
        report_changes(info, self.describe())
        self.load(arrays, weights_only=False)
        _log.info(f"resuming from {folder}, after step {info['step']} of {self.steps}")
        return info

    # -------------------------------------------------------------------------------------------------- without training

    def _check_only(self) -> dict[str, float]:
        for stage in self.stages:
            if stage is not self.stage:
                self.open(stage)
            self._check_stage()
        return {}

    def _check_stage(self) -> None:
        batch = self._data_here().batch(0)
        act = self.engine.trace if self.mode == "validate_only" else self.engine.compile
        act(batch, self.stage.task.denominators(batch))
        weights = sum(int(np.prod(weight.shape)) for weight in self.engine.model.weights)
        shapes = ", ".join(f"{name} {values.shape}" for name, values in batch.items())
        _log.info(
            f"{'validated' if self.mode == 'validate_only' else 'validated and compiled'}; no step was taken. "
            f"parameters {weights:,}, steps {self.steps:,}, replicas {self.engine.replicas}; a batch: {shapes}"
        )

    def _rehearse(self, step: int) -> dict[str, float]:
        left = self._end_of_call(step) - step
        if left < 1:
            self._report_done(step)
            return {}
        return rehearse(self.engine, self.stage.task, self._data_here(), step, left, self.stage.config.trainer)

    def _data_here(self) -> Batches:
        """The training data of this host."""
        index, count = self.engine.host
        parts = self.engine.replicas * self.stage.config.trainer.gradient_accumulation_steps
        return self.stage.data.own.for_host(index, count, self.engine.max_lengths, parts)

    # --------------------------------------------------------------------------------------------------------- training

    def _train(self, info: dict) -> dict[str, float]:
        if self._is_chief:
            keep_own_tokenizer(self.stage.config, self.model_dir)
            self._keep_config()
        step = info["step"]
        end = self._end_of_call(step)
        if step >= self.steps:
            self._report_done(step)
        elif end < self.steps:
            _log.info(f"this call ends after step {end} of {self.steps} (trainer.steps_a_call)")
        about = self.describe()
        with Call(self.model_dir, self.given, self.stages, self.engine, about, self.mode, step, self.started) as call:
            trainer = self._train_through(info, max(end, step), call)
            call.outcome = outcome(trainer, end, self.steps)
        if self._is_chief:
            plot_loss(self.model_dir)
            self.stage.task.finish(self.engine.model, self.model_dir)
            if end >= self.steps and not trainer.out_of_time:
                export_final(self.given.trainer, self.model_dir)
        return trainer.metrics

    def _train_through(self, info: Mapping[str, Any], end: int, call: Call) -> Trainer:
        """Trains stage after stage, from the one that is open, to step `end`; returns the trainer of the last one."""
        trainer: Trainer | None = None
        for stage in self.stages[self.stages.index(self.stage) :]:
            if trainer is not None:
                info, trainer = {"step": trainer.step, "recoveries": trainer.recoveries}, None  # it holds the engine
                arrays = self.engine.state()
                self.open(stage)
                self.engine.load_state(stage.span.enter(arrays))
            if self.given.trainer.stages and info["step"] < stage.span.end:
                number = self.stages.index(stage) + 1
                _log.info(f"stage {number} of {len(self.stages)}, from step {info['step'] + 1} to {stage.span.end}")
            trainer = self.new_trainer(info, end)
            with call.of_trainer(trainer):
                if self.mode == "train":
                    trainer.train()
                else:
                    trainer.train_and_evaluate()
            if trainer.out_of_time or trainer.step < stage.span.end or trainer.step >= end:
                break
        assert trainer is not None  # a run has a stage
        return trainer

    def _keep_config(self) -> None:
        """Saves the configuration in the model_dir; reports in what it differs from the one saved there."""
        changes = compare_saved(self.given, self.model_dir)
        if changes:
            _log.info(f"the configuration differs from the one saved in {self.model_dir}: " + "; ".join(changes))
        save(self.given, self.model_dir)
