"""What a task is: everything about what is learned, nothing about how steps are taken (optimizer, devices, engine).

A task sums. `losses` returns the SUM over examples of each loss term, and of each statistic; `denominators` computes, from
the data alone, what the whole step's sums are divided by. So micro-steps and replicas add up to exactly the step that one
device would take on the whole batch. A term T has the statistic "T_loss" (its sum) and, after division, a metric "T_loss".
"""

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.report import LoadReport
from pretrain.data.batches import Batches
from pretrain.encoders.model import EncoderModel
from pretrain.evaluation.report import Report
from pretrain.layers.tensors import Tensor
from pretrain.settings.data_section import DataConfig
from pretrain.settings.schema import TaskConfig

_log = logging.getLogger(__name__)


def is_packed(batch: Mapping[str, Tensor]) -> bool:
    """Whether the rows of a batch hold several examples each (pretrain.data.packing)."""
    return "sequence_ids" in batch


class Task(ABC):
    """Base class. A subclass has at least build_model, build_inputs, denominators, losses and build_metrics, and declares metrics.

    A batch is a dict of arrays whose first axis counts examples: numpy on the host (denominators), the backend's tensors
    in losses and steps. Examples whose "is_real_example" is 0 fill an evaluation's last batch and must count nowhere.
    """

    config_class: type[TaskConfig] = TaskConfig
    """Dataclass of the task's configuration, TaskConfig or a subclass."""

    def __init__(self, config: TaskConfig):
        self.config = config

    @abstractmethod
    def build_model(self, seed: int = 0) -> EncoderModel:
        """A built model whose initial weights follow from the seed."""

    @abstractmethod
    def build_inputs(self, config: DataConfig) -> Batches:
        """Batches of the training or validation data: a pretrain.data.Batches."""

    @abstractmethod
    def denominators(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.float32]:
        """What the sum of each loss term is divided by, for the whole step's batch; never 0."""

    @abstractmethod
    def losses(self, model: EncoderModel, batch: Mapping[str, Tensor], training: bool) -> tuple[dict, dict]:
        """({term: sum over examples}, {statistic: sum over examples}), scalars in float32."""

    @abstractmethod
    def build_metrics(self) -> dict[str, tuple[str, str]]:
        """Metric -> (statistic above, statistic below the line). Each loss term has one, named "<term>_loss"."""

    def metrics(self) -> dict[str, Literal["higher", "lower"]]:
        """Metric of an evaluation -> which of its values are better; metrics without a better side are left out.

        Where this is {}, and for metrics that a subclass adds without declaring them, the configuration must say
        trainer.best_checkpoint_metric_comp, and names are checked at the first evaluation.
        """
        return {}

    def declares_all_metrics(self) -> bool:
        """Whether no class below the one that declares metrics() computes other metrics."""
        classes = type(self).__mro__

        def depth(name: str) -> int:
            return next(at for at, cls in enumerate(classes) if name in vars(cls))

        return depth("metrics") <= min(depth("build_metrics"), depth("reduce_aggregated_logs"))

    def initialize(self, model: EncoderModel) -> LoadReport | None:
        """Loads config.init_checkpoint, if any; returns the LoadReport of what matched."""
        if not self.config.init_checkpoint:
            return None
        from pretrain.converters import assign, read_checkpoint

        encoder = getattr(getattr(self.config, "model", None), "encoder", None)
        checkpoint, notes = self.prepare_checkpoint(read_checkpoint(self.config.init_checkpoint, encoder))
        report = assign(model, checkpoint, encoder)
        report.log()
        for note in notes:
            _log.info(f"  note: {note}")
        return report

    def prepare_checkpoint(self, checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
        """The pretrain.converters.Checkpoint as this task starts from it, and notes for the user (a list of str)."""
        return checkpoint, []

    def finish(self, model: EncoderModel, model_dir: str | os.PathLike) -> None:  # noqa: B027 (most tasks leave nothing)
        """Called at the end of training: writes what belongs in the model_dir in addition to checkpoints."""

    def loss(
        self, model: EncoderModel, batch: Mapping[str, Tensor], denominators: Mapping[str, Any], training: bool = True
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """(the loss of a step or its share of a micro-step, statistics), to differentiate."""
        sums, statistics = self.losses(model, batch, training)
        total = sum(value / denominators[term] for term, value in sums.items())
        return total, _with_loss_statistics(sums, statistics)

    def train_step(
        self, context: Any, batch: Mapping[str, Tensor], denominators: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """One optimizer update; returns the statistics. Override it to change what is done with the gradients.

        Args:
          context: the engine's: value_and_grad(fn, batch, denominators) -> ((loss, statistics), gradients), with fn called
            as loss above, over all micro-steps and replicas; and apply(gradients), which clips and updates.
        """
        (_, statistics), gradients = context.value_and_grad(self.loss, batch, denominators)
        context.apply(gradients)
        return statistics

    def validation_step(self, model: EncoderModel, batch: Mapping[str, Tensor]) -> tuple[dict, dict]:
        """(statistics, outputs per example by name, for metrics that need all of them at once)."""
        return _with_loss_statistics(*self.losses(model, batch, training=False)), {}

    def aggregate_logs(self, state: dict | None, statistics: Mapping, outputs: Mapping | None = None) -> dict:
        """Adds a step's statistics to `state` (None at the start), on the host, in float64; returns it."""
        state = {} if state is None else state
        for name, value in statistics.items():
            state[name] = state.get(name, 0.0) + float(value)
        return state

    def reduce_aggregated_logs(self, state: Mapping) -> dict[str, float]:
        """The metrics of all steps in `state`, each divided once; "loss" is the sum of the terms' losses."""
        metrics = {
            metric: state[above] / state[below] if state[below] else 0.0
            for metric, (above, below) in self.build_metrics().items()
        }
        return {"loss": sum(value for name, value in metrics.items() if name.endswith("_loss"))} | metrics

    def report(self, state: Mapping, most: int) -> Report | None:
        """What the evaluation in `state` tells besides its metrics: scores of classes, and `most` errors; None: nothing."""
        return None


def _with_loss_statistics(sums: Mapping[str, Tensor], statistics: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {**{f"{term}_loss": value for term, value in sums.items()}, **statistics}
