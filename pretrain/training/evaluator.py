"""Evaluations in a run: the metrics of its validation data, and what is written of them into the model_dir."""

import contextlib
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import UsageError
from nlpdata.files.json_files import write_json
from nlpdata.reports.run_facts import EVAL_DATA, EVAL_RESULTS
from pretrain.converters import native
from pretrain.data.batches import Batches, prefetch
from pretrain.evaluation.report import EVALUATION, Report, write_report
from pretrain.settings.schema import ExperimentConfig
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.tasks.task import Task
from pretrain.training.checkpoints.manager import BestCheckpoint
from pretrain.training.engines.engine import Engine
from pretrain.training.interrupts import Interrupted, SignalWatch
from pretrain.training.logs import hypertune
from pretrain.training.logs.data_facts import describe_data
from pretrain.training.logs.run_logs import RunLogs
from pretrain.training.recovery import Diverged

_log = logging.getLogger(__name__)


class Evaluator:
    """Evaluates the weights that an engine holds.

    Args:
      config: configuration of the experiment.
      task, engine: of the run.
      model_dir: folder of the run.
      data: its validation data; None where its mode evaluates nothing.
      info: facts that the best checkpoint keeps.
      signals: what ends an evaluation.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        task: Task,
        engine: Engine,
        model_dir: Path,
        data: Batches | None,
        info: Mapping[str, Any],
        signals: SignalWatch,
    ):
        self._section, self._settings = config.task.validation_data, config.trainer
        self._task, self._engine, self._model_dir = task, engine, model_dir
        self._data = data and data.for_host(*engine.host, engine.max_lengths, engine.replicas)
        self._info, self._signals = info, signals
        self._told_of_report = False

    def evaluate(self, step: int, logs: RunLogs) -> dict[str, float]:
        """The metrics of the weights after a step; the first host writes them, and all that follows from them.

        Raises Diverged where a statistic is not a number, Interrupted on SIGTERM or SIGINT.
        """
        metrics, report = self._compute(step, logs)
        if self._engine.host[0] == 0:
            logs.end_line()
            _log.info(f"evaluation at step {step}: " + "  ".join(f"{k} {v:.6g}" for k, v in metrics.items()))
            write_json(self._model_dir / EVAL_DATA, describe_data(self._section, given(self._data)))
            write_json(self._model_dir / EVAL_RESULTS, {"step": step, **metrics})
            if report is not None:
                self._write_report(step, report)
            if self._settings.hypertune_metric:
                hypertune.report(self._settings.hypertune_metric, metrics, step)
            self._offer_as_best(step, metrics)
            logs.write(step, "eval", metrics)  # last: a run that was killed before it evaluates again
        return metrics

    def _compute(self, step: int, logs: RunLogs) -> tuple[dict[str, float], Report | None]:
        data, limit = given(self._data), self._settings.validation_steps
        count = data.steps_per_epoch if limit < 0 else min(limit, data.steps_per_epoch)
        state, examples = None, 0
        ahead = self._section.prefetch_buffer_size
        with contextlib.closing(prefetch(data.batch, range(count), ahead)) as batches:
            for number, batch in batches:
                logs.note(f"evaluating, batch {number + 1} of {count}")
                statistics, outputs = self._validate(batch, f"batch {number + 1}", step)
                state = self._task.aggregate_logs(state, statistics, outputs)
                examples += data.batch_size
                if self._signals.received is not None and self._engine.host[1] == 1:  # others would wait for this host
                    raise Interrupted(
                        "interrupted during an evaluation; its results are not kept.", self._signals.received
                    )
        assert state is not None  # there is a batch, or Batches would have refused the data
        metrics = self._task.reduce_aggregated_logs(state) | {"examples": min(examples, data.num_examples)}
        return metrics, self._task.report(state, self._settings.evaluation_errors)

    def _validate(self, batch: Mapping, name: str, step: int) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """(sums of statistics, outputs of the real examples) of a batch. Diverged where a statistic is not a number."""
        sums, outputs = self._engine.validation_step(batch)
        real = batch.get("is_real_example")
        if real is not None:
            outputs = {name: values[real.reshape(-1).astype(bool)] for name, values in outputs.items()}
        statistics = {name: float(value) for name, value in sums.items()}
        bad = [name for name, value in statistics.items() if not math.isfinite(value)]
        if bad:
            raise Diverged(
                f"evaluation: {bad[0]} is {statistics[bad[0]]} in {name}: the weights are damaged, or training has diverged. "
                "Evaluate an earlier checkpoint, or train with a lower learning rate.",
                step,
            )
        return statistics, outputs

    def _write_report(self, step: int, report: Report) -> None:
        paths = write_report(self._model_dir / EVALUATION, {"step": step}, report)
        if not self._told_of_report:
            _log.info(f"report of the evaluation: {', '.join(map(str, paths))}")
        self._told_of_report = True

    def _offer_as_best(self, step: int, metrics: Mapping[str, float]) -> None:
        settings = self._settings
        if not settings.best_checkpoint_export_subdir:
            return
        name = best_metric(settings, metrics)
        higher = settings.best_checkpoint_metric_comp == "higher"
        best = BestCheckpoint(self._model_dir / settings.best_checkpoint_export_subdir, name, higher)
        if best.offer(metrics[name], step, self._weights, self._info):
            _log.info(f"best {name} so far: {metrics[name]:.4f}, kept in {best.folder}")

    def _weights(self) -> dict[str, np.ndarray]:
        """The weights that were evaluated."""
        state, ema = self._engine.state(), self._settings.optimizer_config.ema
        if ema is not None and ema.evaluate:
            state = native.with_average(state)
        return {name: values for name, values in state.items() if name.startswith("model/")}


def best_metric(settings: TrainerConfig, metrics: Mapping[str, float]) -> str:
    """The name of the metric by which checkpoints are compared. UsageError where an evaluation has none of that name."""
    name = settings.best_checkpoint_eval_metric
    if name not in metrics:
        raise UsageError(
            f"trainer.best_checkpoint_eval_metric is {name!r}; the evaluation has {', '.join(sorted(metrics))}."
        )
    return name


def given(data: Batches | None) -> Batches:
    """The data that a mode uses. UsageError where the trainer has none."""
    if data is None:
        raise UsageError("the trainer was made without the data that this mode uses.")
    return data
