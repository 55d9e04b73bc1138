"""All flags of the scripts of google-research/bert and google-research/albert."""

from tests.migration.chain import Flags

_BERT = """
bert_config_file | required | same | | the experiment's model without it, or that of `--init_checkpoint`
output_dir | required | same | | folder of the run, which the same command resumes, as there
init_checkpoint | none | same | | prefix, folder or zip file; what became of each weight is reported
save_checkpoints_steps | 1000 | same | | the newest 5 are kept, of a fine-tuning 2 (`--keep_checkpoint_max`)
iterations_per_loop | 1000 | same | 10 | how often the loss is looked at; the results are the same
tpu_name | none | same | | and the run computes on TPUs
use_tpu, tpu_zone, gcp_project, master, num_tpu_cores | | accepted | | no effect: `--tpu_name` names a TPU, and all of its cores
    are used
"""
_FINETUNING = """
vocab_file | required | same | | of `pretrain run` needed for JSON alone: records know their tokenizer
do_lower_case | True | same | as stored | of create-finetuning; of a `vocab.txt` alone lower case where its entries have no
    capitals. `pretrain run` takes it from the tokenizer in the same way
do_train | False | same | | or `--mode`; without any of the three a run trains
train_batch_size | 32 | same | |
predict_batch_size | 8 | same | 32 | results do not depend on it
num_train_epochs | 3.0 | same | {epochs} | whole numbers; other lengths with `--num_train_steps`
warmup_proportion | 0.1 | same | | the script's rate drops where warm-up ends, ours does not: see below
learning_rate | 5e-5 | same | 3e-5 |
"""

BERT = (
    Flags(
        "create_pretraining_data.py",
        ("nlpdata create-pretraining",),
        """
input_file | required | same | | patterns, folders, JSON lines and compressed files, too
output_file | required | same | | one name: as many shards as the size needs; several names: these
vocab_file | required | same | |
do_lower_case | True | same | as stored | of a `vocab.txt` alone lower case where its entries have no capitals
do_whole_word_mask | False | same | True | `--no-whole-word` for single pieces. In both, each piece of a word draws its own
    80/10/10
max_seq_length | 128 | same | 512 |
max_predictions_per_seq | 20 | same | | by default length times `--masked_lm_prob`, rounded up: 20 of 128, 77 of 512
random_seed | 12345 | same | | other draws: see below
dupe_factor | 10 | same | |
masked_lm_prob | 0.15 | same | |
short_seq_prob | 0.1 | same | |
""",
    ),
    Flags(
        "run_pretraining.py",
        ("pretrain run",),
        _BERT
        + """
input_file | required | same | |
max_seq_length | 128 | same | | by default that of the records; another one is refused
max_predictions_per_seq | 20 | same | | by default that of the records, too
do_train, do_eval | False | same | | or `--mode`; without any a run trains
train_batch_size | 32 | same | 256 |
eval_batch_size | 8 | same | 256 | does not change the result: each record counts once
learning_rate | 5e-5 | same | 1e-4 |
num_train_steps | 100000 | same | | by default one epoch
num_warmup_steps | 10000 | same | | by default a tenth of the steps; as many as the run has are refused
max_eval_steps | 100 | same | -1 | -1: all records, each once; there the records begin anew until the steps are done
""",
        "bert/pretraining",
    ),
    Flags(
        "run_classifier.py",
        ("nlpdata create-finetuning", "pretrain run"),
        _BERT
        + _FINETUNING.format(epochs="3")
        + """
data_dir, task_name | required | same | | of create-finetuning; of `pretrain run` for `--do_predict`
max_seq_length | 128 | same | | of create-finetuning: by default 128, too
do_eval | False | same | | on `--eval_files`; with `--do_train` also on the way, every 1000 steps
do_predict | False | same | | of the test set; or `pretrain predict`
eval_batch_size | 8 | same | 32 | results do not depend on it
""",
        "bert/sentence_prediction",
    ),
    Flags(
        "run_squad.py",
        ("pretrain run",),
        _BERT
        + _FINETUNING.format(epochs="2")
        + """
train_file, predict_file | none | same | | `--eval_files` evaluates another file on the way
max_seq_length | 384 | same | | by default 384 of JSON, and that of records
doc_stride | 128 | same | | by default 128; of `--predict_file` as in training, and at most half the length
max_query_length | 64 | same | | by default 64; of `--predict_file` as in training, and at most a quarter of the length
do_predict | False | same | |
n_best_size | 20 | same | |
max_answer_length | 30 | same | |
version_2_with_negative | False | same | | by default as the file or the records say
null_score_diff_threshold | 0.0 | same | |
verbose_logging | False | accepted | | no effect: what cannot be used is always reported
""",
        "bert/squad",
    ),
    Flags(
        "extract_features.py",
        ("pretrain.load",),
        """
input_file, output_file | required | your code | | texts are a list, vectors are arrays
layers | -1,-2,-3,-4 | `encoder_outputs[-4:]` | | with `every_layer=True`
init_checkpoint, bert_config_file, vocab_file | required | the folder | | `model_config=` and `tokenizer=` name others
do_lower_case | True | as stored | | with a `vocab.txt` alone: lower case
max_seq_length | 128 | your code | | of `embed` an argument of that name
batch_size | 32 | your code | | of `embed` an argument of that name
use_tpu, master, num_tpu_cores, use_one_hot_embeddings | | not needed | | Keras's backend chooses the device
""",
    ),
)

