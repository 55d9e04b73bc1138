"""The README of google-research/bert: pretraining, run_classifier.py, run_squad.py, extract_features.py."""

import json
from pathlib import Path

from tests.migration.chain import Step, System
from tests.migration.given import give_bert, give_questions, give_text
from tests.migration.google_flags import BERT as FLAGS
from tests.pages import WORDS, give_datasets


def give(folder: Path) -> None:
    """Text, MRPC, SQuAD, and the folder of a published checkpoint: all of them small."""
    give_datasets(folder)
    give_questions(folder / "squad", WORDS[30:60])
    give_text(folder / "sample_text.txt")
    give_bert(folder / "uncased_L-12_H-768_A-12", "tf1")


def _masked(folder: Path, output: str) -> None:
    meta = json.loads((folder / "tf_examples.meta.json").read_text())
    assert meta["task_type"] == "bert_pretraining"
    assert (meta["options"]["whole_word"], meta["options"]["max_ngram"]) == (False, 1)


def _learned(folder: Path, output: str) -> None:
    assert json.loads((folder / "mrpc_output" / "eval_results.json").read_text())["accuracy"] > 0.9
    rows = [line.split("\t") for line in (folder / "test_results.tsv").read_text().splitlines()]
    assert [row[1] for row in rows] == ["prediction", *["0", "1"] * 20]


_SQUAD = """
python run_squad.py \\
  --vocab_file=$BERT_BASE_DIR/vocab.txt \\
  --bert_config_file=$BERT_BASE_DIR/bert_config.json \\
  --init_checkpoint=$BERT_BASE_DIR/bert_model.ckpt \\
  --do_train=True \\
  --train_file=$SQUAD_DIR/train-{version}.json \\
  --do_predict=True \\
  --predict_file=$SQUAD_DIR/dev-{version}.json \\
  --train_batch_size={batch} \\
  --learning_rate=3e-5 \\
  --num_train_epochs=2.0 \\
  --max_seq_length=384 \\
  --doc_stride=128 \\
  --output_dir=/tmp/{folder}/{more}
"""
_SHORTER = {"/tmp/": "", "--doc_stride=128": "--doc_stride=20 --print_config"}  # hf_run_qa.py trains on these files


