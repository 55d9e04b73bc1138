"""The TensorFlow Model Garden's configuration files (official/nlp/configs, official/projects): names of fields and values."""

GLUE = """
task:
  hub_module_url: ''
  init_checkpoint: ''
  metric_type: 'accuracy'
  model: {num_classes: 3}
  train_data: {drop_remainder: true, global_batch_size: 32, input_path: '', is_training: true, seq_length: 128, label_type: 'int'}
  validation_data:
    {drop_remainder: false, global_batch_size: 32, input_path: '', is_training: false, seq_length: 128, label_type: 'int'}
trainer:
  train_steps: 36813
  steps_per_loop: 1000
  summary_interval: 1000
  checkpoint_interval: 3000
  validation_interval: 6135
  validation_steps: 307
  best_checkpoint_export_subdir: 'best_ckpt'
  best_checkpoint_eval_metric: 'cls_accuracy'
  best_checkpoint_metric_comp: 'higher'
  optimizer_config:
    optimizer: {type: adamw}
    learning_rate:
      polynomial: {decay_steps: 36813, end_learning_rate: 0.0, initial_learning_rate: 3.0e-05, power: 1.0}
      type: polynomial
    warmup: {polynomial: {power: 1, warmup_steps: 3681}, type: polynomial}
"""
GLUE_TEXT = """
task:
  hub_module_url: ''
  init_checkpoint: ''
  model: {num_classes: 3}
  train_data:
    {drop_remainder: true, global_batch_size: 32, is_training: true, seq_length: 128, shuffle_buffer_size: 100,
     tfds_name: 'glue/mnli', tfds_split: 'train', text_fields: ['premise', 'hypothesis'], vocab_file: '', lower_case: true}
  validation_data:
    {drop_remainder: false, global_batch_size: 32, is_training: false, seq_length: 128, tfds_name: 'glue/mnli',
     tfds_split: 'validation_matched', text_fields: ['premise', 'hypothesis'], vocab_file: '', lower_case: true}
trainer:
  train_steps: 36813
  max_to_keep: 5
  optimizer_config:
    learning_rate:
      polynomial: {cycle: false, decay_steps: 36813, end_learning_rate: 0.0, initial_learning_rate: 3.0e-05, power: 1.0}
      type: polynomial
"""
SQUAD = """
task:
  hub_module_url: ''
  init_checkpoint: ''
  max_answer_length: 30
  n_best_size: 20
  null_score_diff_threshold: 0.0
  train_data: {drop_remainder: true, global_batch_size: 48, input_path: '', is_training: true, seq_length: 384}
  validation_data:
    {do_lower_case: true, doc_stride: 128, drop_remainder: false, global_batch_size: 48, input_path: '', is_training: false,
     query_length: 64, seq_length: 384, tokenization: WordPiece, version_2_with_negative: false, vocab_file: ''}
trainer:
  train_steps: 3699
  steps_per_loop: 1000
  summary_interval: 1000
  checkpoint_interval: 1000
  max_to_keep: 5
  validation_interval: 1000
  validation_steps: 226
  best_checkpoint_export_subdir: 'best_ckpt'
  best_checkpoint_eval_metric: 'final_f1'
  best_checkpoint_metric_comp: 'higher'
  optimizer_config:
    optimizer: {type: adamw}
    learning_rate:
      polynomial: {decay_steps: 3699, end_learning_rate: 0.0, initial_learning_rate: 8.0e-05, power: 1.0}
      type: polynomial
    warmup: {polynomial: {name: polynomial, power: 1, warmup_steps: 370}, type: polynomial}
"""
PRETRAINING = """
task:
  init_checkpoint: ''
  model:
    cls_heads: [{activation: tanh, cls_token_idx: 0, dropout_rate: 0.1, inner_dim: 768, name: next_sentence, num_classes: 2}]
  train_data:
    {drop_remainder: true, global_batch_size: 512, input_path: 'wiki*,books*', is_training: true, max_predictions_per_seq: 76,
     seq_length: 512, use_next_sentence_label: true, use_position_id: false, use_v2_feature_names: true}
  validation_data:
    {drop_remainder: false, global_batch_size: 512, input_path: 'wiki-00000-of-00500,books-00000-of-00500', is_training: false,
     max_predictions_per_seq: 76, seq_length: 512, use_next_sentence_label: true, use_position_id: false,
     use_v2_feature_names: true}
trainer:
  train_steps: 1000000
  steps_per_loop: 1000
  summary_interval: 1000
  checkpoint_interval: 20000
  max_to_keep: 5
  validation_interval: 1000
  validation_steps: 64
  optimizer_config:
    optimizer: {type: adamw}
    learning_rate:
      polynomial: {cycle: false, decay_steps: 1000000, end_learning_rate: 0.0, initial_learning_rate: 0.0001, power: 1.0}
      type: polynomial
    warmup: {polynomial: {power: 1, warmup_steps: 10000}, type: polynomial}
"""
BERT_BASE = """
task: {model: {encoder: {type: bert, bert: {
  attention_dropout_rate: 0.1, dropout_rate: 0.1, hidden_activation: gelu, hidden_size: 768, initializer_range: 0.02,
  intermediate_size: 3072, max_position_embeddings: 512, num_attention_heads: 12, num_layers: 12, type_vocab_size: 2,
  vocab_size: 30522}}}}
"""
LABSE = "task: {model: {encoder: {bert: {num_layers: 12, hidden_activation: gelu, vocab_size: 501153}}}}"
ALBERT_BASE = """
task: {model: {encoder: {type: albert, albert: {
  attention_dropout_rate: 0.0, dropout_rate: 0.0, hidden_activation: gelu, hidden_size: 768, initializer_range: 0.02,
  intermediate_size: 3072, max_position_embeddings: 512, num_attention_heads: 12, num_layers: 12, type_vocab_size: 2,
  vocab_size: 30000}}}}
"""
MOBILEBERT_STUDENT = """
task: {model: {encoder: {type: mobilebert, mobilebert: {
  word_vocab_size: 30522, word_embed_size: 128, type_vocab_size: 2, max_sequence_length: 512, num_blocks: 24, hidden_size: 512,
  num_attention_heads: 4, intermediate_size: 512, hidden_activation: relu, hidden_dropout_prob: 0.0,
  attention_probs_dropout_prob: 0.1, intra_bottleneck_size: 128, initializer_range: 0.02, key_query_shared_bottleneck: true,
  num_feedforward_networks: 4, normalization_type: no_norm, classifier_activation: false}}}}
"""

