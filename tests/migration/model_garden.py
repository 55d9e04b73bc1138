"""The documents of the TensorFlow Model Garden's NLP driver (official/nlp: train.py, create_finetuning_data.py) and library."""

import hashlib
import re
from pathlib import Path

from tests.migration.chain import Step, System
from tests.migration.given import give_bert

_HUB = "https://tfhub.dev/tensorflow/bert_en_uncased_L-12_H-768_A-12/3"
_LABELS = ("entailment", "neutral", "contradiction")
_SENTENCES = ("sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse")
_COLUMNS = ("index", "promptID", "pairID", "genre", *_SENTENCES, "sentence1", "sentence2", "label1", "gold_label")

_SMALL = """
task:
  model:
    encoder:
      bert: {vocab_size: 200, hidden_size: 32, num_layers: 1, num_attention_heads: 2, intermediate_size: 64}
  train_data: {global_batch_size: 16, seq_length: 64, max_predictions_per_seq: 10}
  validation_data: {global_batch_size: 16, seq_length: 64, max_predictions_per_seq: 10}
trainer:
  train_steps: 100
  summary_interval: 20
  validation_interval: 100
  optimizer_config:
    learning_rate: {polynomial: {initial_learning_rate: 0.003}}
    warmup: {polynomial: {warmup_steps: 10}}
"""


