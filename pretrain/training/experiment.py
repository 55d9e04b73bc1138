"""run_experiment: from a configuration to a trained, evaluated or checked model."""

import contextlib
import gc
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.fetching import local_only
from nlpdata.registry import user_modules
from pretrain.converters import native, places
from pretrain.converters.report import refuse_missing
from pretrain.data.batches import Batches
from pretrain.data.toy import with_toy_records
from pretrain.optimizers.curve import description, in_words, is_older, with_older_rule
from pretrain.registry import ENGINES, TASKS, TRAINERS
from pretrain.settings.schema import ExperimentConfig, own_modules
from pretrain.settings.yaml_files import compare_saved, save
from pretrain.training.agreement import (
    describe_run,
    refuse_other_labels,
    refuse_tokenizer_of_other_weights,
    report_changes,
)
from pretrain.training.built_stages import Stage, build_stages, check_batch_sizes
from pretrain.training.checkpoints import Checkpoints
from pretrain.training.checks import EVALUATIONS, check_experiment, check_weights
from pretrain.training.continuous import train_on_each
from pretrain.training.final_export import check_export, export_final
from pretrain.training.following import CheckpointFeed, Found
from pretrain.training.one_trainer import one_trainer
from pretrain.training.own_records import with_own_records
from pretrain.training.own_tokenizer import keep_own_tokenizer, with_own_tokenizer
from pretrain.training.plot import plot_loss
from pretrain.training.recovery import Diverged
from pretrain.training.rehearsal import rehearse
from pretrain.training.run_file import Call, outcome
from pretrain.training.stacking import refuse_unstackable
from pretrain.training.stages import count_steps, of_stage, spans, stage_configs, stored_depth
from pretrain.training.trainer import Trainer

_log = logging.getLogger(__name__)

_EVALUATE = "trainer.optimizer_config.ema.evaluate"
MODES = (
    *("train", "eval", "train_and_eval", "eval_all", "continuous_eval", "continuous_train_and_eval"),
    *("validate_only", "compile_only", "dry_run"),
)


def run_experiment(config: ExperimentConfig, model_dir: str | os.PathLike, mode: str = "train") -> dict[str, float]:
    """Runs an experiment.

    Args:
      config: what to learn, how, on what.
      model_dir: the run's folder. If it holds checkpoints, the run resumes from the newest whole one, step for step as if
        it had not been interrupted.
      mode: train; eval; train_and_eval (evaluates on the way and at the end); eval_all (evaluates every checkpoint that the run
        has kept, oldest first); continuous_eval (evaluates each new checkpoint of a run that another process trains, until the
        last step's or trainer.continuous_eval_timeout); continuous_train_and_eval (see train_on_each); validate_only (builds,
        traces, checks data, labels and checkpoint names; takes no step and writes nothing); compile_only (compiles too);
        dry_run (the same, and takes a few steps in memory).

    Returns the metrics of the last evaluation ({} where there was none); of a dry run the figures of
    pretrain.training.rehearsal.rehearse ({} where no step is left).

    Raises UsageError, DataError, and Interrupted (SIGTERM, SIGINT; a checkpoint is saved).
    """
    if mode not in MODES:
        raise UsageError(f"mode is {mode!r}, expected one of {', '.join(MODES)}.")
    local_only(os.fspath(model_dir), "model_dir", "Train into a local folder, and copy it.")
    if os.path.lexists(model_dir) and not os.path.isdir(model_dir):
        raise UsageError(
            f"{opt('model_dir')}: {os.fspath(model_dir)} is not a folder. Name a new folder, or that of a run."
        )
    with user_modules(own_modules(config)):
        if mode == "continuous_train_and_eval":
            train_on_each(config, Path(model_dir))
            return {}
        check_experiment(config, mode)  # before anything is read or written; its warnings come once the data is known
        if mode in ("train", "train_and_eval", "dry_run"):
            check_export(config.trainer, Path(model_dir))
        if mode != "dry_run":
            return _Run(config, Path(model_dir), mode).execute()
        with tempfile.TemporaryDirectory(prefix="nlpdata-dry-run-") as folder:
            return _Run(config, Path(model_dir), mode, Path(folder)).execute()


def check_before_sweep(config: ExperimentConfig, mode: str) -> None:
    """UsageError where run_experiment would refuse the settings against the length of the run, which its data decides."""
    steps = []
    for number, each in enumerate(stage_configs(config)):
        with of_stage(number, config):
            data = TASKS.get(each.task_type)(each.task).build_inputs(each.task.train_data)
            steps.append(count_steps(each, data))
    check_experiment(config, mode, spans(config, steps)[-1].end)


