"""The TensorFlow Model Garden's configuration: its names of fields, types and experiments, and what each of them is here.

Only names that are not ours get here. A field is one of ours under another name, has no effect here, which is reported, or has
no effect at the values at which it computes what this package computes; other values are refused, with what to use instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from nlpdata.errors import UsageError
from pretrain.settings.values import plain_value


@dataclass(frozen=True)
class Ours:
    """A field of ours under another name.

    Attributes:
      name: ours.
      words: value there -> value here, where they differ.
      unset: values that leave the field as it is.
    """

    name: str
    words: Mapping[str, str] = field(default_factory=dict)
    unset: tuple = ()


@dataclass(frozen=True)
class Only:
    """A field without effect at the values that `accepts` is true of.

    Attributes:
      accepts: value -> whether it computes what this package computes.
      instead: end of the message about all others: what to use.
    """

    accepts: Callable[[Any], bool]
    instead: str

    def allows(self, value: Any) -> bool:
        """Whether the field has no effect at a value; what is of another type is none of its values."""
        try:
            return self.accepts(value)
        except (TypeError, ValueError, AttributeError):
            return False


@dataclass(frozen=True)
class NoEffect:
    """A field that changes nothing that is computed here."""


Meaning = Ours | Only | NoEffect
_NONE = NoEffect()


def _at(*values: Any) -> Callable[[Any], bool]:
    """Whether a value is one of these; unset ones (null, empty) are always among them."""
    return lambda value: value in (None, "", *values)


def _without_effect(*names: str) -> dict[str, Meaning]:
    return dict.fromkeys(names, _NONE)


def _is_pair_head(value: Any) -> bool:
    """At most one head, of two classes: that of sentence pairs."""
    heads = value or []
    return len(heads) <= 1 and all(plain_value(head.get("num_classes", 2)) == 2 for head in heads)


_GELU = {"gelu": "gelu_tanh"}  # its gelu is the tanh approximation (official.modeling.activations)
_OWN_PART = "Name a part of your own as module:attribute (docs/extending.md)"
_CLIP = Only(_at(), "use gradient_clip_norm, the limit of the norm of all gradients together.")
_ONE_RATE = Only(
    _at(), "one learning rate runs over all stages. Give it once, by trainer.optimizer_config, and leave this out."
)
_OF_STAGES = Only(
    _at([], {}), "stages are a list in trainer.stages, each with its train_data, train_steps and num_hidden_layers."
)
_NO_TFDS = Only(
    _at(),
    "this task learns from records. Make them with nlpdata create-pretraining or create-finetuning, and name them by input_path.",
)

_ENCODER: dict[str, Meaning] = {
    "num_layers": Ours("num_hidden_layers"),
    "num_blocks": Ours("num_hidden_layers"),
    "num_heads": Ours("num_attention_heads"),
    "hidden_activation": Ours("hidden_act", _GELU),
    "dropout_rate": Ours("hidden_dropout_prob"),
    "attention_dropout_rate": Ours("attention_probs_dropout_prob"),
    "embedding_width": Ours("embedding_size"),
    "word_embed_size": Ours("embedding_size"),
    "word_vocab_size": Ours("vocab_size"),
    "max_sequence_length": Ours("max_position_embeddings"),
    "filter_size": Ours("intermediate_size"),
    "layer_norm_epsilon": Ours("layer_norm_eps"),
    "embedding_size": Only(_at(), "BERT's embeddings have the hidden size. Smaller ones: encoder type albert."),
    "norm_first": Only(_at(False), f"layers here normalise after each sum. {_OWN_PART}."),
    "normalization_type": Only(_at("no_norm"), f"MobileBERT here is the student, of no_norm. {_OWN_PART}."),
    **_without_effect("return_all_encoder_outputs", "return_attention_scores", "output_range"),  # what is returned
    **_without_effect("input_mask_dtype"),
}
_DATA: dict[str, Meaning] = {
    "lower_case": Ours("do_lower_case"),
    "masking_rate": Ours("masked_lm_prob"),
    "tfds_name": _NO_TFDS,
    "preprocessing_hub_module_url": Only(_at(), "name the tokenizer's file by vocab_file, and do_lower_case."),
    "xlnet_format": Only(_at(False), "there is no XLNet here."),
    "label_name": Only(_at(), "a record's label is its feature label_ids."),
    # The order is a permutation of all examples, and the reader needs no tuning.
    **_without_effect("shuffle_buffer_size", "cache", "cycle_length", "block_length", "ram_budget", "deterministic"),
    **_without_effect("sharding", "autotune_algorithm", "trainer_id", "doc_batch_size", "seq_bucket_window_scale"),
    **_without_effect("enable_tf_data_service", "tf_data_service_address", "tf_data_service_job_name"),
    **_without_effect("enable_shared_tf_data_service_between_parallel_trainers"),
    **_without_effect("apply_tf_data_service_before_batching", "seq_bucket_lengths"),
    # Found out from the records, their meta file or the tokenizer.
    **_without_effect("file_type", "use_v2_feature_names", "use_position_id", "label_type", "tokenization"),
    **_without_effect("use_next_sentence_label", "include_example_id", "input_preprocessed_data_path"),
    # Of text; records are made already.
    **_without_effect("tfds_split", "tfds_data_dir", "tfds_as_supervised", "tfds_skip_decoding_feature", "vocab_file"),
    **_without_effect("vocab_file_path", "text_fields", "text_field_names", "use_whole_word_masking", "label_field"),
    **_without_effect("doc_stride", "query_length", "do_lower_case", "version_2_with_negative"),
}
_TRAINER: dict[str, Meaning] = {
    **_without_effect("train_tf_while_loop", "train_tf_function", "eval_tf_function", "eval_tf_while_loop"),
    **_without_effect("allow_tpu_summary", "validation_summary_subdir"),
    **_without_effect("preemption_on_demand_checkpoint"),  # always
    "progressive": _OF_STAGES,  # with a stage_list it is lifted
    # Every checkpoint here is one that later runs start from.
    **_without_effect("export_checkpoint", "export_checkpoint_interval", "export_max_to_keep"),
    **_without_effect("export_only_final_stage_ckpt"),
}
_RUNTIME: dict[str, Meaning] = {
    "num_gpus": Ours("num_replicas", unset=(None, 0)),
    "worker_hosts": Only(_at(), "name the hosts in TF_CONFIG (docs/training.md)."),
    "task_index": Only(_at(-1), "name the host's index in TF_CONFIG (docs/training.md)."),
    "num_cores_per_replica": Only(_at(1), "a replica is one device."),
    "default_shard_dim": Only(_at(-1), "weights are not divided over devices."),
    "use_tpu_mp_strategy": Only(_at(False), "weights are not divided over devices."),
    **_without_effect("all_reduce_alg", "num_packs", "gpu_thread_mode", "per_gpu_thread_count", "run_eagerly"),
    **_without_effect("dataset_num_private_threads", "batchnorm_spatial_persistent", "tpu_enable_xla_dynamic_padder"),
}
_MODEL: dict[str, Meaning] = {
    "cls_heads": Only(
        _is_pair_head,
        "a pretrained model has one head over sentences, next_sentence or sentence order, of two classes.",
    ),
    **dict.fromkeys(
        ("generator_encoder", "discriminator_encoder"),
        Only(_at(), "there is no second encoder that replaces words; name the one by task.model.encoder."),
    ),
    **_without_effect("mlm_activation", "mlm_initializer_range", "mlm_output_weights_use_proj"),
}
_TASK: dict[str, Meaning] = {
    "hub_module_url": Ours("init_checkpoint"),
    "differential_privacy_config": Only(_at(), "training here is not differentially private."),
    **dict.fromkeys(("stage_list", "small_train_data"), _OF_STAGES),  # a stage_list is lifted
    **dict.fromkeys(
        ("teacher_model", "student_model"),
        Only(_at({}), "no model here learns from another. Name the one model by task.model."),
    ),
    **_without_effect("name", "allow_image_summary", "scale_loss", "use_next_sentence_label"),
    **_without_effect("metric_type"),  # all metrics of the kind of task are computed
}
_STAGE: dict[str, Meaning] = {
    "num_steps": Ours("train_steps"),
    "override_train_data": Ours("train_data"),
    **dict.fromkeys(("num_layers", "num_encoder_layers", "override_num_layers"), Ours("num_hidden_layers")),
    **dict.fromkeys(("warmup_steps", "initial_learning_rate", "end_learning_rate", "decay_steps", "power"), _ONE_RATE),
    "override_valid_data": Only(_at({}), "all stages are evaluated on task.validation_data."),
    "small_encoder_config": Only(_at({}), "stages differ in their number of layers alone: num_hidden_layers."),
}
_EMA: dict[str, Meaning] = {
    **dict.fromkeys(
        ("clipnorm", "clipvalue", "global_clipnorm"), Only(_at(), "clipping is the optimizer's: gradient_clip_norm.")
    ),
    **_without_effect("name", "trainable_weights_only"),  # all others stay as they are
}
_OPTIMIZER: dict[str, Meaning] = {
    "weight_decay": Ours("weight_decay_rate"),
    "global_clipnorm": Ours("gradient_clip_norm", unset=(None, "")),
    "clipnorm": _CLIP,
    "clipvalue": _CLIP,
    "nesterov": Only(_at(False), f"it is not available. {_OWN_PART}."),
    "decay": Only(_at(0), "use trainer.optimizer_config.learning_rate.decay_steps."),
    "amsgrad": Only(_at(False), f"it is not available. {_OWN_PART}."),
    # Of Adafactor.
    "epsilon1": Ours("epsilon_1"),
    "epsilon2": Ours("epsilon_2"),
    "clipping_threshold": Ours("clip_threshold"),
    "factored": Only(_at(True), "every matrix is factored. Leave it out."),
    "min_dim_size_to_factor": Only(
        lambda value: value <= 2, "every matrix is factored, of whatever size. Leave it out."
    ),
    "multiply_by_parameter_scale": Only(_at(True), "steps are relative to the size of a weight. Leave it out."),
    "beta1": Only(_at(), "there is no first moment. Use adamw or lamb."),
    "step_offset": Only(_at(0), "steps are counted from 0."),
    "include_in_weight_decay": Only(_at([]), "list what must not decay by exclude_from_weight_decay."),
    **_without_effect("name", "jit_compile"),
}
_LEARNING_RATE: dict[str, Meaning] = {
    "initial_learning_rate": Ours("learning_rate"),  # of a constant rate
    "offset": Ours("decay_start", unset=(None, 0)),
    "cycle": Only(_at(False), f"a decay ends once. {_OWN_PART}."),
    **_without_effect("name"),
}

FIELDS: dict[str, dict[str, Meaning]] = {
    "task": _TASK,
    "task.model": _MODEL,
    "task.model.encoder*": _ENCODER,
    "task.*_data": _DATA,
    "trainer": _TRAINER,
    "trainer.stages[[]*.train_data": _DATA,
    "trainer.stages[[]*]": _STAGE,
    "trainer.optimizer_config.ema": _EMA,
    "trainer.optimizer_config.optimizer*": _OPTIMIZER,
    "trainer.optimizer_config.learning_rate*": _LEARNING_RATE,
    "trainer.optimizer_config.warmup*": _without_effect("name"),
    "runtime": _RUNTIME,
}
"""Pattern of a section -> names there that are not ours -> what they mean here."""

_UNSET_DATA = ("seed", "prefetch_buffer_size", "is_training", "text_fields")
_UNSET: dict[str, tuple[str, ...]] = {
    "task.*_data": _UNSET_DATA,
    "trainer.stages[[]*.train_data": _UNSET_DATA,
    "trainer.optimizer_config.optimizer*": ("exclude_from_weight_decay",),
    "trainer.optimizer_config.learning_rate*": (
        "initial_learning_rate",
        "decay_rate",
        "staircase",
        "boundaries",
        "values",
    ),
    "runtime": ("mixed_precision_dtype", "loss_scale"),
}
"""Fields of ours in which null means there: not set."""

_SAME_TYPE: dict[str, dict[str, str]] = {
    "encoder": {"bert_v2": "bert"},
    "optimizer": {"adamw_experimental": "adamw", "sgd_experimental": "sgd"},
    "learning rate": {"power_linear": "power", "power_with_offset": "power"},
}
_OTHER_TYPES: dict[str, dict[str, str]] = {
    "encoder": dict.fromkeys(
        ("bigbird", "funnel", "kernel", "reuse", "xlnet", "query_bert", "fnet", "sparse_mixer", "roformer", "any"),
        f"Use bert, albert or mobilebert. {_OWN_PART}.",
    ),
    "optimizer": {
        **dict.fromkeys(
            ("adam", "adam_experimental"),
            "Use {type: adamw, weight_decay_rate: 0, bias_correction: true, gradient_clip_norm: null}, which computes Adam.",
        ),
        **dict.fromkeys(
            ("rmsprop", "lars", "adagrad", "slide"),
            f"Use adamw, lamb, sgd or adafactor. {_OWN_PART}.",
        ),
        "adafactor_keras": "Use {type: adafactor}, whose decay_rate is -beta_2_decay.",
    },
    "learning rate": {"step_cosine_with_offset": f"Use cosine, stepwise or wsd. {_OWN_PART}."},
}
_RECORDS = "Make records with nlpdata create-pretraining, and use --experiment=bert/pretraining."
_EXPERIMENTS = {
    "bert/text_wiki_pretraining": f"It masks text of TensorFlow Datasets as it reads. {_RECORDS}",
    **dict.fromkeys(
        ("bert/tagging", "bert/token_classification"), "There is no task for tags of words; docs/extending.md has one."
    ),
    **dict.fromkeys(
        ("electra/pretraining", "teams/pretraining"), f"There is no second encoder that replaces words. {_RECORDS}"
    ),
    **dict.fromkeys(
        ("xlnet/pretraining", "xlnet/sentence_prediction", "xlnet/squad", "wmt_transformer/large", "t5_tutorial"),
        "There are encoders of the BERT family only.",
    ),
}


def meaning(path: str) -> Meaning | None:
    """What the last name of a dotted path means here; None: it is not the Garden's."""
    section, _, name = path.rpartition(".")
    return next(
        (names[name] for pattern, names in FIELDS.items() if name in names and fnmatchcase(section, pattern)), None
    )


