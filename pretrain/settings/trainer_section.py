"""The section trainer: how long to train, the optimizer, the stages of a run, and what happens between steps."""

from dataclasses import dataclass, field
from typing import Any, Literal

from pretrain.registry import OPTIMIZERS, SCHEDULES, WARMUPS
from pretrain.settings.config import Config
from pretrain.settings.fields import MOST, MOST_EXAMPLES, MOST_LAYERS, Choice, at_least, choice, duration


@dataclass
class EmaConfig(Config):
    """A moving average of the weights over the steps, kept next to them."""

    average_decay: float = at_least(0, 0.99, 1)
    """Share of the average that stays, each step."""
    dynamic_decay: bool = True
    """Lower it in the first steps from start_step on, to at most (1 + m) / (10 + m) in the step m steps after that."""
    start_step: int = at_least(0, 0)
    """Before this step the average is the weights themselves."""
    evaluate: bool = True
    """Evaluations, the best checkpoint, exports and whatever starts from the run use the average; false: the weights as trained."""


@dataclass
class OptimizationConfig(Config):
    """Optimizer, learning rate, and which weights learn."""

    optimizer: Choice = choice(OPTIMIZERS, "adamw")
    """What makes a step of a gradient."""
    learning_rate: Choice = choice(SCHEDULES, "polynomial")
    """The rate of each step."""
    warmup: Choice | None = choice(WARMUPS, "linear")
    """How the rate rises in the first steps; null: it does not."""
    ema: EmaConfig | None = None
    """Average the weights over the steps; null: not at all."""
    freeze: list[str] = field(default_factory=list)
    """Regular expressions of weights that stay as they are, e.g. encoder/embeddings, layer_0/. They take no optimizer state."""
    layer_decay: float = at_least(0, 1.0, 1)
    """Learning rate of each layer as a share of that of the layer above it; heads have the rate itself. 1: all have it."""
    unfreeze_steps: list[int] = field(default_factory=list, metadata={"bounds": (0, MOST)})
    """Steps at which the layers begin to learn: the highest, the one below it, ...; then those that are left. Empty: at once."""


@dataclass
class StageConfig(Config):
    """A part of a run with data or a depth of its own."""

    train_steps: int | None = at_least(1, None)
    """Steps of the stage; null: those of an epoch of its own data, times num_train_epochs."""
    num_train_epochs: int | None = at_least(1, None)
    """Null: trainer.num_train_epochs."""
    train_data: dict[str, Any] = field(default_factory=dict)
    """What differs from task.train_data: input_path, global_batch_size, seq_length, masked_lm_prob, ..."""
    gradient_accumulation_steps: int | None = at_least(1, None, MOST_EXAMPLES)
    """Null: trainer.gradient_accumulation_steps."""
    num_hidden_layers: int | None = at_least(1, None, MOST_LAYERS)
    """Layers of the encoder; a stage with more than the one before stacks copies of its layers. Null: as task.model has it."""


@dataclass
class TrainerConfig(Config):
    """How long to train, and what to do between steps."""

    type: str = field(default="default", metadata={"names_part": True})
    """Name in the registry of trainers, or module:attribute."""
    optimizer_config: OptimizationConfig = field(default_factory=OptimizationConfig)
    train_steps: int | None = at_least(1, None)
    """Steps in all; null: those of an epoch of the training data, times num_train_epochs."""
    num_train_epochs: int = at_least(1, 1)
    """Passes over the training data, where train_steps is null."""
    stages: list[StageConfig] = field(default_factory=list)
    """Parts of the run, one after the other, each with data or a depth of its own; empty: it is one."""
    steps_a_call: int | None = at_least(1, None)
    """Steps that one call takes, at most, before it ends as at the end of the run; null: all that are left."""
    max_time: float | None = duration(1, None)
    """Time of one call, e.g. 2h, in which its last checkpoint is written; null: any."""
    preemption_deadline: float | None = duration(1, None)
    """Time, e.g. 30s, from SIGTERM to the checkpoint; a run that cannot keep it leaves without one. Null: any."""
    gradient_accumulation_steps: int = at_least(1, 1, MOST_EXAMPLES)
    """Micro-steps a step: the number of parts that a batch is cut into, one after the other."""
    steps_per_loop: int = at_least(1, 10)
    """Steps between two looks at the loss (the device runs ahead of the host in between)."""
    summary_interval: int = at_least(1, 10)
    """Steps between two lines of metrics.jsonl and TensorBoard; a multiple of steps_per_loop."""
    checkpoint_interval: int = at_least(1, 1000)
    """Steps between two checkpoints; one more is written at the end."""
    async_checkpoints: bool = False
    """Write checkpoints while training continues; a copy of weights and optimizer waits in memory meanwhile."""
    max_to_keep: int = at_least(1, 5)
    """Checkpoints that stay: the newest ones."""
    validation_interval: int = at_least(1, 1000)
    """Steps between two evaluations, in mode train_and_eval; one more is made at the end."""
    validation_steps: int = at_least(-1, -1)
    """Batches of an evaluation; -1: all."""
    evaluation_errors: int = at_least(0, 100, 10_000)
    """Examples that the report of an evaluation lists: the most certain of the wrong ones, or those that are farthest off."""
    loss_upper_bound: float | None = at_least(0, None)
    """Highest loss of a step; one above it is as one that is not a number. Null: any."""
    recovery_begin_steps: int = at_least(0, 0)
    """The first step for which loss_upper_bound counts."""
    recovery_max_trials: int = at_least(-1, 0, 1000)
    """How often the run may return to a checkpoint because of its loss, and skip the batches since then; 0: it ends with an error;
    -1: as 0, and loss_upper_bound does not count."""
    best_checkpoint_export_subdir: str = ""
    """Separate folder in the model_dir for the best checkpoint alone; empty: none is kept."""
    best_checkpoint_eval_metric: str = "loss"
    """The metric of evaluations by which the best checkpoint is kept, and early stopping judges."""
    best_checkpoint_metric_comp: Literal["higher", "lower"] | None = None
    """Which value of the metric is better; null: as the task declares it."""
    continuous_eval_timeout: float = duration(1, 3600.0)
    """Time, e.g. 1h, without a new checkpoint after which the modes continuous_eval and continuous_train_and_eval end."""
    early_stopping_patience: int | None = at_least(1, None)
    """Stop after this many evaluations in a row without a better best_checkpoint_eval_metric; null: never."""
    hypertune_metric: str = ""
    """Report this metric of every evaluation to a hyperparameter tuning of Vertex AI; empty: none."""
    export_formats: str | list[str] = ""
    """Write the trained model in these formats at the end, e.g. hf,savedmodel, each into its folder of export_dir; empty: none."""
    export_dir: str = "export"
    """Folder in the model_dir, or another one (a path, gs://, s3://)."""
    log_example_digest: bool = False
    """Write a digest of the examples of each step to metrics.jsonl."""
    tensorboard: bool = True
    """Write the metrics for TensorBoard, too."""
