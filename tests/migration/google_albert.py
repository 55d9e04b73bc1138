"""The README of google-research/albert: pretraining, run_classifier, run_squad_v1 and _v2, run_race, vocabulary and modules."""

import hashlib
import json
from pathlib import Path

from tests.migration.chain import Step, System
from tests.migration.given import give_albert, give_cola, give_english, give_questions, give_race, pack_module, unpack
from tests.migration.google_flags import ALBERT as FLAGS

_HUB = "https://tfhub.dev/google/albert_base/2"


def give(folder: Path) -> None:
    """Text, CoLA, SQuAD, RACE, and one small ALBERT: as a released checkpoint, and in TF-Hub's cache."""
    words = give_english(folder / "text")
    give_cola(folder / "glue" / "CoLA", words)
    give_questions(folder / "squad", words)
    give_race(folder / "data" / "RACE", words)
    give_albert(folder / "albert_base", str(folder / "text" / "*.txt"))
    pack_module(folder / "albert_base", folder / "module.tar.gz")
    unpack(folder / "module.tar.gz", folder / "hub_cache" / hashlib.sha1(_HUB.encode()).hexdigest())


def _learned(folder: Path, output: str) -> None:
    assert json.loads((folder / "cola_output" / "eval_results.json").read_text())["accuracy"] > 0.9
    rows = [line.split("\t") for line in (folder / "cola_output" / "submit_results.tsv").read_text().splitlines()]
    assert rows == [["index", "prediction"], *([f"{i}", f"{i % 2}"] for i in range(20))]
    assert (folder / "cola_output" / "best").is_dir()


def _squad(version: str) -> str:
    return f"""
python -m albert.run_squad_{version[:2]} \\
  --albert_config_file=$ALBERT_DIR/albert_config.json \\
  --output_dir=/tmp/squad_{version[:2]} \\
  --train_file=$SQUAD_DIR/train-{version}.json \\
  --predict_file=$SQUAD_DIR/dev-{version}.json \\
  --train_feature_file=/tmp/train.tf_record \\
  --predict_feature_file=/tmp/dev.tf_record \\
  --predict_feature_left_file=/tmp/dev_left.pkl \\
  --init_checkpoint=$ALBERT_DIR/model.ckpt-best \\
  --spm_model_file=$ALBERT_DIR/30k-clean.model \\
  --do_lower_case \\
  --max_seq_length=384 \\
  --doc_stride=128 \\
  --max_query_length=64 \\
  --do_train=true \\
  --do_predict=true \\
  --train_batch_size=48 \\
  --predict_batch_size=8 \\
  --learning_rate=5e-5 \\
  --num_train_epochs=2.0 \\
  --warmup_proportion=.1 \\
  --save_checkpoints_steps=5000 \\
  --n_best_size=20 \\
  --max_answer_length=30
"""


_SHORTER = {"/tmp/": "", "--do_lower_case": "--do_lower_case --print_config"}  # albert_tf2.py trains on these files

