"""The typed configuration of an experiment: what to learn (task), how to train (trainer), on what (runtime).

Field names are the TensorFlow Model Garden's where it has them, so that its YAML files load. A tagged choice is written
as there: `encoder: {type: bert, bert: {hidden_size: 256}}`; here it is a Choice whose options are the dataclass that
the chosen part declares as its `config_class`. tree.py makes these dataclasses from files and overrides.
"""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from nlpdata.errors import UsageError
from nlpdata.registry import users_code
from pretrain.registry import ENCODERS, EXPERIMENTS, OPTIMIZERS, SCHEDULES, TASKS, WARMUPS, Registry
from pretrain.settings.config import Config
from pretrain.settings.dialects.garden import other_experiment
from pretrain.settings.values import parse_duration

KINDS = ("classification", "regression", "multilabel")
"""What a classifier's logits can be: scores of classes, a number, scores of labels of which several may hold."""


@dataclass(frozen=True)
class Choice:
    """One of a registry's parts, with its options.

    Attributes:
      type: name in the registry, or "module:attribute".
      options: instance of the part's `config_class`.
    """

    type: str
    options: Any


def choose(registry: Registry, type: str, **options: Any) -> Choice:
    """The part of that name, with these options and defaults for the others."""
    return Choice(type, registry.config_class(type)(**options))


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


def choice(registry: Registry, type: str, **options: Any) -> Any:
    """A dataclass field that holds a Choice of `registry`; by default `type` with these options."""
    return field(default_factory=lambda: choose(registry, type, **options), metadata={"registry": registry})


def names_part(registry: Registry, default: str) -> Any:
    """A dataclass field with the name of one of a registry's parts, or module:attribute; the part takes no options of its own."""
    return field(default=default, metadata={"names_part": registry})


def check_stored_parts(options: Any) -> None:
    """UsageError where options that a file gives name a part that is neither registered nor of a module that the user has named."""
    for each in fields(options):
        registry = each.metadata.get("names_part")
        if isinstance(registry, Registry):
            registry.check_stored(getattr(options, each.name))


MOST = 1 << 53  # of steps, epochs and the like: a float holds every whole number up to it
MOST_TOKENS = 65536  # of an example
MOST_EXAMPLES = 1 << 20  # of a batch
MOST_SEED = (1 << 63) - 1
MOST_LAYERS = 1 << 10


def at_least(minimum: float, default: float | None, most: float = MOST) -> Any:
    """A dataclass field for a number of at least `minimum` and at most `most`."""
    return field(default=default, metadata={"bounds": (minimum, most)})


def duration(minimum: float, default: float | None) -> Any:
    """A dataclass field for seconds, of at least `minimum`, which may be given as a time: 90s, 30m, 2h."""
    return field(default=default, metadata={"bounds": (minimum, MOST), "parse": parse_duration})


@dataclass
class DataConfig(Config):
    """Records to read, and how to make batches of them."""

    input_path: str | list[str] = ""
    """Record files: a path, a pattern, a list, or several separated by commas; toy:nsp makes small ones itself."""
    input_function: str = field(default="", metadata={"names_part": True})
    """In place of input_path: module:function that returns examples (pretrain.data.Examples); it is called with this section."""
    meta_path: str = ""
    """Meta file of the records; empty: found next to them."""
    global_batch_size: int = at_least(1, 32, MOST_EXAMPLES)
    """Examples a step, all replicas and micro-steps together."""
    is_training: bool = True
    """Shuffled anew each epoch; else in file order, once."""
    drop_remainder: bool = True
    """Leave the last, smaller batch of an epoch out. Without training it is padded and counted right instead."""
    seed: int = at_least(0, 12345, MOST_SEED)
    """Seed of the order and of dynamic masking."""
    seq_length: int | None = at_least(1, None, MOST_TOKENS)
    """Expected length of the records, null: theirs; of text, the length to make (512)."""
    max_predictions_per_seq: int | None = at_least(1, None, MOST_TOKENS)
    """Expected predictions a record; with dynamic masking, how many to make. Null takes the meta file's."""
    masked_lm_prob: float | None = at_least(0, None, 1)
    """Text and dynamic masking only: share of the tokens to predict. Null takes the meta file's; evaluation uses 0.15."""
    invert_mask: bool = False
    """The input_mask of these (foreign) records is 1 on padding."""
    trim_padding: bool = False
    """Cut each batch to its longest example, up to a multiple of 8, for devices that need no fixed shapes."""
    group_by_length: bool = False
    """Training only: batches of examples of about one length, cut as with trim_padding. All lengths are read at the start."""
    pack_sequences: bool = False
    """Put the examples of a batch into as few rows as hold them, each attending to itself alone: the same step without padding."""
    remote_cache_gb: float = at_least(0.01, 8.0, 1 << 20)
    """Gigabytes (2**30 bytes) of records on gs:// or s3:// that stay on this machine's disk, at most."""
    prefetch_buffer_size: int = at_least(1, 4, 1 << 16)
    """Batches made ahead, in a thread."""

    @property
    def is_given(self) -> bool:
        """Whether it names data at all."""
        return bool(self.input_path or self.input_function)


