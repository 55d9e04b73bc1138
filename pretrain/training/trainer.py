"""The step loop: when to look at the loss, log, save, evaluate and stop. Knows neither backend nor devices."""

import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nlpdata.errors import DataError
from nlpdata.reports.run_facts import METRICS
from pretrain.converters import native
from pretrain.data.batches import Batches, prefetch
from pretrain.settings.schema import ExperimentConfig
from pretrain.tasks.task import Task
from pretrain.training.budget import TimeBudget
from pretrain.training.checkpoints.manager import Checkpoints, not_finite
from pretrain.training.checkpoints.writer import CheckpointWriter
from pretrain.training.early_stopping import EarlyStopping
from pretrain.training.engines.engine import Engine
from pretrain.training.evaluator import Evaluator, best_metric, given
from pretrain.training.interrupts import Interrupted, SignalWatch
from pretrain.training.logs.interval import Interval
from pretrain.training.logs.metrics import read_lines
from pretrain.training.logs.run_logs import RunLogs
from pretrain.training.prepared import Prepared
from pretrain.training.recovery import Diverged, Recoveries, advice
from pretrain.training.stages.plan import Span

_log = logging.getLogger(__name__)

_OUT_OF_TIME = 1  # below the numbers of the signals that end a run


def _interrupted(where: str, number: int) -> Interrupted:
    return Interrupted(f"interrupted {where}. Run the same command again to resume.", number)


