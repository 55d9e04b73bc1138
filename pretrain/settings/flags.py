"""The flags of `pretrain run`: one table, which the parser, `--help` and docs/pretraining.md share.

Written as absl's: `--flag=value`, `--flag value`, `-flag`, `--switch`, `--noswitch`, `--switch=true`, with hyphens or
underscores. Old spellings come from google-research/bert and /albert (run_pretraining.py), kamalkraj/ALBERT-TF2.0
(run_pretraining.py, run_classifer.py, run_squad.py), the TensorFlow Model Garden's train.py, Cerebras's run.py, and the
trainer.task of Google Cloud's samples.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nlpdata.errors import UsageError, closest
from pretrain.settings.values import parse_value

_LEARNING_RATE = "trainer.optimizer_config.learning_rate"
_OPTIMIZER = "trainer.optimizer_config.optimizer"
_WARMUP = "trainer.optimizer_config.warmup"


@dataclass(frozen=True)
class Flag:
    """A flag.

    Attributes:
      name: spelled with underscores.
      help: one line.
      fields: dotted paths of the configuration that it sets.
      aliases: other spellings.
      kind: a switch needs no value; many may be given several times.
      words: value -> value of the field, where they differ.
      note: for what has no effect here: why. Giving the flag is reported with this text.
    """

    name: str
    help: str = ""
    fields: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    kind: Literal["value", "switch", "many"] = "value"
    words: dict[str, str] = field(default_factory=dict)
    note: str = ""


RUN = (
    Flag("experiment", "Registered experiment, or module:attribute; `--experiment=help` lists them."),
    Flag(
        "mode",
        "What the run does: train, eval, train_and_eval, eval_all, continuous_eval, continuous_train_and_eval; with --predict_file "
        "predict, train_and_predict. Default: train.",
        aliases=("m",),
    ),
    Flag(
        "model_dir",
        "Folder of the run, which is resumed; else AIP_MODEL_DIR.",
        aliases=("output_dir", "o", "job_dir"),
    ),
    Flag("config_file", "YAML file over the experiment; several in order.", kind="many"),
    Flag("params", "YAML file of Cerebras's BERT, translated; it implies the experiment.", aliases=("p",)),
    Flag("gin_file", "Gin file over these: layers, optimizer and rates by class; several in order.", kind="many"),
    Flag("gin_params", "The same as text, e.g. 'AdamW.beta_2 = 0.98'; several in order.", kind="many"),
    Flag("params_override", "Fields over everything else, e.g. a.b=1,c=[x,y]; several in order.", kind="many"),
    Flag(
        "import_module",
        "A module of your own parts, imported first. Repeat it, or use commas, for several.",
        kind="many",
    ),
    Flag("model_config", "Architecture: a name, e.g. albert_base_v2, or a JSON file. Default: the checkpoint's."),
    Flag("albert_config_file", "ALBERT's JSON; implies ALBERT's experiment for the task that the records are of."),
    Flag("bert_config_file", "BERT's JSON; implies BERT's experiment for the task that the records are of."),
    Flag("backend", "Library to compute with: auto, tensorflow or jax. Default: KERAS_BACKEND, else auto."),
    Flag("validate_only", "Build and trace everything, check shapes, labels and names; take no step.", kind="switch"),
    Flag("compile_only", "The same, and compile; take no step.", kind="switch"),
    Flag("dry_run", "Say what would be read and written, with estimates from a few steps in memory.", kind="switch"),
    Flag("print_config", "Print the resolved configuration as YAML, and stop.", kind="switch"),
    Flag("tfhub_cache_dir", "Folder of cached TensorFlow Hub modules. Default: TFHUB_CACHE_DIR."),
    Flag("do_train", "Older form of --mode.", kind="switch"),
    Flag("do_eval", "Older form of --mode.", kind="switch"),
    Flag("do_predict", "Predict at the end: --task_name's test set, or --predict_file.", kind="switch"),
    Flag("predict_file", "SQuAD's JSON with the questions to answer; where it has answers, ours are scored."),
    Flag("input_data_dir", "GLUE's folder, in which --do_predict finds the test set.", aliases=("data_dir",)),
    Flag("task_name", "GLUE's name of the test set that --do_predict takes, e.g. CoLA."),
    Flag(
        "tokenizer",
        "Tokenizer of data that is text, and of texts to predict. Default: the one kept with the model.",
        aliases=("spm_model_file", "sp_model_file", "vocab_file"),
    ),
    Flag("seeds", "Number N of runs, seeds 0 to N-1, in model_dir/seed-0, ...; median and spread."),
    Flag("quiet", "Show no progress: warnings, errors and the result alone.", kind="switch"),
    Flag("json", "Print the result as one JSON object, and nothing else, on standard output.", kind="switch"),
    Flag("verbose", "Also show what TensorFlow, CUDA and other libraries write.", kind="switch"),
    Flag("version", "Print the version, and stop.", kind="switch"),
    Flag("help", "This text.", aliases=("h", "helpfull", "helpshort"), kind="switch"),
)
FIELDS = (
    Flag(
        "input_files",
        "Training records, text to pretrain on, or SQuAD's JSON: paths or patterns, comma-separated.",
        ("task.train_data.input_path",),
        ("input_file", "train_files", "train_file", "train_data_path"),
    ),
    Flag(
        "eval_files",
        "Records, text of pretraining, or SQuAD's JSON to evaluate on: paths or patterns, comma-separated.",
        ("task.validation_data.input_path",),
        ("eval_input_files", "eval_data_path"),
    ),
    Flag(
        "meta_data_file_path",
        "Meta file of the records.",
        ("task.train_data.meta_path", "task.validation_data.meta_path"),
        ("input_meta_data_path",),
    ),
    Flag(
        "init_checkpoint",
        "Checkpoint to start from, of any supported format.",
        ("task.init_checkpoint",),
        ("checkpoint_path", "albert_hub_module_handle"),
    ),
    Flag("init_heads", "Start the heads from it, too (pretraining).", ("task.init_heads",), kind="switch"),
    Flag(
        "allow_other_tokenizer",
        "Accept records of a tokenizer that is not that of the weights.",
        ("task.allow_other_tokenizer",),
        kind="switch",
    ),
    Flag(
        "max_seq_length",
        "Expected length of the records, in tokens.",
        ("task.train_data.seq_length", "task.validation_data.seq_length"),
    ),
    Flag(
        "max_predictions_per_seq",
        "Expected most predictions of a record.",
        ("task.train_data.max_predictions_per_seq", "task.validation_data.max_predictions_per_seq"),
    ),
    Flag(
        "doc_stride",
        "SQuAD's JSON only: tokens between the starts of two windows.",
        ("task.train_data.doc_stride", "task.validation_data.doc_stride"),
    ),
    Flag(
        "max_query_length",
        "SQuAD's JSON only: most tokens of a question.",
        ("task.train_data.query_length", "task.validation_data.query_length"),
    ),
    Flag("max_train_samples", "Examples to learn from: the first ones.", ("task.train_data.max_examples",)),
    Flag("max_eval_samples", "Examples to evaluate on: the first ones.", ("task.validation_data.max_examples",)),
    Flag("train_batch_size", "Examples of a step.", ("task.train_data.global_batch_size",), ("batch_size",)),
    Flag(
        "eval_batch_size",
        "Examples of an evaluation batch.",
        ("task.validation_data.global_batch_size",),
        ("predict_batch_size",),
    ),
    Flag(
        "num_train_epochs", "Passes over the data; clears train_steps.", ("trainer.num_train_epochs",), ("num_epochs",)
    ),
    Flag(
        "num_train_steps",
        "Steps of the whole run.",
        ("trainer.train_steps",),
        ("train_steps", "max_steps", "train_step"),
    ),
    Flag(
        "steps", "Steps of this call, after those of earlier ones; the run's length stays.", ("trainer.steps_a_call",)
    ),
    Flag("max_time", "Time of this call, e.g. 2h, its last checkpoint included.", ("trainer.max_time",)),
    Flag(
        "preemption_deadline",
        "Time from SIGTERM to the checkpoint, e.g. 30s.",
        ("trainer.preemption_deadline",),
    ),
    Flag("gradient_accumulation_steps", "Micro-steps of a step.", ("trainer.gradient_accumulation_steps",)),
    Flag(
        "learning_rate",
        "Highest learning rate: where warm-up ends (with decay_steps set: at decay_start).",
        (f"{_LEARNING_RATE}.initial_learning_rate",),
    ),
    Flag("poly_power", "Power of the decay, 1: a straight line.", (f"{_LEARNING_RATE}.power",)),
    Flag(
        "warmup_proportion",
        "Share of the steps in which the rate warms up, below 1.",
        (f"{_WARMUP}.warmup_proportion",),
    ),
    Flag(
        "num_warmup_steps",
        "Steps in which the rate warms up, fewer than the run has.",
        (f"{_WARMUP}.warmup_steps",),
        ("warmup_steps", "warmup_step"),
    ),
    Flag(
        "optimizer",
        "Optimizer: adamw, lamb, sgd, adafactor, or module:attribute.",
        (f"{_OPTIMIZER}.type",),
        ("optimizer_type",),
        words={"AdamW": "adamw", "LAMB": "lamb"},
    ),
    Flag("weight_decay", "Weight decay.", (f"{_OPTIMIZER}.weight_decay_rate",), ("weight_decay_rate",)),
    Flag("adam_epsilon", "Number that is added to the root of the second moment.", (f"{_OPTIMIZER}.epsilon",)),
    Flag(
        "save_checkpoints_steps",
        "Steps between checkpoints.",
        ("trainer.checkpoint_interval",),
        ("checkpoint_interval",),
    ),
    Flag(
        "async_checkpoints",
        "Write checkpoints while training continues.",
        ("trainer.async_checkpoints",),
        ("enable_async_checkpointing",),
        kind="switch",
    ),
    Flag(
        "keep_checkpoint_max",
        "Number of checkpoints to keep, the newest ones.",
        ("trainer.max_to_keep",),
        ("max_to_keep",),
    ),
    Flag("iterations_per_loop", "Steps between looks at the loss.", ("trainer.steps_per_loop",), ("steps_per_loop",)),
    Flag("max_eval_steps", "Batches of an evaluation; -1: all.", ("trainer.validation_steps",)),
    Flag(
        "eval_steps",
        "Batches of an evaluation, as Cerebras's: 0 is all, too.",
        ("trainer.validation_steps",),
        words={"0": "-1"},
    ),
    Flag("classifier_dropout", "Dropout before the classifier.", ("task.model.classifier_dropout_prob",)),
    Flag(
        "version_2_with_negative",
        "Questions may have no answer (SQuAD 2.0). Default: as the records say.",
        ("task.version_2_with_negative",),
        kind="switch",
    ),
    Flag("n_best_size", "Answers kept for a question.", ("task.n_best_size",)),
    Flag("max_answer_length", "Tokens of the longest answer.", ("task.max_answer_length",)),
    Flag(
        "null_score_diff_threshold",
        "Odds of no answer above which a question is left unanswered.",
        ("task.null_score_diff_threshold",),
    ),
    Flag(
        "answer_layer",
        "How answers are scored: span, or conditional, as ALBERT's authors do for SQuAD 2.0.",
        ("task.model.answer_layer",),
    ),
    Flag("start_n_top", "Starts that a conditional answer layer looks at.", ("task.model.start_n_top",)),
    Flag("end_n_top", "Ends that a conditional answer layer looks at for each start.", ("task.model.end_n_top",)),
    Flag(
        "squad_dropout",
        "Dropout of the vector that a conditional answer layer classifies.",
        ("task.model.answer_dropout_prob",),
        ("dropout_prob",),
    ),
    Flag("hypertune_metric", "Metric to report to Vertex AI's tuning.", ("trainer.hypertune_metric",)),
    Flag(
        "hp_tune",
        "Older form of --hypertune_metric: y reports the accuracy, n nothing.",
        ("trainer.hypertune_metric",),
        words={"y": "accuracy", "n": ""},
    ),
    Flag(
        "export_formats",
        "Formats to write the model in at the end, e.g. hf,savedmodel.",
        ("trainer.export_formats",),
    ),
    Flag(
        "export_dir",
        "Folder of these, in the model_dir, or elsewhere: a path, gs://, s3://.",
        ("trainer.export_dir",),
        ("model_name",),
    ),
    Flag("log_example_digest", "Log a digest of each step's examples.", ("trainer.log_example_digest",), kind="switch"),
    Flag(
        "strategy_type",
        "Devices of a step: one, mirror, or a value of the field.",
        ("runtime.distribution_strategy",),
        ("distribution_strategy",),
        words={"one": "one_device", "mirror": "mirrored"},
    ),
    Flag("num_gpus", "Number of devices to use.", ("runtime.num_replicas",), ("num_replicas",)),
    Flag("tpu", "Name or address of the TPU.", ("runtime.tpu",), ("tpu_name",)),
    Flag(
        "mixed_precision_dtype",
        "Type of the arithmetic: float32, bfloat16 or float16.",
        ("runtime.mixed_precision_dtype",),
        ("dtype",),
        words={"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"},
    ),
    Flag("enable_xla", "Compile with XLA.", ("runtime.enable_xla",), ("use_xla",), kind="switch"),
    Flag("seed", "Seed of weights, dropout and order.", ("runtime.seed", "task.train_data.seed"), ("random_seed",)),
)
_OF_QUESTIONS = "questions are tokenized anew; nlpdata create-finetuning --task squad makes records that stay"
_OF_TPUS = "--tpu names a TPU, and all of its cores are used"
ACCEPTED = (
    Flag("alsologtostderr", kind="switch"),  # messages go there anyway
    Flag("logtostderr", kind="switch"),
    Flag("verbosity", aliases=("v",)),
    Flag("stderrthreshold"),
    Flag("pretrain_steps", note="the checkpoints of a run say how many steps it has"),
    Flag("custom_training_loop", note="there is one training loop", kind="switch"),
    Flag("do_lower_case", note="the tokenizer's own options count, which the records' meta file has", kind="switch"),
    Flag("predict_data_path", note="the test set needs no records"),
    *(Flag(name, note=_OF_TPUS) for name in ("num_tpu_cores", "tpu_zone", "gcp_project", "master")),
    Flag("use_tpu", note=_OF_TPUS, kind="switch"),
    *(
        Flag(name, note=_OF_QUESTIONS)
        for name in ("train_feature_file", "predict_feature_file", "predict_feature_left_file")
    ),
    Flag("verbose_logging", note="what cannot be used is always reported", kind="switch"),
    Flag("use_einsum", note="it chooses operations, not what they compute", kind="switch"),
    Flag("cs_ip", note="this runs on CPU, GPU or TPU"),
    Flag("device", note="--strategy_type and --num_gpus choose devices"),
    Flag("multireplica", note="--strategy_type and --num_gpus choose devices", kind="switch"),
)
FLAGS = (*RUN, *FIELDS, *ACCEPTED)
# Names in the scripts of Transformers -> ours, for messages only: they mean numbers a device, other files, and weights from a hub.
_FIELD = "params_override"
_IN_TRANSFORMERS = {
    "model_name_or_path": "init_checkpoint",
    "config_name": "model_config",
    "model_type": "experiment",
    "tokenizer_name": "tokenizer",
    "validation_file": "eval_files",
    "test_file": "predict_file",
    "per_device_train_batch_size": "train_batch_size",
    "per_device_eval_batch_size": "eval_batch_size",
    "warmup_ratio": "warmup_proportion",
    "fp16": "mixed_precision_dtype",
    "bf16": "mixed_precision_dtype",
    "mlm_probability": f"{_FIELD}=task.train_data.masked_lm_prob",
    "max_grad_norm": f"{_FIELD}={_OPTIMIZER}.gradient_clip_norm",
    "adam_beta1": f"{_FIELD}={_OPTIMIZER}.beta_1",
    "adam_beta2": f"{_FIELD}={_OPTIMIZER}.beta_2",
    "lr_scheduler_type": f"{_FIELD}={_LEARNING_RATE}.type",
    "label_smoothing_factor": f"{_FIELD}=task.label_smoothing",
    "logging_steps": f"{_FIELD}=trainer.summary_interval",
    "gradient_checkpointing": f"{_FIELD}=runtime.gradient_checkpointing",
    "save_steps": "save_checkpoints_steps",
    "save_total_limit": "keep_checkpoint_max",
    "resume_from_checkpoint": "model_dir",
}
_BY_SPELLING = {spelling: flag for flag in FLAGS for spelling in (flag.name, *flag.aliases)}


def parse_flags(argv: Sequence[str]) -> dict[str, Any]:
    """The flags given, by name; of a flag given twice the last counts, unless it is of kind many.

    Raises:
      UsageError: an unknown flag (with the closest), a missing value, a word that is not a flag, or what cannot run here.
    """
    values: dict = {}
    words = list(argv[1:] if list(argv[:1]) == ["--"] else argv)  # a launcher's separator
    while words:
        word = words.pop(0)
        if not word.startswith("-") or not word.strip("-"):
            raise UsageError(
                f"{word!r} is not a flag. Flags look like --model_dir=run1; a switch takes its value after `=`; quote a "
                "value with spaces or commas."
            )
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        flag = _BY_SPELLING.get(name)
        negated = _BY_SPELLING.get(name.removeprefix("no").removeprefix("_")) if flag is None else None
        if flag is None and negated is not None and negated.kind == "switch" and name.startswith("no") and not equals:
            flag, equals, value = negated, "=", "false"
        if flag is None:
            meant = _IN_TRANSFORMERS.get(name)
            known = (f"--{each}" for each in ([meant] if meant else _BY_SPELLING))
            raise UsageError(f"no flag --{name}.{closest(meant or name, known)} `--help` lists them.")
        if flag.kind == "switch":
            values[flag.name] = _switch(name, value) if equals else True
            continue
        if not equals:
            if not words or (words[0].startswith("--") and words[0] != "--"):
                raise UsageError(f"--{name} needs a value, e.g. --{name}=VALUE.")
            value = words.pop(0)
        if flag.kind == "many":
            values.setdefault(flag.name, []).append(value)
        else:
            values[flag.name] = value
    return values


def find_flag(spelling: str) -> Flag | None:
    """The flag of a spelling, with hyphens or underscores, without dashes in front; None where there is none."""
    return _BY_SPELLING.get(spelling.replace("-", "_"))


def as_flag(field: str, value: object = None) -> str:
    """The spelling of an option on pretrain's command lines: --max_seq_length=128, --nodo_lower_case."""
    if value is None or value is True:
        return f"--{field}"
    return f"--no{field}" if value is False else f"--{field}={value}"


def names_of(flags: Iterable[Flag]) -> set[str]:
    """All spellings of flags, without dashes in front."""
    return {spelling for flag in flags for spelling in (flag.name, *flag.aliases)}


def notes_of(values: dict) -> list[str]:
    """What the user should know of flags that are accepted and have no effect."""
    return [
        f"{as_flag(flag.name)} has no effect here: {flag.note}."
        for flag in ACCEPTED
        if flag.note and flag.name in values
    ]


def fields_of(values: dict) -> list[tuple[Flag, str, str | bool]]:
    """(flag, dotted path, value) for each field of the configuration that the flags set."""
    return [
        (flag, path, flag.words.get(values[flag.name], values[flag.name]))
        for flag in FIELDS
        if flag.name in values
        for path in flag.fields
    ]


def flag_of(path: str) -> str:
    """The flag that sets a field of the configuration, e.g. "--input_files"; the field itself where there is none."""
    return next((as_flag(flag.name) for flag in FIELDS if path in flag.fields), path)


def _switch(name: str, value: str) -> bool:
    try:
        return parse_value(bool, value)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}") from None
