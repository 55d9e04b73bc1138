"""Every early end of a job: an interrupt, a SIGTERM, a worker process that dies, a runner that fails."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pipelines import steps, watching, workers
from tests.nlpdata.commands import run_command
from tests.pipelines.conftest import arguments
from tests.pipelines.test_equal_bytes import RUNNERS
from tests.waiting import wait_until

ANEW = "A run on Beam keeps no finished parts: the same command begins anew"
ENDS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("signum", ENDS)
def test_a_signal_ends_the_job_of_this_process(signum, tmp_path, corpus_folder, tiny_model, capsys, monkeypatch):
    ended = threading.Event()

    def endless(self, element):
        os.kill(os.getpid(), signum)
        try:
            while True:
                watching.check()
                time.sleep(0.01)
        finally:
            ended.set()
        yield

    monkeypatch.setattr(steps.BuildFn, "process", endless)
    outcome = run_command(
        capsys, *arguments(corpus_folder, tmp_path / "out", tiny_model, "sop", 3, "--runner=DirectRunner")
    )
    code, how = ENDS[signum]
    assert outcome.code == code
    assert outcome.err.splitlines()[1:] == [f"nlpdata: {how}. {ANEW}."]
    assert ended.is_set()
    assert list((tmp_path / "out").iterdir()) == []


def test_steps_in_other_threads_have_ended_when_a_job_has():
    """Else the process may end while one is in compiled code, which aborts it."""
    at_work, order = threading.Event(), []

    def step():
        with suppress(watching.GivenUp), watching.step():
            at_work.set()
            try:
                while True:
                    watching.check()
                    time.sleep(0.01)
            finally:
                order.append("step")

    def job():
        threading.Thread(target=step, daemon=True).start()
        at_work.wait()
        raise RuntimeError("the runner fails")

    with pytest.raises(RuntimeError, match="the runner fails"):
        watching.run_watched(job, lambda: None)
    order.append("job")
    assert order == ["step", "job"]
    assert watching.run_watched(lambda: "done", lambda: None) == "done"
    watching.check()


def _workers():
    """The process ids of DirectRunner's workers that this process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"pipelines.workers" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


@pytest.mark.skipif(os.name != "posix", reason="these workers are started by a shell")
@pytest.mark.parametrize("ended", [True, False])
def test_a_worker_that_is_starting_when_workers_are_ended_does_not_start(ended, tmp_path, temporary, monkeypatch):
    """The shell that becomes the worker is held at the last moment before its process id is known."""
    held, go, started = (tmp_path / name for name in ("held", "go", "started"))
    script(tmp_path / "mkdir", f'touch {held}; while [ ! -e {go} ]; do sleep 0.01; done; PATH=$OLD exec mkdir "$@"')
    monkeypatch.setattr(sys, "executable", str(script(tmp_path / "python", f"touch {started}")))
    runner = workers.DirectRunner()
    environment = {**os.environ, "OLD": os.environ["PATH"], "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    starting = subprocess.Popen(runner._command(), shell=True, env=environment)
    assert wait_until(held.exists)
    if ended:
        runner.end_workers()
    go.touch()
    starting.wait(60)
    assert started.exists() == (not ended)
    runner.forget_workers()
    assert not list(temporary.iterdir())


def script(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.slow
@pytest.mark.parametrize("what", ["a worker is killed", "the command is interrupted"])
def test_no_worker_process_is_waited_for_or_left(what, tmp_path, corpus_folder, tiny_model, capfd, temporary):
    def strike():
        while not (workers := _workers()):
            time.sleep(0.02)
        if what == "a worker is killed":
            os.kill(workers[0], signal.SIGKILL)
        else:
            os.kill(os.getpid(), signal.SIGINT)

    striking = threading.Thread(target=strike, daemon=True)
    striking.start()
    given = arguments(corpus_folder, tmp_path / "out", tiny_model, "sop", 3, *RUNNERS["multi_processing"])
    outcome = run_command(capfd, *given)
    (line,) = outcome.err.splitlines()[1:]
    if what == "a worker is killed":
        assert outcome.code == 1
        assert line.startswith(
            "nlpdata: error: DirectRunner: a worker process was killed by SIGKILL. The usual cause is"
        )
        assert line.endswith(ANEW)
    else:
        assert outcome.code == 130
        assert line == f"nlpdata: interrupted. {ANEW}."
    assert list((tmp_path / "out").iterdir()) == []
    assert wait_until(lambda: not _workers())
    assert not list(temporary.glob("nlpdata-workers-*"))


@pytest.mark.parametrize("verbose", [False, True])
def test_a_runner_that_fails_leaves_what_it_wrote(
    verbose, tmp_path, corpus_folder, tiny_model, capfd, monkeypatch, temporary
):
    def failing(self, element):
        os.write(2, b"a line of the runner\n")
        raise RuntimeError("the runner fails")

    monkeypatch.setattr(steps.SpreadFn, "process", failing)
    more = ("--runner=DirectRunner", *(["--verbose"] if verbose else []))
    outcome = run_command(capfd, *arguments(corpus_folder, tmp_path / "out", tiny_model, "nsp", None, *more))
    assert outcome.code == 1
    assert "DirectRunner failed: " in outcome.err
    assert ("a line of the runner" in outcome.err) == verbose
    logs = list(temporary.glob("nlpdata-runner-*.log"))
    if verbose:
        assert logs == []
    else:
        (log,) = logs
        assert outcome.err.splitlines()[-1].endswith(f"What it wrote is in {log}")
        assert log.read_text().startswith("a line of the runner\n")