class Trainer:
    """Takes the steps of one run.

    A trainer of your own overrides what it needs of `finished`, `take_step`, `after_summary` and `after_evaluation`, and is
    named by trainer.type (docs/extending.md has one).

    Args:
      config: configuration of the experiment.
      task: the task that is learned.
      engine: what takes the steps; its weights are the run's.
      model_dir: folder of the run.
      train_data, validation_data: Batches; None where the mode does not use them.
      train_steps: length of the run in steps.
      span: the steps of the run that this trainer takes; None: all.
      step: steps that were taken before (a resumed run).
      interval: statistics of the steps since the last line of metrics.jsonl (a resumed run).
      recoveries: see Recoveries (a resumed run).
      info: facts that every checkpoint keeps in addition to the trainer's own.
      budget: the time of the call; None: one that begins now.

    Attributes:
      metrics: of the last evaluation.
      out_of_time: whether training ended because of trainer.max_time.
      budget: see above.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        task: Task,
        engine: Engine,
        model_dir: str | os.PathLike,
        *,
        train_data: Batches | None = None,
        validation_data: Batches | None = None,
        train_steps: int = 0,
        span: Span | None = None,
        step: int = 0,
        interval: Sequence[Mapping] = (),
        recoveries: Sequence[Mapping[str, int]] = (),
        info: Mapping | None = None,
        budget: TimeBudget | None = None,
    ):
        self.config, self.task, self.engine, self.model_dir = config, task, engine, Path(model_dir)
        self.train_steps, self.step = train_steps, step
        self._span = span or Span(0, train_steps)
        self.last_step = self._span.end  # of this trainer
        self.metrics: dict[str, float] = {}
        self._settings, self._info = config.trainer, dict(info or {})
        self._is_chief = engine.host[0] == 0
        parts = engine.replicas * config.trainer.gradient_accumulation_steps
        self._train_data = train_data and train_data.for_host(*engine.host, engine.max_lengths, parts)
        self._checkpoints = Checkpoints(model_dir, self._settings.max_to_keep, step)
        self._writer = CheckpointWriter(self._checkpoints, self._settings.async_checkpoints, self._note_checkpoint)
        self._recoveries = Recoveries(config.trainer, recoveries, self._span.start)
        self._seen: set[int] = set()  # numbers of positions of the steps of this call, by which their shapes differ
        # Seconds of steps; None before the first look, which waits for a compiler.
        self._since_look: float | None = None
        self._signals = SignalWatch(config.trainer.preemption_deadline)
        self.budget = budget or TimeBudget(config.trainer.max_time, time.monotonic())
        self._interval = Interval(interval, self.budget.spent)
        self.out_of_time = self._warned_of_deadline = False
        self._saved_step = step
        self._early_stopping = EarlyStopping(self._settings, self.model_dir, step)
        self._stopped = False
        self._evaluator = Evaluator(config, task, engine, self.model_dir, validation_data, self._info, self._signals)

    @property
    def recoveries(self) -> Sequence[Mapping[str, int]]:
        """The recoveries of the run so far, as its checkpoints have them."""
        return self._recoveries.stored

    # -------------------------------------------------------------------------------------------------- what may change

    def finished(self) -> bool:
        """Whether training ends here; asked before every step."""
        return self._stopped or self.step >= self.last_step

    def take_step(self, step: int, prepared: Prepared) -> dict:
        """Takes one step; returns the sums of its statistics."""
        return self.engine.train_step(step, prepared.batch, prepared.denominators)

    def after_summary(self, metrics: Mapping[str, float]) -> None:
        """Called with the metrics of every train line of metrics.jsonl, once it is written."""

    def after_evaluation(self, metrics: Mapping[str, float]) -> None:
        """Called with the metrics of every evaluation, once they are written."""

    # --------------------------------------------------------------------------------------------------------- training

    def train(self) -> None:
        """Trains to the end. Interrupted (after saving) on SIGTERM or SIGINT; Diverged where the loss is not a number."""
        self._run(evaluating=False)

    def train_and_evaluate(self) -> dict[str, float]:
        """Trains to the end and evaluates every validation_interval steps and at the end; returns the last metrics."""
        self._run(evaluating=True)
        return self.metrics

    def _run(self, evaluating: bool) -> None:
        with self._open_logs(self.step) as self._logs, self._signals, self._writer:
            if self._recoveries.wanted and self.step == 0 and not native.finished(self._checkpoints.folder):
                self._save()  # to which it can return
            while True:
                try:
                    self._train_loop(evaluating)
                    break
                except Diverged as error:
                    diverged = error
                self._recover(diverged)
        self._end_if_signalled(f"after step {self.step} of {self.train_steps}; the checkpoint is saved")

    def _end_if_signalled(self, where: str) -> None:
        """Interrupted where a signal came when nothing asked for one any more: what follows this run would not know of it."""
        if self._signals.received is not None and self.engine.host[1] == 1:  # others would wait for this host
            raise _interrupted(where, self._signals.received)

    def _train_loop(self, evaluating: bool) -> None:
        if evaluating and self.step and self._evaluation_due() and not self._evaluated():
            self._evaluate()  # the run was interrupted between the checkpoint and this evaluation
        if evaluating:
            self._stop_early()  # a run that did so before does so again
        ahead = self.config.task.train_data.prefetch_buffer_size
        with contextlib.closing(prefetch(self._prepare, range(self.step, self.last_step), ahead)) as steps:
            while not self.finished() and not self.out_of_time:
                started = time.perf_counter()
                step, prepared = next(steps)
                self._advance(step, prepared, started)
                if evaluating and self._evaluation_due() and not self._has_no_time_to_evaluate():
                    self._evaluate()
                    self._stop_early()
        if self._saved_step != self.step:  # what follows a step, e.g. its evaluation, decided that it was the last
            self._save()
        if self.out_of_time and self._is_chief:
            _log.info(
                f"trainer.max_time: this call ends after step {self.step} of {self.train_steps}. Run the same command again to "
                "resume."
            )

    def _advance(self, step: int, prepared: Prepared, started: float) -> None:
        """One step, and what is due after it; the wait for its batch began at `started`."""
        compiles = prepared.places not in self._seen
        self._seen.add(prepared.places)
        if compiles:  # what the device still has to do is of the steps before
            started += self._interval.finish()
            self._logs.note(f"step {step + 1}: compiling for a new shape of batch")
        self._interval.add(self.take_step(step, prepared), prepared.tokens, prepared.places, compiles)
        if compiles:
            started += self._interval.finish()
        self.step = step + 1
        number = self._asked_to_end()
        ending = bool(number) or self.finished()
        settings = self._settings
        looking, saving = self._is_due(settings.steps_per_loop), ending or self._is_due(settings.checkpoint_interval)
        if looking or saving or self._is_due(settings.summary_interval):  # a summary looks, too; here it is timed
            self._look()
        self._count_seconds(time.perf_counter() - started, looking)
        summary = self._summarize(prepared.digest)
        if saving:
            self._save()
        if summary:
            self.after_summary(summary)
        self._writer.check()
        if number not in (0, _OUT_OF_TIME):
            self._writer.wait()
            raise _interrupted(f"after step {self.step} of {self.train_steps}; the checkpoint is saved", number)
        at_next_stage = self.step == self._span.end < self.train_steps
        self.out_of_time = number == _OUT_OF_TIME and (at_next_stage or not self.finished())

    def _is_due(self, interval: int) -> bool:
        """Whether something that is done every `interval` steps is done after this one."""
        return self.step % interval == 0

    def _asked_to_end(self) -> int:
        """The number of the signal that ends the run here; _OUT_OF_TIME; 0: it continues. The same on all hosts."""
        number = self._signals.received or (0 if self.budget.allows("loop", "checkpoint") else _OUT_OF_TIME)
        if self.engine.host[1] == 1:
            return number
        return self.engine.highest(number) if self._is_due(self._settings.steps_per_loop) else 0

    def _has_no_time_to_evaluate(self) -> bool:
        number = 0 if self.budget.allows("evaluation") else _OUT_OF_TIME
        self.out_of_time = self.out_of_time or bool(self.engine.highest(number))
        return self.out_of_time

    def _count_seconds(self, seconds: float, looked: bool) -> None:
        self._interval.add_seconds(seconds)
        if self._since_look is not None:
            self._since_look += seconds
        if looked:
            if self._since_look is not None:
                self.budget.note("loop", self._since_look)
            self._since_look = 0.0

    def _prepare(self, step: int) -> Prepared:
        batch = given(self._train_data).batch(self._recoveries.batch_of(step))
        digests = self._settings.log_example_digest
        return Prepared.of(batch, self.engine.place(batch), self.task.denominators(batch), digests)

    def _look(self) -> None:
        """Waits for the device, and stops where a statistic is not a number."""
        for steps_ago, values in self._interval.fetch():
            step = self.step - steps_ago
            fault = self._recoveries.fault(step, values, lambda each: self._reduce([each])["loss"])
            if fault:
                raise Diverged(f"{fault}: {advice(self.config.runtime)}", step)

    def _recover(self, diverged: Diverged) -> None:
        """Returns to a checkpoint before the step that diverged, and skips the batches since then."""
        self._recoveries.refuse(diverged)
        self._writer.wait()
        self.engine.highest(0)  # all hosts are here: the checkpoints are written
        try:
            _, info, arrays = self._checkpoints.before(
                diverged.step, self._recoveries.unusable(diverged), self._span.start
            )
        except DataError as error:
            raise DataError(f"{diverged} {error}") from None
        self.engine.load_state(self._span.enter(arrays))
        self.engine.highest(0)  # all have read it
        self.step = self._saved_step = info["step"]
        self._interval = Interval(info.get("interval", []), self.budget.spent)
        self._logs.cut(self.step)
        what = self._recoveries.add(self.step, diverged)
        if self._is_chief:
            self._checkpoints.remove_after(self.step)
            _log.warning(f"{diverged} {what}.")
        self._early_stopping = EarlyStopping(self._settings, self.model_dir, self.step)
        self._stopped = False

    def _summarize(self, digest: str | None) -> dict | None:
        """Writes the metrics of the steps since the last summary, where one is due."""
        extra = {} if digest is None else {"example_digest": digest}
        if not self._is_due(self._settings.summary_interval) and not self.finished():
            if extra:
                self._logs.write(self.step, "train", {}, extra)
            return None
        self._look()
        interval, self._interval = self._interval, Interval(spent=self.budget.spent)
        values = self._reduce(interval.statistics) | {"learning_rate": self.engine.learning_rate(self.step - 1)}
        values |= interval.speed(self.engine.host[1])
        if self._recoveries.stored:
            values["recoveries"] = len(self._recoveries.stored)
        self._logs.write(self.step, "train", values, extra)
        self._logs.show(self.step, values, self._seconds_left(interval.seconds_a_step), self.last_step)
        return values

    def _seconds_left(self, seconds_a_step: float) -> float:
        """To the end of what this trainer does after its step, with what follows this one."""
        intervals = {"evaluation": self._settings.validation_interval}
        if not self._settings.async_checkpoints:  # which are written meanwhile
            intervals["checkpoint"] = self._settings.checkpoint_interval
        return self.budget.needed(self.step, self.last_step, seconds_a_step, intervals)

    def _reduce(self, statistics: list[dict]) -> dict[str, float]:
        state = None
        for values in statistics:
            state = self.task.aggregate_logs(state, values)
        assert state is not None  # a summary follows a step
        return self.task.reduce_aggregated_logs(state)

    def _save(self) -> None:
        self._look()
        self._saved_step = self.step
        if not self._is_chief and not self._recoveries.wanted:
            return
        self._writer.wait()  # so that one copy of the state is in memory
        started = time.monotonic()
        arrays = self.engine.state()
        if self._recoveries.wanted and (fault := not_finite(arrays)):
            raise Diverged(f"{fault} after step {self.step}: {advice(self.config.runtime)}", self.step + 1)
        if not self._is_chief:
            return
        info = {**self._info, "interval": list(self._interval.statistics)}
        if self._recoveries.stored:
            info["recoveries"] = list(self._recoveries.stored)
        self._writer.save(self.step, arrays, info, started)

    def _note_checkpoint(self, seconds: float) -> None:
        self.budget.note("checkpoint", seconds)
        deadline = self._settings.preemption_deadline
        if deadline is not None and seconds > deadline and not self._warned_of_deadline:
            self._warned_of_deadline = True
            _log.warning(
                f"a checkpoint took {seconds:.1f} seconds, and trainer.preemption_deadline is {deadline:g}: a run that SIGTERM "
                "ends would lose the steps since its last checkpoint. Raise the deadline, or lower trainer.checkpoint_interval."
            )

    # ------------------------------------------------------------------------------------------------------- evaluation

    def evaluate(self) -> dict[str, float]:
        """Evaluates the weights as they are; writes eval_results.json and a line of metrics.jsonl; returns the metrics."""
        with self._open_logs(None) as self._logs, self._signals:
            self._evaluate()
        self._end_if_signalled("after an evaluation; its results are kept")
        return self.metrics

    def _evaluation_due(self) -> bool:
        return self._is_due(self._settings.validation_interval) or self.finished()

    def _evaluated(self) -> bool:
        return any(
            line["step"] == self.step and line.get("split") == "eval" for line in read_lines(self.model_dir / METRICS)
        )

    def _evaluate(self) -> None:
        started = time.monotonic()
        self.metrics = self._evaluator.evaluate(self.step, self._logs)
        self.budget.note("evaluation", time.monotonic() - started)
        if self._settings.early_stopping_patience is not None:
            self._early_stopping.add(self.step, self.metrics[best_metric(self._settings, self.metrics)])
        self.after_evaluation(self.metrics)

    def _stop_early(self) -> None:
        reason = None if self.finished() else self._early_stopping.reason()
        if reason:
            self._stopped = True
            if self._is_chief:
                _log.info(f"stopped early, after step {self.step} of {self.train_steps}: {reason}")

    def _open_logs(self, step: int | None) -> RunLogs:
        """The logs; lines past `step` are cut, None keeps all."""
        return RunLogs(self.model_dir, self.train_steps, step, self._settings.tensorboard, self._is_chief)