def is_unset(path: str, value: Any) -> bool:
    """Whether a value of a field of ours means that the Garden's file leaves it as it is."""
    section, _, name = path.rpartition(".")
    return value is None and any(name in names and fnmatchcase(section, pattern) for pattern, names in _UNSET.items())


def own_type(kind: str, name: str) -> str:
    """Our name of a type; UsageError, with what to use, for one that is not available here.

    Args:
      kind: kind of part, as its registry says, e.g. "encoder".
      name: as the user wrote it; what is not the Garden's stays.
    """
    instead = _OTHER_TYPES.get(kind, {}).get(name)
    if instead:
        raise UsageError(f"the Model Garden's {kind} {name!r} is not available here. {instead}")
    return _SAME_TYPE.get(kind, {}).get(name, name)


def other_experiment(name: str) -> str | None:
    """What to use for an experiment of the Garden's that is not available here; None for other names."""
    return _EXPERIMENTS.get(name)


def with_lifted(layer: dict) -> dict:
    """The layer with what the Garden's files say elsewhere where ours say it.

    Training data without next_sentence_labels learns from masked words alone: task.use_next_sentence_label is false. The
    stages of its progressive trainer (trainer.progressive.stage_list, or task.stage_list) are trainer.stages.
    """
    return _with_lifted_stages(_with_lifted_label(layer))


