"""The PyTorch sample of Google Cloud: README.md of its Python package, its scripts and trainer/task.py."""

import io
import json
import random
import tarfile
from pathlib import Path

import yaml

from tests.migration.chain import Step, System
from tests.migration.given import give_bert
from tests.pages import ROOT

_HYPERTUNING = """trainingInput:
  hyperparameters:
    goal: MAXIMIZE
    hyperparameterMetricTag: accuracy
    maxTrials: 4
    maxParallelTrials: 2
    enableTrialEarlyStopping: False
    params:
    - parameterName: learning-rate
      type: DOUBLE
      minValue: 0.00001
      maxValue: 0.0001
      scaleType: UNIT_LOG_SCALE
    - parameterName: batch-size
      type: INTEGER
      minValue: 16
      maxValue: 64
      scaleType: UNIT_LINEAR_SCALE
"""


def give(folder: Path) -> None:
    """The scripts, a few reviews in IMDB's archive, and a small BERT."""
    (folder / "pretrain").symlink_to(ROOT / "pretrain")
    give_bert(folder / "bert-base-cased", "hf")
    chosen = random.Random(1)
    with tarfile.open(folder / "aclImdb_v1.tar.gz", "w:gz") as archive:
        for split, count in (("train", 100), ("test", 20)):
            for label in ("pos", "neg"):
                for number in range(count):
                    words = [f"w{chosen.randrange(20, 90)}" for _ in range(10)] + ["w150" if label == "pos" else "w160"]
                    content = " ".join(words).encode()
                    member = tarfile.TarInfo(f"aclImdb/{split}/{label}/{number}_{9 if label == 'pos' else 2}.txt")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    (folder / "config.yaml").write_text(_HYPERTUNING)


