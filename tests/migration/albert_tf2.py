"""The documents of kamalkraj/ALBERT-TF2.0: pretraining.md, and the fine-tuning part of its README."""

import json
import re
from pathlib import Path

from tests.migration.chain import Step, System
from tests.migration.given import give_albert, give_cola, give_english, give_questions, pack_module


def give(folder: Path) -> None:
    """Text, ALBERT's module of TensorFlow Hub as an archive, CoLA and SQuAD: all of them small."""
    words = give_english(folder / "data")
    (folder / "all.txt").write_text("".join(path.read_text() for path in sorted((folder / "data").iterdir())))
    give_albert(folder / "albert", str(folder / "data" / "*.txt"))
    pack_module(folder / "albert", folder / "2.tar.gz")
    give_cola(folder / "glue_data" / "CoLA", words)
    give_questions(folder / "SQuAD", words)


def _learned(folder: Path, output: str) -> None:
    accuracies = [float(found) for found in re.findall(r"^evaluation at .* accuracy ([\d.]+)", output, re.MULTILINE)]
    assert accuracies[-1] > 0.9, output
    rows = [line.split("\t") for line in (folder / "CoLA_OUT" / "submit_results.tsv").read_text().splitlines()]
    assert rows[0] == ["index", "prediction"]
    right = [row[1] == str(number % 2) for number, row in enumerate(rows[1:])]
    assert len(right) == 20
    assert sum(right) >= 18


def _answered(folder: Path, output: str) -> None:
    for version in ("v1.1", "v2.0"):
        answers = json.loads((folder / f"squad_out_{version}" / "predictions.json").read_text())
        assert sorted(answers) == ["0", "1", "2", "3"]


_CLASSIFIER = """
export MODEL_DIR=CoLA_OUT
python run_classifer.py \\
--train_data_path=${OUTPUT_DIR}/${TASK_NAME}_train.tf_record \\
--eval_data_path=${OUTPUT_DIR}/${TASK_NAME}_eval.tf_record \\
--input_meta_data_path=${OUTPUT_DIR}/${TASK_NAME}_meta_data \\
--albert_config_file=${ALBERT_DIR}/config.json \\
--task_name=${TASK_NAME} \\
--spm_model_file=${ALBERT_DIR}/vocab/30k-clean.model \\
--output_dir=${MODEL_DIR} \\
--init_checkpoint=${ALBERT_DIR}/tf2_model.h5 \\
--do_train \\
--do_eval \\
--train_batch_size=16 \\
--learning_rate=1e-5 \\
--custom_training_loop
"""
_SQUAD_DATA = """
export SQUAD_DIR=SQuAD
export SQUAD_VERSION={version}
export ALBERT_DIR={model}
export OUTPUT_DIR=squad_out_${{SQUAD_VERSION}}
mkdir $OUTPUT_DIR

python create_finetuning_data.py \\
--squad_data_file=${{SQUAD_DIR}}/train-${{SQUAD_VERSION}}.json \\
--spm_model_file=${{ALBERT_DIR}}/vocab/30k-clean.model  \\
--train_data_output_path=${{OUTPUT_DIR}}/squad_${{SQUAD_VERSION}}_train.tf_record  \\
--meta_data_file_path=${{OUTPUT_DIR}}/squad_${{SQUAD_VERSION}}_meta_data \\
--fine_tuning_task_type=squad \\
--max_seq_length=384
"""
_SQUAD_RUN = """
python run_squad.py \\
--mode=train_and_predict \\
--input_meta_data_path=${{OUTPUT_DIR}}/squad_${{SQUAD_VERSION}}_meta_data \\
--train_data_path=${{OUTPUT_DIR}}/squad_${{SQUAD_VERSION}}_train.tf_record \\
--predict_file=${{SQUAD_DIR}}/dev-${{SQUAD_VERSION}}.json \\
--albert_config_file=${{ALBERT_DIR}}/config.json \\
--init_checkpoint=${{ALBERT_DIR}}/tf2_model.h5 \\
--spm_model_file=${{ALBERT_DIR}}/vocab/30k-clean.model \\
--train_batch_size={batch} \\
--predict_batch_size={batch} \\
--learning_rate={rate} \\
--num_train_epochs=3 \\
--model_dir=${{OUTPUT_DIR}} \\
--strategy_type=mirror{more}
"""
_SQUAD_2 = _SQUAD_RUN.format(batch=24, rate="1.5e-5", more=" \\\n--version_2_with_negative \\\n--max_seq_length=384")
_OWN_WEIGHTS = {"${ALBERT_DIR}/tf2_model.h5": "pretrained_model/tf2_model.h5"}
_SHORTER = {"--max_seq_length=384": "--max_seq_length=96 --max_query_length=16"}