def _with_lifted_label(layer: dict) -> dict:
    name, task = "use_next_sentence_label", layer.get("task")
    if not isinstance(task, dict) or name in task:
        return layer
    data = task.get("train_data")
    if not isinstance(data, dict) or name not in data:
        return layer
    changed = _copied(task, {name: data[name], "train_data": _copied(data, {}, without=name)})
    if isinstance(getattr(data, "lines", None), dict):
        changed.lines[name] = data.lines.get(name)  # type: ignore[attr-defined]
    return _copied(layer, {"task": changed})


def _with_lifted_stages(layer: dict) -> dict:
    task, trainer = (layer.get(name, {}) for name in ("task", "trainer"))
    if not isinstance(task, dict) or not isinstance(trainer, dict) or trainer.get("stages"):
        return layer
    progressive = trainer.get("progressive")
    if isinstance(progressive, dict) and progressive.keys() == {"stage_list"}:
        stages, trainer = progressive["stage_list"], _copied(trainer, {}, without="progressive")
    elif task.get("stage_list"):
        stages, task = task["stage_list"], _copied(task, {}, without="stage_list")
    else:
        return layer
    return _copied(layer, {"task": task, "trainer": _copied(trainer, {"stages": stages})})


def _copied(section: dict, changes: dict, without: str = "") -> Any:
    """A copy of a section, of its class and with its lines, with changes."""
    result: Any = type(section)({key: value for key, value in section.items() if key != without} | changes)
    if hasattr(section, "lines"):
        result.lines = dict(section.lines)
    return result