@dataclass
class EvalDataConfig(DataConfig):
    """Records to evaluate on: in file order, the last batch padded."""

    is_training: bool = False
    drop_remainder: bool = False


@dataclass
class TextDataConfig(DataConfig):
    """Records, or a text set of TensorFlow Datasets, which is tokenized when the run starts."""

    tfds_name: str = ""
    """A prepared set in place of input_path, e.g. glue/sst2; seq_length (128) is then the length to make."""
    tfds_split: str = ""
    """Its split; empty: train, or validation to evaluate on. Several are joined by +, and evaluated each for itself, too."""
    tfds_data_dir: str = ""
    """Where it is prepared; empty: ~/tensorflow_datasets."""
    vocab_file: str = ""
    """Tokenizer for its texts: a SentencePiece model or a vocab.txt."""
    do_lower_case: bool | None = None
    """Lower-case its texts; null: as stored with the tokenizer."""
    text_fields: list[str] = field(default_factory=list)
    """Its features with the text, or the two texts; empty: found out."""
    label_field: str = ""
    """Its feature with the label; empty: label."""
    on_bad_row: Literal["fail", "skip"] = "fail"
    """A record or example whose label or text cannot be used: stop, or leave it out and count it."""
    drop_labels: str = ""
    """Leave out the examples of tfds_name with these labels, comma-separated."""
    accept_loss: bool = False
    """Use tfds_name also where most of its text is cut off or unknown to the tokenizer."""

    @property
    def is_given(self) -> bool:
        return bool(self.tfds_name) or super().is_given

    @property
    def tfds_splits(self) -> list[str]:
        """The splits that tfds_split names, by default one."""
        return [
            each.strip() for each in (self.tfds_split or ("train" if self.is_training else "validation")).split("+")
        ]


@dataclass
class EvalTextDataConfig(EvalDataConfig, TextDataConfig):
    """The same to evaluate on."""


@dataclass
class PretrainingDataConfig(DataConfig):
    """Records, or a corpus of text, of which the run makes records in its model_dir first."""

    vocab_file: str = ""
    """Tokenizer for its text: a SentencePiece model or a vocab.txt."""
    do_lower_case: bool | None = None
    """Lower-case its text; null: as stored with the tokenizer."""
    text_key: str = ""
    """Key of its text, where it is JSON lines, one document a line."""
    objective: Literal["sop", "nsp", "none"] | None = None
    """Sentence pairs to make of it; null: the encoder's own (ALBERT sop, others nsp), none without use_next_sentence_label."""
    masking: Literal["static", "dynamic"] = "static"
    """static: ten copies of the text, masked once each; dynamic: one, masked anew each epoch."""


@dataclass
class EvalPretrainingDataConfig(EvalDataConfig, PretrainingDataConfig):
    """The same to evaluate on."""


@dataclass
class QuestionDataConfig(DataConfig):
    """Records, or a file of SQuAD's form (.json, .json.gz), of which records are made when the run starts."""

    vocab_file: str = ""
    """Tokenizer for its texts: a SentencePiece model or a vocab.txt."""
    do_lower_case: bool | None = None
    """Lower-case its texts; null: as stored with the tokenizer."""
    doc_stride: int = at_least(1, 128, MOST_TOKENS)
    """Tokens between the starts of two windows."""
    query_length: int = at_least(1, 64, MOST_TOKENS)
    """Most tokens of a question."""
    version_2_with_negative: bool | None = None
    """Whether its questions may have no answer; null: as the file says."""
    on_bad_row: Literal["fail", "skip"] = "fail"
    """A question that cannot be used: stop, or leave it out and count it."""


@dataclass
class EvalQuestionDataConfig(EvalDataConfig, QuestionDataConfig):
    """The same to evaluate on."""


@dataclass
class ModelConfig(Config):
    """Encoder and what all tasks' heads share."""

    encoder: Choice = choice(ENCODERS, "bert")


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
class EmaConfig(Config):
    """A moving average of the weights over the steps, kept next to them."""

    average_decay: float = at_least(0, 0.99, 1)
    """Share of the average that stays, each step."""
    dynamic_decay: bool = True
    """Lower it in the first steps, to at most (1 + step) / (10 + step)."""
    start_step: int = at_least(0, 0)
    """Up to this step the average is the weights themselves."""
    evaluate: bool = True
    """Evaluations, the best checkpoint, exports and whatever starts from the run use the average; false: the weights as trained."""


@dataclass
class OptimizationConfig(Config):
    """Optimizer, learning rate by step, and how it warms up (null: not at all)."""

    optimizer: Choice = choice(OPTIMIZERS, "adamw")
    learning_rate: Choice = choice(SCHEDULES, "polynomial")
    warmup: Choice | None = choice(WARMUPS, "linear")
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
    """Steps of the stage; null: int(examples / global_batch_size) * num_train_epochs, of its own data."""
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
    """Steps in all; null: int(examples / global_batch_size) * num_train_epochs."""
    num_train_epochs: int = at_least(1, 1)
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
    async_checkpoints: bool = False
    """Write checkpoints while training continues; a copy of weights and optimizer waits in memory meanwhile."""
    max_to_keep: int = at_least(1, 5)
    validation_interval: int = at_least(1, 1000)
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