_DEVICES = """
tpu_name | none | same | | and the run computes on TPUs
use_tpu, tpu_zone, gcp_project, master, num_tpu_cores | | accepted | | no effect: `--tpu_name` names a TPU, and all of its cores
    are used
iterations_per_loop | 1000 | same | 10 | how often the loss is looked at; the results are the same
"""
_ALBERT = """
albert_config_file | required | same | | the experiment's model without it, or that of the checkpoint
output_dir | required | same | | folder of the run
init_checkpoint | none | same | | prefix, folder or archive; what became of each weight is reported
"""
_ALBERT_SQUAD = """
vocab_file, spm_model_file | none | same | | give one of the two: the `.model` file
train_file, predict_file | none | same | |
train_feature_file, predict_feature_file, predict_feature_left_file | none | accepted | | no effect: questions are tokenized
    when a run starts. Records that stay: `nlpdata create-finetuning --task squad`
albert_hub_module_handle | none | same | | the same as `--init_checkpoint`: looked up in TF-Hub's cache
do_lower_case | True | accepted | as stored | the `.model` file's own options; ALBERT's models lower-case
max_seq_length | 384 | same | | by default 384
doc_stride | 128 | same | | by default 128; of `--predict_file` as in training, and at most half the length
max_query_length | 64 | same | | by default 64; of `--predict_file` as in training, and at most a quarter of the length
do_train, do_predict | False | same | |
train_batch_size | 32 | same | 48 |
predict_batch_size | 8 | same | 48 | results do not depend on it
learning_rate | 5e-5 | same | |
num_train_epochs | 3.0 | same | 2 | whole numbers
warmup_proportion | 0.1 | same | |
save_checkpoints_steps | 1000 | same | |
n_best_size | 20 | same | |
max_answer_length | 30 | same | |
"""

