"""Settings that contradict each other or make a run pointless: refused, or warned of, before the first step.

A value by itself, wherever it comes from (file, flag, override, Python), and what only the whole configuration shows: a
warm-up as long as the run, a rate of 0, a metric that the task does not have. Without Keras for the built-in tasks.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nlpdata.errors import UsageError, closest
from nlpdata.reports.run_facts import CHECKPOINTS
from pretrain.optimizers.configs import AdafactorConfig, AdamWConfig, LambConfig, SgdConfig
from pretrain.optimizers.decay import is_decayed
from pretrain.registry import CHECKPOINT_FORMATS, TASKS, TRAINERS
from pretrain.settings.schema import ExperimentConfig
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.tasks.metrics import own_name
from pretrain.training.checks.rates import OPTIMIZATION, check_length, given_rate, refuse_rate, require
from pretrain.training.engines.cluster import declared_replicas, has_several_hosts
from pretrain.training.stages.plan import declared_steps, of_stage, stage_configs

if TYPE_CHECKING:
    from pretrain.tasks.task import Task


EVALUATIONS = ("eval", "eval_all", "continuous_eval")  # modes that do not train


@dataclass(frozen=True)
class _Run:
    config: ExperimentConfig
    mode: str
    steps: int | None  # None: only the data knows
    task: Any


def check_experiment(
    config: ExperimentConfig, mode: str, train_steps: int | None = None, task: "Task | None" = None
) -> list[str]:
    """Warnings, each with numbers, cause and remedy.

    Args:
      config: the whole configuration.
      mode: as in run_experiment.
      train_steps: length of the run; None: as the configuration says, and where it does not, no check that needs it.
      task: the Task, which knows its labels once it has its data; None: what its configuration declares.

    Raises UsageError, with the dotted path, for what makes the run pointless or wrong.
    """
    run = _Run(config, mode, declared_steps(config) if train_steps is None else train_steps, task)
    for number, each in enumerate(stage_configs(config)):
        with of_stage(number, each, mode not in EVALUATIONS):
            _masking(each)
            _batch_sizes(each, mode)
    _trainer(config.trainer.type)
    better_metric(config, task)
    _best_folder(config.trainer.best_checkpoint_export_subdir)
    _export_formats(config.trainer)
    trained = mode not in EVALUATIONS
    if mode.startswith("continuous") and has_several_hosts(config.runtime):
        raise UsageError(
            f"mode {mode} follows a run on one host. Use another runtime.distribution_strategy, e.g. mirrored."
        )
    if trained:
        refuse_rate(config.trainer.optimizer_config)
    for refuse in (_optimizer, _layers, _epochs) if trained else ():
        refuse(run)
    of_training = (_length, _decay, _average, _recovery, _precision, _labels) if trained else ()
    warn = (*of_training, _evaluation, _devices)
    return [warning for check in warn for warning in check(run)]


def evaluates(config: ExperimentConfig, mode: str) -> bool:
    """Whether a run in that mode uses its validation data."""
    return mode in (*EVALUATIONS, "train_and_eval") or (mode != "train" and config.task.validation_data.is_given)


def used_sections(config: ExperimentConfig, mode: str) -> list[str]:
    """The fields of the task whose data a run in that mode uses."""
    trained = [] if mode in EVALUATIONS else ["train_data"]
    return [*trained, "validation_data"] if evaluates(config, mode) else trained


def refuse_batch_size(name: str, size: int, replicas: int, micro_steps: int | None = None) -> None:
    """UsageError for a batch that cannot be split over the replicas and, where it is one of training, their micro-steps."""
    parts = replicas * (micro_steps or 1)
    if size % parts:
        what = f"{replicas} replicas" if micro_steps is None else f"replicas x micro-steps, {replicas} x {micro_steps}"
        below, above = size // parts * parts, -(-size // parts) * parts
        near = f"{below} or {above}" if below else f"{above}"
        raise UsageError(
            f"{name}.global_batch_size {size} cannot be split over {what}. Use a multiple of {parts}, e.g. {near}."
        )


def better_metric(config: ExperimentConfig, task: "Task | None" = None) -> Literal["higher", "lower"] | None:
    """Which value of trainer.best_checkpoint_eval_metric is better; None where neither is declared and nothing asks.

    Raises UsageError for a metric that the task does not have (of hypertune_metric too), for a comparison that contradicts
    the task's declaration, and for one that is missing where the task declares none.
    """
    settings = config.trainer
    declared, complete = _declared_metrics(config, task)
    for field in ("best_checkpoint_eval_metric", "hypertune_metric"):
        name = getattr(settings, field)
        if name and complete and own_name(name, declared) not in declared:
            raise UsageError(
                f"trainer.{field} is {name!r}; the evaluation has {', '.join(sorted(declared))}.{closest(name, declared)}"
            )
    name, given = own_name(settings.best_checkpoint_eval_metric, declared), settings.best_checkpoint_metric_comp
    right = declared.get(name, "lower" if name == "loss" else None)
    if given and right and given != right:
        raise UsageError(
            f"trainer.best_checkpoint_metric_comp is {given!r}, but a {right} {name} is better: the worst checkpoint would be "
            f"kept. Leave it out, or set it to {right}."
        )
    used = settings.best_checkpoint_export_subdir or settings.early_stopping_patience is not None
    if used and not (given or right):
        raise UsageError(
            f"trainer.best_checkpoint_eval_metric is {name!r}, and the task {config.task_type} does not declare which value is "
            "better. Set trainer.best_checkpoint_metric_comp to higher or lower, or declare it in the task's metrics()."
        )
    return given or right


def with_metric(config: ExperimentConfig, task: "Task") -> ExperimentConfig:
    """The configuration with the metric of the best checkpoint as the task calls it, and which of its values are better."""
    name = own_name(config.trainer.best_checkpoint_eval_metric, task.metrics())
    better = better_metric(config, task)
    trainer = replace(config.trainer, best_checkpoint_eval_metric=name, best_checkpoint_metric_comp=better)
    return replace(config, trainer=trainer)


def _trainer(name: str) -> None:
    try:
        TRAINERS.target(name)
    except UsageError as error:
        raise UsageError(f"trainer.type: {error}") from None


def check_weights(config: ExperimentConfig, paths: Iterable[str]) -> list[str]:
    """Warnings about patterns of the optimizer that match no weight, or all of them. `paths`: of the trainable weights."""
    options, paths, warnings = config.trainer.optimizer_config.optimizer.options, list(paths), []
    for name in ("exclude_from_weight_decay", "exclude_from_layer_adaptation"):
        for pattern in getattr(options, name, None) or ():
            if not any(re.search(pattern, path) for path in paths):
                where = f"{OPTIMIZATION}.optimizer.{name}"
                warnings.append(f"{where}: {pattern!r} matches none of the {len(paths)} weights, e.g. {paths[0]}.")
    excluded, rate = getattr(options, "exclude_from_weight_decay", ()), getattr(options, "weight_decay_rate", 0)
    if rate and excluded and not any(is_decayed(path, excluded) for path in paths):
        warnings.append(
            f"{OPTIMIZATION}.optimizer: weight_decay_rate {rate:g} has no effect: exclude_from_weight_decay "
            f"{list(excluded)} excludes all {len(paths)} weights."
        )
    return warnings


def _declared_metrics(
    config: ExperimentConfig, task: "Task | None"
) -> tuple[dict[str, Literal["higher", "lower"]], bool]:
    """(metrics that the task declares, whether it has no others)."""
    if task is None and TASKS.has_light_options(config.task_type):
        return config.task.metrics(), True
    task = TASKS.get(config.task_type)(config.task) if task is None else task
    declared = task.metrics()
    return declared, bool(declared) and task.declares_all_metrics()


def _best_folder(subdir: str) -> None:
    """Keeping the best checkpoint removes all others of its folder: it must be a separate folder in the model_dir."""
    parts = Path(subdir).parts
    if subdir and (
        not parts or ".." in parts or Path(subdir).is_absolute() or parts[0] in (CHECKPOINTS, "tensorboard")
    ):
        raise UsageError(
            f"trainer.best_checkpoint_export_subdir is {subdir!r}: it must be a folder of its own inside the model_dir, where "
            "only the best checkpoint stays, e.g. best."
        )


def format_names(trainer: TrainerConfig) -> list[str]:
    """The formats of trainer.export_formats."""
    given = trainer.export_formats
    return [part.strip() for part in (given.split(",") if isinstance(given, str) else given) if part.strip()]


def _export_formats(trainer: TrainerConfig) -> None:
    """Names alone, so that a job is checked without Keras; what a format needs is checked where the run starts."""
    known = CHECKPOINT_FORMATS.names()
    for name in format_names(trainer):
        if ":" not in name and name not in known:
            raise UsageError(
                f"trainer.export_formats: unknown checkpoint format {name!r}.{closest(name, known)} Known: {', '.join(known)}, "
                "or module:attribute."
            )


def refuse_shared_export(trainer: TrainerConfig, what: str) -> None:
    """UsageError where several runs would export their models to one place outside their model_dir."""
    place = trainer.export_dir
    if trainer.export_formats and (os.path.isabs(place) or "://" in place):
        raise UsageError(
            f"{what} makes several models, and --export_dir={place} holds one. Name a folder in the model_dir."
        )


def _length(run: _Run) -> Iterator[str]:
    yield from check_length(run.config.trainer.optimizer_config, run.steps)


def _optimizer(run: _Run) -> None:
    optimization, path = run.config.trainer.optimizer_config, f"{OPTIMIZATION}.optimizer"
    options = optimization.optimizer.options
    if isinstance(options, SgdConfig):
        require(options.momentum < 1, f"{path}.momentum", options.momentum, "must be below 1, or a step never fades.")
        _clip(options.gradient_clip_norm, path)
    if isinstance(options, AdafactorConfig):
        for name in ("decay_rate", "epsilon_1", "epsilon_2", "clip_threshold"):
            require(0 < getattr(options, name) < math.inf, f"{path}.{name}", getattr(options, name), "must be above 0.")
    if isinstance(options, AdafactorConfig | AdamWConfig):
        decay = options.weight_decay_rate
        require(0 <= decay < math.inf, f"{path}.weight_decay_rate", decay, "must not be negative.")
        _clip(options.gradient_clip_norm, path)
        for name in ("exclude_from_weight_decay", "exclude_from_layer_adaptation"):
            _patterns(getattr(options, name, None) or (), f"{path}.{name}")
    if not isinstance(options, AdamWConfig):
        return
    for name in ("beta_1", "beta_2"):
        value = getattr(options, name)
        require(0 <= value < 1, f"{path}.{name}", value, "must be at least 0 and below 1, or its moment never changes.")
    require(
        0 < options.epsilon < math.inf, f"{path}.epsilon", options.epsilon, "must be above 0, or 0 is divided by 0."
    )


def _layers(run: _Run) -> None:
    """What is trained of a model, and when: freeze, layer_decay, unfreeze_steps."""
    optimization = run.config.trainer.optimizer_config
    _patterns(optimization.freeze, f"{OPTIMIZATION}.freeze")
    decay, steps = optimization.layer_decay, optimization.unfreeze_steps
    require(
        0 < decay <= 1,
        f"{OPTIMIZATION}.layer_decay",
        decay,
        "must be above 0 and at most 1; freeze keeps weights as they are.",
    )
    path = f"{OPTIMIZATION}.unfreeze_steps"
    rises = steps == sorted(set(steps)) and all(step >= 0 for step in steps)
    require(
        rises, path, steps, "must be steps that rise: that of the highest layer, then that of the one below it, ..."
    )
    late = [step for step in steps if run.steps is not None and step >= run.steps]
    require(
        not late, path, steps, f"the run has {run.steps} steps: what begins later never learns. Use freeze for that."
    )


def _patterns(patterns: Iterable[str], path: str) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"{path}: {pattern!r} is not a regular expression: {error}.") from None


def _clip(norm: float | None, path: str) -> None:
    require(
        norm is None or 0 <= norm < math.inf,
        f"{path}.gradient_clip_norm",
        norm,
        "gradient_clip_norm must not be negative; 0 or null switches clipping off.",
    )


def _decay(run: _Run) -> Iterator[str]:
    optimization = run.config.trainer.optimizer_config
    options, rate = optimization.optimizer.options, given_rate(optimization)
    if rate and isinstance(options, AdamWConfig) and not isinstance(options, LambConfig):
        decay = options.weight_decay_rate
        if decay * rate >= 1:
            yield (
                f"{OPTIMIZATION}.optimizer.weight_decay_rate {decay:g} times the learning rate {rate:g} takes all of a weight "
                "away in one step. Usual is 0.01."
            )


def _average(run: _Run) -> Iterator[str]:
    ema, path = run.config.trainer.optimizer_config.ema, f"{OPTIMIZATION}.ema"
    if ema is None:
        return
    decay = ema.average_decay
    require(
        0 <= decay <= 1, f"{path}.average_decay", decay, "must be at least 0 and at most 1; usual is 0.99 to 0.9999."
    )
    if ema.average_decay == 1 and not ema.dynamic_decay:
        yield f"{path}.average_decay 1: the average stays what it is after the first step. Usual is 0.99 to 0.9999."
    if run.steps is not None and ema.start_step > run.steps:
        yield (
            f"{path} has no effect: before start_step {ema.start_step} the average is the weights themselves, and the run has "
            f"{run.steps} steps. Lower start_step."
        )


def _recovery(run: _Run) -> Iterator[str]:
    trainer = run.config.trainer
    if trainer.recovery_max_trials > 0 and trainer.max_to_keep < 2:
        yield (
            f"trainer.max_to_keep is {trainer.max_to_keep}: where training diverges again after the one checkpoint that is kept, "
            "there is none before it to return to, and the run ends. Keep two at least."
        )


def _precision(run: _Run) -> Iterator[str]:
    runtime = run.config.runtime
    scale, dtype = runtime.loss_scale, runtime.mixed_precision_dtype
    if scale == "dynamic" or (scale == 1 and dtype != "float16"):
        return
    require(0 < scale < math.inf, "runtime.loss_scale", scale, "must be dynamic or a number above 0.")
    if dtype != "float16":
        yield f"runtime.loss_scale {scale:g} has no effect: only float16 is scaled, and mixed_precision_dtype is {dtype}."
    elif scale <= 1:
        yield (
            f"runtime.loss_scale {scale:g} does not scale the loss: gradients below 6e-8 become 0 in float16. Use dynamic, "
            "or a number such as 1024."
        )


def _masking(config: ExperimentConfig) -> None:
    prob = config.task.train_data.masked_lm_prob
    between = "must be above 0 and below 1; usual is 0.15."
    require(prob is None or 0 < prob < 1, "task.train_data.masked_lm_prob", prob, between)


def _batch_sizes(config: ExperimentConfig, mode: str) -> None:
    """For the replicas that the configuration says; those that the devices decide are known later."""
    task, replicas = config.task, declared_replicas(config.runtime)
    if mode not in EVALUATIONS:
        micro_steps = config.trainer.gradient_accumulation_steps
        refuse_batch_size("task.train_data", task.train_data.global_batch_size, replicas, micro_steps)
    if evaluates(config, mode):
        refuse_batch_size("task.validation_data", task.validation_data.global_batch_size, replicas)


def _devices(run: _Run) -> Iterator[str]:
    runtime = run.config.runtime
    strategy = f"runtime.distribution_strategy is {runtime.distribution_strategy}"
    if runtime.num_replicas and runtime.distribution_strategy in ("multi_worker_mirrored", "tpu"):
        yield f"runtime.num_replicas {runtime.num_replicas} has no effect: {strategy}, which uses all devices."
    if runtime.tpu and runtime.distribution_strategy != "tpu":
        yield f"runtime.tpu {runtime.tpu!r} has no effect: {strategy}. Use tpu."


def _epochs(run: _Run) -> None:
    trainer = run.config.trainer
    require(trainer.num_train_epochs >= 1, "trainer.num_train_epochs", trainer.num_train_epochs, "must be at least 1.")
    steps = trainer.train_steps
    require(steps is None or steps >= 1, "trainer.train_steps", steps, "must be at least 1, or null.")


def _labels(run: _Run) -> Iterator[str]:
    """What weighs or smooths the labels of a sentence task."""
    task = run.config.task
    weights, smoothing = getattr(task, "class_weights", ()), getattr(task, "label_smoothing", 0)
    if weights:
        usable = all(0 <= weight < math.inf for weight in weights) and any(weights)
        require(usable, "task.class_weights", list(weights), "give numbers of at least 0, not all of them 0.")
    if smoothing and "pearson" in (run.task.metrics() if run.task else ()):
        yield f"task.label_smoothing {smoothing:g} has no effect: the task is regression, which has no classes."


def _evaluation(run: _Run) -> Iterator[str]:
    settings = run.config.trainer
    patience, folder = settings.early_stopping_patience, settings.best_checkpoint_export_subdir
    asks = {"early_stopping_patience": patience, "best_checkpoint_export_subdir": folder}
    if settings.best_checkpoint_eval_metric != "loss" and not folder and patience is None:
        yield (
            f"trainer.best_checkpoint_eval_metric {settings.best_checkpoint_eval_metric!r} has no effect without "
            "trainer.best_checkpoint_export_subdir or trainer.early_stopping_patience."
        )
    if run.mode == "train":
        asks["hypertune_metric"] = settings.hypertune_metric
        idle = [f"trainer.{name}" for name, value in asks.items() if value]
        if idle:
            yield f"mode train evaluates nothing, so {_listed(idle)} has no effect. Use --mode=train_and_eval."
        return
    require(settings.validation_steps != 0, "trainer.validation_steps", 0, "no batch to evaluate. -1 takes all.")
    if run.mode != "train_and_eval":
        return
    yield from warn_of_known_data(run.config, run.mode)
    if run.steps is None:
        return
    evaluations = -(-run.steps // settings.validation_interval)
    often = f"{run.steps} steps with an evaluation every {settings.validation_interval} make {evaluations}"
    if patience is not None and patience >= evaluations - 1:
        yield (
            f"trainer.early_stopping_patience {patience} can never stop this run: {often}. Lower it, or "
            "trainer.validation_interval."
        )
    elif folder and evaluations == 1:
        yield f"the best checkpoint will be the last: {often}. Lower trainer.validation_interval."


def warn_of_known_data(config: ExperimentConfig, mode: str) -> Iterator[str]:
    """A warning where a run is evaluated on the very records, or the very text, that it learns from."""
    path = config.task.train_data.input_path
    own_split = str(path).startswith("toy:")
    if mode == "train_and_eval" and path and path == config.task.validation_data.input_path and not own_split:
        yield f"task.validation_data reads the training data, {path}: its scores do not show what the model makes of other text."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
