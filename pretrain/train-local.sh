#!/bin/sh
# Sentiment of IMDB's reviews, a few steps on this machine: shows that data, checkpoint and settings fit before a job is paid for.
#   INPUT=aclImdb_v1.tar.gz INIT_CHECKPOINT=base OUTPUT=out/imdb pretrain/train-local.sh
# TASK and CONFIG name another data set (nlpdata create-finetuning --task) and its settings, STEPS how many steps are taken. What
# follows goes to pretrain.run. It may be sourced: all happens in a subshell, so that your shell keeps its options, variables and
# folder, and stays open whatever fails here.
(
    [ "${INPUT:-}" ] || { echo "train-local.sh: set INPUT to the data, e.g. aclImdb_v1.tar.gz" >&2; exit 2; }
    [ "${INIT_CHECKPOINT:-}" ] || {
        echo "train-local.sh: set INIT_CHECKPOINT to the folder of a published checkpoint, with its tokenizer" >&2; exit 2; }
    [ "${OUTPUT:-}" ] || { echo "train-local.sh: set OUTPUT to a new folder" >&2; exit 2; }
    task=${TASK:-imdb}
    python -m nlpdata create-finetuning --task "$task" --input "$INPUT" --tokenizer "${TOKENIZER:-$INIT_CHECKPOINT}" \
        --max-seq-length "${MAX_SEQ_LENGTH:-256}" --output "$OUTPUT/records" || exit
    exec python -m pretrain.run --experiment=bert/sentence_prediction --config_file="${CONFIG:-$task}" --mode=train_and_eval \
        --init_checkpoint="$INIT_CHECKPOINT" --model_dir="$OUTPUT/run" \
        --input_files="$OUTPUT/records/train.tfrecord" --eval_files="$OUTPUT/records/dev.tfrecord" \
        --train_steps="${STEPS:-20}" "$@"
)
