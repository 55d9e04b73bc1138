"""The moving average of the weights over the steps of a run (Polyak and Juditsky, 1992), as the TensorFlow Model Garden has it.

after step n:   average = decay * average + (1 - decay) * weight
decay:          average_decay; with dynamic_decay at most (1 + m) / (10 + m), m steps after start_step; 0 before start_step

The first step's decay is 0, as in Keras's use_ema: the average starts at the weights after it, not at zeros.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from pretrain.settings.trainer_section import EmaConfig


class Average:
    """The averages of some variables, which an engine moves once a step.

    Args:
      config: how it decays.
      variables: what is averaged.

    Attributes:
      variables: the averages, in the order of what is averaged.
      evaluate: whether evaluations use them.
    """

    def __init__(self, config: EmaConfig, variables: Sequence[keras.Variable]):
        self._config, self.evaluate = config, config.evaluate
        self.variables = [
            keras.Variable(
                ops.convert_to_tensor(variable),
                dtype=variable.dtype,
                trainable=False,
                aggregation="only_first_replica",  # all replicas compute the same
                name=variable.name,
            )
            for variable in variables
        ]

    def decay(self, step: Any) -> Any:
        """The share of the average that stays after the step of that number (0 is the first), a float32 scalar."""
        config, taken = self._config, ops.cast(step, "float32") + 1.0
        since = taken - config.start_step
        decay = ops.convert_to_tensor(config.average_decay, "float32")
        if config.dynamic_decay:
            decay = ops.minimum(decay, (1.0 + since) / (10.0 + since))
        return ops.where(ops.logical_or(since < 0.0, taken <= 1.0), 0.0, decay)

    def moved(self, averages: Sequence[Any], weights: Sequence[Any], step: Any) -> list[Any]:
        """The averages after a step.

        Args:
          averages: before the step, one tensor for each variable.
          weights: after the step.
          step: its number, 0 for the first.
        """
        rest = 1.0 - self.decay(step)
        return [
            average - ops.cast(rest, average.dtype) * (average - weight)
            for average, weight in zip(averages, weights, strict=True)
        ]
