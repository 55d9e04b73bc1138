"""Options of the tasks, without Keras: reading a configuration must not import it."""

from dataclasses import dataclass

from pretrain.config import TaskConfig


@dataclass(frozen=True)
class PretrainingConfig(TaskConfig):
    use_next_sentence_label: bool = True
    """Learn from next_sentence_labels too (next sentence or sentence order); false where records have none."""