SYSTEM = System(
    name="google_albert",
    title="google-research/albert",
    about="""
The scripts' options work as they are, and so do the released checkpoints (`albert_base_v2.tar.gz`, its folder, or the prefix
`model.ckpt-best` in it), TF-Hub's modules and `30k-clean.model`. Records of either side are read by the other. `run_classifier` and
`run_race` are two commands here: the records of a data set are made once, for all runs on it.

With `--albert_config_file` the run chooses the experiment that fits the data, and says which. An option that you leave out has the
experiment's default, not the script's: the tables below have both. `export_to_tfhub` and
`export_checkpoints` are `pretrain export`.
""",
    programs={
        "spm_train": "nlpdata train-tokenizer",
        "python -m albert.create_pretraining_data": "nlpdata create-pretraining",
        "python -m albert.run_pretraining": "pretrain run",
        "python -m albert.run_classifier": "`nlpdata create-finetuning`, then `pretrain run`",
        "python -m albert.run_squad_v1": "pretrain run",
        "python -m albert.run_squad_v2": "pretrain run",
        "python -m albert.run_race": "`nlpdata create-finetuning`, then `pretrain run`",
        "python -m albert.export_to_tfhub": "pretrain export --format hub",
        "python -m albert.export_checkpoints": "pretrain export --format tf1",
    },
    steps=(
        Step(
            heading="A vocabulary of your own",
            text="""
The command of [ALBERT-TF2.0's page](albert_tf2.md#a-tokenizer-of-your-own) is that of google-research/albert's README. In
short, with the same pieces:
""",
            new="nlpdata train-tokenizer --input 'text/*.txt' --output 30k-clean --vocab-size 30000",
            stand_ins={"30000": "400"},
            writes=("30k-clean.model", "30k-clean.vocab"),
        ),
        Step(
            heading="Records for pretraining",
            text="""
Sentence order, whole words and up to three of them in a row, as in the script. A `.vocab` file next to the `.model` is not
needed, and is left out where both are given.
""",
            old="""
export ALBERT_DIR=/path/to/albert_base
python -m albert.create_pretraining_data \\
  --input_file='text/*.txt' \\
  --output_file=/tmp/pretraining.tf_record \\
  --vocab_file=$ALBERT_DIR/30k-clean.vocab \\
  --spm_model_file=$ALBERT_DIR/30k-clean.model \\
  --max_seq_length=512 \\
  --max_predictions_per_seq=20 \\
  --dupe_factor=40
""",
            stand_ins={
                "/tmp/": "",
                "/path/to/": "",
                "length=512": "length=64",
                "seq=20": "seq=8",
                "factor=40": "factor=2",
            },
            prints=(r"^examples, train +\d\d+$",),
            writes=("pretraining.meta.json",),
        ),
        Step(
            heading="Pretraining",
            text="""
As there, `--do_eval` evaluates on `--input_file`, the training data, and a warning says so; `--eval_files` names other records.
The metrics are the same; those of sentence order are called `next_sentence_accuracy` and `next_sentence_loss`, as the label of
the records is. TF-Hub's modules have no weights for sentence order: they start at random, which is reported.
""",
            old="""
python -m albert.run_pretraining \\
    --input_file=/tmp/pretraining.tf_record \\
    --output_dir=/tmp/pretraining_output \\
    --init_checkpoint=$ALBERT_DIR/model.ckpt-best \\
    --albert_config_file=$ALBERT_DIR/albert_config.json \\
    --do_train \\
    --do_eval \\
    --train_batch_size=4096 \\
    --eval_batch_size=64 \\
    --max_seq_length=512 \\
    --max_predictions_per_seq=20 \\
    --optimizer='lamb' \\
    --learning_rate=.00176 \\
    --num_train_steps=125000 \\
    --num_warmup_steps=3125 \\
    --save_checkpoints_steps=5000
""",
            stand_ins={
                "/tmp/": "",
                "--do_eval": "--do_eval --print_config",
            },
            prints=(r"^experiment: albert/pretraining", r"^ +input_path: pretraining.tf_record$", r"^ +type: lamb$"),
        ),
        Step(
            heading="GLUE: CoLA",
            text="""
The settings of `run_glue.sh` ([all of them](#the-settings-of-the-eight-tasks)). The scores are accuracy, f1 and Matthews'
correlation (STS-B: Pearson and Spearman). Where `keep_checkpoint_max` and `best_trial.txt` chose the best checkpoint there,
`best_checkpoint_export_subdir` keeps it here, in the folder that it names. A module is looked up in TF-Hub's cache; nothing is
downloaded.
""",
            old="""
export ALBERT_ROOT=/path/to
python3 -m run_classifier \\
  --data_dir=$ALBERT_ROOT/glue \\
  --output_dir=/tmp/cola_output \\
  --vocab_file=$ALBERT_ROOT/vocab.txt \\
  --spm_model_file=$ALBERT_ROOT/30k-clean.model \\
  --albert_hub_module_handle=https://tfhub.dev/google/albert_base/2 \\
  --task_name=CoLA \\
  --do_train --do_eval --do_predict \\
  --do_lower_case \\
  --max_seq_length=512 \\
  --optimizer=adamw \\
  --warmup_step=320 \\
  --learning_rate=1e-5 \\
  --train_step=5336 \\
  --save_checkpoints_steps=100 \\
  --train_batch_size=16
""",
            new="""
export ALBERT_ROOT=/path/to
nlpdata create-finetuning \\
  --data_dir=$ALBERT_ROOT/glue \\
  --output_dir=/tmp/cola_records \\
  --spm_model_file=$ALBERT_ROOT/30k-clean.model \\
  --task_name=CoLA \\
  --max_seq_length=512
pretrain run --experiment=albert/sentence_prediction \\
  --data_dir=$ALBERT_ROOT/glue \\
  --output_dir=/tmp/cola_output \\
  --albert_hub_module_handle=https://tfhub.dev/google/albert_base/2 \\
  --task_name=CoLA \\
  --do_train --do_eval --do_predict \\
  --input_files=/tmp/cola_records/train.tfrecord \\
  --eval_files=/tmp/cola_records/dev.tfrecord \\
  --optimizer=adamw \\
  --warmup_step=320 \\
  --learning_rate=1e-5 \\
  --train_step=5336 \\
  --save_checkpoints_steps=100 \\
  --train_batch_size=16 \\
  --params_override=trainer.validation_interval=100,trainer.best_checkpoint_export_subdir=best,\
trainer.best_checkpoint_eval_metric=matthews_corrcoef
""",
            stand_ins={
                "/tmp/": "",
                "/path/to": "albert_base",
                "$ALBERT_ROOT/glue": "glue",
                "length=512": "length=32",
                "step=320": "step=3",
                "rate=1e-5": "rate=1e-2",
                "step=5336": "step=30 --tfhub_cache_dir=hub_cache",
            },
            prints=(r"^evaluation at step 30: .*matthews_corrcoef", r"^best "),
            check=_learned,
        ),
        Step(
            heading="The checkpoint out again",
            text="""
Of any run, without the optimizer's slots, as `export_checkpoints` writes it: `model.ckpt-best` and `albert_config.json`.
`--format hub` makes a module for `hub.KerasLayer` (of TensorFlow 2), `--format h5` the files of ALBERT-TF2.0, `--format hf` a
folder for Transformers ([all formats](../checkpoints.md#converting-and-exporting)).
""",
            old="""
python -m albert.export_checkpoints \\
  --albert_directory=/tmp/cola_output \\
  --export_path=my_albert
""",
            new="pretrain export /tmp/cola_output my_albert --format tf1",
            stand_ins={"/tmp/": ""},
            writes=("my_albert/model.ckpt-best.index", "my_albert/albert_config.json"),
        ),
        Step(
            heading="SQuAD 1.1",
            text="The answers are scored as the official script does, at the end; the JSON is tokenized when the run starts.",
            old="export SQUAD_DIR=/path/to/squad\n" + _squad("v1.1"),
            stand_ins=_SHORTER | {"/path/to/": ""},
            prints=(r"^experiment: albert/squad", r"^--train_feature_file has no effect here", r"^ +type: albert$"),
        ),
        Step(
            heading="SQuAD 2.0",
            text="""
The file says itself that questions may have no answer. The script's answer layer is XLNet's: the end depends on the start, and a
class says whether there is an answer. `--answer_layer=conditional` chooses it, and then `--start_n_top`, `--end_n_top` and
`--dropout_prob` count; without it no answer is the score of the first token, as in BERT and for SQuAD 1.1. The score at the end is
that of `--null_score_diff_threshold` (0: no answer where that is more probable than one); the script's, with the threshold that is
best for the file itself, is `best_f1`.
""",
            old=_squad("v2.0"),
            new=_squad("v2.0").replace("python -m albert.run_squad_v2", "pretrain run --answer_layer=conditional"),
            stand_ins=_SHORTER,
            prints=(
                r"^ +answer_layer: conditional$",
                r"^ +start_n_top: 5$",
                r"^ +input_path: squad/train-v2.0.json$",
                r"^ +doc_stride: 128$",
                r"^ +n_best_size: 20$",
            ),
        ),
        Step(
            heading="RACE",
            text="""
The four sequences of a question, the head and the loss are the same ([choices](../evaluation.md#choices)). `accuracy` is that of
the whole dev set, `accuracy_middle` and `accuracy_high` those of its two levels. `--config_file=race` has the script's
defaults; the commands have them as flags. The test set is scored with `--mode=eval` and `test_middle.tfrecord,test_high.tfrecord`.
""",
            old="""
export RACE_DIR=/path/to/data
python -m albert.run_race \\
  --albert_config_file=$ALBERT_DIR/albert_config.json \\
  --output_dir=/tmp/race_output \\
  --train_file=/tmp/train.tf_record \\
  --eval_file=/tmp/eval.tf_record \\
  --data_dir=$RACE_DIR \\
  --init_checkpoint=$ALBERT_DIR/model.ckpt-best \\
  --spm_model_file=$ALBERT_DIR/30k-clean.model \\
  --max_seq_length=512 \\
  --max_qa_length=128 \\
  --do_train \\
  --do_eval \\
  --train_batch_size=32 \\
  --eval_batch_size=8 \\
  --learning_rate=1e-5 \\
  --train_step=12000 \\
  --warmup_step=1000 \\
  --save_checkpoints_steps=100
""",
            new="""
export RACE_DIR=/path/to/data
nlpdata create-finetuning --task_name=race \\
  --data_dir=$RACE_DIR \\
  --output_dir=/tmp/race_records \\
  --spm_model_file=$ALBERT_DIR/30k-clean.model \\
  --max_seq_length=512 \\
  --max_qa_length=128
pretrain run --experiment=albert/multiple_choice \\
  --albert_config_file=$ALBERT_DIR/albert_config.json \\
  --output_dir=/tmp/race_output \\
  --init_checkpoint=$ALBERT_DIR/model.ckpt-best \\
  --input_files=/tmp/race_records/train.tfrecord \\
  --eval_files=/tmp/race_records/dev_middle.tfrecord,/tmp/race_records/dev_high.tfrecord \\
  --do_train \\
  --do_eval \\
  --train_batch_size=32 \\
  --eval_batch_size=8 \\
  --learning_rate=1e-5 \\
  --train_step=12000 \\
  --warmup_step=1000 \\
  --save_checkpoints_steps=100 \\
  --params_override=trainer.validation_interval=100,trainer.best_checkpoint_export_subdir=best,\
trainer.best_checkpoint_eval_metric=accuracy
""",
            stand_ins={
                "/tmp/": "",
                "/path/to/": "",
                "length=512": "length=64",
                "step=12000": "step=3",
                "step=1000": "step=1",
            },
            prints=(
                r"^evaluation at step 3: .*accuracy [\d.]+.*accuracy_middle [\d.]+.*accuracy_high [\d.]+",
                r"^best ",
            ),
            writes=("race_output/eval_report.tsv",),
        ),
    ),
    give=give,
    flags=FLAGS,
    after="""
## The settings of the eight tasks

| task | `--warmup_step` | `--learning_rate` | `--train_step` | `--save_checkpoints_steps` | `--train_batch_size` |
|---|---|---|---|---|---|
| SST-2 | 1256 | 1e-5 | 20935 | 100 | 32 |
| MNLI | 1000 | 3e-5 | 10000 | 100 | 128 |
| CoLA | 320 | 1e-5 | 5336 | 100 | 16 |
| QNLI | 1986 | 1e-5 | 33112 | 200 | 32 |
| QQP | 1000 | 5e-5 | 14000 | 100 | 128 |
| RTE | 200 | 3e-5 | 800 | 100 | 32 |
| STS-B | 214 | 2e-5 | 3598 | 100 | 16 |
| MRPC | 200 | 2e-5 | 800 | 100 | 32 |

## What gives other numbers, and how to get the same

| there | here | the same |
|---|---|---|
| a chunk of one sentence, and a document of one, get a random second segment | both segments are of one document, always
    ([differences](../differences.md#sentence-order-sop)) | not possible, and not wanted |
| pieces with a character outside ASCII begin a word | words begin at the word mark ([masking](../differences.md#masking)) | not
    possible |
| LAMB and AdamW without bias correction | AdamW in pretraining: the same; LAMB, and all fine-tuning: with it |
    `--params_override=trainer.optimizer_config.optimizer.bias_correction=false` |
| the rate falls from step 0 on, and drops where warm-up ends | it falls from where warm-up ends, so that the rate given is
    reached | `--params_override=trainer.optimizer_config.learning_rate.decay_steps=N` (N: the number of steps) gives the
    script's rates from the end of warm-up on ([the learning rate](../differences.md#the-learning-rate)) |
| the norm of the gradients is limited to 1.0 | the same | |
| steps of SQuAD: int(questions / batch * epochs) | int(windows / batch) * epochs | `--num_train_steps` |
| tokens of SQuAD are aligned with the text by a longest common subsequence; a question where too little matches is left out |
    exactly, through both normalisations ([fine-tuning](../finetuning.md#squad)) | not possible, and not wanted |
| SQuAD 2.0: XLNet's answer layer, 5 starts with 5 ends each | a start and an end for each token, as in BERT |
    `--answer_layer=conditional` |
| SQuAD 2.0: a question is left unanswered by the threshold that is best for the file itself | by
    `--null_score_diff_threshold`, 0 | a second `pretrain run --mode=eval` with the `best_f1_thresh` of the first |
| batches have the full length | fine-tuning cuts each batch to its longest example: the same numbers, faster |
    `--params_override=task.train_data.trim_padding=false` |

Weight decay (0.01, not of biases and layer normalisation), epsilon (1e-6), dropout of the classifier (0.1) and gelu by tanh are
the same. A forward pass gives the scripts' numbers within 2e-5 ([checkpoints](../checkpoints.md#numbers)).
""",
)
