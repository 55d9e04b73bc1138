"""The README of Transformers' examples/pytorch/language-modeling: run_mlm.py; and run_mlm_wwm.py."""

import json
from pathlib import Path

from tests.migration.chain import Flags, Step, System
from tests.migration.given import give_bert, give_text
from tests.migration.hf_scripts import SAME_NUMBERS, trainer_rows
from tests.pages import WORDS


def give(folder: Path) -> None:
    """Texts, and the folder of a small model."""
    give_text(folder / "train.txt")
    give_text(folder / "valid.txt", documents=4)
    give_bert(folder / "bert-base-uncased", "hf")
    (folder / "my_tokenizer").mkdir()
    (folder / "my_tokenizer" / "vocab.txt").write_text("\n".join(WORDS) + "\n")


def _trained(folder: Path, output: str) -> None:
    results = json.loads((folder / "test-mlm" / "eval_results.json").read_text())
    assert "masked_lm_perplexity" in results
    assert "next_sentence_accuracy" not in results
    config = json.loads((folder / "test-mlm" / "export" / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForMaskedLM"]


def _by_line(folder: Path, output: str) -> None:
    meta = json.loads((folder / "mlm_lines" / "train.meta.json").read_text())
    assert meta["train_data_size"] == 160  # lines of train.txt


_DATA = "--objective none --masking dynamic --no-whole-word --max-ngram 1 --short-seq-prob 0"

SYSTEM = System(
    name="hf_run_mlm",
    title="run_mlm.py (Transformers)",
    about="""
For models of the types BERT, ALBERT and MobileBERT, with their folders as they are, in both directions; RoBERTa and others are not
here. Records are made once, for all runs on a text, and are masked anew in each epoch (`--masking dynamic`), as there.

Text is UTF-8 with a blank line between documents; there each line is a text of its own, and blank ones are left out. `pretrain
run` also takes the text itself, with these records' defaults: [straight from text](../training.md#straight-from-text).
""",
    programs={
        "python run_mlm.py": "`nlpdata create-pretraining`, then `pretrain run`",
        "python run_mlm_wwm.py": "the same, with `--whole-word`",
    },
    steps=(
        Step(
            heading="A model trained further",
            text="""
Texts follow each other in blocks of one length, across documents. The last three lines of `pretrain run` are the script's own
defaults. The results are `masked_lm_accuracy`, `masked_lm_loss` and `masked_lm_perplexity`; the
model for Transformers is in `export/hf`.
""",
            old="""
python run_mlm.py \\
    --model_name_or_path bert-base-uncased \\
    --train_file train.txt \\
    --validation_file valid.txt \\
    --per_device_train_batch_size 8 \\
    --per_device_eval_batch_size 8 \\
    --do_train \\
    --do_eval \\
    --output_dir /tmp/test-mlm
""",
            new=f"""
for name in train valid; do
    nlpdata create-pretraining --input $name.txt --output /tmp/mlm/$name.tfrecord \\
        --tokenizer bert-base-uncased --max-seq-length 512 --pack-across-documents \\
        {_DATA}
done
pretrain run --experiment=bert/pretraining \\
    --init_checkpoint bert-base-uncased \\
    --input_files /tmp/mlm/train.tfrecord \\
    --eval_files /tmp/mlm/valid.tfrecord \\
    --train_batch_size 8 \\
    --eval_batch_size 8 \\
    --do_train \\
    --do_eval \\
    --output_dir /tmp/test-mlm --export_formats=hf \\
    --learning_rate=5e-5 --num_train_epochs=3 --weight_decay=0 --adam_epsilon=1e-8 --warmup_proportion=0 \\
    --params_override=task.use_next_sentence_label=false,task.train_data.drop_remainder=false,\
trainer.optimizer_config.optimizer.bias_correction=true
""",
            stand_ins={"/tmp/": "", "length 512": "length 64", "epochs=3": "epochs=1"},
            prints=(
                r"weights matched",
                r"^evaluation at step \d+: .*masked_lm_perplexity",
                r"exported: test-mlm/export/hf",
            ),
            check=_trained,
        ),
        Step(
            heading="--line_by_line",
            text="""
A blank line after each line makes each line a document, and an example. There a line that is too long is cut; here its rest is
an example of its own. Then `pretrain run` as above.
""",
            old="""
python run_mlm.py \\
    --model_name_or_path bert-base-uncased \\
    --train_file train.txt \\
    --line_by_line \\
    --max_seq_length 128 \\
    --mlm_probability 0.15 \\
    --do_train \\
    --output_dir /tmp/test-mlm
""",
            new=f"""
mkdir -p lines
sed G train.txt > lines/train.txt
nlpdata create-pretraining --input lines/train.txt --output /tmp/mlm_lines/train.tfrecord \\
    --tokenizer bert-base-uncased --max-seq-length 128 --masked-lm-prob 0.15 \\
    {_DATA}
""",
            stand_ins={"/tmp/": ""},
            check=_by_line,
        ),
        Step(
            heading="Whole words",
            text="""
SentencePiece's models have whole words, too. Chinese needs no file of references: each of its characters is a word.
""",
            old="""
python run_mlm_wwm.py \\
    --model_name_or_path bert-base-uncased \\
    --train_file train.txt \\
    --max_seq_length 128 \\
    --do_train \\
    --output_dir /tmp/test-wwm
""",
            new="""
nlpdata create-pretraining --input train.txt --output /tmp/wwm/train.tfrecord \\
    --tokenizer bert-base-uncased --max-seq-length 128 --pack-across-documents \\
    --objective none --masking dynamic --whole-word --max-ngram 1 --short-seq-prob 0
""",
            stand_ins={"/tmp/": ""},
            writes=("wwm/train.tfrecord",),
        ),
        Step(
            heading="From scratch",
            text="""
An experiment of the type, `--model_config` in place of `--config_name` (a name, `config.json` or a folder), and no
`--init_checkpoint`. Fields of the encoder are those of `config.json`. A tokenizer is trained with `nlpdata train-tokenizer`.
""",
            old="""
python run_mlm.py \\
    --model_type bert \\
    --config_overrides="num_hidden_layers=6,hidden_dropout_prob=0" \\
    --tokenizer_name my_tokenizer \\
    --train_file train.txt \\
    --do_train \\
    --output_dir /tmp/scratch
""",
            new="""
pretrain run --experiment=bert/pretraining \\
    --model_config=bert_base_uncased \\
    --params_override=task.model.encoder.bert.num_hidden_layers=6,task.model.encoder.bert.hidden_dropout_prob=0 \\
    --tokenizer my_tokenizer \\
    --train_file train.txt \\
    --do_train \\
    --output_dir /tmp/scratch \\
    --params_override=task.use_next_sentence_label=false,task.train_data.masking=dynamic
""",
            stand_ins={"/tmp/": "", "--do_train": "--do_train --print_config"},
            prints=(r"^ +num_hidden_layers: 6$", r"^ +vocab_file: my_tokenizer$", r"^ +masking: dynamic$"),
        ),
    ),
    give=give,
    flags=(
        Flags(
            "run_mlm.py",
            ("nlpdata create-pretraining", "pretrain run"),
            trainer_rows("1e-4", "256", "1", "5")
            + """
model_type | none | `--experiment` | | bert/pretraining, albert/pretraining
config_overrides | none | `--params_override=task.model.encoder.bert.hidden_size=256` | | the names of `config.json`
train_file | none | `--input` of create-pretraining | | patterns, folders, JSON lines and compressed files, too; or the text to
    `--train_file`
validation_file | none | `--input` of create-pretraining | | and `--eval_files`
validation_split_percentage | 5 | `--eval-fraction` of create-pretraining | 0.0 | of whole documents, drawn at random; there the
    first lines
max_seq_length | the tokenizer's, 1024 at most | same | 512 | of create-pretraining; of `pretrain run` by default that of the
    records
mlm_probability | 0.15 | `--masked-lm-prob` of create-pretraining | 0.15 |
line_by_line | False | a blank line after each line | | see above
pad_to_max_length | False | `--params_override=task.train_data.trim_padding=true` | false |
label_smoothing_factor | 0.0 | no counterpart | | only classifiers have it
max_train_samples, max_eval_samples | none | same | | of the records, which are in random order; `--limit-documents` of
    create-pretraining takes the first documents
streaming | False | not needed | | text is never held in memory
low_cpu_mem_usage, torch_dtype | | not needed | |
""",
            "bert/pretraining",
        ),
    ),
    after=f"""
## What gives other numbers, and how to get the same

{SAME_NUMBERS.strip()}
| each token is masked with a probability of 0.15 | 15% of the tokens of an example, at most `--max-predictions-per-seq` | not
    possible: the mean is the same |
| the random tokens are drawn from the whole vocabulary | from its ordinary pieces ([masking](../differences.md#masking)) | not
    possible |
| each line has a `[CLS]` and a `[SEP]` of its own within a block, and the rest of every 1,000 lines is left out | a block has
    one `[CLS]`, and a `[SEP]` between documents; nothing is left out ([differences](../differences.md#one-segment-none)) |
    `--line_by_line` is the same on both sides |
| an evaluation masks anew each time | in the same places every time, so that evaluations can be compared | not possible, and
    not wanted |
| a model without a head for pairs (`BertForMaskedLM`) | the same with `task.use_next_sentence_label=false` | |

The limit of the gradients' norm (1.0), 80/10/10, the exact gelu of `config.json` and the line in which the rate falls are the
same.
""",
)
