"""pretrain submit: the job that it makes, and what a run does inside one."""

import json
import os
import re
import subprocess

import pytest
import yaml

from nlpdata.errors import UsageError
from nlpdata.records.reader import open_records
from pretrain.run import find_model_dir
from pretrain.submit import main
from pretrain.training.logs import hypertune
from tests.disks import files_up_to
from tests.pages import commands_of_this_environment, give_checkpoint, give_datasets
from tests.pretrain.runs import ROOT

FLAGS = [
    "--experiment=bert/local",
    "--mode=train_and_eval",
    "--input_files=gs://my-bucket/a.tfrecord,gs://my-bucket/b*",
]
STAGING = ["--staging", "gs://my-bucket/nlpdata/", "--display_name", "job1"]


def test_dry_run_prints_the_job(capsys):
    line = [*STAGING, "--region", "europe-west4", "--project", "p1", "--dry_run", "--", *FLAGS]
    assert main(line) == 0
    printed = capsys.readouterr().out
    job = yaml.safe_load(printed)
    (pool,) = job["workerPoolSpecs"]
    machine = {"machineType": "a2-highgpu-1g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 1}
    assert (pool["machineSpec"], pool["replicaCount"]) == (machine, 1)
    container = pool["containerSpec"]
    assert container["command"][:2] == ["sh", "-c"]
    assert re.search(
        r"pip install '?/gcs/my-bucket/nlpdata/source-\w{12}/nlpdata-[\w.]+tar.gz", container["command"][2]
    )
    assert container["args"] == [*FLAGS[:2], "--input_files=/gcs/my-bucket/a.tfrecord,/gcs/my-bucket/b*"]
    assert job["baseOutputDirectory"] == {"outputUriPrefix": "gs://my-bucket/nlpdata/job1"}
    copy, create = [row for row in printed.splitlines() if row.startswith("# gcloud")]
    assert copy.startswith("# gcloud storage cp ")
    assert "custom-jobs create --region=europe-west4 --display-name=job1 --config=" in create
    assert create.endswith("--project=p1")


def test_a_full_disk(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with files_up_to(10_000):
        assert main([*STAGING, "--dry_run", "--", *FLAGS]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith("pretrain submit: error: File too large")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "installed"),
    [
        ([], "[train]' 'tensorflow[and-cuda]' &&"),
        (["--backend=jax"], "[jax]' 'jax[cuda12]' &&"),
        (["--backend=jax", "--export_formats=hf"], "[jax]' 'jax[cuda12]' &&"),
        (["--backend=jax", "--export_formats=hf,savedmodel"], "[jax,train]' 'jax[cuda12]' &&"),
        (["--backend", "tensorflow"], "[train]' 'tensorflow[and-cuda]' &&"),
    ],
)
def test_a_job_installs_its_backend(flags, installed, capsys):
    assert main([*STAGING, "--dry_run", "--", "--experiment=bert/local", *flags]) == 0
    assert f".tar.gz{installed}" in capsys.readouterr().out


def test_a_job_gets_the_users_modules(tmp_path, monkeypatch, capsys):
    """Those of --import_module and those that flags name as module:attribute; a package whole, this project's own not."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "job_parts").mkdir()
    (tmp_path / "job_parts" / "__init__.py").write_text("")
    (tmp_path / "job_parts" / "inner.py").write_text("x = 1")
    (tmp_path / "job_trainer.py").write_text("class Quick: pass")
    flags = ["--experiment=bert/local", "--import_module=job_parts.inner,pretrain.data.toy"]
    flags.append("--params_override=trainer.type=job_trainer:Quick")
    assert main([*STAGING, "--dry_run", "--", *flags]) == 0
    printed = capsys.readouterr().out
    (pool,) = yaml.safe_load(printed)["workerPoolSpecs"]
    (variable,) = pool["containerSpec"]["env"]
    assert variable["name"] == "PYTHONPATH"
    place = re.fullmatch(r"/gcs/(my-bucket/nlpdata/source-\w{12}/modules)", variable["value"]).group(1)
    copies = [line for line in printed.splitlines() if line.startswith("# gcloud storage cp -r")]
    assert copies == [
        f"# gcloud storage cp -r {tmp_path / name} gs://{place}/" for name in ("job_parts", "job_trainer.py")
    ]
    assert pool["containerSpec"]["args"] == flags
    assert main([*STAGING, "--dry_run", "--", *flags[:1], "--import_module=no_such_module"]) == 2
    assert "module 'no_such_module' cannot be imported" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------------- tuning

TRIAL = [
    "--experiment=bert/sentence_prediction",
    "--mode=train_and_eval",
    "--input_files=gs://b/a",
    "--eval_files=gs://b/e",
]
TUNE = ["--tune", "learning_rate=1e-5:1e-4:log", "--max_trials", "12", "--metric", "accuracy"]


def test_dry_run_prints_the_tuning(capsys):
    more = ["--tune=train_batch_size=32,16", "--tune=num_train_epochs=2:4", "--parallel_trials=3", "--algorithm=random"]
    assert main([*STAGING, "--dry_run", *TUNE, *more, "--", *TRIAL]) == 0
    printed = capsys.readouterr().out
    job = yaml.safe_load(printed)
    assert job["studySpec"] == {
        "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
        "parameters": [
            {
                "parameterId": "learning_rate",
                "doubleValueSpec": {"minValue": 1e-5, "maxValue": 1e-4},
                "scaleType": "UNIT_LOG_SCALE",
            },
            {
                "parameterId": "train_batch_size",
                "discreteValueSpec": {"values": [16, 32]},
                "scaleType": "UNIT_LINEAR_SCALE",
            },
            {
                "parameterId": "num_train_epochs",
                "integerValueSpec": {"minValue": 2, "maxValue": 4},
                "scaleType": "UNIT_LINEAR_SCALE",
            },
        ],
        "algorithm": "RANDOM_SEARCH",
    }
    assert (job["maxTrialCount"], job["parallelTrialCount"]) == (12, 3)
    trial = job["trialJobSpec"]
    assert trial["baseOutputDirectory"] == {"outputUriPrefix": "gs://my-bucket/nlpdata/job1"}
    args = trial["workerPoolSpecs"][0]["containerSpec"]["args"]
    assert args == [*TRIAL[:2], "--input_files=/gcs/b/a", "--eval_files=/gcs/b/e", "--hypertune_metric=accuracy"]
    create = printed.splitlines()[-1]
    assert create.startswith("# gcloud ai hp-tuning-jobs create --region=us-central1 --display-name=job1")
    assert "--max-trial-count=12 --parallel-trial-count=3 --config=" in create


def test_a_study_comes_from_a_file_and_options_change_it(tmp_path, capsys):
    study = tmp_path / "study.yaml"
    study.write_text(
        "studySpec:\n"
        "  metrics: [{metricId: loss, goal: MINIMIZE}]\n"
        "  medianAutomatedStoppingSpec: {}\n"
        "  parameters:\n"
        "  - {parameterId: weight_decay, doubleValueSpec: {minValue: 0, maxValue: 1e-1}, scaleType: UNIT_LINEAR_SCALE}\n"
        "  - {parameterId: optimizer, categoricalValueSpec: {values: [adamw, lamb]}}\n"
        "maxTrialCount: 8\n"
        "maxFailedTrialCount: 2\n"
    )
    line = [*STAGING, "--dry_run", "--study", str(study)]
    assert main([*line, "--", *TRIAL]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    assert job["studySpec"]["medianAutomatedStoppingSpec"] == {}
    assert job["studySpec"]["metrics"] == [{"metricId": "loss", "goal": "MINIMIZE"}]
    assert job["studySpec"]["parameters"][0]["doubleValueSpec"] == {"minValue": 0, "maxValue": 0.1}
    assert (job["maxTrialCount"], job["parallelTrialCount"], job["maxFailedTrialCount"]) == (8, 1, 2)
    more = ["--tune=weight_decay=0.01,0.1", "--metric=f1", "--goal=maximize", "--max_trials=3"]
    assert main([*line, *more, "--", *TRIAL]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    assert job["studySpec"]["metrics"] == [{"metricId": "f1", "goal": "MAXIMIZE"}]
    kinds = [list(each)[1] for each in job["studySpec"]["parameters"]]
    assert (kinds, job["maxTrialCount"]) == (["discreteValueSpec", "categoricalValueSpec"], 3)


def test_the_metric_of_a_tuning_is_that_of_the_run(capsys):
    line = [*STAGING, "--dry_run", "--tune=learning_rate=1e-5:1e-4", "--max_trials=2"]
    assert main([*line, "--", *TRIAL, "--hp-tune=y"]) == 0
    job = yaml.safe_load(capsys.readouterr().out)
    assert job["studySpec"]["metrics"] == [{"metricId": "accuracy", "goal": "MAXIMIZE"}]
    assert job["trialJobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"][-1] == "--hp-tune=y"


@pytest.mark.parametrize(
    ("options", "flags", "message"),
    [
        (["--max_trials=3"], TRIAL, "--max_trials is for a tuning: name what is tuned with --tune or --study"),
        (TUNE[:2], TRIAL, "a tuning needs --metric"),
        ([*TUNE[:2], "--metric=accuracy"], TRIAL, "a tuning needs --max_trials"),
        ([*TUNE, "--parallel_trials=20"], TRIAL, "--parallel_trials 20 are more than --max_trials 12"),
        ([*TUNE, "--goal=minimize"], TRIAL, "--goal is minimize, but a higher accuracy is better"),
        ([*TUNE[:-1], "acuracy"], TRIAL, "Did you mean accuracy?"),
        ([*TUNE, "--tune=learnig_rate=1:2"], TRIAL, "'learnig_rate' is not one. Did you mean learning_rate?"),
        ([*TUNE, "--tune=mode=train,eval"], TRIAL, "a tuning changes flags that set a field: 'mode' is not one"),
        (
            [*TUNE, "--tune=train_batch_size=0:16"],
            TRIAL,
            "the tuning may try --train_batch_size=0, which a run refuses: ",
        ),
        ([*TUNE, "--tune=optimizer=adamw,lam"], TRIAL, "the tuning may try --optimizer=lam, which a run refuses: "),
        ([*TUNE, "--tune=learning_rate=1:2"], TRIAL, "--tune learning_rate is given twice"),
        (
            [*TUNE, "--tune=seed=1,2", "--tune=random-seed=3,4"],
            TRIAL,
            "the tuning names --seed twice, as seed and as random-seed",
        ),
        ([*TUNE, "--tune=warmup_proportion"], TRIAL, "expected NAME=LOW:HIGH:SCALE"),
        (TUNE, [TRIAL[0], "--mode=train", *TRIAL[2:]], "the trials of a tuning must evaluate: --mode=train_and_eval"),
        (TUNE, [*TRIAL, "--job-dir=gs://b/x"], "all trials would write there"),
        (TUNE, [*TRIAL, "--export_dir=gs://b/x"], "all trials would write there"),
        (
            TUNE,
            [*TRIAL, "--hypertune_metric=f1"],
            "the run reports f1 (--hypertune_metric), and the tuning is for accuracy",
        ),
        (["--study=gone.yaml"], TRIAL, "--study gone.yaml: there is no such file"),
        ([], ["--experiment=bert/squad", "--mode=predict"], "a job trains or evaluates"),
    ],
)
def test_faults_of_a_tuning(options, flags, message, capsys):
    assert main([*STAGING, "--dry_run", *options, "--", *flags]) == 2
    assert message in capsys.readouterr().err


# --------------------------------------------------------------------------------------------------------------- scripts


_VOLATILE = "_|BASH.*|PIPE.*|S?RANDOM|SECONDS|EPOCH.*|LINENO|FUNC.*"
_SHOW = f"{{{{ set +o; shopt -p; declare -f; trap -p; pwd; umask; compgen -v | grep -vxE '{_VOLATILE}'; }}}}"


def state_of_the_shell(tmp_path, script: str, line: str) -> tuple[str, str, str]:
    """(what a bash looks like before a script is sourced in it, and after, what was printed)."""
    program = "INPUT=in.gz\n" + f"{_SHOW} > before\n{line}\necho alive $?\n{_SHOW} > after"
    fake = tmp_path / "bin" / "python"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho python "$@"\n[ "$2" != "$FAILS" ]\n')
    fake.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", program.format(script=ROOT / "pretrain" / script)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return (tmp_path / "before").read_text(), (tmp_path / "after").read_text(), done.stdout


GIVEN = "INIT_CHECKPOINT=base OUTPUT=out BUCKET_NAME=my-bucket DRY_RUN=1"


@pytest.mark.parametrize("script", ["train-local.sh", "train-cloud.sh"])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("source {script}", r"train-\w+\.sh: set (INIT_CHECKPOINT|BUCKET_NAME) to .*\nalive 2\n$"),
        ("source {script} || echo failed", r"\nfailed\nalive 0\n$"),
        (f"{GIVEN}; source {{script}} --learning_rate=1e-5", r"pretrain\.(run|submit) .*--learning_rate=1e-5\nalive 0\n$"),
        (f"{GIVEN}; set -u; source {{script}}", r"pretrain\.(run|submit) .*\nalive 0\n$"),
        (f"{GIVEN}; export FAILS=nlpdata; source {{script}}", r"^python [^\n]*create-finetuning [^\n]*\nalive 1\n$"),
        (f"{GIVEN}; export FAILS=nlpdata; source {{script}} || true", r"^python [^\n]*create-finetuning [^\n]*\nalive 0\n$"),
    ],
)  # fmt: skip
def test_a_sourced_script_leaves_the_shell_as_it_is(tmp_path, script, line, said):
    before, after, output = state_of_the_shell(tmp_path, script, line)
    assert re.search(said, output, re.DOTALL), output
    own = {"INIT_CHECKPOINT", "OUTPUT", "BUCKET_NAME", "DRY_RUN", "FAILS", "set -o nounset", "set +o nounset"}
    assert set(before.splitlines()) ^ set(after.splitlines()) <= own  # what the line itself sets


@pytest.fixture
def scripts(tmp_path):
    """Runs a script on MRPC and a tiny checkpoint, all that the scripts need; returns the finished process."""
    give_datasets(tmp_path)
    give_checkpoint(tmp_path)
    paths = {"INPUT": "glue/MRPC", "INIT_CHECKPOINT": "base", "OUTPUT": "out", "TASK": "mrpc", "CONFIG": "glue_mrpc"}
    place = commands_of_this_environment(tmp_path / "commands")

    def run(name, *flags, **variables):
        environment = {**place, **paths, "MAX_SEQ_LENGTH": "128", **variables}
        command = ["sh", ROOT / "pretrain" / name, *flags]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    return run


def test_the_local_script_makes_records_and_a_run_of_them(scripts, tmp_path):
    """Of what its variables and flags say; docs/migration/gcp_sample.md, whose commands are tested, trains with it."""
    asked = scripts("train-local.sh", "--train_batch_size=4", "--print_config", STEPS="2")
    assert asked.returncode == 0, asked.stderr
    assert len(open_records(str(tmp_path / "out" / "records" / "dev.tfrecord"))) == 40
    config = yaml.safe_load(asked.stdout[asked.stdout.index("\ntask_type:") :])
    data = config["task"]["train_data"]
    assert (data["input_path"], data["global_batch_size"]) == ("out/records/train.tfrecord", 4)
    assert (config["task"]["init_checkpoint"], config["trainer"]["train_steps"]) == ("base", 2)


def test_the_cloud_script_copies_and_submits(scripts, tmp_path):
    asked = scripts("train-cloud.sh", "--num_train_epochs=1", BUCKET_NAME="my-bucket", DRY_RUN="1")
    assert asked.returncode == 0, asked.stderr
    copies = [line for line in asked.stdout.splitlines() if line.startswith("gcloud storage rsync --recursive")]
    targets = {line.split()[-2]: line.split()[-1] for line in copies}
    assert targets == {
        f: f"gs://my-bucket/nlpdata/mrpc/{t}" for f, t in (("out/records", "records"), ("base", "checkpoint"))
    }
    job = yaml.safe_load(asked.stdout[asked.stdout.index("workerPoolSpecs") :])
    flags = job["workerPoolSpecs"][0]["containerSpec"]["args"]
    assert "--input_files=/gcs/my-bucket/nlpdata/mrpc/records/train.tfrecord" in flags
    assert flags[-1] == "--num_train_epochs=1"
    assert (tmp_path / "out" / "records" / "train.tfrecord").exists()
    asked = scripts("train-cloud.sh", BUCKET_NAME="")
    assert asked.returncode == 2
    assert "set BUCKET_NAME to a bucket of yours" in asked.stderr


def test_places_that_a_job_does_not_share_are_reported(capsys):
    def reported(*flags):
        assert main([*STAGING, "--accelerator_type=", "--dry_run", "--", *FLAGS[:2], *flags]) == 0
        return [row for row in capsys.readouterr().err.splitlines() if "a job starts in a folder of its own" in row]

    assert reported("--input_files=gs://my-bucket/a,/gcs/my-bucket/b", "--model_dir=gs://my-bucket/run") == []
    found = reported("--input_files=out/b*, gs://my-bucket/a", "--model_dir=run1", "--init_checkpoint=bert")
    assert [re.search(r"(\S+ \S+): a job", row)[1] for row in found] == [
        "--model_dir run1", "task.init_checkpoint bert", "task.train_data.input_path out/b*",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ([*STAGING, "--", *FLAGS], "gcloud is not installed"),
        (["--dry_run", "--staging", "gs://BUCKET_NAME/x", "--", *FLAGS], "--staging must be gs://BUCKET/FOLDER"),
        ([*STAGING, "--dry_run", "--", "--experimnt=x"], "no flag --experimnt. Did you mean --experiment? "),
        (
            [*STAGING, "--dry_run", "--", "--experiment=bert/local", "--mode=trian"],
            "Received: 'trian'. Did you mean train",
        ),
        ([*STAGING, "--dry_run"], "no flags of `pretrain run`: write them after `--`"),
        ([*STAGING, "--dry_run", "--", *FLAGS, "--params_override=task.modle.x=1"], "Did you mean model"),
        ([*STAGING, "--dry_run", "--", *FLAGS, "--config_file=no_such"], "no_such"),
        (
            [*STAGING, "--dry_run", "--", *FLAGS, "--export_formats=savedmodle"],
            "'savedmodle'. Did you mean savedmodel?",
        ),
        ([*STAGING, "--dry_run", "--", *FLAGS, f"--config_file={__file__}"], "is a file on this machine"),
        ([*STAGING, "--dry_run", "--", *FLAGS, f"--gin_file={__file__}"], "is a file on this machine"),
        (
            ["--staging=gs://my-bucket/x", "--display_name=a/b", "--dry_run", "--", *FLAGS],
            "--display_name names a folder too",
        ),
        (["--staging=gs://my-bucket/x", "--display_name=..", "--dry_run", "--", *FLAGS], "names a folder too"),
        ([*STAGING, "--machine_type=", "--dry_run", "--", *FLAGS], "--machine_type must be a name"),
        ([*STAGING, "--project=my project", "--dry_run", "--", *FLAGS], "--project must be a name"),
    ],
)
def test_faults(line, message, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert main(line) == 2
    assert message in capsys.readouterr().err


def test_the_model_dir_of_a_job(tmp_path):
    job = {"AIP_MODEL_DIR": "gs://my-bucket/job1/model/"}
    (tmp_path / "my-bucket").mkdir()
    assert find_model_dir(None, job, tmp_path) == f"{tmp_path}/my-bucket/job1/model"
    assert find_model_dir("run1", job, tmp_path) == "run1"
    with pytest.raises(UsageError, match=r"other is not there, so this bucket is not mounted.*gcloud storage cp -r"):
        find_model_dir("gs://other/x", {}, tmp_path)
    with pytest.raises(UsageError, match="--model_dir is missing"):
        find_model_dir(None, {}, tmp_path)


def test_hypertune_lines(tmp_path, monkeypatch):
    path = tmp_path / "new" / "output.metrics"
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(path))
    monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "3")
    hypertune.report("accuracy", {"accuracy": 0.5, "loss": 1.0}, 10)
    hypertune.report("accuracy", {"accuracy": 0.75, "loss": 1.0}, 20)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["accuracy"], line["global_step"], line["trial"]) for line in lines] == [
        ("0.5", "10", "3"),
        ("0.75", "20", "3"),
    ]
    assert lines[0].keys() == {"timestamp", "trial", "accuracy", "global_step"}
    with pytest.raises(UsageError, match="hypertune_metric is 'f1'; the evaluation has accuracy, loss"):
        hypertune.report("f1", {"accuracy": 0.5, "loss": 1.0}, 10)


def test_hypertune_keeps_the_name_of_the_study(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(tmp_path / "output.metrics"))
    hypertune.report("cls_accuracy", {"accuracy": 0.5, "loss": 1.0}, 10)
    line = json.loads((tmp_path / "output.metrics").read_text())
    assert (line["cls_accuracy"], "accuracy" in line) == ("0.5", False)
