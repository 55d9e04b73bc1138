#!/bin/sh
# Builds the worker image, pushes it, and runs create-pretraining with it on a runner of your choice.
#   IMAGE=REGISTRY/nlpdata-worker:1 pipelines/submit.sh FlinkRunner --job_endpoint=host:8099 -- \
#       --input '/data/*.txt' --tokenizer /data/spm.model --output /data/out/train.tfrecord
# Before `--` stand the runner and Beam's options, after it those of create-pretraining.
set -eu
: "${IMAGE:?set IMAGE to the name that the image gets in your registry}"
runner=$1
shift
docker build -f "$(dirname "$0")/Dockerfile" -t "$IMAGE" "$(dirname "$0")/.."
docker push "$IMAGE"
beam=""
while [ $# -gt 0 ] && [ "$1" != "--" ]; do
    beam="$beam $1"
    shift
done
[ $# -gt 0 ] && shift
# $beam is split on purpose: Beam's options hold no spaces.
# shellcheck disable=SC2086
exec python -m nlpdata create-pretraining "$@" --runner "$runner" -- $beam --sdk_container_image="$IMAGE"
