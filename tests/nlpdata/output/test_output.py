"""Where create-pretraining puts its results: what exists, overwriting, full disks, signals, interrupted commits."""

import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from nlpdata import output
from nlpdata.cli import commands
from nlpdata.errors import DataError
from nlpdata.execution.executor import run_units
from tests.disks import mounted
from tests.nlpdata.commands import contents, create_arguments, run_command, visible
from tests.nlpdata.conftest import as_text, random_documents
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(as_text(random_documents(40, seed=9)))
    return path


@pytest.fixture
def create(tmp_path, text, tiny_model, capsys):
    def run(*more, output="out/x.tfrecord", **settings):
        return run_command(capsys, *create_arguments(text, tmp_path / output, tiny_model, *more, **settings))

    return run


def work_folder(folder, stem="x"):
    return folder / f".{stem}.work"


# ---------------------------------------------------------------------------------------------------------------- names


def test_missing_folders_are_made(create, tmp_path):
    assert create(output="a/b/c/x").code == 0
    assert visible(tmp_path / "a" / "b" / "c") == ["x.meta.json", "x.tfrecord", "x.tokenizer.model"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_that_cannot_be_written(create, tmp_path):
    (tmp_path / "out").mkdir(mode=0o555)
    outcome = create()
    assert outcome.code == 2
    assert f"cannot write to {tmp_path}/out/" in outcome.err


def test_file_in_the_place_of_the_folder(create, tmp_path):
    (tmp_path / "out").write_text("")
    outcome = create()
    assert outcome.code == 2
    assert f"cannot write to {tmp_path}/out/" in outcome.err


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("out/x.tfrecord-00000-of-00003", "x.tfrecord'"),
        ("out/*.tfrecord", "patterns"),
        ("out/.x", "patterns"),
        (".", "folder"),
    ],
)
def test_names_that_are_none(create, tmp_path, name, word):
    outcome = create(output=name)
    assert outcome.code == 2
    assert "--output" in outcome.err
    assert word in outcome.err
    assert visible(tmp_path / "out") == []


def test_meta_elsewhere(create, tmp_path):
    (tmp_path / "metas").mkdir()
    assert create("--meta", tmp_path / "metas" / "m.json").code == 0
    assert json.loads((tmp_path / "metas" / "m.json").read_text())["train_data_size"] > 0
    assert visible(tmp_path / "out") == ["x.tfrecord", "x.tokenizer.model"]


# -------------------------------------------------------------------------------------------------- what exists already


def test_older_run_is_refused_and_kept(create, tmp_path):
    assert create().code == 0
    before = contents(tmp_path / "out")
    outcome = create("--seed", 1)
    assert outcome.code == 2
    for word in ("x.tfrecord", "x.meta.json", "--overwrite"):
        assert word in outcome.err
    assert contents(tmp_path / "out") == before
    assert not work_folder(tmp_path / "out").exists()


def test_overwrite_removes_the_old_set_and_nothing_else(create, tmp_path):
    assert create("--num-shards", 3).code == 0
    assert len(visible(tmp_path / "out")) == 5
    others = ["x.tfrecord.txt.bak", "x2.tfrecord", "x.notes", "x.test.tfrecord"]
    for name in others:
        (tmp_path / "out" / name).write_text("mine")
    assert create("--overwrite").code in (0, 2)
    (tmp_path / "out" / others[0]).unlink()
    assert create("--overwrite").code == 0
    assert visible(tmp_path / "out") == sorted(["x.meta.json", "x.tfrecord", "x.tokenizer.model", *others[1:]])
    assert create("--overwrite", "--num-shards", 2).code == 0
    shards = ["x.tfrecord-00000-of-00002", "x.tfrecord-00001-of-00002"]
    assert visible(tmp_path / "out") == sorted(["x.meta.json", *shards, "x.tokenizer.model", *others[1:]])


def test_overwrite_without_meta_is_refused(create, tmp_path):
    assert create("--num-shards", 3).code == 0
    (tmp_path / "out" / "x.meta.json").unlink()
    before = contents(tmp_path / "out")
    outcome = create("--overwrite")
    assert outcome.code == 2
    assert "x.tfrecord-00000-of-00003" in outcome.err
    assert contents(tmp_path / "out") == before


def test_overwrite_refuses_a_record_file_that_the_meta_does_not_list(create, tmp_path):
    assert create().code == 0
    (tmp_path / "out" / "x.tfrecord-00001-of-00007").write_text("of another run")
    before = contents(tmp_path / "out")
    outcome = create("--overwrite")
    assert outcome.code == 2
    assert "x.tfrecord-00001-of-00007" in outcome.err
    assert contents(tmp_path / "out") == before