class _Run:
    """One call of run_experiment: its parts are made in the order in which each needs the ones before."""

    def __init__(self, config: ExperimentConfig, model_dir: Path, mode: str, own: Path | None = None):
        """own: where records go that the run makes itself, if not into the model_dir."""
        self._given, self._model_dir, self._mode, self._started = config, model_dir, mode, time.monotonic()
        self._trains = mode not in EVALUATIONS
        self._engine: Any = None  # the one that is open
        self._told_of_average = False
        self._configs = [
            with_own_tokenizer(with_toy_records(each, own or model_dir), model_dir) for each in stage_configs(config)
        ]
        if not self._trains:
            self._configs = self._configs[-1:]
        self._configs = with_own_records(self._configs, model_dir, mode)
        self._feed = CheckpointFeed(model_dir / "checkpoints", model_dir, config.trainer.continuous_eval_timeout)

    def execute(self) -> dict[str, float]:
        self._stages = build_stages(self._given, self._configs, self._mode)
        self._steps = self._stages[-1].span.end
        following = iter(self._feed if self._mode == "continuous_eval" else ())
        if self._mode == "continuous_eval":
            found = next(following, None)
            if found is None:
                _log.info(f"nothing to do: every checkpoint in {self._model_dir} is evaluated")
                return {}
        else:
            found = self._named_of_own() or Checkpoints(self._model_dir).newest()
        if found and self._mode == "train" and found[1]["step"] >= self._steps:
            self._report_done(found[1]["step"])
            export_final(self._given.trainer, self._model_dir)
            return {}
        self._is_older = found is not None and self._trains and is_older(found[1])
        self._open(self._stage_of(found[1] if found else {"step": 0}))
        try:
            check_batch_sizes(self._stages, self._engine.replicas)
            if self._trains:
                self._check_weights()
            info = self._restore(found) if found else self._start()
            if self._mode in ("validate_only", "compile_only"):
                return self._check_only()
            if self._mode == "dry_run":
                return self._rehearse(info["step"])
            if self._mode == "continuous_eval":
                return self._follow(info, following)
            if self._mode == "eval_all" and found:
                return self._evaluate_all(found)
            return self._run(info)
        finally:
            if self._engine is not None:
                self._engine.close()

    def _stage_of(self, info: Mapping[str, Any]) -> Stage:
        """The stage that has written a checkpoint; of an evaluation, the stage with its model."""
        if self._trains:
            return next((stage for stage in self._stages if info["step"] <= stage.span.end), self._stages[-1])
        before = self._stages[0].config
        config = stored_depth(before, info)
        if config != before:
            self._stages = build_stages(self._given, [config], self._mode)
        return self._stages[0]

    def _open(self, stage: Stage) -> None:
        """Makes the engine of a stage, whose weights are its initial ones."""
        self._stage, self._config, self._task, self._data = stage, stage.config, stage.task, stage.data
        engine = ENGINES.get(keras.backend.backend())
        self._engine = engine(self._task, self._engine_config(), self._steps or None)

    def _reopen(self, stage: Stage) -> None:
        """The same in place of the engine that is open, whose memory is given back first."""
        self._engine.close()
        self._engine = None
        gc.collect()  # model and graphs refer to each other
        self._open(stage)

    def _schedule(self) -> dict:
        """The learning rate of the run, for its checkpoints."""
        return description(self._config.trainer.optimizer_config, self._steps, self._is_older)

    def _engine_config(self) -> ExperimentConfig:
        """The configuration; where the run resumes from a checkpoint of the older rule, with that rule's decay."""
        if not self._is_older:
            return self._config
        trainer = self._config.trainer
        optimization = with_older_rule(trainer.optimizer_config, self._steps)
        return replace(self._config, trainer=replace(trainer, optimizer_config=optimization))

    def _describe(self) -> dict[str, Any]:
        schedule = self._schedule() if self._trains else None
        return describe_run(self._config, self._data, self._engine.replicas, schedule)

    def _report_done(self, step: int) -> None:
        _log.info(
            f"nothing to do: {self._model_dir} holds a checkpoint of step {step}, and the run has {self._steps} "
            "steps. Raise train_steps (or num_train_epochs) to train further, or use another model_dir."
        )

    def _check_weights(self) -> None:
        for warning in check_weights(self._config, (weight.path for weight in self._engine.model.trainable_variables)):
            _log.warning(warning)
        layers = self._stage.span.num_hidden_layers
        if layers is not None:
            refuse_unstackable(self._engine.state(), layers)

    # ---------------------------------------------------------------------------------------------------------- weights

    def _start(self) -> dict:
        """A run without checkpoints: initial weights, or those of init_checkpoint. Returns what a checkpoint would say of it."""
        start = self._config.task.init_checkpoint
        if not self._trains and not start:
            raise UsageError(
                f"nothing to evaluate: {self._model_dir} holds no checkpoint (checkpoints/step-...). Is it the model_dir "
                "of the run? Or name weights with init_checkpoint."
            )
        own = native.locate_info(places.find(start)) if start else None
        if start:
            refuse_tokenizer_of_other_weights(self._config.task, self._data, start)
        if own and not self._trains:
            refuse_other_labels(own[1].get("data", {}), self._data.own.facts)
        if self._trains:
            _log.info(f"learning rate: {in_words(self._schedule())}")
        report = self._task.initialize(self._engine.model)
        if not self._trains:
            refuse_missing(report, self._engine.model, "the evaluation")
            _log.warning(f"step 0: {self._model_dir} holds no checkpoint; {start} is evaluated, as it was loaded")
        elif report is not None:
            _log.info(f"step 0, from the weights of {start}")
        return {"step": 0}

    def _named_of_own(self) -> tuple[Path, dict, dict[str, np.ndarray]] | None:
        """The checkpoint in the model_dir that init_checkpoint names for an evaluation; None where it names none of the run's."""
        stage = self._stages[0]
        named = stage.config.task.init_checkpoint
        if self._mode != "eval" or not named or not Path(named).exists():
            return None
        own = native.locate(named)
        if own is None or self._model_dir.resolve() not in own.resolve().parents:
            return None
        self._stages = [
            replace(stage, config=replace(stage.config, task=replace(stage.config.task, init_checkpoint="")))
        ]
        return own, native.read_info(own), native.read_arrays(own)

    def _evaluate_all(self, newest: tuple[Path, dict, dict[str, np.ndarray]]) -> dict[str, float]:
        """Evaluates the checkpoints that the run has kept, oldest first; the newest one's weights are loaded."""
        metrics: dict[str, float] = {}
        for folder in native.finished(newest[0].parent):
            try:
                found = (
                    newest if folder == newest[0] else (folder, native.read_info(folder), native.read_arrays(folder))
                )
            except DataError as error:
                _log.warning(f"{error}; it is skipped")
                continue
            metrics = self._new_trainer(self._restore(found)).evaluate()
        return metrics

    def _follow(self, info: dict, following: Iterator[Found]) -> dict[str, float]:
        """Evaluates the checkpoint whose weights are loaded, and those that follow; returns the last metrics."""
        metrics: dict[str, float] = {}
        while True:
            try:
                metrics = self._new_trainer(info).evaluate()
            except Diverged as error:
                self._feed.set_aside(info["step"], str(error))
            found = next(following, None)
            if found is None:
                return metrics
            info = self._restore(found)

    def _restore(self, found: tuple[Path, dict, dict[str, np.ndarray]]) -> dict:
        """Loads a checkpoint; returns what it says of the run."""
        folder, info, arrays = found
        if (stage := self._stage_of(info)) is not self._stage:  # an evaluation of a model with fewer or more layers
            self._reopen(stage)
        if self._config.task.init_checkpoint:
            instead = "the run resumes from" if self._trains else "the run has its own, evaluated is"
            _log.info(f"init_checkpoint {self._config.task.init_checkpoint} is not used: {instead} {folder}")
        refuse_tokenizer_of_other_weights(self._config.task, self._data, str(folder))
        refuse_other_labels(info.get("data", {}), self._data.own.facts)
        if self._trains:
            report_changes(info, self._describe())
        if not self._trains and self._evaluates_average(info):
            if not self._told_of_average:
                _log.info(f"the average of the weights is evaluated ({_EVALUATE})")
            self._told_of_average = True
            arrays = native.with_average(arrays)
        self._load(arrays)
        if self._trains:
            _log.info(f"resuming from {folder}, after step {info['step']} of {self._steps}")
        elif info["step"] == 0:
            _log.warning(f"{folder} is of step 0: this model was not trained")
        return info

    def _load(self, arrays: dict[str, np.ndarray]) -> None:
        """Gives the engine the state of a checkpoint. DataError where it does not fit, with the changes of the configuration."""
        try:
            self._engine.load_state(arrays, weights_only=not self._trains)
        except DataError as error:
            changes = compare_saved(self._given, self._model_dir)
            if not changes:
                raise
            raise DataError(f"{error}. Changed since the run began: {'; '.join(changes)}") from None

    def _evaluates_average(self, info: Mapping) -> bool:
        """Whether a checkpoint is evaluated by its average: as the configuration says, or else as its run did."""
        ema = self._config.trainer.optimizer_config.ema
        return native.uses_average(info) if ema is None else ema.evaluate

    # ------------------------------------------------------------------------------------------------------------- runs

    def _check_only(self) -> dict:
        for stage in self._stages:
            if stage is not self._stage:
                self._reopen(stage)
            self._check_stage()
        return {}

    def _data_here(self) -> Batches:
        """The training data of this host."""
        index, count = self._engine.host
        parts = self._engine.replicas * self._config.trainer.gradient_accumulation_steps
        return self._data.own.for_host(index, count, self._engine.max_lengths, parts)

    def _rehearse(self, step: int) -> dict[str, float]:
        left = min(self._given.trainer.steps_a_call or self._steps, self._steps - step)
        if left < 1:
            self._report_done(step)
            return {}
        return rehearse(self._engine, self._task, self._data_here(), step, left, self._config.trainer)

    def _check_stage(self) -> None:
        batch = self._data_here().batch(0)
        denominators = self._task.denominators(batch)
        act = self._engine.trace if self._mode == "validate_only" else self._engine.compile
        act(batch, denominators)
        weights = sum(int(np.prod(weight.shape)) for weight in self._engine.model.weights)
        shapes = ", ".join(f"{name} {values.shape}" for name, values in batch.items())
        _log.info(
            f"{'validated' if self._mode == 'validate_only' else 'validated and compiled'}; no step was taken. "
            f"{weights:,} weights, {self._steps} steps, {self._engine.replicas} replicas; a batch: {shapes}"
        )

    def _new_trainer(self, info: Mapping[str, Any], end: int = 0) -> Trainer:
        """The trainer of the stage whose engine is open, to step `end` at most."""
        span = self._stage.span
        return TRAINERS.get_class(self._config.trainer.type, Trainer)(
            self._config,
            self._task,
            self._engine,
            self._model_dir,
            train_data=self._data.train,
            validation_data=self._data.validation,
            train_steps=self._steps,
            span=replace(span, end=min(span.end, end)),
            step=info["step"],
            interval=info.get("interval", []),
            recoveries=info.get("recoveries", []),
            info=self._describe(),
            started=self._started,
        )

    def _run(self, info: dict) -> dict[str, float]:
        if not self._trains:
            return self._new_trainer(info).evaluate()
        with one_trainer(self._model_dir) if self._engine.host[0] == 0 else contextlib.nullcontext():
            return self._train(info)

    def _train(self, info: dict) -> dict[str, float]:
        if self._engine.host[0] == 0:
            self._keep_config()
            keep_own_tokenizer(self._config, self._model_dir)
        step, calls = info["step"], self._given.trainer.steps_a_call
        end = min(self._steps, step + calls) if calls else self._steps
        if step >= self._steps:
            self._report_done(step)
        elif end < self._steps:
            _log.info(f"this call ends after step {end} of {self._steps} (trainer.steps_a_call)")
        with Call(
            self._model_dir, self._stages, self._engine, self._describe(), self._mode, step, self._started
        ) as call:
            trainer = self._train_through(info, max(end, step), call)
            call.outcome = outcome(trainer, end, self._steps)
        if self._engine.host[0] == 0:
            plot_loss(self._model_dir)
            self._task.finish(self._engine.model, self._model_dir)
            if end >= self._steps and not trainer.out_of_time:
                export_final(self._config.trainer, self._model_dir)
        return trainer.metrics

    def _train_through(self, info: Mapping[str, Any], end: int, call: Call) -> Trainer:
        """Trains stage after stage, from the one whose engine is open, to step `end`; returns the trainer of the last one."""
        trainer: Trainer | None = None
        for stage in self._stages[self._stages.index(self._stage) :]:
            if trainer is not None:
                info, trainer = {"step": trainer.step, "recoveries": trainer.recoveries}, None  # it holds the engine
                arrays = self._engine.state()
                self._reopen(stage)
                self._engine.load_state(stage.span.enter(arrays))
            if stage.config.trainer.stages and info["step"] < stage.span.end:
                number = self._stages.index(stage) + 1
                _log.info(f"stage {number} of {len(self._stages)}, from step {info['step'] + 1} to {stage.span.end}")
            trainer = self._new_trainer(info, end)
            with call.of_trainer(trainer):
                if self._mode == "train":
                    trainer.train()
                else:
                    trainer.train_and_evaluate()
            if trainer.out_of_time or trainer.step < stage.span.end or trainer.step >= end:
                break
        assert trainer is not None  # a run has a stage
        return trainer

    def _keep_config(self) -> None:
        """Saves the configuration in the model_dir; reports in what it differs from the one saved there."""
        changes = compare_saved(self._given, self._model_dir)
        if changes:
            _log.info(f"the configuration differs from the one saved in {self._model_dir}: " + "; ".join(changes))
        save(self._given, self._model_dir)
