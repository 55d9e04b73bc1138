#!/bin/sh
# The training of train-local.sh, to its end, as a job on Vertex AI: makes the records here, copies them and the checkpoint to the
# bucket, and submits (python -m pretrain.submit; the machine is chosen there).
#   BUCKET_NAME=my-bucket INPUT=aclImdb_v1.tar.gz INIT_CHECKPOINT=base OUTPUT=out/imdb pretrain/train-cloud.sh
# DRY_RUN=1 prints what would be done with the bucket. What follows goes to pretrain.run.
set -eu
: "${BUCKET_NAME:?set BUCKET_NAME to a bucket of yours, without gs://}"
: "${INPUT:?set INPUT to the data, e.g. aclImdb_v1.tar.gz}"
: "${INIT_CHECKPOINT:?set INIT_CHECKPOINT to the folder of a published checkpoint, with its tokenizer}"
: "${OUTPUT:?set OUTPUT to a new folder}"
task=${TASK:-imdb}
bucket=gs://$BUCKET_NAME/nlpdata
copy="gcloud storage rsync --recursive"  # the content of a folder, whether or not the target is there
python -m nlpdata create-finetuning --task "$task" --input "$INPUT" --tokenizer "${TOKENIZER:-$INIT_CHECKPOINT}" \
    --max-seq-length "${MAX_SEQ_LENGTH:-256}" --output "$OUTPUT/records"
${DRY_RUN:+echo} $copy "$OUTPUT/records" "$bucket/$task/records"
${DRY_RUN:+echo} $copy "$INIT_CHECKPOINT" "$bucket/$task/checkpoint"
exec python -m pretrain.submit --staging="$bucket" --display_name="$task" ${DRY_RUN:+--dry_run} -- \
    --experiment=bert/sentence_prediction --config_file="${CONFIG:-$task}" --mode=train_and_eval \
    --init_checkpoint="$bucket/$task/checkpoint" \
    --input_files="$bucket/$task/records/train.tfrecord" --eval_files="$bucket/$task/records/dev.tfrecord" "$@"
