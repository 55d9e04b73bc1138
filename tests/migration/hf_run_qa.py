"""The README of Transformers' examples/pytorch/question-answering: run_qa.py."""

import json
from pathlib import Path

from tests.migration.chain import Flags, Step, System
from tests.migration.given import give_bert, give_questions
from tests.migration.hf_scripts import SAME_NUMBERS, SAME_OPTIMIZER, trainer_rows
from tests.pages import WORDS


def give(folder: Path) -> None:
    """SQuAD, and the folder of a small model."""
    give_questions(folder / "squad", WORDS[30:60])
    give_bert(folder / "bert-base-uncased", "hf")


def _answered(folder: Path, output: str) -> None:
    for name in ("predictions", "nbest_predictions", "null_odds"):
        assert sorted(json.loads((folder / "debug_squad_v2" / f"{name}.json").read_text())) == ["0", "1", "2", "3"]
    config = json.loads((folder / "debug_squad_v2" / "export" / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForQuestionAnswering"]


def _old(version: str, name: str, more: str) -> str:
    return f"""
python run_qa.py \\
  --model_name_or_path bert-base-uncased \\
  --dataset_name {name} \\{more}
  --do_train \\
  --do_eval \\
  --per_device_train_batch_size 12 \\
  --learning_rate 3e-5 \\
  --num_train_epochs 2 \\
  --max_seq_length 384 \\
  --doc_stride 128 \\
  --output_dir /tmp/debug_{name}/
"""


def _new(version: str, name: str, more: str) -> str:
    return f"""
pretrain run --experiment=bert/squad \\
  --init_checkpoint bert-base-uncased --tokenizer bert-base-uncased \\
  --train_file squad/train-{version}.json --eval_files squad/dev-{version}.json \\{more}
  --do_train \\
  --do_eval \\
  --train_batch_size 12 \\
  --learning_rate 3e-5 \\
  --num_train_epochs 2 \\
  --max_seq_length 384 \\
  --doc_stride 238 \\
  --output_dir /tmp/debug_{name}/ \\
  {SAME_OPTIMIZER}
"""


SYSTEM = System(
    name="hf_run_qa",
    title="run_qa.py (Transformers)",
    about="""
For models of the types BERT, ALBERT and MobileBERT, with their folders as they are, in both directions. The data are SQuAD's
own JSON files, and files of that form; they are tokenized when the run starts.

`doc_stride` is another number: there it is how many tokens two windows share, here, as in google-research/bert, how far the
second one starts after the first. With 384 tokens and a question of 15, a window has 366 tokens of the context, so 128 shared
ones are `--doc_stride 238`.
""",
    programs={"python run_qa.py": "pretrain run"},
    steps=(
        Step(
            heading="SQuAD 1.1",
            old=_old("v1.1", "squad", ""),
            new=_new("v1.1", "squad", ""),
            stand_ins={"/tmp/": "", "--do_eval": "--do_eval --print_config"},
            prints=(r"^ +doc_stride: 238$", r"^ +weight_decay_rate: 0.0$", r"^ +hidden_size: 32$"),
        ),
        Step(
            heading="SQuAD 2.0",
            text="""
`--do_predict` answers a file at the end: `predictions.json`, `nbest_predictions.json` and `null_odds.json` in the run's folder,
there with `eval_` or `predict_` in front. `--export_formats=hf` writes the model for Transformers.
""",
            old=_old("v2.0", "squad_v2", "\n  --version_2_with_negative \\"),
            new=_new(
                "v2.0",
                "squad_v2",
                "\n  --version_2_with_negative \\"
                "\n  --do_predict --predict_file squad/dev-v2.0.json --export_formats=hf \\",
            ),
            stand_ins={"/tmp/": "", "length 384": "length 64 --max_query_length 16", "stride 238": "stride 20"},
            prints=(r"^evaluation at step 4: .*HasAns_f1", r"^score of \d+ questions?: .*NoAns_f1 "),
            check=_answered,
        ),
    ),
    give=give,
    flags=(
        Flags(
            "run_qa.py",
            ("nlpdata create-finetuning", "pretrain run", "pretrain predict"),
            trainer_rows("3e-5", "32", "2", "2")
            + """
train_file | none | same | | SQuAD's JSON alone: convert a CSV file to it
validation_file | none | `--eval_files` | |
test_file | none | `--predict_file` | |
max_seq_length | 384 | same | | by default 384
doc_stride | 128 | same | | by default 128, which is another number, see above; of `--predict_file` as in training, and at most half
    the length
version_2_with_negative | False | same | | by default as the file says
null_score_diff_threshold | 0.0 | same | |
n_best_size | 20 | same | |
max_answer_length | 30 | same | |
pad_to_max_length | True | `--params_override=task.train_data.trim_padding=false` | true | a batch is cut to its longest
    example: the same numbers, faster
label_smoothing_factor | 0.0 | no counterpart | | only classifiers have it
max_train_samples, max_eval_samples | none | same | | windows, as there, the first ones of the records
max_predict_samples | none | same | | of `pretrain predict`: questions, not windows
""",
            "bert/squad",
        ),
    ),
    after=f"""
## What gives other numbers, and how to get the same

{SAME_NUMBERS.strip()}
| the whole question; white space in front of it is left out | at most 64 tokens of it | `--max_query_length` |
| an answer may come from any window | from the one in which its first token has most context around it | not possible |

The limit of the gradients' norm (1.0), the exact gelu and the line in which the rate falls are the same; a span head has no
dropout there and here. [Fine-tuning](../finetuning.md#squad) and [differences](../differences.md) have the rest.
""",
)
