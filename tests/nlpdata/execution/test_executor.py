"""The executor: results, faults of workers, and that no process outlives its parent."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from nlpdata.errors import DataError
from nlpdata.execution import worker
from nlpdata.execution.executor import duration, run_stage, run_units
from tests.nlpdata.conftest import random_sentences
from tests.nlpdata.execution import worker_units
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}  # see `stacks`

CALL = """
import nlpdata.execution.executor

for _ in nlpdata.execution.executor.run_units(print, ["a", "b"], workers=2, initializer=int, initargs=()):
    pass
"""

# A command whose first reading is divided among workers, as that of a corpus above 64 MiB is, and takes long; each worker
# leaves a file when it is at work. What stands outside of the guard holds in the workers too.
COUNT = """
import os, time
from pathlib import Path
import nlpdata.cli.commands
from nlpdata.tokenizers.training import train as training

def count(portion, report):
    Path(os.environ["AT_WORK"], str(os.getpid())).touch()
    time.sleep(600)

training._count_portion = count
"""
# The same with a training that takes long, in a call that holds the interpreter, as SentencePiece's does.
LONG_TRAINING = """
import os, re
from pathlib import Path
import nlpdata.cli.commands
from nlpdata.tokenizers.training import train as training
from nlpdata.tokenizers.training import wordpiece as wordpiece_training

def train(self, lines):
    Path(os.environ["AT_WORK"], str(os.getpid())).touch()
    re.match("(a+)+b", "a" * 60)

wordpiece_training.WordPieceVocabularyTrainer.train = train
"""
MAIN = """
if __name__ == "__main__":
    training._PORTION_BYTES = 20_000
    nlpdata.cli.commands.main()
"""


def run(function, units, workers=2, **more):
    return list(run_units(function, units, workers=workers, initializer=worker_units.nothing, initargs=(), **more))


def gone(processes) -> bool:
    """Whether all of them end within a minute; a zombie, which its new parent has not reaped, has ended too."""
    return wait_until(lambda: not any(map(_runs, processes)))


def _runs(process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_results_and_progress():
    seen = []
    found = run(worker_units.echo, [3, 1, 2, 4], on_progress=seen.append)
    assert sorted(result[1] for _, result in found) == [1, 2, 3, 4]
    assert all(unit == result[1] for unit, result in found)
    assert seen == sorted(seen)
    assert seen[-1] == 10
    assert os.getpid() not in {result[0] for _, result in found}
    assert multiprocessing.active_children() == []


def test_runs_in_one_process_keep_their_own_set_up():
    def one(letter):
        own = {"workers": 1, "initializer": worker_units.set_up, "initargs": (letter,)}
        return run_units(worker_units.what_is_set_up, [1, 2], **own)

    first, second = one("a"), one("b")
    assert [next(first), next(second), next(first), next(second)] == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]

    def other_thread():
        results.extend(one("b"))

    results, thread = [], threading.Thread(target=other_thread)

    def while_the_other_starts(unit, report):
        if not thread.ident:
            thread.start()
            thread.join(0.3)
        return worker_units.what_is_set_up(unit, report)

    own = {"workers": 1, "initializer": worker_units.set_up, "initargs": ("a",)}
    assert list(run_units(while_the_other_starts, [1, 2], **own)) == [(1, "a"), (2, "a")]
    thread.join()
    assert results == [(1, "b"), (2, "b")]


@pytest.mark.parametrize("stdin", [False, True])
def test_program_that_workers_cannot_import(tmp_path, stdin):
    """A script without a guard, and code on standard input: not a matter of memory."""
    script = tmp_path / "script.py"
    script.write_text(CALL)
    command = [sys.executable, *([] if stdin else [str(script)])]
    ended = subprocess.run(
        command, input=CALL if stdin else "", capture_output=True, text=True, timeout=60, env=ENVIRONMENT
    )
    last = ended.stderr.splitlines()[-1]
    assert ended.returncode == 1
    assert last.startswith("nlpdata.errors.UsageError: no worker process could start.")
    assert '`if __name__ == "__main__":`' in last
    assert "workers=1, now 2" in last
    assert "memory" not in last


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (-signal.SIGKILL, ["was killed by SIGKILL", "memory ran out", "workers (now 2)"]),
        (-signal.SIGSEGV, ["was killed by SIGSEGV", "crash of compiled code"]),
        (-signal.SIGTERM, ["was killed by SIGTERM", "It was ended by a user"]),
        (3, ["ended with the exit code 3"]),
    ],
)
def test_a_worker_that_ends_is_reported_with_its_stage_and_reason(how, words):
    settings = {"initializer": worker_units.nothing, "initargs": (), "total": 1, "quiet": True}
    with pytest.raises(DataError) as error:
        run_stage(
            "counting",
            worker_units.end,
            [how, 0],
            [None] * 2,
            workers=2,
            describe=lambda unit: f"unit {unit}",
            **settings,
        )
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith("counting: a worker process ")
    for word in [f"while it worked on unit {how}. ", "the same command resumes", *words]:
        assert word in message
    assert multiprocessing.active_children() == []


def test_faults_in_workers_come_through_with_their_place():
    with pytest.raises(DataError, match=r"^text.txt:7: wrong$"):
        run(worker_units.fail, [7, 7])
    with pytest.raises(ZeroDivisionError) as error:
        run(worker_units.fail, [0, 0])
    assert str(error.value) == "a fault of ours"
    assert 'worker_units.py", line' in error.value.__notes__[0]
    with pytest.raises(RuntimeError, match="Stubborn: 1 two"):
        run(worker_units.fail_stubbornly, [1, 1])
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("what", ["sleep", "compute", "idle"])
def test_workers_end_when_their_parent_is_killed(tmp_path, what):
    """While they sleep, inside of a call that holds the interpreter, and while they wait for a unit."""
    command = [sys.executable, "-m", "tests.nlpdata.execution.worker_units", what, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT) as parent:
        assert wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        workers = [psutil.Process(int(path.name)) for path in tmp_path.iterdir()]
        time.sleep(0.1)
        parent.kill()
    assert gone(workers)


def stacks(parent):
    """What a command that hangs, and its workers, are doing: each writes it as it is aborted."""
    command = psutil.Process(parent.pid)
    command.suspend()  # else it ends its workers when the first is gone
    for process in (*command.children(recursive=True), command):
        process.send_signal(signal.SIGABRT)
    command.resume()
    return parent.communicate()[1]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "text.txt"
    path.write_text("\n".join(random_sentences(2000)))
    return path


@pytest.fixture
def trainer(tmp_path_factory, lines):
    """Starts train-tokenizer; the command, its workers once they are at work, and a function for its errors."""
    folder, at_work = tmp_path_factory.mktemp("trainer"), tmp_path_factory.mktemp("at_work")

    def start(program, workers):
        (folder / "train.py").write_text(program + MAIN)
        options = ["--type", "wordpiece", "--vocab-size", "300", "--workers", "2", "--output", str(folder / "vocab")]
        parent = subprocess.Popen(
            [sys.executable, str(folder / "train.py"), "train-tokenizer", "--input", str(lines), *options],
            env=ENVIRONMENT | {"AT_WORK": str(at_work)},
            stderr=subprocess.PIPE,
            text=True,
            # A background shell starts its children with SIGINT ignored, and this test may run in one.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        wait_until(lambda: len(list(at_work.iterdir())) == workers or parent.poll() is not None)
        assert parent.poll() is None, parent.communicate()[1]
        assert len(list(at_work.iterdir())) == workers, stacks(parent)
        started = [psutil.Process(int(path.name)) for path in at_work.iterdir()]
        assert psutil.Process(parent.pid) not in started

        def ended():
            _, errors = parent.communicate(timeout=60)
            assert "Traceback" not in errors
            assert gone(started)
            assert [path.name for path in folder.iterdir()] == ["train.py"]
            return errors

        return parent, started, ended

    return start


# Workers import it before they work: each is interrupted then, as a user's Ctrl-C reaches all processes of a terminal.
INTERRUPTED = """
import os, signal
from nlpdata.execution.executor import run_units

