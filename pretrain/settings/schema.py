"""The typed configuration of an experiment: what to learn (task), how to train (trainer), on what (runtime).

Field names are the TensorFlow Model Garden's where it has them, so that its YAML files load. tree.py makes these dataclasses from
files and overrides.
"""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from nlpdata.errors import UsageError
from nlpdata.registry import users_code
from pretrain.registry import ENCODERS, EXPERIMENTS, TASKS
from pretrain.settings.config import Config
from pretrain.settings.data_section import DataConfig, EvalDataConfig
from pretrain.settings.dialects.garden import other_experiment
from pretrain.settings.fields import MOST_SEED, Choice, at_least, choice, duration
from pretrain.settings.trainer_section import StageConfig, TrainerConfig

KINDS = ("classification", "regression", "multilabel")
"""What a classifier's logits can be: scores of classes, a number, scores of labels of which several may hold."""


def own_modules(config: object) -> set[str]:
    """The modules of the parts that a configuration (or a section of it) names as module:attribute."""
    if isinstance(config, Choice):
        named = {config.type.partition(":")[0]} if ":" in config.type else set()
        return named | own_modules(config.options)
    if isinstance(config, list):
        return {module for item in config for module in own_modules(item)}
    if not is_dataclass(config):
        return set()
    found = set()
    if isinstance(config, StageConfig) and ":" in str(function := config.train_data.get("input_function", "")):
        found.add(str(function).partition(":")[0])
    for each in fields(config):
        value = getattr(config, each.name)
        if each.metadata.get("names_part") and ":" in value:
            found.add(value.partition(":")[0])
        found |= own_modules(value)
    return found


@dataclass
class ModelConfig(Config):
    """Encoder and what all tasks' heads share."""

    encoder: Choice = choice(ENCODERS, "bert")
    """The transformer, and its sizes."""


@dataclass
class TaskConfig(Config):
    """What every task has; a task extends it with its own fields and declares it as its `config_class`."""

    init_checkpoint: str = ""
    """Start from these weights: a checkpoint of any supported format."""
    allow_other_tokenizer: bool = False
    """Learn from records of another tokenizer than that of the weights, whose ids then mean other words."""
    model: ModelConfig = field(default_factory=ModelConfig)
    train_data: DataConfig = field(default_factory=DataConfig)
    validation_data: EvalDataConfig = field(default_factory=EvalDataConfig)

    def metrics(self) -> dict[str, Literal["higher", "lower"]]:
        """What Task.metrics declares, as far as it is known without data and without Keras; {}: not at all."""
        return {}


@dataclass
class RuntimeConfig(Config):
    """What the run computes on, and in which precision."""

    distribution_strategy: Literal["auto", "off", "one_device", "mirrored", "multi_worker_mirrored", "tpu"] = "auto"
    """auto mirrors over the GPUs that are there; off and one_device use one."""
    num_replicas: int | None = at_least(1, None, 1 << 16)
    """Devices to use; null: all. On CPU, logical devices are made for more than one."""
    tpu: str = ""
    """Name or address of the TPU."""
    mixed_precision_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """float16 is trained with loss scaling."""
    loss_scale: Literal["dynamic"] | float = "dynamic"
    """For float16: dynamic, or a fixed factor."""
    enable_xla: Literal["auto"] | bool = "auto"
    """On TensorFlow, compile the training step with XLA; auto: on one GPU, unless XLA cannot compile it."""
    fused_kernels: Literal["auto"] | bool = "auto"
    """On JAX, in bfloat16 or float16 on NVIDIA GPUs: attention, layer norm, activation and dropout in kernels of their own; auto:
    on the GPUs on which they were compared with the plain path (compute capability 9.0)."""
    gradient_checkpointing: bool = False
    """Keep only the input of each layer and compute the layer again for its gradient: larger batches, slower steps."""
    seed: int = at_least(0, 12345, MOST_SEED)
    """Seed of initial weights and dropout."""
    host_timeout: float = duration(1, 1800.0)
    """Time, e.g. 30m, within which several hosts must meet, and the first one begin to make records; the others end after it."""


@dataclass(kw_only=True)
class ExperimentConfig(Config):
    """A whole experiment."""

    task_type: str = field(default="", metadata={"names_part": True})
    """Name in the registry of tasks, or module:attribute; empty: the registered task whose config_class `task` is of."""
    task: Any = field(metadata={"registry": TASKS, "type_field": "task_type"})
    """Instance of that task's config_class, or a dict of its fields."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)

    def __post_init__(self) -> None:
        self.task_type = self.task_type or _task_of(type(self.task))


def _task_of(config_class: type) -> str:
    """The registered task that is configured by this class. UsageError where there is none."""
    for name in sorted(TASKS, key=TASKS.has_light_options, reverse=True):  # others import Keras
        if TASKS.config_class(name) is config_class:
            return name
    raise UsageError(
        f"task_type is missing: {config_class.__name__} is the config_class of no registered task. Give its name, or "
        f"module:attribute. Registered: {', '.join(TASKS.names())}."
    )


def registered(name: str) -> ExperimentConfig:
    """The registered experiment, or that at module:attribute. UsageError for what makes no configuration."""
    if name not in EXPERIMENTS and (instead := other_experiment(name)):
        raise UsageError(f"the Model Garden's experiment {name!r} is not available here. {instead}")
    function = EXPERIMENTS.get(name)
    with users_code(f"experiment {name!r} fails"):
        config = function()
        if isinstance(config, dict):
            config = ExperimentConfig(**config)
    if not isinstance(config, ExperimentConfig):
        raise UsageError(
            f"experiment {name!r} returns {type(config).__name__}. It must be a function of no arguments that returns an "
            "ExperimentConfig, or its fields as a dict."
        )
    return config
