"""The Model Garden's name for the trainer of a run with stages."""

from typing import Any

from nlpdata.errors import UsageError
from pretrain.settings.schema import ExperimentConfig
from pretrain.training.trainer import Trainer


class ProgressiveTrainer(Trainer):
    """The default trainer, which takes the stages of any run; by this name it is not without stages.

    Arguments: see Trainer. UsageError where trainer.stages is empty.
    """

    def __init__(self, config: ExperimentConfig, *arguments: Any, **options: Any):
        if not config.trainer.stages:
            raise UsageError(
                "trainer.type is progressive, and trainer.stages is empty. List the stages, e.g. "
                "[{train_steps: 900, train_data: {seq_length: 128}}, {train_steps: 100}], or use type default."
            )
        super().__init__(config, *arguments, **options)
