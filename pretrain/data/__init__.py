"""Records to batches: which examples a step sees is a pure function of (seed, step), so a run restarts anywhere at once.

batches = pretraining_batches(config.task.train_data, config.task)
batches.num_examples, batches.steps_per_epoch
batches.batch(123456)                    # dict of numpy arrays: the batch of that step, without those before it
"""

from pretrain.data.batches import Batches, example_digest, prefetch
from pretrain.data.examples import Examples
from pretrain.data.pretraining import pretraining_batches

__all__ = ["Batches", "Examples", "example_digest", "prefetch", "pretraining_batches"]