# Every field of the classes that official/core/config_definitions.py and official/nlp define, with its default.
_DATA = {
    "input_path": "", "tfds_name": "", "tfds_split": "", "global_batch_size": 32, "is_training": None, "drop_remainder": True,
    "shuffle_buffer_size": 100, "cache": False, "cycle_length": None, "block_length": 1, "deterministic": None,
    "sharding": True, "enable_tf_data_service": False, "tf_data_service_address": None, "tf_data_service_job_name": None,
    "tfds_data_dir": "", "tfds_as_supervised": False, "tfds_skip_decoding_feature": "", "ram_budget": None,
    "enable_shared_tf_data_service_between_parallel_trainers": False, "apply_tf_data_service_before_batching": False,
    "trainer_id": None, "seed": None, "prefetch_buffer_size": None, "autotune_algorithm": None,
}  # fmt: skip
DATA = {
    "bert/sentence_prediction": _DATA | {
        "seq_length": 128, "label_type": "int", "include_example_id": False, "label_field": "label_ids", "label_name": None,
        "file_type": "tfrecord",
    },
    "bert/sentence_prediction_text": _DATA | {
        "seq_length": 128, "label_type": "int", "text_fields": None, "label_field": "label", "tokenization": "WordPiece",
        "vocab_file": "", "lower_case": True, "preprocessing_hub_module_url": "", "file_type": "tfrecord",
        "include_example_id": False,
    },
    "bert/squad": _DATA | {
        "seq_length": 384, "version_2_with_negative": False, "input_preprocessed_data_path": "", "doc_stride": 128,
        "query_length": 64, "vocab_file": "", "tokenization": "WordPiece", "do_lower_case": True, "xlnet_format": False,
        "file_type": "tfrecord",
    },
    "bert/pretraining": _DATA | {
        "seq_length": 512, "max_predictions_per_seq": 76, "use_next_sentence_label": True, "use_position_id": False,
        "use_v2_feature_names": False, "file_type": "tfrecord",
    },
}  # fmt: skip
BERT = {
    "vocab_size": 30522, "hidden_size": 768, "num_layers": 12, "num_attention_heads": 12, "hidden_activation": "gelu",
    "intermediate_size": 3072, "dropout_rate": 0.1, "attention_dropout_rate": 0.1, "max_position_embeddings": 512,
    "type_vocab_size": 2, "initializer_range": 0.02, "embedding_size": None, "output_range": None,
    "return_all_encoder_outputs": False, "return_attention_scores": False, "norm_first": False,
}  # fmt: skip
_TASK = {
    "init_checkpoint": "", "name": None, "differential_privacy_config": None, "allow_image_summary": False,
}  # fmt: skip
_SENTENCES = _TASK | {"init_cls_pooler": False, "hub_module_url": "", "metric_type": "accuracy"}
TASKS = {
    "bert/sentence_prediction": _SENTENCES | {"model": {"num_classes": 3, "use_encoder_pooler": False}},
    "bert/sentence_prediction_text": _SENTENCES | {"model": {"num_classes": 3, "use_encoder_pooler": False}},
    "bert/squad": _TASK | {
        "hub_module_url": "", "n_best_size": 20, "max_answer_length": 30, "null_score_diff_threshold": 0.0, "model": {},
    },
    "bert/pretraining": _TASK | {
        "scale_loss": False,
        "model": {
            "cls_heads": [{
                "inner_dim": 768, "num_classes": 2, "activation": "tanh", "dropout_rate": 0.1, "cls_token_idx": 0,
                "name": "next_sentence",
            }],
            "mlm_activation": "gelu", "mlm_initializer_range": 0.02, "mlm_output_weights_use_proj": False,
        },
    },
}  # fmt: skip
_CLIPS = {"clipnorm": None, "clipvalue": None, "global_clipnorm": None}
_ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "amsgrad": False}
TRAINER = {
    "optimizer_config": {
        "optimizer": {
            "type": "adamw",
            "adamw": _CLIPS | _ADAM | {
                "name": "AdamWeightDecay", "weight_decay_rate": 0.01, "include_in_weight_decay": None,
                "exclude_from_weight_decay": ["LayerNorm", "layer_norm", "bias"], "gradient_clip_norm": 1.0,
            },
        },
        "ema": None,
        "learning_rate": {
            "type": "polynomial",
            "polynomial": {
                "name": "PolynomialDecay", "initial_learning_rate": 1e-4, "decay_steps": 1000, "end_learning_rate": 0.0,
                "power": 1.0, "cycle": False, "offset": 0,
            },
        },
        "warmup": {"type": "polynomial", "polynomial": {"name": "polynomial", "power": 1, "warmup_steps": 100}},
    },
    "train_tf_while_loop": True, "train_tf_function": True, "eval_tf_function": True, "eval_tf_while_loop": False,
    "allow_tpu_summary": False, "steps_per_loop": 1000, "summary_interval": 1000, "checkpoint_interval": 1000,
    "max_to_keep": 5, "continuous_eval_timeout": 3600, "train_steps": 1000, "validation_steps": -1,
    "validation_interval": 1000, "best_checkpoint_export_subdir": "", "best_checkpoint_eval_metric": "",
    "best_checkpoint_metric_comp": "higher", "loss_upper_bound": 1e6, "recovery_begin_steps": 0, "recovery_max_trials": 0,
    "validation_summary_subdir": "validation", "preemption_on_demand_checkpoint": True,
}  # fmt: skip
ADAMW_EXPERIMENTAL = _ADAM | {
    "name": "AdamWeightDecayExperimental", "weight_decay": 0.02, "global_clipnorm": 0.5, "jit_compile": False,
}  # fmt: skip
RUNTIME = {
    "distribution_strategy": "mirrored", "enable_xla": False, "gpu_thread_mode": None, "dataset_num_private_threads": None,
    "per_gpu_thread_count": 0, "tpu": None, "num_gpus": 0, "worker_hosts": None, "task_index": -1, "all_reduce_alg": None,
    "num_packs": 1, "mixed_precision_dtype": None, "loss_scale": None, "run_eagerly": False,
    "batchnorm_spatial_persistent": False, "tpu_enable_xla_dynamic_padder": None, "use_tpu_mp_strategy": False,
    "num_cores_per_replica": 1, "default_shard_dim": -1,
}  # fmt: skip
