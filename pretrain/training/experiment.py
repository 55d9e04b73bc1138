"""run_experiment: from a configuration to a trained, evaluated or checked model."""

import os
import tempfile
import time
from pathlib import Path

import keras

from nlpdata.errors import UsageError, opt
from nlpdata.files.fetching import local_only
from nlpdata.registry import user_modules
from pretrain.registry import ENGINES, TASKS
from pretrain.settings.schema import ExperimentConfig, own_modules
from pretrain.training.checks.settings import EVALUATIONS, check_experiment
from pretrain.training.continuous import train_on_each
from pretrain.training.engines.lost_hosts import told_of_lost_hosts
from pretrain.training.evaluation_run import EvaluationRun
from pretrain.training.final_export import check_export
from pretrain.training.first_host import said_by_first_host
from pretrain.training.own_records import with_own_records, with_own_toys
from pretrain.training.own_tokenizer import with_own_tokenizer
from pretrain.training.stages.plan import count_steps, of_stage, spans, stage_configs
from pretrain.training.training_run import TrainingRun

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
            return _execute(config, Path(model_dir), mode, Path(model_dir))
        with tempfile.TemporaryDirectory(prefix="nlpdata-dry-run-") as folder:
            return _execute(config, Path(model_dir), mode, Path(folder))


def check_before_sweep(config: ExperimentConfig, mode: str) -> None:
    """UsageError where run_experiment would refuse the settings against the length of the run, which its data decides."""
    steps = []
    for number, each in enumerate(stage_configs(config)):
        with of_stage(number, config):
            data = TASKS.get(each.task_type)(each.task).build_inputs(each.task.train_data)
            steps.append(count_steps(each, data))
    check_experiment(config, mode, spans(config, steps)[-1].end)


def _execute(config: ExperimentConfig, model_dir: Path, mode: str, own: Path) -> dict[str, float]:
    """run_experiment with toy records in the folder `own`."""
    started, evaluates = time.monotonic(), mode in EVALUATIONS
    ENGINES.get(keras.backend.backend()).prepare()
    with said_by_first_host(config.runtime):
        configs = [with_own_tokenizer(each, model_dir) for each in with_own_toys(stage_configs(config), own, mode)]
        configs = with_own_records(configs[-1:] if evaluates else configs, model_dir, mode)
        kind = EvaluationRun if evaluates else TrainingRun
        with told_of_lost_hosts(config.runtime):
            return kind(config, configs, model_dir, mode, started).execute()