def _exported(folder: Path, output: str) -> None:
    model = folder / "job" / "models" / "finetuned-bert-classifier" / "hf"
    config = json.loads((model / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("bert", ["BertForSequenceClassification"])
    reports = [json.loads(line) for line in (folder / "output.metrics").read_text().splitlines()]
    results = json.loads((folder / "job" / "models" / "eval_results.json").read_text())
    assert float(reports[-1]["accuracy"]) == results["accuracy"] > 0.9


def _submitted(folder: Path, output: str) -> None:
    job = yaml.safe_load(output[output.index("workerPoolSpecs") :])
    args = job["workerPoolSpecs"][0]["containerSpec"]["args"]
    assert "--input_files=/gcs/my-bucket/nlpdata/imdb/records/train.tfrecord" in args
    assert args[-1] == "--model-name=finetuned-bert-classifier"


def _tuned(folder: Path, output: str) -> None:
    job = yaml.safe_load(output)
    assert [each["parameterId"] for each in job["studySpec"]["parameters"]] == ["learning-rate", "batch-size"]
    assert (job["maxTrialCount"], job["parallelTrialCount"]) == (4, 2)


_GIVEN = "export INPUT=aclImdb_v1.tar.gz INIT_CHECKPOINT=bert-base-cased"

SYSTEM = System(
    name="gcp_sample",
    title="Google Cloud's sample for BERT on AI Platform (PyTorch)",
    about="""
The sample fine-tunes `bert-base-cased` on IMDB's reviews, with scripts that are sourced. Here the data set and the checkpoint are
files of yours: IMDB's own archive, and the folder of the checkpoint, which the scripts take from variables. A script leaves
your shell as it was, whether it succeeds or fails.

`trainer/task.py` is `pretrain run`: `--batch-size`, `--num-epochs`, `--seed`, `--learning-rate` and `--weight-decay` are
the same; `--job-dir` is the run's folder; `--hp-tune=y` reports the accuracy of every evaluation to the tuning service, in the file
that cloudml-hypertune writes, without that package; `--model-name` is the folder in it for the trained model, which is written at
the end in Hugging Face's format, into its folder `hf` (`--export_formats=hf,savedmodel` adds TensorFlow's, in `savedmodel`). The
test split is evaluated, as there.
""",
    programs={
        "source ./scripts/train-local.sh": "source pretrain/train-local.sh",
        "source ./scripts/train-cloud.sh": "source pretrain/train-cloud.sh",
        "python -m trainer.task": "pretrain run",
        "gcloud ai-platform jobs submit training": "pretrain submit",
    },
    steps=(
        Step(
            heading="Local testing",
            text="A few steps: data, checkpoint and settings fit.",
            old="source ./scripts/train-local.sh",
            new=f"{_GIVEN} OUTPUT=local\nsource pretrain/train-local.sh",
            stand_ins={"export ": "export MAX_SEQ_LENGTH=32 STEPS=2 "},
            prints=(r"^evaluation at step 2: .*accuracy [\d.]+",),
            writes=("local/records/train.tfrecord", "local/run/eval_results.json"),
            imports=True,
        ),
        Step(
            heading="The trainer itself",
            text="What `train-local.sh` runs there, with all flags of `trainer/task.py`; a bucket is `--job-dir` inside a job.",
            old="""
python -m trainer.task \\
    --job-dir ${JOB_DIR} \\
    --model-name="finetuned-bert-classifier" \\
    --batch-size 16 --num-epochs 1 --seed 42 --learning-rate 2e-5 --weight-decay 0.01 --hp-tune y
""",
            new="""
pretrain run --experiment=bert/sentence_prediction --mode=train_and_eval --init_checkpoint=bert-base-cased \\
    --input_files=local/records/train.tfrecord --eval_files=local/records/dev.tfrecord \\
    --job-dir ${JOB_DIR} \\
    --model-name="finetuned-bert-classifier" \\
    --batch-size 16 --num-epochs 1 --seed 42 --learning-rate 2e-5 --weight-decay 0.01 --hp-tune y
""",
            stand_ins={
                "pretrain run": "CLOUD_ML_HP_METRIC_FILE=output.metrics pretrain run",
                "${JOB_DIR}": "job/models",
                "--learning-rate 2e-5": "--learning-rate 1e-2",
                "--num-epochs 1": "--num-epochs 6",
            },
            prints=(r"^exported: job/models/finetuned-bert-classifier/hf \(hf\)$",),
            check=_exported,
        ),
        Step(
            heading="Cloud training",
            text="`DRY_RUN=1` prints what would be copied and the job, and does nothing.",
            old="source ./scripts/train-cloud.sh",
            new=f"{_GIVEN} OUTPUT=cloud BUCKET_NAME=my-bucket\n"
            "source pretrain/train-cloud.sh --model-name=finetuned-bert-classifier",
            stand_ins={"export ": "export DRY_RUN=1 MAX_SEQ_LENGTH=32 "},
            prints=(r"^gcloud storage rsync --recursive cloud/records gs://my-bucket/nlpdata/imdb/records$",),
            check=_submitted,
        ),
        Step(
            heading="Hyperparameter tuning",
            text="""
The `config.yaml` of AI Platform's samples is read; Vertex AI's `studySpec` is, too, and `--tune` and `--metric` need no file (see
[Training on Vertex AI](../cloud.md)). `--dry_run` prints the job.
""",
            old="""
gcloud ai-platform jobs submit training ${JOB_NAME} \\
    --region ${REGION} \\
    --master-image-uri ${IMAGE_URI} \\
    --scale-tier BASIC \\
    --job-dir ${JOB_DIR} \\
    --module-name trainer.task \\
    --package-path ${PACKAGE_PATH} \\
    --config config.yaml \\
    -- \\
    --num-epochs 10 --hp-tune y
""",
            new="""
pretrain submit --staging gs://my-bucket/nlpdata --display_name imdb-tuning --study config.yaml --dry_run -- \\
    --experiment=bert/sentence_prediction --mode=train_and_eval --init_checkpoint=gs://my-bucket/nlpdata/imdb/checkpoint \\
    --input_files=gs://my-bucket/nlpdata/imdb/records/train.tfrecord \\
    --eval_files=gs://my-bucket/nlpdata/imdb/records/dev.tfrecord \\
    --num-epochs 10 --hp-tune y
""",
            prints=(r"^# gcloud ai hp-tuning-jobs create .*--max-trial-count=4 --parallel-trial-count=2",),
            check=_tuned,
        ),
    ),
    give=give,
)