SYSTEM = System(
    name="google_bert",
    title="google-research/bert",
    about="""
The scripts' options work as they are, and so do the released checkpoints and their zip files. Records of either side are read by
the other. `run_classifier.py` is two commands here: the records of a data set are made once, for all runs on it. Its tasks CoLA,
MNLI, MRPC and XNLI have the same columns and the same order of labels, and so have the other sets of GLUE; in place of a
`DataProcessor` of your own you name the columns of your table ([fine-tuning](../finetuning.md#your-own-files)).

With `--bert_config_file` the run chooses the experiment that fits the data, and says which. An option that you leave out has
the experiment's default, not the script's: the tables below have both.
""",
    programs={
        "python create_pretraining_data.py": "nlpdata create-pretraining",
        "python run_pretraining.py": "pretrain run",
        "python run_classifier.py": "`nlpdata create-finetuning`, then `pretrain run` or `pretrain predict`",
        "python run_squad.py": "pretrain run",
        "python extract_features.py": "`pretrain.load`, from Python",
    },
    steps=(
        Step(
            heading="Records for pretraining",
            text="""
The last line makes examples and masks as the script does: next sentences, and single pieces. Without it they are ALBERT's:
sentence order, whole words, and up to three words in a row. All of a corpus is one command, whatever its size: text is not held
in memory, and the random segment comes from any file.
""",
            old="""
export BERT_BASE_DIR=/path/to/bert/uncased_L-12_H-768_A-12
python create_pretraining_data.py \\
  --input_file=./sample_text.txt \\
  --output_file=/tmp/tf_examples.tfrecord \\
  --vocab_file=$BERT_BASE_DIR/vocab.txt \\
  --do_lower_case=True \\
  --max_seq_length=128 \\
  --max_predictions_per_seq=20 \\
  --masked_lm_prob=0.15 \\
  --random_seed=12345 \\
  --dupe_factor=5
""",
            new="""
export BERT_BASE_DIR=/path/to/bert/uncased_L-12_H-768_A-12
nlpdata create-pretraining \\
  --input_file=./sample_text.txt \\
  --output_file=/tmp/tf_examples.tfrecord \\
  --vocab_file=$BERT_BASE_DIR/vocab.txt \\
  --do_lower_case=True \\
  --max_seq_length=128 \\
  --max_predictions_per_seq=20 \\
  --masked_lm_prob=0.15 \\
  --random_seed=12345 \\
  --dupe_factor=5 \\
  --objective=nsp --no-whole-word --max-ngram=1
""",
            stand_ins={"/tmp/": "", "/path/to/bert/": "", "seq_length=128": "seq_length=32", "per_seq=20": "per_seq=5"},
            prints=(r"^examples, train +\d\d+$",),
            check=_masked,
        ),
        Step(
            heading="Pretraining",
            text="""
As there, `--do_eval` evaluates on `--input_file`, the training data, and a warning says so; `--eval_files` names other records.
The metrics are the same four. Without `--init_checkpoint` the weights start at random; with it the heads are trained further,
too.
""",
            old="""
python run_pretraining.py \\
  --input_file=/tmp/tf_examples.tfrecord \\
  --output_dir=/tmp/pretraining_output \\
  --do_train=True \\
  --do_eval=True \\
  --bert_config_file=$BERT_BASE_DIR/bert_config.json \\
  --init_checkpoint=$BERT_BASE_DIR/bert_model.ckpt \\
  --train_batch_size=32 \\
  --max_seq_length=128 \\
  --max_predictions_per_seq=20 \\
  --num_train_steps=20 \\
  --num_warmup_steps=10 \\
  --learning_rate=2e-5
""",
            stand_ins={
                "/tmp/": "",
                "seq_length=128": "seq_length=32",
                "per_seq=20": "per_seq=5 --max_eval_steps=2",
                "train_steps=20": "train_steps=4",
                "warmup_steps=10": "warmup_steps=2",
            },
            prints=(
                r"^experiment: bert/pretraining",
                r"weights matched",
                r"reads the training data",
                r"^evaluation at step 4: .*next_sentence_accuracy",
            ),
        ),
        Step(
            heading="The checkpoint out again",
            text="""
`bert_model.ckpt` and `bert_config.json` with the names of google-research/bert, for what reads released checkpoints; `--format
hf` is for Transformers ([all formats](../checkpoints.md#converting-and-exporting)).
""",
            new="pretrain export /tmp/pretraining_output my_bert --format tf1",
            stand_ins={"/tmp/": ""},
            writes=("my_bert/bert_model.ckpt.index", "my_bert/bert_config.json", "my_bert/vocab.txt"),
        ),
        Step(
            heading="Classification: MRPC",
            text="The records keep their tokenizer, their length and their classes, which the run takes from them.",
            old="""
export GLUE_DIR=/path/to/glue

python run_classifier.py \\
  --task_name=MRPC \\
  --do_train=true \\
  --do_eval=true \\
  --data_dir=$GLUE_DIR/MRPC \\
  --vocab_file=$BERT_BASE_DIR/vocab.txt \\
  --bert_config_file=$BERT_BASE_DIR/bert_config.json \\
  --init_checkpoint=$BERT_BASE_DIR/bert_model.ckpt \\
  --max_seq_length=128 \\
  --train_batch_size=32 \\
  --learning_rate=2e-5 \\
  --num_train_epochs=3.0 \\
  --output_dir=/tmp/mrpc_output/
""",
            new="""
export GLUE_DIR=/path/to/glue

nlpdata create-finetuning \\
  --task_name=MRPC \\
  --data_dir=$GLUE_DIR/MRPC \\
  --vocab_file=$BERT_BASE_DIR/vocab.txt \\
  --max_seq_length=128 \\
  --output_dir=/tmp/mrpc_records
pretrain run \\
  --task_name=MRPC \\
  --do_train=true \\
  --do_eval=true \\
  --input_files=/tmp/mrpc_records/train.tfrecord \\
  --eval_files=/tmp/mrpc_records/dev.tfrecord \\
  --bert_config_file=$BERT_BASE_DIR/bert_config.json \\
  --init_checkpoint=$BERT_BASE_DIR/bert_model.ckpt \\
  --train_batch_size=32 \\
  --learning_rate=2e-5 \\
  --num_train_epochs=3.0 \\
  --output_dir=/tmp/mrpc_output/
""",
            stand_ins={
                "/tmp/": "",
                "/path/to/": "",
                "seq_length=128": "seq_length=16",
                "train_batch_size=32": "train_batch_size=20",
                "rate=2e-5": "rate=2e-2",
                "epochs=3.0": "epochs=10.0",
            },
            prints=(r"^experiment: bert/sentence_prediction", r"^evaluation at step 20: .*accuracy"),
        ),
        Step(
            heading="Prediction from the classifier",
            text="""
The tokenizer, the length and the configuration are kept with the run. `test_results.tsv` has a header, and in front of the
probabilities the index and the class; `--format glue` makes what GLUE's server takes.
""",
            old="""
export TRAINED_CLASSIFIER=/tmp/mrpc_output/

python run_classifier.py \\
  --task_name=MRPC \\
  --do_predict=true \\
  --data_dir=$GLUE_DIR/MRPC \\
  --vocab_file=$BERT_BASE_DIR/vocab.txt \\
  --bert_config_file=$BERT_BASE_DIR/bert_config.json \\
  --init_checkpoint=$TRAINED_CLASSIFIER \\
  --max_seq_length=128 \\
  --output_dir=/tmp/mrpc_output/
""",
            new="""
export TRAINED_CLASSIFIER=/tmp/mrpc_output/

pretrain predict \\
  --input=$GLUE_DIR/MRPC/test.tsv \\
  --init_checkpoint=$TRAINED_CLASSIFIER \\
  --output=/tmp/test_results.tsv
""",
            stand_ins={"/tmp/": ""},
            check=_learned,
        ),
        Step(
            heading="SQuAD 1.1",
            text="""
The JSON is read as it is, and tokenized when the run starts. The answers are scored as the official script does:
`evaluate-v1.1.py` is not needed. For several runs on one set make its records once, with `nlpdata create-finetuning --task
squad`.
""",
            old="export SQUAD_DIR=/path/to/squad\n"
            + _SQUAD.format(version="v1.1", batch=12, folder="squad_base", more=""),
            stand_ins=_SHORTER | {"/path/to/": ""},
            prints=(r"^experiment: bert/squad", r"^ +doc_stride: 20$", r"^ +hidden_size: 32$"),
        ),
        Step(
            heading="SQuAD 2.0",
            text="""
The scores are those of `evaluate-v2.0.py`, the best threshold among them (`best_f1_thresh`), and `null_odds.json` is written,
too. The same command with `--do_train=False` and that number as `--null_score_diff_threshold` writes the answers again.
""",
            old=_SQUAD.format(
                version="v2.0", batch=24, folder="squad_large", more=" \\\n  --version_2_with_negative=True"
            ),
            stand_ins=_SHORTER | {"negative=True": "negative=True --print_config"},
            prints=(
                r"^ +version_2_with_negative: true$",
                r"^ +input_path: squad/train-v2.0.json$",
                r"^ +query_length: null$",
            ),
        ),
        Step(
            heading="Feature vectors",
            text="""
Here it is a few lines of Python. `layers` has an array (texts, tokens, hidden size) for each layer, the last one at the end;
`model.embed` gives one vector for each text or pair ([predictions](../evaluation.md#predictions)).
""",
            old="""
echo 'Who was Jim Henson ? ||| Jim Henson was a puppeteer' > /tmp/input.txt

python extract_features.py \\
  --input_file=/tmp/input.txt \\
  --output_file=/tmp/output.jsonl \\
  --vocab_file=$BERT_BASE_DIR/vocab.txt \\
  --bert_config_file=$BERT_BASE_DIR/bert_config.json \\
  --init_checkpoint=$BERT_BASE_DIR/bert_model.ckpt \\
  --layers=-1,-2,-3,-4 \\
  --max_seq_length=128 \\
  --batch_size=8
""",
            new="""
cat > vectors.py <<'END'
import sys

import numpy as np
import pretrain

model = pretrain.load(sys.argv[1])
tokenizer = model.tokenizer
pieces, lengths = tokenizer.encode(["Who was Jim Henson ?", "Jim Henson was a puppeteer"])
first, second = pieces[: lengths[0]], pieces[lengths[0] :]
cls, sep = tokenizer.cls_id, tokenizer.sep_id
ids = np.array([[cls, *first, sep, *second, sep]], np.int32)
segments = np.array([[0] * (len(first) + 2) + [1] * (len(second) + 1)], np.int32)
inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": segments}
layers = model(inputs, every_layer=True)["encoder_outputs"]
print([layer.shape for layer in layers[-4:]])
END
python3 vectors.py $BERT_BASE_DIR
""",
            stand_ins={"Who was Jim Henson ?": "w20 w21 w22", "Jim Henson was a puppeteer": "w30 w31"},
            prints=(r"1, 8, 32",),
        ),
    ),
    give=give,
    flags=FLAGS,
    after="""
## What gives other numbers, and how to get the same

| there | here | the same |
|---|---|---|
| AdamW without bias correction | pretraining: the same; fine-tuning: with it, since without it small sets often fail |
    `--params_override=trainer.optimizer_config.optimizer.bias_correction=false` |
| the rate falls from step 0 on: after warm-up of a tenth it is nine tenths of `--learning_rate` | it falls from where warm-up
    ends, so that the rate given is reached | `--params_override=trainer.optimizer_config.learning_rate.decay_steps=N` (N: the
    number of steps) gives the script's rates from the end of warm-up on ([the learning
    rate](../differences.md#the-learning-rate)) |
| steps of a fine-tuning: int(examples / batch * epochs), of SQuAD int(questions / batch * epochs) | int(examples / batch) *
    epochs, of SQuAD of windows, of which long paragraphs have several | `--num_train_steps` |
| the last batch of an epoch is filled from the next one | it is left out (3,668 of MRPC: 20 examples an epoch, others each
    time) | `--params_override=task.train_data.drop_remainder=false` trains on it as it is |
| shuffled in a buffer of 100 records | all records are shuffled, anew in each epoch | not possible, and not wanted |
| batches have the full length | fine-tuning cuts each batch to its longest example: the same numbers, faster |
    `--params_override=task.train_data.trim_padding=false` |
| accuracy of MRPC | accuracy, f1 and Matthews' correlation, and a report of each class | |

Weight decay (0.01, not of biases and layer normalisation), epsilon (1e-6), the limit of the gradients' norm (1.0), dropout of the
classifier (0.1) and the initialisation are the same, and so is gelu by tanh. A forward pass gives the scripts' numbers within 2e-5
([checkpoints](../checkpoints.md#numbers)). Records differ in their random draws; [differences](../differences.md) says in what
else.
""",
)