ALBERT = (
    Flags(
        "create_pretraining_data",
        ("nlpdata create-pretraining",),
        """
input_file | required | same | | patterns, folders, JSON lines and compressed files, too
output_file | required | same | |
vocab_file, spm_model_file | required, none | same | | the `.model` file; a `vocab.txt` alone is WordPiece
input_file_mode | r | accepted | | no effect: text is UTF-8
do_lower_case | True | same | as stored | `--no-do-lower-case` for cased models
do_whole_word_mask | True | same | |
do_permutation | False | same | | True is refused
favor_shorter_ngram | True | same | |
random_next_sentence | False | same | | True is `--objective nsp`
max_seq_length | 512 | same | |
ngram | 3 | same | |
max_predictions_per_seq | 20 | same | | by default length times `--masked_lm_prob`, rounded up: 77 of 512
random_seed | 12345 | same | | of n-gram lengths, too, which there no seed sets
dupe_factor | 40 | same | 10 |
masked_lm_prob | 0.15 | same | |
short_seq_prob | 0.1 | same | |
""",
    ),
    Flags(
        "run_pretraining",
        ("pretrain run",),
        _ALBERT
        + _DEVICES
        + """
input_file | required | same | |
max_seq_length | 512 | same | | by default that of the records; another one is refused
max_predictions_per_seq | 20 | same | | by default that of the records, too
do_train | True | same | | or `--mode`; without any a run trains
do_eval | False | same | |
train_batch_size | 4096 | same | 128 |
eval_batch_size | 64 | same | 128 | does not change the result: each record counts once
optimizer | lamb | same | |
learning_rate | 0.00176 | same | 3.1e-4 | 0.00176 is for a batch of 4096
poly_power | 1.0 | same | |
num_train_steps | 125000 | same | | by default one epoch
num_warmup_steps | 3125 | same | | by default a tenth of the steps
start_warmup_step | 0 | leave it out | | another rate: [all forms](../optimization.md#learning-rates)
save_checkpoints_steps | 5000 | same | 1000 |
keep_checkpoint_max | 5 | same | |
max_eval_steps | 100 | same | -1 | -1: all records, each once
init_from_group0 | False | leave it out | | groups start as the checkpoint has them
masked_lm_budget | 0 | leave it out | | masks made in training: records of `--masking dynamic`
""",
        "albert/pretraining",
    ),
    Flags(
        "run_classifier",
        ("nlpdata create-finetuning", "pretrain run"),
        _ALBERT
        + _DEVICES
        + """
data_dir, task_name | required | same | | of create-finetuning; of `pretrain run` for `--do_predict`. The task `mismnli` is
    `mnli-mismatched`
vocab_file, spm_model_file | none | same | | of create-finetuning: the records keep it
cached_dir | output_dir | `--output` of create-finetuning | | the records know their length and tokenizer: others are refused
albert_hub_module_handle | none | same | | the same as `--init_checkpoint`: looked up in TF-Hub's cache
do_lower_case | True | same | as stored | of create-finetuning
max_seq_length | 512 | same | | of create-finetuning: by default 128
do_train, do_eval, do_predict | False | same | | with `--do_train --do_eval` also on the way, every
    `trainer.validation_interval` (1000) steps
train_batch_size | 32 | same | |
eval_batch_size, predict_batch_size | 8 | same | 32 | results do not depend on it
learning_rate | 5e-5 | same | 2e-5 |
train_step | 1000 | same | | by default three epochs
warmup_step | 0 | same | | by default a tenth of the steps; `--warmup_proportion=0` for none
save_checkpoints_steps | 1000 | same | |
keep_checkpoint_max | 5 | same | 2 |
optimizer | adamw | same | |
""",
        "albert/sentence_prediction",
    ),
    Flags(
        "run_race",
        ("nlpdata create-finetuning", "pretrain run"),
        _ALBERT
        + _DEVICES
        + """
data_dir, task_name | required, race | same | | of create-finetuning
train_file, eval_file, predict_file | none | `--input_files` | | records of create-finetuning, made once; `--eval_files` those
    that are scored
vocab_file, spm_model_file | none | same | | of create-finetuning: the records keep it
albert_hub_module_handle | none | same | | the same as `--init_checkpoint`: looked up in TF-Hub's cache
do_lower_case | True | same | as stored | of create-finetuning
max_seq_length | 512 | same | | of create-finetuning: by default 512 for RACE, too
max_qa_length | 128 | same | | of create-finetuning
high_only, middle_only | False | same | | of create-finetuning; or `--eval_files` with one level alone
do_train, do_eval | True | same | | or `--mode`; without any a run trains. With both also on the way, every
    `trainer.validation_interval` (1000) steps
do_predict | False | `--eval_files` | | with `--mode=eval` and the test records, which have their answers; `pretrain predict`
    for questions of your own
dropout_prob | 0.1 | `--classifier_dropout` | |
train_batch_size | 32 | same | | questions, of four sequences each
eval_batch_size, predict_batch_size | 8 | same | 32 | results do not depend on it
learning_rate | 1e-5 | same | |
train_step | 12000 | same | | by default three epochs; 12000 in `--config_file=race`
warmup_step | 1000 | same | | by default a tenth of the steps; 1000 in `--config_file=race`
save_checkpoints_steps | 100 | same | 1000 |
num_keep_checkpoint | 5 | `--keep_checkpoint_max` | 2 | the script does not read it: it keeps the best and the newest
""",
        "albert/multiple_choice",
    ),
    Flags(
        "run_squad_v1",
        ("pretrain run",),
        _ALBERT
        + _DEVICES
        + _ALBERT_SQUAD
        + """
use_einsum | True | accepted | | no effect: it chooses operations, not what they compute
export_dir | none | `--export_formats=savedmodel` | | `--export_dir` names the folder
""",
        "albert/squad",
    ),
    Flags(
        "run_squad_v2",
        ("pretrain run",),
        _ALBERT
        + _DEVICES
        + _ALBERT_SQUAD
        + """
start_n_top, end_n_top | 5 | same | | with `--answer_layer=conditional`, which is the script's layer
dropout_prob | 0.1 | same | | with `--answer_layer=conditional`; of the answer layer alone
""",
        "albert/squad",
    ),
)
