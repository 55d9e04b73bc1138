"""The README of Transformers' examples/pytorch/text-classification: run_glue.py."""

import json
from pathlib import Path

from tests.migration.chain import Flags, Step, System
from tests.migration.given import give_bert
from tests.migration.hf_scripts import SAME_NUMBERS, SAME_OPTIMIZER, trainer_rows
from tests.pages import give_datasets


def give(folder: Path) -> None:
    """MRPC, tables of pairs, and the folder of a small model."""
    give_datasets(folder)
    for name in ("train", "dev"):
        rows = [f"w{i} w{i + 1},w{i + 2},{'yes' if i % 2 else 'no'}" for i in range(5, 45)]
        (folder / f"{name}.csv").write_text("\n".join(["sentence1,sentence2,label", *rows]) + "\n")
    give_bert(folder / "bert-base-cased", "hf")


def _learned(folder: Path, output: str) -> None:
    assert json.loads((folder / "mrpc" / "eval_results.json").read_text())["accuracy"] > 0.9
    config = json.loads((folder / "mrpc" / "export" / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForSequenceClassification"]
    rows = [line.split("\t") for line in (folder / "mrpc" / "submit_results.tsv").read_text().splitlines()]
    assert rows == [["index", "prediction"], *([f"{i}", f"{i % 2}"] for i in range(40))]


SYSTEM = System(
    name="hf_run_glue",
    title="run_glue.py (Transformers)",
    about="""
For models of the types BERT, ALBERT and MobileBERT, with their folders as they are, in both directions. The records of a data
set are made once, for all runs on it; they keep the tokenizer and the names of the classes, with which the model is written
again.

The data are files of yours: GLUE's own folders, or CSV, TSV, JSON lines and Parquet. `pretrain glue` is all tasks in one
command, with several seeds ([GLUE](../evaluation.md#glue)).
""",
    programs={"python run_glue.py": "`nlpdata create-finetuning`, then `pretrain run`"},
    steps=(
        Step(
            heading="A task of GLUE",
            text="""
The order of the classes is GLUE's; of MNLI it is that of google-research/bert, and `--label-order tfds` makes that of Transformers.
Classes have GLUE's names, of MRPC 0 and 1. The scores are accuracy, f1 and Matthews' correlation, of STS-B Pearson and Spearman.
The last line has the settings that the script takes without being told, and the line before it writes what is in `output_dir`
there: the predictions, here `submit_results.tsv`, and the model for Transformers, here the folder `export/hf`.
""",
            old="""
export TASK_NAME=mrpc

python run_glue.py \\
  --model_name_or_path bert-base-cased \\
  --task_name $TASK_NAME \\
  --do_train \\
  --do_eval \\
  --do_predict \\
  --max_seq_length 128 \\
  --per_device_train_batch_size 32 \\
  --learning_rate 2e-5 \\
  --num_train_epochs 3 \\
  --output_dir /tmp/$TASK_NAME/
""",
            new=f"""
export TASK_NAME=mrpc

nlpdata create-finetuning \\
  --tokenizer bert-base-cased \\
  --task_name $TASK_NAME --input glue \\
  --max_seq_length 128 \\
  --output /tmp/records/$TASK_NAME
pretrain run --experiment=bert/sentence_prediction \\
  --init_checkpoint bert-base-cased \\
  --input_files /tmp/records/$TASK_NAME/train.tfrecord \\
  --eval_files /tmp/records/$TASK_NAME/dev.tfrecord \\
  --do_train \\
  --do_eval \\
  --train_batch_size 32 \\
  --learning_rate 2e-5 \\
  --num_train_epochs 3 \\
  --output_dir /tmp/$TASK_NAME/ \\
  --do_predict --task_name $TASK_NAME --input_data_dir glue --export_formats=hf \\
  {SAME_OPTIMIZER}
""",
            stand_ins={
                "/tmp/": "",
                "seq_length 128": "seq_length 16",
                "batch_size 32": "batch_size 20",
                "rate 2e-5": "rate 5e-3",
                "epochs 3": "epochs 15",
            },
            prints=(r"^evaluation at step 30: .*accuracy", r"exported: mrpc/export/hf"),
            check=_learned,
        ),
        Step(
            heading="Tables of your own",
            text="""
`run_glue.py` takes the columns `sentence1` and `sentence2`, else the first two that are not called `label`; here the columns
are named. A column of numbers with a point is a regression there; here `--task regression` is. One text without a second one is
`--task classification`. JSON lines are read as well. Then `pretrain run` as above.
""",
            old="""
python run_glue.py \\
  --model_name_or_path bert-base-cased \\
  --train_file train.csv \\
  --validation_file dev.csv \\
  --do_train --do_eval \\
  --output_dir /tmp/pairs/
""",
            new="""
nlpdata create-finetuning \\
  --tokenizer bert-base-cased \\
  --task pair --text-column sentence1 --text-b-column sentence2 --label-column label \\
  --input train.csv \\
  --dev-input dev.csv \\
  --output /tmp/records/pairs
""",
            stand_ins={"/tmp/": ""},
            prints=(r"^train: records +40$", r"^dev: records +40$"),
        ),
    ),
    give=give,
    flags=(
        Flags(
            "run_glue.py",
            ("nlpdata create-finetuning", "pretrain run", "pretrain predict"),
            trainer_rows("3e-5", "32", "3", "2")
            + """
task_name | none | same | | of create-finetuning; with `--input_data_dir` also the test set of `--do_predict`
train_file | none | `--input` of create-finetuning | | CSV, TSV, JSON lines, Parquet, compressed or not
validation_file | none | `--dev-input` of create-finetuning | | or `--eval-fraction 0.1`
test_file | none | `--input` of `pretrain predict` | | or `--test-input` of create-finetuning
max_seq_length | 128 | same | | of create-finetuning; of `pretrain run` by default that of the records
pad_to_max_length | True | `--params_override=task.train_data.trim_padding=false` | true | a batch is cut to its longest
    example: the same numbers, faster
label_smoothing_factor | 0.0 | `--params_override=task.label_smoothing=0.1` | | of classes; of a number it has no effect
max_train_samples, max_eval_samples | none | same | | the first ones of the records
max_predict_samples | none | same | | of `pretrain predict`
ignore_mismatched_sizes | False | not needed | | a classifier of other classes is left out, and reported
""",
            "bert/sentence_prediction",
        ),
    ),
    after=f"""
## What gives other numbers, and how to get the same

{SAME_NUMBERS.strip()}

The limit of the gradients' norm (1.0), the dropout of the classifier (0.1), the exact gelu and the line in which the rate falls
are the same. The order of the examples and the draws of dropout are not: scores on small data differ from seed to seed by more
than all of this ([several seeds](../evaluation.md#several-seeds)). Tokens are the same but for three rare cases
([checkpoints](../checkpoints.md#tokenizers-for-hugging-face)); [differences](../differences.md) has the rest.
""",
)
