"""A dry run: a few steps in memory, for the time, the memory and the disk that the whole run would take."""

import statistics
import time
from collections.abc import Mapping
from typing import Any

from nlpdata.output.estimate import peak_memory
from pretrain.data.batches import Batches
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.tasks.task import Task
from pretrain.training.engines.engine import Engine

BATCHES = 3


def rehearse(
    engine: Engine, task: Task, data: Batches, step: int, steps: int, trainer: TrainerConfig
) -> dict[str, float]:
    """Takes steps on the next batches, each twice, of which the first may compile. The engine's state is another one afterwards;
    nothing is written.

    Args:
      engine, task: of the run; the weights are those from which it would continue.
      data: this host's training data.
      step: steps that were taken before.
      steps: steps that are to be taken, at least 1.
      trainer: says when checkpoints are written, and how many are kept.

    Returns "step", "steps" and "examples" (of an epoch); "seconds_a_step" (median), "seconds" (of all steps, with the first ones'
    compiling; evaluations and checkpoints come on top); "memory_bytes" (the most that this process has held; without a GPU's);
    "checkpoint_bytes" and "output_bytes" (of the checkpoints that are kept).
    """
    first, again = [], []
    for number in range(step, step + min(BATCHES, steps)):
        batch = data.batch(number)
        first.append(_seconds(engine, task, number, batch))
        again.append(_seconds(engine, task, number, batch))
    a_step = statistics.median(again)
    size = sum(array.nbytes for array in engine.state().values())
    kept = min(trainer.max_to_keep, -(-steps // trainer.checkpoint_interval))
    memory = peak_memory()
    return {
        "step": step,
        "steps": steps,
        "examples": data.num_examples,
        "seconds_a_step": a_step,
        "seconds": sum(first) - sum(again) + a_step * steps,
        **({} if memory is None else {"memory_bytes": memory}),
        "checkpoint_bytes": size,
        "output_bytes": size * kept,
    }


def _seconds(engine: Engine, task: Task, step: int, batch: Mapping[str, Any]) -> float:
    begun = time.perf_counter()
    denominators: Mapping[str, Any] = task.denominators(batch)
    sums = engine.train_step(step, engine.place(batch), denominators)
    for value in sums.values():
        float(value)  # waits for the device
    return time.perf_counter() - begun