def test_overwrite_keeps_a_meta_file_that_is_none(create, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.meta.json").write_text('{"title": "mine"}')
    assert create().code == 2
    assert create("--overwrite").code == 2
    assert visible(tmp_path / "out") == ["x.meta.json"]


def test_eval_set_of_an_older_run_is_named(create, tmp_path):
    made = create("--eval-fraction", 0.3)
    assert made.code == 0
    aside = json.loads((tmp_path / "out" / "x.meta.json").read_text())["counters"]["documents_eval"]
    assert re.search(rf"^  set aside for evaluation +{aside}$", made.out, re.MULTILINE)
    outcome = create("--overwrite")
    assert (outcome.code, "set aside" in outcome.out) == (0, False)
    assert "x.eval.tfrecord is of another run" in outcome.err
    assert "of another run" not in create("--overwrite", "--eval-fraction", 0.3).err


def test_overwrite_of_an_equal_run_gives_equal_bytes(create, tmp_path):
    assert create().code == 0
    before = contents(tmp_path / "out")
    assert create("--overwrite").code == 0
    assert contents(tmp_path / "out") == before


# --------------------------------------------------------------------------------------------------- interrupted commit


class Crash(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def crash_at(monkeypatch):
    """crash_at(n): the n-th change of the output folder during a commit is not made, and the process ends."""

    def arm(step):
        count = 0

        def counted(function):
            def call(*arguments, **settings):
                nonlocal count
                if committing:
                    count += 1
                    if count > step:
                        raise Crash
                return function(*arguments, **settings)

            return call

        committing = []
        real_commit = output.commit

        def commit(*arguments, **settings):
            committing.append(True)
            real_commit(*arguments, **settings)
            committing.clear()

        monkeypatch.setattr("nlpdata.pretraining.create.commit", commit)
        monkeypatch.setattr(os, "replace", counted(os.replace))
        monkeypatch.setattr(Path, "unlink", counted(Path.unlink))

    yield arm
    monkeypatch.undo()


def test_other_command_after_an_interrupted_commit(create, tmp_path, crash_at, monkeypatch, capsys):
    crash_at(8)
    with pytest.raises(Crash):
        create("--num-shards", 3)
    monkeypatch.undo()
    before = contents(tmp_path / "out")
    assert before
    assert "x.meta.json" not in before
    outcome = create("--seed", 1)
    assert outcome.code == 2
    assert "half replaced" in outcome.err
    assert "--overwrite" in outcome.err
    assert contents(tmp_path / "out") == before
    verified = run_command(capsys, "verify", f"{tmp_path}/out/x.tfrecord*")
    assert verified.code == 1
    assert "being replaced" in verified.out + verified.err
    assert create("--seed", 1, "--overwrite").code == 0
    assert visible(tmp_path / "out") == ["x.meta.json", "x.tfrecord", "x.tokenizer.model"]


# -------------------------------------------------------------------------------------------------------- work folder


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_damaged_parts_are_made_again(create, tmp_path, crash_at, monkeypatch, objective):
    """Files that are cut, empty, other, flipped or gone; of an objective with buckets, empty and flipped ones."""
    more = ("--objective", objective, "--num-shards", 2)
    assert create(*more, output="whole/x.tfrecord").code == 0
    damages = [
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"junk" * 50),
        _flip,
        lambda path: path.unlink(),
    ]
    for pattern in ("*.run", "x.tfrecord-*", "*.json"):
        for damage in damages if objective == "sop" else damages[1::2]:
            with monkeypatch.context():
                crash_at(0)
                with pytest.raises(Crash):
                    create(*more)
                monkeypatch.undo()
            for path in work_folder(tmp_path / "out").glob(pattern):
                damage(path)
            outcome = create(*more)
            assert outcome.code == 0, (pattern, outcome.err)
            assert "left by an equal run" in outcome.err
            assert contents(tmp_path / "out") == contents(tmp_path / "whole")
            shutil.rmtree(tmp_path / "out")


def _flip(path):
    """Changes one bit: the file keeps its size, and JSON may stay JSON."""
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    path.write_bytes(content)


def test_results_that_changed_places_are_made_again(create, tmp_path, crash_at, monkeypatch):
    assert create("--num-shards", 2, output="whole/x.tfrecord").code == 0
    crash_at(0)
    with pytest.raises(Crash):
        create("--num-shards", 2)
    monkeypatch.undo()
    names = sorted(work_folder(tmp_path / "out").glob("*.json"))[:2]
    results = [name.read_bytes() for name in names]
    for name, result in zip(names, reversed(results), strict=True):
        name.write_bytes(result)
    assert create("--num-shards", 2).code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_key_that_is_not_text_is_of_another_run(create, tmp_path, crash_at, monkeypatch):
    crash_at(0)
    with pytest.raises(Crash):
        create()
    monkeypatch.undo()
    (work_folder(tmp_path / "out") / "key").write_bytes(b"\xff" * 40)
    outcome = create()
    assert outcome.code == 0
    assert "it is deleted" in outcome.err


def test_a_work_folder_that_cannot_be_used_says_what_to_do(create, tmp_path, crash_at, monkeypatch):
    crash_at(0)
    with pytest.raises(Crash):
        create()
    monkeypatch.undo()
    key = work_folder(tmp_path / "out") / "key"
    key.unlink()
    key.mkdir()
    outcome = create()
    assert outcome.code == 1
    assert outcome.err.endswith(f"({key}). Remove the folder, or use another --output\n")


def test_another_command_removes_temporary_files_of_the_set(create, tmp_path):
    (tmp_path / "out").mkdir(exist_ok=True)
    left = tmp_path / "out" / f".x.eval.meta.json.{'0' * 32}.tmp"
    left.write_text("")
    assert create().code == 0
    assert not left.exists()


def test_work_folder_of_another_run_is_deleted_and_said(create, tmp_path, crash_at, monkeypatch):
    crash_at(0)
    with pytest.raises(Crash):
        create()
    monkeypatch.undo()
    outcome = create("--seed", 2)
    assert outcome.code == 0
    assert "other options or inputs; it is deleted" in outcome.err


def test_work_folder_without_key_is_not_trusted(create, tmp_path, crash_at, monkeypatch):
    crash_at(0)
    with pytest.raises(Crash):
        create("--seed", 2)
    monkeypatch.undo()
    (work_folder(tmp_path / "out") / "key").unlink()
    outcome = create()
    assert outcome.code == 0
    assert "it is deleted" in outcome.err
    assert create(output="whole/x.tfrecord").code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_two_runs_at_once(create, tmp_path, text, tiny_model):
    """The second one is refused, whatever its options, and disturbs nothing."""
    (tmp_path / "out").mkdir()
    folder = output.WorkFolder([output.output_set(str(tmp_path / "out" / "x.tfrecord"))], "key")
    (folder.path / "part").write_text("")
    outcome = create()
    assert outcome.code == 2
    assert "another run is making" in outcome.err
    assert (folder.path / "part").exists()
    folder.close()
    assert create().code == 0
    assert not folder.path.exists()


def set_up_without_tokenizer():
    raise DataError("the tokenizer is gone")


def do_nothing(task, report):
    return task


def test_worker_that_cannot_be_set_up_says_why():
    units = run_units(do_nothing, [1, 2], workers=2, initializer=set_up_without_tokenizer, initargs=())
    with pytest.raises(DataError, match="the tokenizer is gone"):
        list(units)


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_fewer_workers_go_on_from_there(create, tmp_path, crash_at, monkeypatch, objective):
    more = ("--objective", objective)
    assert create(*more, output="whole/x.tfrecord").code == 0
    crash_at(0)
    with pytest.raises(Crash):
        create(*more, workers=2)
    monkeypatch.undo()
    assert "finished parts are used" in create(*more, workers=1).err
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


# ---------------------------------------------------------------------------------------------------------- full disks


def limit_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


def run_apart(arguments, **settings):
    command = [sys.executable, "-m", "nlpdata", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **settings)


@pytest.mark.parametrize("workers", [1, 2])
def test_file_size_limit(tmp_path, text, tiny_model, capsys, workers):
    chunk = ("--chunk-size", 8192)
    arguments = create_arguments(text, tmp_path / "x.tfrecord", tiny_model, *chunk, dupe=2, workers=workers)
    done = run_apart(arguments, preexec_fn=limit_file_size)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert os.strerror(errno.EFBIG) in done.stderr
    assert "tokenizing" in done.stderr or "writing shards" in done.stderr
    assert visible(tmp_path) == []
    assert run_command(capsys, *arguments).code == 0
    assert run_command(capsys, "verify", tmp_path / "x.tfrecord").code == 0


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk", "size=400k") as folder:
        yield folder


def test_disk_full(small_disk, tmp_path, text, tiny_model, capsys):
    """At every size of the disk there is a message and no result, or the whole result; with room it resumes."""
    arguments = create_arguments(text, small_disk / "x.tfrecord", tiny_model, "--num-shards", 2)
    elsewhere = create_arguments(text, tmp_path / "whole" / "x.tfrecord", tiny_model, "--num-shards", 2)
    assert run_command(capsys, *elsewhere).code == 0
    expected, stages = contents(tmp_path / "whole"), set()
    stage_words = ("tokenizing", "writing shards", "cannot move", "create-pretraining", "work folder")
    for size in (8, 40, 200, 400, 500, 600, 700, 800, 900, 1000, 1200, 2000, 4000):
        subprocess.run(["mount", "-o", f"remount,size={size}k", str(small_disk)], check=True)
        outcome = run_command(capsys, *arguments)
        if outcome.code == 0:
            break
        assert outcome.code == 1, outcome.err
        assert os.strerror(errno.ENOSPC) in outcome.err
        stages |= {word for word in stage_words if word in outcome.err}
        assert visible(small_disk) == []
    assert outcome.code == 0
    assert contents(small_disk) == expected
    assert stages >= {"tokenizing", "writing shards"}


# ------------------------------------------------------------------------------------------------------------- signals


# The command, as it runs until six portions are finished: then its workers wait, each in a unit of its own. Each leaves a file
# when it is at work. What stands outside of the guard holds in the workers too.
UNFINISHED = """
import os, time
from pathlib import Path
from nlpdata.__main__ import main
from nlpdata.pretraining import create, stages

make = create.make_portion

def held(portion, report):
    Path(os.environ["AT_WORK"], str(os.getpid())).touch()
    while len(list(stages._setup.folder.glob("portion-*.json"))) >= 6:
        time.sleep(0.01)
    return make(portion, report)

create.make_portion = held
if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def larger(tmp_path_factory, tiny_model):
    """A corpus of more than six portions, and what an uninterrupted run makes of it."""
    folder = tmp_path_factory.mktemp("larger")
    (folder / "text.txt").write_text(as_text(random_documents(150, seed=4)))
    assert commands.main(larger_arguments(folder, folder / "whole", tiny_model, 1)) == 0
    return folder


def larger_arguments(folder, out, model, workers):
    more = ("--objective", "nsp", "--chunk-size", 4_000, "--num-shards", 2)
    return create_arguments(folder / "text.txt", out / "x.tfrecord", model, *more, dupe=2, workers=workers)


@pytest.fixture
def unfinished(tmp_path, tmp_path_factory, larger):
    """Starts UNFINISHED, writing into tmp_path; returns its process, and its workers, once they are at work."""
    script, at_work = tmp_path_factory.mktemp("unfinished") / "script.py", tmp_path_factory.mktemp("at_work")
    script.write_text(UNFINISHED)

    def start(arguments, workers):
        process = subprocess.Popen(
            [sys.executable, str(script), *map(str, arguments)],
            env=os.environ | {"AT_WORK": str(at_work), "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
            # A background shell starts its children with SIGINT ignored, and this test may run in one.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

        def some_are_finished():
            portions = list(work_folder(tmp_path).glob("portion-*.json"))
            return len(portions) >= 3 and len(list(at_work.iterdir())) == workers

        assert wait_until(lambda: some_are_finished() or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        return process, [psutil.Process(int(path.name)) for path in at_work.iterdir()]

    return start


def assert_completes(arguments, out, larger, capsys):
    """The same command, here with one worker, resumes and gives the bytes of an uninterrupted run."""
    assert visible(out) == []
    outcome = run_command(capsys, *arguments, "--workers", 1)
    assert outcome.code == 0
    assert "left by an equal run; its finished parts are used" in outcome.err
    assert contents(out) == contents(larger / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(tmp_path, larger, tiny_model, capsys, unfinished, number, code, workers):
    arguments = larger_arguments(larger, tmp_path, tiny_model, workers)
    process, _ = unfinished(arguments, workers)
    children = psutil.Process(process.pid).children(recursive=True)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: to the workers as well
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert "Finished parts are kept: the same command resumes from them." in err
    assert "written:" not in out
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert_completes(arguments, tmp_path, larger, capsys)


@pytest.mark.slow
def test_parent_killed(tmp_path, larger, tiny_model, capsys, unfinished):
    arguments = larger_arguments(larger, tmp_path, tiny_model, 2)
    process, _ = unfinished(arguments, 2)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.kill()
    process.wait(timeout=60)
    assert psutil.wait_procs(children, timeout=60)[1] == []  # workers end by themselves
    process.communicate(timeout=60)
    assert_completes(arguments, tmp_path, larger, capsys)


@pytest.mark.slow
def test_worker_killed(tmp_path, larger, tiny_model, capsys, unfinished):
    arguments = larger_arguments(larger, tmp_path, tiny_model, 2)
    process, (stopped, working) = unfinished(arguments, 2)
    children = psutil.Process(process.pid).children(recursive=True)
    stopped.suspend()
    assert wait_until(lambda: stopped.status() == psutil.STATUS_STOPPED)
    working.kill()
    stopped.resume()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in err
    for word in ("memory", "tokenizing", "text.txt, bytes", "--workers (now 2)"):
        assert word in err
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert_completes(arguments, tmp_path, larger, capsys)
