"""One run from every new checkpoint of another run, e.g. fine-tuning while pretraining continues."""

import gc
import logging
import re
from dataclasses import replace
from pathlib import Path

from nlpdata.errors import UsageError
from nlpdata.files.fetching import local_only
from nlpdata.files.json_files import read_object, write_json
from nlpdata.files.writing import remove_tree
from nlpdata.reports.run_facts import CHECKPOINTS, EVAL_RESULTS
from pretrain.converters import native
from pretrain.settings.schema import ExperimentConfig
from pretrain.training.checkpoints.following import CheckpointFeed, evaluated_steps
from pretrain.training.checkpoints.waiting import checkpoints_folder
from pretrain.training.checks.settings import check_experiment, refuse_shared_export
from pretrain.training.logs.run_logs import RunLogs

_log = logging.getLogger(__name__)


def train_on_each(config: ExperimentConfig, model_dir: Path) -> None:
    """Follows the run that task.init_checkpoint names; trains and evaluates from each newest checkpoint, from step 0.

    A run is in model_dir/from-step-00000010, without its checkpoints once it has ended; its results are in
    model_dir/metrics-10.json and, as a line of that step, in model_dir/metrics.jsonl. A call that was interrupted resumes.

    Args:
      config: of these runs.
      model_dir: folder of all.

    Raises UsageError for settings with which a run would not get to its end, or that name no run to follow.
    """
    source = _source(config, model_dir)
    check_experiment(config, "continuous_train_and_eval")
    for step in _begun(model_dir):
        _log.info(f"the run from the checkpoint of step {step} was interrupted")
        _train_from(config, native.step_folder(source, step), step, model_dir)
    feed = CheckpointFeed(source, model_dir, config.trainer.continuous_eval_timeout, newest_first=True)
    for folder, info, _ in feed:
        _train_from(config, folder, info["step"], model_dir)


def _source(config: ExperimentConfig, model_dir: Path) -> Path:
    given, trainer = config.task.init_checkpoint, config.trainer
    if not given:
        raise UsageError(
            "task.init_checkpoint is empty: continuous_train_and_eval trains from each new checkpoint of the run that it names."
        )
    local_only(given, "task.init_checkpoint", "Follow a run in a local folder.")
    source = checkpoints_folder(Path(given))
    if source.resolve() == (model_dir / CHECKPOINTS).resolve():
        raise UsageError(f"task.init_checkpoint and model_dir are the same run, {model_dir}. Use another model_dir.")
    for name in ("max_time", "steps_a_call"):
        if getattr(trainer, name) is not None:
            raise UsageError(
                f"trainer.{name} is {getattr(trainer, name):g}: each of these runs is trained to its end. Leave it out."
            )
    refuse_shared_export(trainer, "continuous_train_and_eval")
    return source


def _place(model_dir: Path, step: int) -> Path:
    return model_dir / f"from-{native.step_folder(model_dir, step).name}"


def _begun(model_dir: Path) -> list[int]:
    """The steps of checkpoints from which a run was begun and not brought to its end."""
    names = [(path, re.fullmatch(r"from-step-([0-9]+)", path.name)) for path in model_dir.glob("from-step-*")]
    begun = [int(match[1]) for path, match in names if match and native.finished(path / CHECKPOINTS)]
    return sorted(set(begun) - evaluated_steps(model_dir))


def _train_from(config: ExperimentConfig, folder: Path, step: int, model_dir: Path) -> None:
    """Trains and evaluates from a checkpoint, unless it is deleted before its weights are read."""
    from pretrain.training.experiment import run_experiment

    place, trainer = _place(model_dir, step), config.trainer
    _log.info(f"from the checkpoint of step {step}: {place}")
    own = replace(config, task=replace(config.task, init_checkpoint=str(folder)))
    try:
        run_experiment(own, place, "train_and_eval")
    except UsageError:
        if folder.exists() or native.finished(place / CHECKPOINTS):
            raise
        _log.warning(f"the checkpoint of step {step} was deleted before a run could start from it")
        return
    finally:
        gc.collect()  # model and graphs refer to each other
    results = read_object(place / EVAL_RESULTS)
    metrics = {name: value for name, value in results.items() if name != "step"}
    write_json(model_dir / f"metrics-{step}.json", metrics)
    with RunLogs(model_dir, step, None, trainer.tensorboard, True) as logs:
        logs.write(step, "eval", metrics)
    remove_tree(place / CHECKPOINTS)
