"""A call that evaluates: one checkpoint of a run, all that it has kept, or each new one of a run that another process trains."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nlpdata.errors import DataError, UsageError
from nlpdata.reports.run_facts import CHECKPOINTS
from pretrain.converters import native, places
from pretrain.converters.report import refuse_missing
from pretrain.training.checkpoints.following import CheckpointFeed
from pretrain.training.checkpoints.manager import Checkpoints, Found, read
from pretrain.training.checks.agreement import other_sizes, refuse_other_labels, refuse_tokenizer_of_other_weights
from pretrain.training.open_run import OpenRun
from pretrain.training.recovery import Diverged
from pretrain.training.stages.built import Stage, build_stages, check_batch_sizes
from pretrain.training.stages.plan import stored_depth

_log = logging.getLogger(__name__)

_EVALUATE = "trainer.optimizer_config.ema.evaluate"


class EvaluationRun(OpenRun):
    """The modes eval, eval_all and continuous_eval."""

    _told_of_average = False
    _told_of_sizes: str | None = None

    def execute(self) -> dict[str, float]:
        """Evaluates what the mode says; returns the metrics of the last evaluation ({} where there was none)."""
        folder, timeout = self.model_dir / CHECKPOINTS, self.given.trainer.continuous_eval_timeout
        feed = CheckpointFeed(folder, self.model_dir, timeout) if self.mode == "continuous_eval" else None
        metrics: dict[str, float] = {}
        try:
            for found in self._to_evaluate() if feed is None else feed:
                info = self._restore(found) if found else self._start()
                try:
                    metrics = self.new_trainer(info).evaluate()
                except Diverged as error:
                    if feed is None:
                        raise
                    feed.set_aside(info["step"], str(error))
            if self.engine is None:
                _log.info(f"nothing to do: every checkpoint in {self.model_dir} is evaluated")
            return metrics
        finally:
            self.close()

    # ---------------------------------------------------------------------------------------------------- which weights

    def _to_evaluate(self) -> Iterator[Found | None]:
        """The checkpoints that a call evaluates; None where the run has none: init_checkpoint then names the weights."""
        if self.mode == "eval":
            yield self._named_of_own() or Checkpoints(self.model_dir).newest()
            return
        is_any_whole = False
        for folder in native.finished(self.model_dir / CHECKPOINTS):  # oldest first
            try:
                found = read(folder)
            except DataError as error:
                _log.warning(f"{error}; it is skipped")
                continue
            is_any_whole = True
            yield found
        if not is_any_whole:
            yield Checkpoints(self.model_dir).newest()  # None; DataError where all are damaged

    def _named_of_own(self) -> Found | None:
        """The checkpoint in the model_dir that init_checkpoint names; None where it names none of the run's."""
        stage = self.stages[0]
        named = stage.config.task.init_checkpoint
        own = native.locate(named) if named and Path(named).exists() else None
        if own is None or self.model_dir.resolve() not in own.resolve().parents:
            return None
        task = replace(stage.config.task, init_checkpoint="")
        self.stages = [replace(stage, config=replace(stage.config, task=task))]
        return read(own)

    # ---------------------------------------------------------------------------------------------------------- loading

    def _restore(self, found: Found) -> dict:
        """Loads the weights of a checkpoint; returns what it says of the run."""
        folder, info, arrays = found
        self._open(self._stage_of(info), info["step"])
        self.refuse_other_data(folder, info, "the run has its own, evaluated is")
        self._tell_of_sizes(info)
        if self._evaluates_average(info):
            if not self._told_of_average:
                _log.info(f"the average of the weights is evaluated ({_EVALUATE})")
            self._told_of_average = True
            arrays = native.with_average(arrays)
        self.load(arrays, weights_only=True)
        if info["step"] == 0:
            _log.warning(f"{folder} is of step 0: this model was not trained")
        return info

    def _start(self) -> dict:
        """Loads the weights of init_checkpoint; returns what a checkpoint of the run would say of them."""
        start = self.stages[0].config.task.init_checkpoint
        if not start:
            raise UsageError(
                f"nothing to evaluate: {self.model_dir} holds no checkpoint (checkpoints/step-...). Is it the model_dir "
                "of the run? Or name weights with init_checkpoint."
            )
        own = native.locate_info(places.find(start))
        self._open(self.stages[0])
        task, data = self.stage.config.task, self.stage.data
        refuse_tokenizer_of_other_weights(task, data, start)
        if own:
            refuse_other_labels(own[1].get("data", {}), data.own.facts)
            self._tell_of_sizes(own[1])
        refuse_missing(self.stage.task.initialize(self.engine.model), self.engine.model, "the evaluation")
        _log.warning(f"step 0: {self.model_dir} holds no checkpoint; {start} is evaluated, as it was loaded")
        return {"step": 0}

    def _tell_of_sizes(self, info: Mapping[str, Any]) -> None:
        """Says where the records have other sizes than those that a checkpoint has learned from; once for equal ones."""
        about = other_sizes(info.get("data", {}), self.stage.data.own.facts, "its training")
        if about and about != self._told_of_sizes:
            _log.info(about)
        self._told_of_sizes = about

    def _open(self, stage: Stage, step: int = 0) -> None:
        if self.engine is None or stage is not self.stage:
            self.open(stage, step)
            check_batch_sizes(self.stages, self.engine.replicas)

    def _stage_of(self, info: Mapping[str, Any]) -> Stage:
        """The stage with the model of a checkpoint, which may have fewer or more layers than the one before."""
        before = self.stages[0].config
        config = stored_depth(before, info)
        if config != before:
            self.stages = build_stages(self.given, [config], self.mode)
        return self.stages[0]

    def _evaluates_average(self, info: Mapping[str, Any]) -> bool:
        """Whether a checkpoint is evaluated by its average: as the configuration says, or else as its run did."""
        ema = self.stage.config.trainer.optimizer_config.ema
        return native.uses_average(info) if ema is None else ema.evaluate
