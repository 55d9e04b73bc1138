"""Field names of the TensorFlow Model Garden and of older trainers that are ours under another name, or not at all.

FIELDS: pattern of a section -> {their name: our name, or None: accepted and reported to have no effect here}. Only names that
are not fields of ours get here. What would change the result if it had an effect is not listed, so it is an error.
"""

from fnmatch import fnmatchcase

_ENCODER: dict[str, str | None] = {
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_activation": "hidden_act",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
    "embedding_width": "embedding_size",
    "filter_size": "intermediate_size",
    "layer_norm_epsilon": "layer_norm_eps",
    "return_all_encoder_outputs": None,  # what is returned, not what is computed
    "return_attention_scores": None,
    "output_range": None,
}
_DATA: dict[str, str | None] = {
    "shuffle_buffer_size": None,  # the order is a permutation of all examples
    "cache": None,
    "cycle_length": None,
    "block_length": None,
    "ram_budget": None,
    "deterministic": None,  # always
    "sharding": None,
    "autotune_algorithm": None,
    "file_type": None,  # found out
    "enable_tf_data_service": None,
    "tf_data_service_address": None,
    "tf_data_service_job_name": None,
    "enable_shared_tf_data_service_between_parallel_trainers": None,
    "apply_tf_data_service_before_batching": None,
    "trainer_id": None,
    "use_next_sentence_label": None,  # the records say their objective
    "use_position_id": None,
    "use_v2_feature_names": None,  # found out
    "tfds_skip_decoding_feature": None,
    "tfds_as_supervised": None,
    "label_type": None,  # the records say it
    "include_example_id": None,  # always
    "input_preprocessed_data_path": None,
    "doc_stride": None,  # the records are made; so in the next four
    "query_length": None,
    "tokenization": None,
    "vocab_file": None,
    "do_lower_case": None,
    "version_2_with_negative": None,  # the meta file says it
}
_TRAINER: dict[str, str | None] = {
    "train_tf_while_loop": None,
    "train_tf_function": None,
    "eval_tf_function": None,
    "eval_tf_while_loop": None,
    "allow_tpu_summary": None,
    "validation_summary_subdir": None,
    "continuous_eval_timeout": None,
    "preemption_on_demand_checkpoint": None,  # always
}
_RUNTIME: dict[str, str | None] = {
    "num_gpus": "num_replicas",
    "all_reduce_alg": None,
    "num_packs": None,
    "worker_hosts": None,
    "task_index": None,
    "gpu_thread_mode": None,
    "per_gpu_thread_count": None,
    "dataset_num_private_threads": None,
    "run_eagerly": None,
    "batchnorm_spatial_persistent": None,
    "tpu_enable_xla_dynamic_padder": None,
    "use_tpu_mp_strategy": None,
}
_MODEL: dict[str, str | None] = {
    "cls_heads": None,  # the task decides its heads
    "mlm_activation": None,
    "mlm_initializer_range": None,
}
_TASK: dict[str, str | None] = {
    "hub_module_url": "init_checkpoint",
    "name": None,
    "allow_image_summary": None,
    "metric_type": None,  # all metrics of the kind of task are computed
}

FIELDS: dict[str, dict[str, str | None]] = {
    "task": _TASK,
    "task.model": _MODEL,
    "task.model.encoder*": _ENCODER,
    "task.*_data": _DATA,
    "trainer": _TRAINER,
    "trainer.optimizer_config.learning_rate*": {"initial_learning_rate": "learning_rate"},  # of a constant rate
    "runtime": _RUNTIME,
}


def field_alias(path: str) -> tuple[bool, str | None]:
    """(is the last name of the dotted path known, our name for it or None)."""
    section, _, name = path.rpartition(".")
    for pattern, names in FIELDS.items():
        if name in names and fnmatchcase(section, pattern):
            return True, names[name]
    return False, None