SYSTEM = System(
    name="albert_tf2",
    title="ALBERT-TF2.0 (kamalkraj)",
    about="""
The scripts' options work as they are, and so do the names of their files; `tf2_model.h5` and `tf2_model_full.h5` are read, and
a pretraining writes the first at its end. With `--albert_config_file` the run chooses the experiment that fits the records, and
says which. Where you leave out the learning rate, the epochs or the batch size, those of the experiment count, not the script's
(`pretrain run --experiment=albert/squad --print_config` shows them).

An option that has no effect here is named, with the reason, when a run starts: `--custom_training_loop`, `--do_lower_case` (the
tokenizer next to the records says it), `--predict_data_path`. `--answer_layer=conditional` chooses the script's answer layer for
SQuAD 2.0 (`ALBertQALayer`), to which `--start_n_top`, `--end_n_top` and `--squad_dropout` belong; without it, as in BERT, no answer
is the score of the first token. `--do_permutation` is refused.
""",
    programs={
        "python converter.py": "pretrain convert",
        "spm_train": "nlpdata train-tokenizer",
        "python create_pretraining_data.py": "nlpdata create-pretraining",
        "python run_pretraining.py": "pretrain run",
        "python create_finetuning_data.py": "nlpdata create-finetuning",
        "python run_classifer.py": "pretrain run",
        "python run_squad.py": "pretrain run",
    },
    steps=(
        Step(
            heading="A tokenizer of your own",
            text="""
As in the README of google-research/albert. The ids of the special pieces are always these; what asks for others is refused.
""",
            old="""
spm_train \\
--input all.txt --model_prefix=30k-clean --vocab_size=30000 --logtostderr \\
--pad_id=0 --unk_id=1 --eos_id=-1 --bos_id=-1 \\
--control_symbols=[CLS],[SEP],[MASK] \\
--user_defined_symbols="(,),\\",-,.,–,£,€" \\
--shuffle_input_sentence=true --input_sentence_size=10000000 \\
--character_coverage=0.99995 --model_type=unigram
""",
            stand_ins={"--vocab_size=30000": "--vocab_size=400"},
            prints=(r"^vocabulary +400$",),
            writes=("30k-clean.model", "30k-clean.vocab"),
        ),
        Step(
            heading="The published weights",
            text="""
As there, a published module has no weights for sentence order: they start at random, which is reported. `--model_type=albert`
writes `tf2_model_full.h5`, with all heads, for pretraining; `albert_encoder` writes `tf2_model.h5`, from which fine-tuning below
starts.
""",
            old="""
export MODEL_DIR=base
wget https://storage.googleapis.com/tfhub-modules/google/albert_base/2.tar.gz
mkdir ${MODEL_DIR}
tar -xvzf 2.tar.gz --directory=${MODEL_DIR}
# Converting weights to TF 2.0
python converter.py --tf_hub_path=${MODEL_DIR}/ --model_type=albert --version=2 --model=base
# Copy albert_config.json to config.json
cp ${MODEL_DIR}/assets/albert_config.json ${MODEL_DIR}/config.json
# Rename assets to vocab
mv ${MODEL_DIR}/assets/ ${MODEL_DIR}/vocab
# Delete unwanted files
rm -rf ${MODEL_DIR}/saved_model.pb ${MODEL_DIR}/variables/ ${MODEL_DIR}/saved_model.pb ${MODEL_DIR}/tfhub_module.pb
""",
            stand_ins={"wget https://storage.googleapis.com/tfhub-modules/google/albert_base/2.tar.gz": "ls 2.tar.gz"},
            prints=(r"^written: base/tf2_model_full.h5$", r"sentence_pair.*\(start"),
            writes=("base/tf2_model_full.h5", "base/config.json", "base/vocab/30k-clean.model"),
        ),
        Step(
            heading="Records for pretraining",
            old="""
export DATA_DIR=data

export PROCESSED_DATA=processed_data
mkdir $PROCESSED_DATA

python create_pretraining_data.py --input_file=${DATA_DIR}/*.txt --output_file=${PROCESSED_DATA}/train.tf_record \
--spm_model_file=${MODEL_DIR}/vocab/30k-clean.model --meta_data_file_path=${PROCESSED_DATA}/train_meta_data
""",
            stand_ins={"/train_meta_data": "/train_meta_data --max_seq_length=64 --dupe_factor=2"},
            writes=("processed_data/train.tf_record", "processed_data/train_meta_data"),
        ),
        Step(
            heading="Pretraining",
            text="`--optimizer` is LAMB, as the script says; there, a slip made it AdamW.",
            old="""
export PRETRAINED_MODEL=pretrained_model
mkdir $PRETRAINED_MODEL

python run_pretraining.py --albert_config_file=${MODEL_DIR}/config.json --do_train \
--init_checkpoint=${MODEL_DIR}/tf2_model_full.h5 --input_files=${PROCESSED_DATA}/train.tf_record \
--meta_data_file_path=${PROCESSED_DATA}/train_meta_data --output_dir=${PRETRAINED_MODEL} \
--strategy_type=mirror --train_batch_size=128 --num_train_epochs=3
""",
            stand_ins={"--train_batch_size=128 --num_train_epochs=3": "--train_batch_size=32 --num_train_epochs=1"},
            prints=(r"^experiment: albert/pretraining", r"\(h5\): \d+ weights matched", r"^step \d+/\d+ +loss \d"),
            writes=("pretrained_model/tf2_model.h5", "pretrained_model/config.json"),
        ),
        Step(
            heading="Training from scratch",
            text="""
As there: no `--init_checkpoint`, and a shape of `model_configs`. Those are here by name, too: `--model_config=albert_base_v2`; that
flag also takes the `config.json` of a converted folder, with an `--experiment`.
""",
            old="""
python run_pretraining.py --albert_config_file=model_configs/base/config.json --do_train \
--input_files=${PROCESSED_DATA}/train.tf_record --meta_data_file_path=${PROCESSED_DATA}/train_meta_data \
--output_dir=from_scratch --strategy_type=mirror --train_batch_size=128 --num_train_epochs=3
""",
            stand_ins={
                "--albert_config_file=model_configs/base": "--experiment=albert/pretraining --model_config=base",
                "--num_train_epochs=3": "--num_train_epochs=3 --print_config",
            },
            prints=(r"^ +embedding_size: 16$", r"^ +vocab_size: 400$", r"^ +global_batch_size: 128$"),
        ),
        Step(
            heading="Records of CoLA",
            text="`--classification_task_name` takes upper and lower case.",
            old="""
export GLUE_DIR=glue_data/
export ALBERT_DIR=large/

export TASK_NAME=CoLA
export OUTPUT_DIR=cola_processed
mkdir $OUTPUT_DIR

python create_finetuning_data.py \\
 --input_data_dir=${GLUE_DIR}/ \\
 --spm_model_file=${ALBERT_DIR}/vocab/30k-clean.model \\
 --train_data_output_path=${OUTPUT_DIR}/${TASK_NAME}_train.tf_record \\
 --eval_data_output_path=${OUTPUT_DIR}/${TASK_NAME}_eval.tf_record \\
 --meta_data_file_path=${OUTPUT_DIR}/${TASK_NAME}_meta_data \\
 --fine_tuning_task_type=classification --max_seq_length=128 \\
 --classification_task_name=${TASK_NAME}
""",
            stand_ins={"large/": "base/", "--max_seq_length=128": "--max_seq_length=32"},
            prints=(r"^train: records +160$", r"^dev: records +60$"),
            writes=("cola_processed/CoLA_train.tf_record", "cola_processed/CoLA_eval.tf_record"),
        ),
        Step(
            heading="Fine-tuning on CoLA",
            text="""
The scores are those of `--eval_data_path`: accuracy, f1 and Matthews' correlation. With `--do_predict` and `--input_data_dir`, as
run here, the test set follows: `test_results.tsv` has the scores, `submit_results.tsv` is what GLUE's server takes.
""",
            old=_CLASSIFIER,
            stand_ins=_OWN_WEIGHTS
            | {
                "--learning_rate=1e-5": "--learning_rate=1e-2",
                "--custom_training_loop": "--custom_training_loop --do_predict --input_data_dir=${GLUE_DIR} --optimizer=AdamW",
            },
            prints=(
                r"^experiment: albert/sentence_prediction",
                r"^--custom_training_loop has no effect here",
                r"^evaluation at step 30: .*accuracy",
            ),
            check=_learned,
        ),
        Step(
            heading="Records of SQuAD",
            old=_SQUAD_DATA.format(version="v1.1", model="large"),
            stand_ins={"=large": "=base"} | _SHORTER,
            writes=("squad_out_v1.1/squad_v1.1_train.tf_record", "squad_out_v1.1/squad_v1.1_meta_data"),
        ),
        Step(
            heading="Fine-tuning on SQuAD, and answers",
            text="The answers of `--predict_file` are scored as the official script does, if the file has them.",
            old=_SQUAD_RUN.format(batch=48, rate="1e-5", more=""),
            stand_ins=_OWN_WEIGHTS | {"--train_batch_size=48": "--train_batch_size=8"},
            prints=(r"^experiment: albert/squad", r"^score of \d+ questions?: exact_match [\d.]+  f1 [\d.]+$"),
            writes=("squad_out_v1.1/predictions.json", "squad_out_v1.1/nbest_predictions.json"),
        ),
        Step(
            heading="Records of SQuAD 2.0",
            old=_SQUAD_DATA.format(version="v2.0", model="xxlarge"),
            stand_ins={"=xxlarge": "=base"} | _SHORTER,
            writes=("squad_out_v2.0/squad_v2.0_train.tf_record",),
        ),
        Step(
            heading="SQuAD 2.0",
            text="""
`--answer_layer=conditional` is the script's layer for this version. `null_odds.json` has the logit of its class "no answer";
without that layer, how much better no answer scores than the best one.
""",
            old=_SQUAD_2,
            new=_SQUAD_2.replace("python run_squad.py", "pretrain run --answer_layer=conditional"),
            stand_ins=_OWN_WEIGHTS
            | {"--train_batch_size=24": "--train_batch_size=8", "--max_seq_length=384": "--max_seq_length=96"},
            prints=(r"^score of \d+ questions?: .*HasAns_f1 [\d.]+ .*NoAns_f1 [\d.]+ ",),
            writes=("squad_out_v2.0/predictions.json", "squad_out_v2.0/null_odds.json"),
            check=_answered,
        ),
    ),
    give=give,
)
