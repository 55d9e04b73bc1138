"""How commands end: each kind of end has its exit code and one line, whatever the streams lead to."""

import errno
import os
import re
import signal
import subprocess
import sys

import pytest

from nlpdata.cli.commands import main
from nlpdata.cli.program import run_program
from nlpdata.errors import DataError, UsageError, as_flag, missing_package, opt
from nlpdata.execution import executor

SECRET = "a sentence of the corpus"


def end(error, argv=()):
    """The exit code of a command that ends in an error."""

    def work(given):
        raise error

    return run_program("nlpdata", argv, work, as_flag, left=" It resumes.")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (DataError(f"a.txt, line 3: bad. Use {opt('on_bad_row', 'skip')}"), 1, "error: a.txt, line 3: bad. Use --on-bad-row skip"),
        (UsageError("no such option"), 2, "error: no such option"),
        (KeyboardInterrupt(), 130, "interrupted. It resumes."),
        (SystemExit(143), 143, "terminated. It resumes."),
        (OSError(errno.ENOSPC, "No space left on device", "out/x"), 1, "error: No space left on device (out/x)"),
        (OSError(errno.EXDEV, "Invalid link", "a", None, "b"), 1, "error: Invalid link (a -> b)"),
        (MemoryError(), 1, "error: memory ran out"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), 1, "error: memory ran out where the model is computed: use smaller "
         "batches, shorter sequences or a smaller model"),
        (ModuleNotFoundError("no", name="keras"), 2, f"error: {missing_package('`nlpdata`', 'keras')}"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, "error: Broken pipe"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)  # fmt: skip
def test_what_a_user_can_cause_is_one_line(error, code, line, capsys):
    assert end(error) == code
    assert capsys.readouterr().err == f"nlpdata: {line}\n"


def test_an_argument_that_no_file_can_be_named_by(capsys):
    ran = []
    assert run_program("nlpdata", ["--output=\ud800"], ran.append, as_flag) == 2
    assert not ran
    what = r"the argument '--output=\ud800' has half of a surrogate pair, which is not a character. Correct it."
    assert capsys.readouterr().err == f"nlpdata: error: {what}\n"
    assert run_program("nlpdata", ["--output=\udc80"], ran.append, as_flag) == 0  # stands for a byte of a file's name


def test_what_the_work_returns_or_exits_with_is_the_code(capsys):
    assert run_program("nlpdata", [], lambda given: None, as_flag) == 0
    assert run_program("nlpdata", ["a"], lambda given: len(given), as_flag) == 1
    assert end(SystemExit(3)) == 3
    assert end(SystemExit("text")) == 1
    assert not any(capsys.readouterr())


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert re.fullmatch(r"nlpdata \S.* \(Python 3\.\d+\.\d+\)\n", capsys.readouterr().out)


# -------------------------------------------------------------------------------------------------- faults of the program


def _raise(error):
    raise error


def _divide(unit, report):
    return {SECRET: unit}[f"{unit}"]


def chained():
    try:
        int(SECRET)
    except ValueError as error:
        raise RuntimeError(SECRET) from error


def in_a_worker():
    list(executor.run_units(_divide, [1, 2], workers=2, initializer=int, initargs=()))


@pytest.mark.parametrize(
    "work",
    [
        lambda: {}[SECRET],
        lambda: int(SECRET),
        lambda: _raise(TypeError(f"not {SECRET!r}")),
        lambda: SECRET.no_such_name,  # type: ignore[attr-defined]
        lambda: _raise(ExceptionGroup(SECRET, [ValueError(SECRET)])),
        lambda: _raise(OSError(SECRET)),
        lambda: (SECRET + "é").encode("ascii"),
        chained,
        in_a_worker,
    ],
)
def test_a_fault_is_one_line_and_its_traceback_a_file_without_data(work, capsys, fault_files, tmp_path, monkeypatch):
    monkeypatch.setattr("nlpdata.cli.faults._is_ours", lambda file: file in (__file__, executor.__file__))
    monkeypatch.setattr("nlpdata.cli.faults._short", os.path.basename)
    monkeypatch.setenv("NLPDATA_FAULTS", str(tmp_path))
    code = run_program("nlpdata", ["inspect", "--tokenizer=my words", SECRET], lambda given: work(), as_flag)
    line = capsys.readouterr().err
    assert (code, line.count("\n")) == (70, 1)
    assert re.match(
        r"nlpdata: this is a fault of the program, not of your data or options: \w+ in (test_program|executor).py, line ",
        line,
    )
    path = line.partition(" is in ")[2].partition(". Please report")[0]
    text = (tmp_path / os.path.basename(path)).read_text()
    assert f'File "{__file__}", line' in text
    assert "nlpdata, with the options --tokenizer\n" in text
    # Lines of the program are there, of which this test's own name the sentence by its variable.
    assert SECRET not in text + line
    assert "sentence" not in text
    assert oct(os.stat(path).st_mode)[-3:] == "600"


