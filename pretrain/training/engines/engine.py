"""What an engine is: it takes steps on devices. The trainer above it does not know the backend, nor the task inside it the devices.

A step, in any engine:
  1. each replica cuts its share of the batch into micro-batches and sums, over them, the gradients of
     task.loss(model, micro_batch, denominators); the denominators are those of the whole step's batch;
  2. gradients and statistics are summed over replicas;
  3. the summed gradients are clipped by their global norm, and the optimizer applies them;
  4. the average of the weights moves, where the run keeps one.
So neither the number of replicas nor that of micro-steps changes the step, but for rounding. Dropout depends on
(runtime.seed, step, replica, micro-step) alone: the state of a run is its weights, the optimizer's variables and the step.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np


class Context(Protocol):
    """What Task.train_step gets: the two things that only an engine can do."""

    def value_and_grad(
        self, fn: Callable, batch: Mapping[str, Any], denominators: Mapping[str, Any]
    ) -> tuple[tuple[Any, dict[str, Any]], list[Any]]:
        """((loss, statistics), gradients) of fn(model, micro_batch, denominators), summed over micro-steps and replicas."""

    def apply(self, gradients: list[Any]) -> None:
        """Clips the gradients (a list, in the order of model.trainable_variables) and updates the weights."""


class Engine(ABC):
    """One model on some devices.

    Attributes:
      model: the model, as the task built it.
      device: what kind of device it computes on, for people, e.g. "CPU" or "GPU (NVIDIA H200)"; "": not known.
      replicas: number of copies of the model, over all hosts.
      host: (index, count): index of this process, and number of processes.
      max_lengths: most lengths that trimmed batches may have (None: any number), where each is compiled for itself.
    """

    model: Any
    device: str = ""
    replicas: int
    host: tuple[int, int]
    max_lengths: int | None = None

    @staticmethod  # noqa: B027
    def prepare() -> None:
        """Called before a run makes records or reads any: a library that the user's environment stops is stopped by it here."""

    @staticmethod
    def facts_of_host() -> dict[str, Any]:
        """What of this host must be the same on all hosts of a run, a tree in values of JSON; known before hosts connect."""
        return {}

    def place(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
        """Starts to copy a batch to the devices, in the thread that prefetches; steps accept what this returns, too."""
        return batch

    @abstractmethod
    def train_step(
        self, step: int, batch: Mapping[str, np.ndarray], denominators: Mapping[str, float]
    ) -> dict[str, Any]:
        """Takes a step (counted from 0) on this host's part of its batch.

        Returns the sums of statistics over the whole batch, as values that float() waits for.
        """

    @abstractmethod
    def validation_step(self, batch: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """(sums of statistics over the whole batch, outputs of this host's examples, in the order of the batch).

        Computed with the average of the weights, where the run keeps one for evaluations.
        """

    @abstractmethod
    def learning_rate(self, step: int) -> float:
        """The rate that the step of that number uses."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """All that a later process needs to resume: "model/<path>", "optimizer/<path>", "average/<path>", "engine/<name>".

        No later step changes the arrays.
        """

    @abstractmethod
    def load_state(self, state: Mapping[str, np.ndarray], weights_only: bool = False) -> None:
        """Sets what state() returned; with weights_only, only "model/...". DataError where names or shapes differ."""

    @abstractmethod
    def trace(self, batch: Mapping[str, np.ndarray], denominators: Mapping[str, float]) -> None:
        """Builds the training step for batches of this shape, and takes none."""

    @abstractmethod
    def compile(self, batch: Mapping[str, np.ndarray], denominators: Mapping[str, float]) -> None:
        """Compiles the training step too; the state is afterwards what it was."""

    def highest(self, number: int) -> int:
        """The highest of the hosts' numbers, 0 to 63: what one host decides to do, all do. Every host calls it at the same step."""
        return number

    def close(self) -> None:  # noqa: B027 (an engine may have nothing to release)
        """Called once a run has ended: lets go of what would outlive it, so that a sweep's runs do not add up."""
