"""The stages of a run: its parts, one after the other, each with data, a batch or a depth of its own (trainer.stages).

A stage is the experiment with what the stage changes. The step, the learning rate and the optimizer are those of the whole run;
the order of the data begins at the stage's first step. A run without stages is one.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nlpdata.errors import DataError, UsageError, opt
from pretrain.settings.data_section import DataConfig
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ExperimentConfig
from pretrain.settings.trainer_section import StageConfig
from pretrain.settings.tree import Place, build, merged, of_one_source, to_tree
from pretrain.training.stages.stacking import stacked

if TYPE_CHECKING:
    from pretrain.data.batches import Batches

_PATH = "trainer.stages"


@dataclass(frozen=True)
class Span:
    """The steps of a run that one trainer takes.

    Attributes:
      start, end: after how many steps of the run it begins and ends.
      num_hidden_layers: of the encoder in these steps, where a stage says how many.
    """

    start: int
    end: int
    num_hidden_layers: int | None = None

    def enter(self, arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The state of these steps that a state of theirs, or of the step `start` of the stage before, makes."""
        return arrays if self.num_hidden_layers is None else stacked(arrays, self.num_hidden_layers)


@contextlib.contextmanager
def of_stage(number: int, config: ExperimentConfig, trains: bool = True) -> Iterator[None]:
    """Errors inside say which stage (from 0) they are about, where the configuration has stages and the run trains."""
    try:
        yield
    except (UsageError, DataError) as error:
        if not config.trainer.stages or not trains or str(error).startswith(_PATH):
            raise
        raise type(error)(f"{_PATH}[{number}]: {error}") from None


def stage_configs(config: ExperimentConfig) -> list[ExperimentConfig]:
    """The configuration of each stage, with its steps or epochs; of a run without stages its own.

    UsageError, with the dotted path, for what a stage cannot change.
    """
    stages = config.trainer.stages
    _refuse_depths(config)
    return [_stage_config(config, stage, number) for number, stage in enumerate(stages)] or [config]


def _stage_config(config: ExperimentConfig, stage: StageConfig, number: int) -> ExperimentConfig:
    trainer, task = config.trainer, config.task
    trainer = replace(
        trainer,
        train_steps=stage.train_steps,
        num_train_epochs=stage.num_train_epochs or trainer.num_train_epochs,
        gradient_accumulation_steps=stage.gradient_accumulation_steps or trainer.gradient_accumulation_steps,
    )
    task = replace(task, train_data=_stage_data(task.train_data, stage, number))
    if stage.num_hidden_layers is not None:
        task = replace(task, model=replace(task.model, encoder=_of_depth(task.model.encoder, stage.num_hidden_layers)))
    return replace(config, task=task, trainer=trainer)


def _stage_data(data: DataConfig, stage: StageConfig, number: int) -> DataConfig:
    """The data of a stage: task.train_data with its changes, and, where they say no seed, one of its own.

    With the seed of the stage before, a stage on the same records would see the same examples in the same order again.
    """
    place = Place(path=f"{_PATH}[{number}].train_data")
    changes = {"seed": data.seed + number} | stage.train_data
    tree = of_one_source(merged(type(data), to_tree(data), changes, place), changes)
    return build(type(data), tree, str(place))


def _of_depth(encoder: Choice, layers: int) -> Choice:
    return Choice(encoder.type, replace(encoder.options, num_hidden_layers=layers))


def _refuse_depths(config: ExperimentConfig) -> None:
    """UsageError for depths that are not given for all stages, or fall, or that the encoder or the optimizer cannot have."""
    depths = [stage.num_hidden_layers for stage in config.trainer.stages]
    given = [depth for depth in depths if depth is not None]
    if not given:
        return
    where = f"{_PATH}[{depths.index(None) if None in depths else 0}].num_hidden_layers"
    if None in depths:
        raise UsageError(f"{where} is missing: other stages have it. Give it for every stage, or for none.")
    encoder = getattr(getattr(config.task, "model", None), "encoder", None)
    if encoder is None or "num_hidden_layers" not in {each.name for each in fields(encoder.options)}:
        raise UsageError(f"{where}: the model has no encoder with an option of this name. Leave it out.")
    for number, (before, after) in enumerate(itertools.pairwise(given), 1):
        if after < before:
            raise UsageError(
                f"{_PATH}[{number}].num_hidden_layers is {after}, and the stage before has {before}: layers are added, never "
                f"taken away. Give {before} or more."
            )
    if config.trainer.optimizer_config.freeze and grows(config):
        raise UsageError(
            f"trainer.optimizer_config.freeze: weights cannot be frozen in a run whose layers grow ({where}). Leave one of "
            "them out."
        )


def grows(config: ExperimentConfig) -> bool:
    """Whether a stage has more layers than the one before."""
    return len({stage.num_hidden_layers for stage in config.trainer.stages}) > 1


def declared_steps(config: ExperimentConfig) -> int | None:
    """Steps of the run as far as the configuration alone says them; None: its data decides."""
    steps = [stage.train_steps for stage in config.trainer.stages]
    if not steps or config.trainer.train_steps is not None:
        return config.trainer.train_steps
    declared = [each for each in steps if each is not None]
    return sum(declared) if len(declared) == len(steps) else None


def count_steps(config: ExperimentConfig, data: "Batches") -> int:
    """Steps on data: trainer.train_steps, or those of an epoch times the epochs. UsageError where that is 0."""
    trainer = config.trainer
    steps = trainer.train_steps if trainer.train_steps is not None else data.steps_per_epoch * trainer.num_train_epochs
    if steps < 1:
        raise UsageError(
            f"0 steps: {data.num_examples} examples, global_batch_size {data.batch_size}, num_train_epochs "
            f"{trainer.num_train_epochs}, train_steps {trainer.train_steps}."
        )
    return steps


def spans(config: ExperimentConfig, steps: Sequence[int]) -> list[Span]:
    """Where each stage begins and ends.

    Args:
      config: of the run.
      steps: of each stage.

    UsageError where trainer.train_steps says another sum.
    """
    stages, given, total = config.trainer.stages, config.trainer.train_steps, sum(steps)
    if stages and given not in (None, total):
        raise UsageError(
            f"trainer.train_steps is {given}, and the stages have {' + '.join(map(str, steps))} = {total} steps. Leave "
            f"{opt('num_train_steps')} out, or change the stages' train_steps."
        )
    depths = [stage.num_hidden_layers if grows(config) else None for stage in stages] or [None]
    ends = np.cumsum(steps).tolist()
    return [Span(end - own, end, depth) for own, end, depth in zip(steps, ends, depths, strict=True)]


def stored_depth(config: ExperimentConfig, info: Mapping[str, Any]) -> ExperimentConfig:
    """The configuration with the layers of the stage that has written a checkpoint; as it is where no stage has so many."""
    encoder = info.get("encoder")
    options = encoder.get("options") if isinstance(encoder, dict) else None
    depth = options.get("num_hidden_layers") if isinstance(options, dict) else None
    if depth is None or depth not in [stage.num_hidden_layers for stage in config.trainer.stages]:
        return config
    model = replace(config.task.model, encoder=_of_depth(config.task.model.encoder, depth))
    return replace(config, task=replace(config.task, model=model))