def give(folder: Path) -> None:
    """MNLI's folder, with rows whose second text gives the label away and TF-Hub's cache with a small BERT."""
    from pretrain.converters.convert import convert_place

    mnli = folder / "glue" / "MNLI"
    mnli.mkdir(parents=True)
    for split, rows in (("train", 300), ("dev_matched", 60), ("dev_mismatched", 60)):
        lines = ["\t".join(_COLUMNS), *(_row(number) for number in range(rows))]
        (mnli / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    sentences = [" ".join(f"w{5 + (7 * number + word) % 60}" for word in range(9)) + "\n" for number in range(160)]
    (folder / "sample_text.txt").write_text("".join(line + "\n" * (i % 8 == 7) for i, line in enumerate(sentences)))
    (folder / "small.yaml").write_text(_SMALL)
    give_bert(folder / "base", "hf")
    model = folder / "uncased_L-12_H-768_A-12"
    model.mkdir()
    (folder / "base" / "vocab.txt").rename(model / "vocab.txt")  # with it a second module would be made, for texts
    module = folder / "my_output_dir" / "hub_cache" / hashlib.sha1(_HUB.encode()).hexdigest()
    convert_place(str(folder / "base"), str(module), "hub")


def _row(number: int) -> str:
    label = number % 3
    cells = dict.fromkeys(_COLUMNS, "x") | {
        "index": str(number),
        "sentence1": f"w{20 + number % 50} w{40 + number % 7}",
        "sentence2": f"w{100 + label} w{20 + number % 50}",
        "label1": _LABELS[label],
        "gold_label": _LABELS[label],
    }
    return "\t".join(cells.values())


def _learned(folder: Path, output: str) -> None:
    accuracies = [float(found) for found in re.findall(r"^evaluation at .* accuracy ([\d.]+)", output, re.MULTILINE)]
    assert accuracies[-1] > 0.9, output
    assert (folder / "my_output_dir" / "best_ckpt").is_dir()


def _falls(folder: Path, output: str) -> None:
    losses = [float(found) for found in re.findall(r"^step .* loss ([\d.]+)", output, re.MULTILINE)]
    assert losses[-1] < losses[0] - 0.1, losses


def _named(folder: Path, output: str) -> None:
    rows = [line.split("\t") for line in (folder / "predictions.tsv").read_text().splitlines()]
    assert [row[rows[0].index("prediction")] for row in rows[1:]] == [*_LABELS] * 20


SYSTEM = System(
    name="model_garden",
    title="the TensorFlow Model Garden (official/nlp)",
    about="""
`train.py --experiment --mode --model_dir --config_file --params_override` is `pretrain run` with the same flags;
configuration files of the Garden are read as they are, and the ones it ships are here under the same names
(`--config_file=configs/experiments/glue_mnli_matched.yaml` finds ours where there is no such file). Fields that have no
effect here are named when a run starts.
""",
    programs={
        "python3 data/create_finetuning_data.py": "nlpdata create-finetuning",
        "python3 data/create_pretraining_data.py": "nlpdata create-pretraining",
        "python3 train.py": "pretrain run",
        "blaze run -c opt /official/nlp/train --": "pretrain run",
    },
    steps=(
        Step(
            heading="Records of MNLI",
            text="""
One file of an MNLI dev set gets the very name that `--eval_data_output_path` gives. The meta file may have any name with "meta"
in it, next to the records: train.py had to be told the number of classes; here the run takes them, their names and the
tokenizer from it.
""",
            old="""
export GLUE_DIR=~/glue
export VOCAB_FILE=~/uncased_L-12_H-768_A-12/vocab.txt
export TASK_NAME=MNLI
export OUTPUT_DATA_DIR=gs://some_bucket/datasets
python3 data/create_finetuning_data.py \\
 --input_data_dir=${GLUE_DIR}/${TASK_NAME}/ \\
 --vocab_file=${VOCAB_FILE} \\
 --train_data_output_path=${OUTPUT_DATA_DIR}/mnli_train.tf_record \\
 --eval_data_output_path=${OUTPUT_DATA_DIR}/mnli_eval.tf_record \\
 --meta_data_file_path=${OUTPUT_DATA_DIR}/MNLI_meta_data \\
 --fine_tuning_task_type=classification --max_seq_length=128 \\
 --classification_task_name=${TASK_NAME}
""",
            stand_ins={"~/": "", "gs://some_bucket/": "", "--max_seq_length=128": "--max_seq_length=32"},
            prints=(r"^train: records +300$", r"^dev_matched: records +60$"),
            writes=("datasets/mnli_train.tf_record", "datasets/mnli_eval.tf_record", "datasets/MNLI_meta_data"),
        ),
        Step(
            heading="Fine-tuning a module of TensorFlow Hub",
            text="""
Nothing is downloaded: put the module into the cache first, under the name that TensorFlow Hub gives it, or name the unpacked
folder. The message for a missing one says where it belongs.
""",
            old=f"""
export INPUT_DATA_DIR=gs://some_bucket/datasets
export OUTPUT_DIR=gs://some_bucket/my_output_dir

# See tfhub BERT collection for more tfhub models:
# https://tfhub.dev/google/collections/bert/1
export BERT_HUB_URL={_HUB}

# Override the configurations by FLAGS. Alternatively, you can directly edit
# `configs/experiments/glue_mnli_matched.yaml` to specify corresponding fields.
export PARAMS=task.train_data.input_path=$INPUT_DATA_DIR/mnli_train.tf_record
export PARAMS=$PARAMS,task.validation_data.input_path=$INPUT_DATA_DIR/mnli_eval.tf_record
export PARAMS=$PARAMS,task.hub_module_url=$BERT_HUB_URL
export PARAMS=$PARAMS,runtime.distribution_strategy=tpu

python3 train.py \\
 --experiment=bert/sentence_prediction \\
 --mode=train_and_eval \\
 --model_dir=$OUTPUT_DIR \\
 --config_file=configs/experiments/glue_mnli_matched.yaml \\
 --tfhub_cache_dir=$OUTPUT_DIR/hub_cache \\
 --tpu=${{TPU_NAME}} \\
 --params_override=$PARAMS
""",
            stand_ins={
                "gs://some_bucket/": "",
                "runtime.distribution_strategy=tpu": "runtime.distribution_strategy=mirrored,trainer.train_steps=120,"
                "trainer.validation_interval=60,task.train_data.seq_length=32,task.validation_data.seq_length=32,"
                "trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate=0.01",
                " --tpu=${TPU_NAME} \\\n": "",
            },
            prints=(r"^evaluation at step 120: .*accuracy", r"^best "),
            check=_learned,
        ),
        Step(
            heading="Predictions of the run",
            text="The Garden leaves this to the user's own code.",
            new="""
pretrain predict --model_dir my_output_dir \\
 --input glue/MNLI/dev_mismatched.tsv --output predictions.tsv
""",
            check=_named,
        ),
        Step(
            heading="Pretraining records",
            text="Next-sentence records. The corpus may be many files; they are read in parallel.",
            old="""
python3 data/create_pretraining_data.py \\
 --input_file=./sample_text.txt \\
 --output_file=/tmp/tf_examples.tfrecord \\
 --vocab_file=${VOCAB_FILE} \\
 --do_lower_case=True \\
 --max_seq_length=512 \\
 --max_predictions_per_seq=76 \\
 --masked_lm_prob=0.15 \\
 --random_seed=12345 \\
 --dupe_factor=5
""",
            stand_ins={"/tmp/": "", "seq_length=512": "seq_length=64", "per_seq=76": "per_seq=10"},
            prints=(r"^examples, train +\d\d+$",),
            writes=("tf_examples.tfrecord", "tf_examples.meta.json"),
        ),
        Step(
            heading="Pretraining on Wikipedia and books",
            text="""
The Garden's file names no data: a second file, or `--params_override`, does. Its page names a gin file without showing it; the
one of that name here chooses talking heads and gated feed-forward parts
([--gin_file](../pretraining.md#--gin_file-and---gin_params)).
""",
            old="""
python3 train.py \\
 --experiment=bert/pretraining --mode=train_and_eval --model_dir=/tmp/wiki_books \\
 --config_file=/nlp/bert/experiments/wiki_books_pretrain.yaml \\
 --gin_file=/nlp/gin/talking_gated_encoder.gin \\
 --params_override=task.train_data.input_path=/tmp/tf_examples.tfrecord,\
task.validation_data.input_path=/tmp/tf_examples.tfrecord
""",
            stand_ins={
                "/tmp/": "",
                "wiki_books_pretrain.yaml": "wiki_books_pretrain.yaml --config_file=small.yaml",
            },
            prints=(r"^step 100/100 +loss \d", r"^evaluation at step 100: .*masked_lm_accuracy"),
            check=_falls,
        ),
        Step(
            heading="A small experiment on this machine",
            old="""
blaze run -c opt \\
/official/nlp/train \\
 -- --experiment=bert/local --model_dir=/tmp/tfnlp_sandbox/ \\
 --mode=train --alsologtostderr 2>&1
""",
            new="""
pretrain run \\
 --experiment=bert/local --model_dir=/tmp/tfnlp_sandbox/ \\
 --mode=train --alsologtostderr 2>&1
""",
            stand_ins={"/tmp/": "", "--mode=train": "--mode=train --train_steps=10"},
            prints=(r"^step \d+/\d+ +loss \d",),
            writes=("tfnlp_sandbox/checkpoints",),
        ),
    ),
    give=give,
)
