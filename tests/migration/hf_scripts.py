"""What the pages about the example scripts of Transformers share: the options of its Trainer and models, and how it trains."""

_OPTIMIZER = "trainer.optimizer_config.optimizer"


def trainer_rows(learning_rate: str, batch: str, epochs: str, kept: str) -> str:
    """Lines of a table of flags: those of TrainingArguments and ModelArguments.

    Args:
      learning_rate, batch, epochs, kept: defaults of the experiment here; kept: checkpoints.
    """
    return f"""
model_name_or_path | required | `--init_checkpoint` | | a folder, or a name that is in that library's cache; nothing is downloaded
config_name | the model's | `--model_config` | | a folder, a file, or a name
tokenizer_name | the model's | `--tokenizer` | | another one than the model's is refused
cache_dir | none | not needed | | the variables `HF_HOME` and `HF_HUB_CACHE` count
use_fast_tokenizer, model_revision, use_auth_token, token, trust_remote_code | | not needed | | the folder of a snapshot names a
    revision; a model's own code is never run
output_dir | required | same | | folder of the run
overwrite_output_dir, resume_from_checkpoint | | not needed | | the same command resumes; for a new run name another folder
do_train, do_eval | False | same | | with both also on the way, see `eval_steps`
do_predict | False | same | | or `pretrain predict`
per_device_train_batch_size | 8 | `--train_batch_size` | {batch} | of all devices and micro-steps together: the script's number
    times devices, and times `gradient_accumulation_steps`
per_device_eval_batch_size | 8 | `--eval_batch_size` | {batch} | results do not depend on it
gradient_accumulation_steps | 1 | same | | the number of parts of a batch
num_train_epochs | 3.0 | same | {epochs} | whole numbers
max_steps | -1 | same | | by default none; leave -1 out
learning_rate | 5e-5 | same | {learning_rate} |
lr_scheduler_type | linear | `--params_override=trainer.optimizer_config.learning_rate.type=cosine` | | linear is
    the default here, too; [all forms](../optimization.md#learning-rates)
warmup_ratio | 0.0 | `--warmup_proportion` | 0.1 | rises to the same rate, and falls to 0 in the same straight line
warmup_steps | 0 | same | | by default a tenth of the steps
weight_decay | 0.0 | same | 0.01 | not of biases and layer normalisation, there and here
adam_beta1, adam_beta2 | 0.9, 0.999 | `--params_override={_OPTIMIZER}.beta_1=0.9` | | `beta_2`
adam_epsilon | 1e-8 | same | 1e-6 |
max_grad_norm | 1.0 | `--params_override={_OPTIMIZER}.gradient_clip_norm=1.0` | |
optim | adamw_torch | `--optimizer` | adamw | `adafactor` is Keras's, with other settings
seed | 42 | same | 12345 | `--seeds 5` makes five runs, and their median
fp16, bf16 | False | `--mixed_precision_dtype` | float32 | float16, bfloat16
logging_steps | 500 | `--params_override=trainer.summary_interval=500` | 10 |
eval_strategy, evaluation_strategy, eval_steps | no | `--params_override=trainer.validation_interval=500` | 1000 | our
    `--eval_steps` is the number of batches of an evaluation
save_strategy, save_steps | 500 | `--save_checkpoints_steps` | 1000 |
save_total_limit | none | `--keep_checkpoint_max` | {kept} |
load_best_model_at_end, metric_for_best_model, greater_is_better | False |
    `--params_override=trainer.best_checkpoint_export_subdir=best,trainer.best_checkpoint_eval_metric=f1` | | kept in the folder
    `best`; `pretrain export --which best`
dataloader_drop_last | False | `--params_override=task.train_data.drop_remainder=false` | true |
dataloader_num_workers, preprocessing_num_workers | 0, none | not needed | | records are made in processes (`--workers` of
    create-pretraining and create-finetuning) and read in a thread
group_by_length | False | `--params_override=task.train_data.group_by_length=true` | false |
gradient_checkpointing | False | `--params_override=runtime.gradient_checkpointing=true` | false |
ddp_backend, local_rank, no_cuda, use_cpu, tpu_num_cores | | `--strategy_type`, `--num_gpus` | | [several
    devices](../training.md#several-devices); several hosts by `TF_CONFIG`
torch_compile, tf32, half_precision_backend | | `--enable_xla` | | of TensorFlow; JAX always compiles
deepspeed, fsdp | none | no counterpart | | weights are not divided over devices
report_to, logging_dir | | not needed | | `metrics.jsonl` and TensorBoard's files are always written
push_to_hub, hub_model_id, hub_token | | `--export_formats=hf` | | a folder for that library; nothing is uploaded
overwrite_cache | False | `--overwrite` of create-pretraining and create-finetuning | |
dataset_name, dataset_config_name | none | files | | or a set that TensorFlow Datasets has prepared (`--tfds`)
"""


SAME_OPTIMIZER = (
    "--weight_decay=0 --adam_epsilon=1e-8 --warmup_proportion=0 --params_override=task.train_data.drop_remainder=false"
)
SAME_NUMBERS = """
| there | here | the same |
|---|---|---|
| AdamW with bias correction | fine-tuning: the same; pretraining: without it, as BERT |
    `--params_override=trainer.optimizer_config.optimizer.bias_correction=true` |
| no weight decay, epsilon 1e-8, no warm-up | 0.01, 1e-6, a tenth of the steps | `--weight_decay=0 --adam_epsilon=1e-8
    --warmup_proportion=0` |
| the last batch of an epoch is smaller | it is left out | `--params_override=task.train_data.drop_remainder=false` |
| a batch is the mean of its devices' means | the mean over all of its examples | on one device they are equal |
"""
