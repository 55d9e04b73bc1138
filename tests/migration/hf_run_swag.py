"""The README of Transformers' examples/pytorch/multiple-choice, run_swag.py, and run_multiple_choice.py before it."""

import csv
import json
from pathlib import Path

from tests.migration.chain import Flags, Step, System
from tests.migration.given import give_bert, give_race
from tests.migration.hf_scripts import SAME_NUMBERS, SAME_OPTIMIZER, trainer_rows
from tests.pages import WORDS

_ENDINGS = tuple(f"ending{number}" for number in range(4))


def give(folder: Path) -> None:
    """SWAG, tables of its form, RACE, and the folder of a small model."""
    (folder / "swag").mkdir()
    for place, count in (("swag/train.csv", 32), ("swag/val.csv", 8), ("train.csv", 8), ("dev.csv", 4)):
        with open(folder / place, "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["", "video-id", "sent1", "sent2", *_ENDINGS, "label"])
            for row in range(count):
                words = [f"w{30 + (row + at) % 40}" for at in range(4)]
                table.writerow([row, "v", f"w{20 + row % 9}", "w8", *words, row % 4])
    give_race(folder / "data" / "RACE", WORDS[30:60])
    give_bert(folder / "bert-base-uncased", "hf")


def _exported(folder: Path, output: str) -> None:
    config = json.loads((folder / "swag_base" / "export" / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForMultipleChoice"]


SYSTEM = System(
    name="hf_run_swag",
    title="run_swag.py (Transformers)",
    about="""
For models of the types BERT, ALBERT and MobileBERT, with their folders as they are, in both directions: a folder of
`ForMultipleChoice` keeps the layer that scores a choice. The data are files of yours, as published, unpacked or not; the records
are made once, for all runs on them. The older `run_multiple_choice.py` also took RACE. RACE as google-research/albert's `run_race`
trains on it is on [its page](google_albert.md#race).
""",
    programs={
        "python run_swag.py": "`nlpdata create-finetuning`, then `pretrain run`",
        "python run_multiple_choice.py": "`nlpdata create-finetuning`, then `pretrain run`",
    },
    steps=(
        Step(
            heading="SWAG",
            text="""
`swag` is the folder with `train.csv` and `val.csv`. The last line of the command has the settings that the script takes without
being told. `--export_formats=hf` writes the model for Transformers, into the folder `export/hf`. Without `--max_seq_length` the
script takes as many tokens as the model, 512; here 128 is the default, and the command says how many rows are cut.
""",
            old="""
python run_swag.py \\
  --model_name_or_path bert-base-uncased \\
  --do_train \\
  --do_eval \\
  --learning_rate 5e-5 \\
  --num_train_epochs 3 \\
  --output_dir /tmp/swag_base \\
  --per_device_eval_batch_size 16 \\
  --per_device_train_batch_size 16
""",
            new=f"""
nlpdata create-finetuning --task swag --input swag \\
  --tokenizer bert-base-uncased \\
  --output /tmp/records/swag
pretrain run --experiment=bert/multiple_choice \\
  --init_checkpoint bert-base-uncased \\
  --input_files /tmp/records/swag/train.tfrecord \\
  --eval_files /tmp/records/swag/dev.tfrecord \\
  --do_train \\
  --do_eval \\
  --learning_rate 5e-5 \\
  --num_train_epochs 3 \\
  --output_dir /tmp/swag_base \\
  --eval_batch_size 16 \\
  --train_batch_size 16 --export_formats=hf \\
  {SAME_OPTIMIZER}
""",
            stand_ins={"/tmp/": "", "--input swag": "--input swag --max-seq-length 16", "epochs 3": "epochs 1"},
            prints=(
                r"^train: records +32$",
                r"^evaluation at step 2: .*accuracy [\d.]+",
                r"exported: swag_base/export/hf",
            ),
            check=_exported,
        ),
        Step(
            heading="Files of your own",
            text="""
`run_swag.py` takes files with the columns of SWAG, CSV or JSON lines, and is to be changed for others. Here columns are named,
there are 2 to 64 choices, and a column may hold a list of them. Then `pretrain run` as above.
""",
            old="""
python run_swag.py \\
  --model_name_or_path bert-base-uncased \\
  --train_file train.csv \\
  --validation_file dev.csv \\
  --do_train --do_eval \\
  --output_dir /tmp/own
""",
            new="""
nlpdata create-finetuning --task choice \\
  --tokenizer bert-base-uncased \\
  --text-column sent1 --text-b-column sent2 --choice-columns ending0,ending1,ending2,ending3 \\
  --input train.csv \\
  --dev-input dev.csv \\
  --output /tmp/records/own
""",
            stand_ins={"/tmp/": ""},
            prints=(r"^train: records +8$", r"^dev: records +4$"),
        ),
        Step(
            heading="RACE",
            text="""
The text of a choice is the same: a `_` in the question is replaced by it, else it follows the question. Then `pretrain run` as
above, with `--eval_files` of both levels, `dev_middle.tfrecord,dev_high.tfrecord`: each has its score, too.
""",
            old="""
export RACE_DIR=data/RACE
python run_multiple_choice.py \\
  --task_name race \\
  --model_name_or_path bert-base-uncased \\
  --data_dir $RACE_DIR \\
  --max_seq_length 512 \\
  --do_train --do_eval \\
  --output_dir /tmp/race
""",
            new="""
export RACE_DIR=data/RACE
nlpdata create-finetuning --task_name race \\
  --tokenizer bert-base-uncased \\
  --data_dir $RACE_DIR \\
  --max_seq_length 512 \\
  --output /tmp/records/race
""",
            stand_ins={"/tmp/": ""},
            prints=(r"^train: records +48$", r"^dev_middle: records +8$", r"^dev_high: records +8$"),
        ),
    ),
    give=give,
    flags=(
        Flags(
            "run_swag.py",
            ("nlpdata create-finetuning", "pretrain run"),
            trainer_rows("2e-5", "16", "3", "2")
            + """
train_file | none | `--input` of create-finetuning | | CSV, TSV, JSON lines, Parquet, compressed or not, with `--task choice`
validation_file | none | `--dev-input` of create-finetuning | | or `--eval-fraction 0.1`
max_seq_length | the model's | same | 128 | of create-finetuning; RACE by default 512
pad_to_max_length | False | `--params_override=task.train_data.trim_padding=false` | | by default cut to the longest choice of the
    batch, up to a multiple of 8: the same numbers
label_smoothing_factor | 0.0 | no counterpart | | only classifiers have it
max_train_samples, max_eval_samples | none | same | | the first ones of the records
""",
            "bert/multiple_choice",
        ),
        Flags(
            "run_multiple_choice.py, besides these",
            ("nlpdata create-finetuning", "pretrain run"),
            """
task_name | required | same | | of create-finetuning: `race`, `swag`; ARC and others as `choice`
data_dir | required | same | | of create-finetuning
""",
        ),
    ),
    after=f"""
## What gives other numbers, and how to get the same

{SAME_NUMBERS.strip()}
| of texts that are too long the longer one loses its end, token by token | the context loses its end; a question with its choice
    keeps its last `--max-qa-length` (128) tokens | nothing is cut: a greater `--max-seq-length` |

The sequences, the layer that scores a choice with its dropout (0.1), the loss, the limit of the gradients' norm (1.0), the exact
gelu and the line in which the rate falls are the same. [Multiple choice](../finetuning.md#multiple-choice) and
[choices](../evaluation.md#choices) have the rest.
""",
)
