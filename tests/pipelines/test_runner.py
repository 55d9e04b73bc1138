"""Runners' options: what is wrong is reported before anything runs; a job server gets the job; a dry run shows it."""

import json
import socket
import tempfile

import pytest

from nlpdata.cli import commands
from pipelines import runner
from pipelines.commands import main
from tests.nlpdata.commands import contents, run_command
from tests.pipelines.conftest import arguments

CLOUD = ("--project=my-project", "--region=europe-west4", "--temp_location=gs://my-bucket/tmp")

IMAGE = "--sdk_container_image=registry/nlpdata-worker:1"

REFUSED = {
    "unknown runner": (("--runner=DirectRuner",), "Did you mean DirectRunner?"),
    "threads": (
        ("--runner=DirectRunner", "--", "--direct_running_mode=multi_threading"),
        "lost records without an error",
    ),
    "workers without effect": (("--runner=DirectRunner", "--", "--direct_num_workers=4"), "multi_processing"),
    "unknown option": (
        ("--runner=DirectRunner", "--", "--direct_num_worker=2"),
        "none called --direct_num_worker. Did you mean --direct_num_workers?",
    ),
    "option without value": (("--runner=DirectRunner", "--", "--direct_num_workers"), "expected one argument"),
    "runner after the cut": (("--runner=DirectRunner", "--", "--runner=FlinkRunner"), "belongs before `--`"),
    "workers": (("--runner=DirectRunner", "--workers=2"), "--workers is for --runner local"),
    "no runner": (("--", "--project=p"), "--runner is local"),
    "Flink, nothing": (("--runner=FlinkRunner",), "--flink_job_server_jar=PATH"),
    "Flink, no jar": (("--runner=FlinkRunner", "--", "--flink_job_server_jar=/no/such.jar"), "does not exist"),
    "Spark, nothing": (("--runner=SparkRunner",), "--spark_job_server_jar=PATH"),
    "Dataflow, nothing": (("--runner=DataflowRunner",), "needs --project, --region, --temp_location"),
    "Dataflow, region": (
        ("--runner=DataflowRunner", "--", CLOUD[0], CLOUD[2]),
        "--runner DataflowRunner needs --region after",
    ),
    "Dataflow, temp": (("--runner=DataflowRunner", "--", *CLOUD[:2], "--temp_location=/tmp/x"), "gs://BUCKET/FOLDER"),
    "Dataflow, bare workers": (("--runner=DataflowRunner", "--", *CLOUD), "workers need nlpdata"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path, corpus_folder, tiny_model, capsys):
    more, message = REFUSED[name]
    outcome = run_command(capsys, *arguments(corpus_folder, tmp_path / "out", tiny_model, "sop", None, *more))
    assert outcome.code == 2
    assert message in outcome.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("installed", "message"),
    [(False, "pip install '.[gcp]'"), (True, "--input and --output must be gs:// paths")],
)
def test_dataflow_needs_its_client_and_its_paths(
    installed, message, tmp_path, corpus_folder, tiny_model, capsys, monkeypatch
):
    monkeypatch.setattr(runner, "_importable", lambda module: installed)
    more = ("--runner=DataflowRunner", "--", *CLOUD, IMAGE)
    outcome = run_command(capsys, *arguments(corpus_folder, tmp_path / "out", tiny_model, "sop", None, *more))
    assert outcome.code == 2
    assert message in outcome.err
    assert not (tmp_path / "out").exists()


def test_java_is_asked_for(tmp_path, corpus_folder, tiny_model, capsys, monkeypatch):
    jar = tmp_path / "server.jar"
    jar.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    more = ("--runner=FlinkRunner", "--", f"--flink_job_server_jar={jar}")
    outcome = run_command(capsys, *arguments(corpus_folder, tmp_path / "out", tiny_model, "sop", None, *more))
    assert outcome.code == 2
    assert "needs Java" in outcome.err


@pytest.fixture
def job_server(tmp_path):
    """A real server of Beam's job API, in this process, that runs what is submitted to it."""
    from apache_beam.runners.portability.local_job_service import LocalJobServicer

    server = LocalJobServicer(str(tmp_path / "staging"))
    port = server.start_grpc_server(0)
    yield f"localhost:{port}"
    server.stop()


@pytest.mark.parametrize("name", ["FlinkRunner", "SparkRunner"])
def test_job_is_submitted_to_the_job_server(name, job_server, tmp_path, corpus_folder, tiny_model, local_files):
    more = (f"--runner={name}", "--", f"--job_endpoint={job_server}", "--environment_type=LOOPBACK")
    assert commands.main(arguments(corpus_folder, tmp_path / "out", tiny_model, "nsp", 3, *more)) == 0
    assert contents(tmp_path / "out") == local_files("nsp", 3)


def test_fault_comes_back_from_the_job_server(job_server, tmp_path, tiny_model, capfd):
    (tmp_path / "a.txt").write_bytes(b"One.\nTwo \xff.\n")
    more = ("--runner=FlinkRunner", "--", f"--job_endpoint={job_server}", "--environment_type=LOOPBACK")
    outcome = run_command(capfd, *arguments(tmp_path, tmp_path / "out", tiny_model, "sop", 1, *more))
    assert outcome.code == 1
    (line,) = outcome.err.splitlines()[1:]
    assert line.startswith(f"nlpdata: error: {tmp_path}/a.txt:2")


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_dry_run_shows_a_whole_job_offline(objective, tmp_path, corpus_folder, tiny_model, capsys, monkeypatch):
    def offline(*_):
        raise AssertionError("a dry run must not use the network")

    monkeypatch.setattr(socket.socket, "connect", offline)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    out = tmp_path / "out"
    more = (
        "--runner=DataflowRunner",
        "--dry-run",
        "--",
        *CLOUD,
        "--machine_type=n2-standard-4",
        "--max_num_workers=50",
    )
    outcome = run_command(capsys, *arguments(corpus_folder, out, tiny_model, objective, None, *more))
    assert outcome.code == 0, outcome.err
    job = json.loads(outcome.out)
    assert (job["project"], job["region"], job["temp_location"]) == ("my-project", "europe-west4", "gs://my-bucket/tmp")
    assert job["workers"]["machine_type"] == "n2-standard-4"
    assert job["workers"]["max_num_workers"] == 50
    assert "apache/beam_python3" in job["workers"]["sdk_container_image"]
    names = [transform["name"] for transform in job["transforms"]]
    assert names[-1] == "Commit"
    assert ("Fill buckets" in names) == (objective == "nsp")
    made = set()
    for transform in job["transforms"]:  # every collection is made before it is used
        assert set(transform["inputs"]) <= made, transform
        made |= set(transform["outputs"])
    groups = [transform for transform in job["transforms"] if transform["kind"] == "beam:transform:group_by_key:v1"]
    assert len(groups) >= 4
    assert job["payload_bytes"] < 10 << 20  # Dataflow's limit
    assert not list(tmp_path.iterdir())


def test_module_takes_one_list_of_options(tmp_path, corpus_folder, tiny_model, local_files, capsys):
    given = arguments(corpus_folder, tmp_path, tiny_model, "sop", 3)[1:]
    mixed = ["--direct_runner_bundle_repeat", "1", *given, "--direct_running_mode=in_memory"]
    assert main("create-pretraining", mixed) == 0
    assert contents(tmp_path) == local_files("sop", 3)
    assert main("create-pretraining", [*given, "--direct_running_mode=multi_threading"]) == 2
    assert "lost records" in capsys.readouterr().err