def worked(unit, report):
    return os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, [])

if __name__ == "__main__":
    found = list(run_units(worked, range(4), workers=2, initializer=int, initargs=()))
    assert [masked for _, (_, masked) in found] == [set()] * 4
else:
    signal.raise_signal(signal.SIGINT)
"""


def test_workers_that_start_leave_an_interrupt_to_their_parent(tmp_path):
    """Also the first one, with which Python starts a process of its own that ends the hold of signals."""
    (tmp_path / "script.py").write_text(INTERRUPTED)
    ended = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=60, env=ENVIRONMENT
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


SIGNALS = {"KILL": -9, "TERM": 143, "INT": 130}


@pytest.mark.parametrize("name", SIGNALS)
def test_signals_while_the_vocabulary_trainer_counts(trainer, name):
    parent, _, ended = trainer(COUNT, workers=2)
    parent.send_signal(signal.Signals[f"SIG{name}"])
    ended()
    assert parent.returncode == SIGNALS[name]


@pytest.mark.parametrize("name", SIGNALS)
def test_signals_while_the_vocabulary_trainer_trains(trainer, name):
    """Of a large corpus: the command reacts at once, though the training does not."""
    parent, _, ended = trainer(LONG_TRAINING, workers=1)
    parent.send_signal(signal.Signals[f"SIG{name}"])
    ended()
    assert parent.returncode == SIGNALS[name]


def test_killed_worker_of_the_vocabulary_trainer(trainer):
    parent, workers, ended = trainer(COUNT, workers=2)
    workers[0].kill()
    (line,) = [line for line in ended().splitlines() if "error" in line]
    assert parent.returncode == 1
    assert line.startswith("nlpdata: error: counting lines: a worker process was killed by SIGKILL while it worked on ")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.2, "1m00s"), (7440, "2h04m"), (266400, "3d02h"), (-1, "0s")]
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_a_signal_that_another_thread_receives_waits_until_a_worker_is_started():
    """The main thread blocks it then, so the system gives it to a thread that does not, as those of numpy."""

    class Arrived(Exception):
        pass

    def arrive(number, _):
        raise Arrived

    def start():
        with worker._signals_held():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)
            done.append("started")

    done, end = [], threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    before = signal.signal(signal.SIGTERM, arrive)
    try:
        with pytest.raises(Arrived):
            start()
        assert signal.getsignal(signal.SIGTERM) is arrive
    finally:
        signal.signal(signal.SIGTERM, before)
        end.set()
        thread.join()
    assert done == ["started"]
