"""What becomes of each key of Cerebras's TensorFlow BERT (modelzoo, transformers/tf/bert): a table.

KEYS has for every key: fields of ours, nothing (it is named in a note), or an error where its value would make another
result than here. What needs a special rule, e.g. the learning rate, is in translate.py. DEFAULTS has the values that
their code supplies where a file has none and that are not ours.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pretrain.settings.values import parse_value

_ENCODER, _OPTIMIZER = "task.model.encoder", "trainer.optimizer_config.optimizer"


@dataclass(frozen=True)
class Key:
    """What becomes of a key. Without fields and `only`: nothing.

    Attributes:
      fields: dotted paths of ours; "*" means train_data or validation_data.
      convert: their value, as text -> ours.
      only: the values that mean what is done here anyway; all others are an error.
    """

    fields: tuple[str, ...] = ()
    convert: Callable = lambda value: value
    only: tuple[str, ...] | None = None


def _to(*fields: str, convert: Callable = lambda value: value) -> Key:
    return Key(fields, convert)


def _only(*values: str) -> Key:
    return Key(only=values)


OPTIMIZERS: dict[str, tuple[str, dict, tuple[str, ...]]] = {
    "adam": (
        "adamw",
        {"weight_decay_rate": 0.0, "bias_correction": True},
        ("beta_1", "beta_2", "epsilon", "exclude_from_weight_decay", "gradient_clip_norm"),
    ),
    "adamw": (
        "adamw",
        {},
        (
            *("beta_1", "beta_2", "epsilon", "exclude_from_weight_decay", "gradient_clip_norm"),
            *("weight_decay_rate", "bias_correction"),
        ),
    ),
    "sgd": ("sgd", {"momentum": 0.0}, ("gradient_clip_norm",)),
    "momentum": ("sgd", {}, ("momentum", "gradient_clip_norm")),
}
"""Their optimizer_type -> ours, the options that it implies, and those of the section that it takes; it takes no others."""


def _not_below_1(otherwise: int) -> Callable[[Any], Any]:
    """Their 0 (or less) means no limit: `otherwise` here."""
    return lambda value: otherwise if parse_value(int, value) < 1 else value


def _ignored(names: str) -> dict[str, Key]:
    return dict.fromkeys(names.split(), Key())


_INPUT = {
    "batch_size": _to("task.*.global_batch_size"),
    "max_sequence_length": _to("task.*.seq_length"),
    "max_predictions_per_seq": _to("task.*.max_predictions_per_seq"),
    "masked_lm_prob": _to("task.*.masked_lm_prob"),
    "shuffle_seed": _to("task.*.seed"),
    "seed": _to("task.*.seed"),
    "vocab_size": _to(f"{_ENCODER}.vocab_size"),
    "scale_mlm_weights": _only("true"),
    "add_special_tokens": _only("true"),
    # the records are made, and batches need neither buckets nor buffers
    **_ignored(
        "repeat shuffle_buffer use_multiple_workers n_parallel_reads num_workers buckets feature_rename_map "
        "sort_within_batch input_pad_id segment_pad_id mlm_pad_id pad_id cache mask_whole_word "
        "document_separator_token disable_eval_metrics mixed_precision prefetch_factor persistent_workers drop_last"
    ),
    # see inputs.py
    **_ignored("data_processor data_dir data_file vocab_file do_lower invert_mask"),
}
KEYS: dict[str, dict[str, Key]] = {
    "train_input": {**_INPUT, "shuffle": _only("true")},
    "eval_input": {**_INPUT, "shuffle": Key()},
    "predict_input": dict.fromkeys([*_INPUT, "shuffle"], Key()),
    "model": {
        "hidden_size": _to(f"{_ENCODER}.hidden_size"),
        "num_hidden_layers": _to(f"{_ENCODER}.num_hidden_layers"),
        "num_heads": _to(f"{_ENCODER}.num_attention_heads"),
        "filter_size": _to(f"{_ENCODER}.intermediate_size"),
        "max_position_embeddings": _to(f"{_ENCODER}.max_position_embeddings"),
        "dropout_rate": _to(f"{_ENCODER}.hidden_dropout_prob"),
        "attention_dropout_rate": _to(f"{_ENCODER}.attention_probs_dropout_prob"),
        "layer_norm_epsilon": _to(f"{_ENCODER}.layer_norm_eps"),
        "encoder_nonlinearity": _to(f"{_ENCODER}.hidden_act", convert=lambda v: "gelu_tanh" if v == "gelu" else v),
        "mixed_precision": _to(
            "runtime.mixed_precision_dtype", convert=lambda v: "float16" if parse_value(bool, v) else "float32"
        ),
        "num_cls_classes": _to("task.model.num_classes"),
        "cls_dropout_rate": _to("task.model.classifier_dropout_prob"),
        "disable_nsp": _to("task.use_next_sentence_label", convert=lambda v: not parse_value(bool, v)),
        "use_position_embedding": _only("true"),
        "use_segment_embedding": _only("true"),
        "position_embedding_type": _only("learned"),
        "share_embedding_weights": _only("true"),
        "use_ffn_bias": _only("true"),
        "use_ffn_bias_in_attention": _only("true"),
        "use_projection_bias_in_attention": _only("true"),
        "use_ffn_bias_in_mlm": _only("true"),
        "use_output_bias_in_mlm": _only("true"),
        "use_nsp_bias": _only("true"),
        "use_pre_normalization": _only("false"),
        "attention_type": _only("scaled_dot_product"),
        "mlm_nonlinearity": _only("gelu"),
        "nsp_nonlinearity": _only("tanh"),
        "mlm_loss_weight": _only("1", "1.0"),
        "mlm_loss_scaling": _only("precomputed_num_masked", "num_masked"),
        "initializer": _only(),
        "embedding_initializer": _only(),
        "embedding_size": Key(),  # must be hidden_size: see _model
        "pretrain_params_path": Key(),
        **_ignored(
            "weight_initialization_seed dropout_seed use_vsl boundary_casting tf_summary enable_gpu_optimizations "
            "multireplica"
        ),
    },
    "optimizer": {
        "weight_decay_rate": _to(f"{_OPTIMIZER}.weight_decay_rate"),
        "epsilon": _to(f"{_OPTIMIZER}.epsilon"),
        "beta1": _to(f"{_OPTIMIZER}.beta_1"),
        "beta2": _to(f"{_OPTIMIZER}.beta_2"),
        "use_bias_correction": _to(f"{_OPTIMIZER}.bias_correction"),
        "exclude_from_weight_decay": _to(f"{_OPTIMIZER}.exclude_from_weight_decay"),
        "max_gradient_norm": _to(f"{_OPTIMIZER}.gradient_clip_norm"),
        "max_gradient_value": _only("0", "0.0"),
        "momentum": _to(f"{_OPTIMIZER}.momentum"),
        "grad_accum_steps": Key(),  # see _micro_steps
        "loss_scaling_factor": _to(
            "runtime.loss_scale", convert=lambda v: "dynamic" if v in ("dynamic", "tf_dynamic") else v
        ),
        "optimizer_type": Key(),  # see _optimizer
        "learning_rate": Key(),
        "disable_lr_steps_reset": Key(),
        **_ignored(
            "log_summaries log_grads log_hists ws_summary rmsprop_decay rmsprop_momentum initial_loss_scale "
            "steps_per_increase min_loss_scale max_loss_scale overflow_tolerance"
        ),
    },
    "runconfig": {
        "max_steps": _to("trainer.train_steps"),
        "steps": _to("trainer.steps_a_call"),
        "save_summary_steps": _to("trainer.summary_interval", "trainer.steps_per_loop"),
        # an Estimator evaluates its checkpoints
        "save_checkpoints_steps": _to("trainer.checkpoint_interval", "trainer.validation_interval"),
        "keep_checkpoint_max": _to("trainer.max_to_keep", convert=_not_below_1(1_000_000)),
        "eval_steps": _to("trainer.validation_steps", convert=_not_below_1(-1)),
        "tf_random_seed": _to("runtime.seed"),
        **_ignored(
            "throttle_secs predict_steps log_step_count_steps enable_distributed multiple_workers multireplica model_dir "
            "mode cs_ip num_steps"
        ),
    },
    "csconfig": _ignored("use_cbfloat16"),
}
DEFAULTS = {
    "model": {
        "layer_norm_epsilon": "1e-8",
        "attention_dropout_rate": "0.0",
        "use_segment_embedding": "false",
        "cls_dropout_rate": "0.0",
    },
    "optimizer": {
        "weight_decay_rate": "0.0",
        "max_gradient_norm": "0",
        "use_bias_correction": "false",
        "loss_scaling_factor": "1.0",
        "momentum": "0.9",
    },
    "runconfig": {"save_summary_steps": "100", "save_checkpoints_steps": "1000", "keep_checkpoint_max": "5"},
}