def test_a_fault_in_a_worker_names_the_place_there(capsys, fault_files):
    run_program("nlpdata", [], lambda given: in_a_worker(), as_flag)
    (text,) = fault_files()
    assert re.search(r'there: File ".*test_program.py", line \d+, in _divide', text)


def test_a_fault_of_a_users_module_is_reported_as_such(capsys, fault_files):
    assert run_program("nlpdata", [], lambda given: int("x y"), as_flag) == 70
    assert capsys.readouterr().err.startswith(f"nlpdata: a fault of a module of yours ({__file__}, line ")
    assert len(fault_files()) == 1


def test_where_no_file_can_be_written_the_line_says_so(capsys, monkeypatch):
    monkeypatch.setenv("NLPDATA_FAULTS", "/dev/null/nowhere")
    assert end(KeyError("x")) == 70
    assert "The traceback could not be written: Not a directory." in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ streams


def shell(command, folder, **environment):
    """Runs a line of bash with `nlpdata`; its exit code, standard output and standard error."""
    program = f'nlpdata() {{ "{sys.executable}" -m nlpdata "$@"; }}; {command}'
    done = subprocess.run(
        ["bash", "-c", program], cwd=folder, capture_output=True, timeout=60, env={**os.environ, **environment}
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    (folder / "é€.txt").write_text("\n".join(f"the quick {word} fox" for word in ("brown", "red", "naïve")) * 40)
    train = ["train-tokenizer", f"{folder}/é€.txt", "--output", f"{folder}/tok", "--vocab-size", "40"]
    assert main([*train, "--no-hard-vocab-limit"]) == 0
    arguments = ["create-pretraining", f"{folder}/é€.txt", "--tokenizer", f"{folder}/tok.model"]
    assert main([*arguments, "--output", f"{folder}/é€.tfrecord", "--max-seq-length", "16", "--dupe-factor", "9"]) == 0
    return folder


def test_nobody_reads(records):
    for command in ("inspect é€.tfrecord --limit 999", "verify é€.tfrecord", "--help"):
        assert shell(f"exec 3> >(true); wait $!; nlpdata {command} >&3", records) == (141, "", "")
    assert shell("nlpdata no-such-command 2> >(true); exit $?", records)[0] == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_streams(records):
    line = "nlpdata: error: cannot write to standard output: No space left on device\n"
    assert shell("nlpdata verify é€.tfrecord > /dev/full", records) == (1, "", line)
    assert shell("nlpdata inspect é€.tfrecord --limit 999 > /dev/full", records) == (1, "", line)
    assert shell("nlpdata --version > /dev/full", records) == (1, "", line)
    assert shell("nlpdata verify é€.tfrecord 2> /dev/full", records)[0] == 0
    assert shell("nlpdata no-such-command 2> /dev/full", records)[0] == 2


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere_and_no_file_takes_their_number(closed, records, tmp_path):
    tokenizer = records / "tok.model"
    command = (
        f"nlpdata create-pretraining {records}/*.txt --tokenizer {tokenizer} --output x.tfrecord --max-seq-length 16"
    )
    assert shell(f"{command} --dupe-factor 9 {closed}", tmp_path)[0] == 0
    assert (tmp_path / "x.tfrecord").read_bytes() == (records / "é€.tfrecord").read_bytes()
    assert shell(f"nlpdata verify missing {closed}", tmp_path)[0] == 2


@pytest.mark.parametrize("encoding", ["ascii", "utf-16"])
def test_an_encoding_that_lacks_a_character(encoding, records):
    assert shell("nlpdata verify missing-€", records, PYTHONIOENCODING=encoding)[0] == 2
    for command in ("verify", "inspect --limit 3"):
        assert shell(f"nlpdata {command} é€.tfrecord", records, PYTHONIOENCODING=encoding)[0] == 0


@pytest.mark.parametrize(("end", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_an_interruption_that_an_error_of_cleaning_up_hides(capsys, end, code):
    """As when numpy closes the archive that it was writing."""

    def work(given):
        try:
            raise end
        finally:
            raise ValueError("seek of closed file")

    assert run_program("nlpdata", [], work, as_flag) == code
    assert "seek of closed file" not in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="needs signals")
def test_a_terminated_command_leaves_the_handler_as_it_was():
    before = signal.getsignal(signal.SIGTERM)
    assert run_program("nlpdata", [], lambda given: os.kill(os.getpid(), signal.SIGTERM), as_flag) == 143
    assert signal.getsignal(signal.SIGTERM) == before
