"""run.json in the model_dir: what a run is about, and what each call that trained it did, for reports and model cards.

    parameters, steps     weights of the model with its heads, at the depth of the last stage so far; length of the run
    learning_rate         of the whole run, in words
    stages                of each: first_step, last_step, steps_per_epoch, num_hidden_layers, and its data (data_facts)
    idle_fields           of the configuration: those for text alone, where no stage reads text
    calls                 of each: what it ran on, when it began and ended, how, and where its time went

A call without `ended` is running, or its process was killed.
"""

import contextlib
import logging
import math
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from nlpdata.cli.version import package_version
from nlpdata.errors import DataError, NlpdataError
from nlpdata.files.json_files import read_object, write_json
from nlpdata.reports.run_facts import RUN_FILE, run_file_fault
from pretrain.optimizers.curve import in_words
from pretrain.settings.schema import ExperimentConfig
from pretrain.training.checks.agreement import idle_fields
from pretrain.training.engines.engine import Engine
from pretrain.training.interrupts import Interrupted
from pretrain.training.logs.data_facts import describe_data
from pretrain.training.stages.built import Stage
from pretrain.training.stages.plan import stage_configs
from pretrain.training.trainer import Trainer

_log = logging.getLogger(__name__)


class Call:
    """A call of a run: it is in run.json from the beginning of the block, and with its end after it. Only the first host writes.

    Args:
      model_dir: folder of the run.
      given: configuration of the run, as the user gave it.
      stages: the stages of the run.
      engine: what takes its steps.
      described: the facts that its checkpoints keep (pretrain.training.checks.agreement.describe_run).
      mode: as in run_experiment.
      step: the run resumes after this one.
      started: time.monotonic() when the call began.

    Attributes:
      outcome: how the call ends where nothing is raised.
    """

    def __init__(
        self,
        model_dir: Path,
        given: ExperimentConfig,
        stages: Sequence[Stage],
        engine: Engine,
        described: Mapping[str, Any],
        mode: str,
        step: int,
        started: float,
    ):
        self.outcome = ""
        self._path, self._step, self._started = model_dir / RUN_FILE, step, started
        self._seconds: dict[str, float] = {}
        self._writes = engine.host[0] == 0
        if not self._writes:
            return
        idle = idle_fields(stage_configs(given))
        self._facts = _facts(stages, engine) | {"learning_rate": in_words(described["schedule"]), "idle_fields": idle}
        self._before = _calls_before(self._path)
        self._call: dict[str, Any] = {
            "started": _moment(time.time() - (time.monotonic() - started)),
            "mode": mode,
            "first_step": step + 1,
            "device": engine.device,
            **{name: described[name] for name in ("replicas", "cores", "backend")},
            "versions": {"nlpdata": package_version(), **described["versions"]},
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        }

    def __enter__(self) -> "Call":
        self._write()
        return self

    @contextlib.contextmanager
    def of_trainer(self, trainer: Trainer) -> Iterator[None]:
        """In the block a trainer takes its steps, as a part of this call. The parameters are those of its model, of its depth."""
        if self._writes:
            self._facts["parameters"] = _parameters(trainer.engine)
            self._write()
        try:
            yield
        finally:
            self._step = trainer.step
            self._seconds = trainer.budget.spent

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._writes:
            return
        # SystemExit is of SIGTERM before the first step, or after the last one.
        interrupted = isinstance(error, Interrupted | KeyboardInterrupt | SystemExit)
        self._call |= {
            "ended": _moment(time.time()),
            "outcome": "interrupted" if interrupted else "failed" if error else self.outcome,
            "last_step": self._step,
            "seconds": {part: round(seconds, 3) for part, seconds in self._seconds.items() if part != "loop"},
            "total_seconds": round(time.monotonic() - self._started, 3),
        }
        if error is not None:
            self._call["message"] = str(error) if isinstance(error, NlpdataError) else type(error).__name__
        try:
            self._write()
        except DataError as fault:
            if error is None:
                raise
            _log.error(str(fault))  # the block ends with its own error

    def _write(self) -> None:
        if self._writes:
            write_json(self._path, {**self._facts, "calls": [*self._before, self._call]})


def outcome(trainer: Trainer, end: int, steps: int) -> str:
    """How a call ended whose last trainer this is: finished, max_time, steps_a_call or stopped_early.

    Args:
      end: the step to which the call was to train.
      steps: length of the run.
    """
    if trainer.step >= steps:
        return "finished"
    if trainer.out_of_time:
        return "max_time"
    return "steps_a_call" if trainer.step >= end else "stopped_early"


def _facts(stages: Sequence[Stage], engine: Engine) -> dict[str, Any]:
    """What run.json says but for the calls."""
    last = stages[-1]
    return {
        "format_version": 1,
        "parameters": _parameters(engine),
        "steps": last.span.end,
        "stages": [
            {
                "first_step": stage.span.start + 1,
                "last_step": stage.span.end,
                "num_hidden_layers": stage.span.num_hidden_layers,
                "steps_per_epoch": stage.data.own.steps_per_epoch,
                **describe_data(stage.config.task.train_data, stage.data.own),
            }
            for stage in stages
        ],
    }


def _parameters(engine: Engine) -> int:
    return sum(math.prod(weight.shape) for weight in engine.model.weights)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _calls_before(path: Path) -> list[dict]:
    """The calls that run.json has; none, with a warning, where it is damaged: it is only for reports."""
    if not path.exists():
        return []
    try:
        content = read_object(path)
        if fault := run_file_fault(content):
            raise DataError(f"{path}: {fault}")
    except DataError as error:
        _log.warning(f"{error}; it is written anew, without the calls before this one")
        return []
    return content["calls"]
