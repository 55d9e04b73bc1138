#!/bin/sh
# The training of train-local.sh, to its end, as a job on Vertex AI: makes the records here, copies them and the checkpoint to the
# bucket, and submits (python -m pretrain.submit; the machine is chosen there).
#   BUCKET_NAME=my-bucket INPUT=aclImdb_v1.tar.gz INIT_CHECKPOINT=base OUTPUT=out/imdb pretrain/train-cloud.sh
# DRY_RUN=1 prints what would be done with the bucket, STUDY=study.yaml makes a hyperparameter tuning (docs/cloud.md). What follows
# goes to pretrain.run. It may be sourced, as train-local.sh may.
(
    [ "${BUCKET_NAME:-}" ] || { echo "train-cloud.sh: set BUCKET_NAME to a bucket of yours, without gs://" >&2; exit 2; }
    [ "${INPUT:-}" ] || { echo "train-cloud.sh: set INPUT to the data, e.g. aclImdb_v1.tar.gz" >&2; exit 2; }
    [ "${INIT_CHECKPOINT:-}" ] || {
        echo "train-cloud.sh: set INIT_CHECKPOINT to the folder of a published checkpoint, with its tokenizer" >&2; exit 2; }
    [ "${OUTPUT:-}" ] || { echo "train-cloud.sh: set OUTPUT to a new folder" >&2; exit 2; }
    task=${TASK:-imdb}
    bucket=gs://$BUCKET_NAME/nlpdata
    copy() {  # the content of a folder, whether or not the target is there
        ${DRY_RUN:+echo} gcloud storage rsync --recursive "$1" "$2"
    }
    python -m nlpdata create-finetuning --task "$task" --input "$INPUT" --tokenizer "${TOKENIZER:-$INIT_CHECKPOINT}" \
        --max-seq-length "${MAX_SEQ_LENGTH:-256}" --output "$OUTPUT/records" || exit
    copy "$OUTPUT/records" "$bucket/$task/records" || exit
    copy "$INIT_CHECKPOINT" "$bucket/$task/checkpoint" || exit
    exec python -m pretrain.submit --staging="$bucket" --display_name="$task" ${STUDY:+--study="$STUDY"} ${DRY_RUN:+--dry_run} -- \
        --experiment=bert/sentence_prediction --config_file="${CONFIG:-$task}" --mode=train_and_eval \
        --init_checkpoint="$bucket/$task/checkpoint" \
        --input_files="$bucket/$task/records/train.tfrecord" --eval_files="$bucket/$task/records/dev.tfrecord" "$@"
)
