"""Ctrl-C and SIGTERM while a command is imported, and while it imports a library that must not be interrupted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pretrain.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[3]

# In sitecustomize.py, which Python imports before the command.
_WHILE_IMPORTING = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["MODULE"]:
            sys.meta_path.remove(self)
            signal.raise_signal(getattr(signal, os.environ["SIGNAL"]))
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
"""
_IN_A_LIBRARY = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from nlpdata.cli.program import run_program
from nlpdata.errors import as_flag
def work(argv):
    import jax
raise SystemExit(run_program("nlpdata", [], work, as_flag))
"""

_WHILE_AN_ERROR_IS_SHOWN = """
import signal
from nlpdata.cli import program
from nlpdata.cli.start import end_at_once_if_signalled
from nlpdata.errors import UsageError, as_flag
end_at_once_if_signalled("nlpdata")
class Interrupting(UsageError):
    def spelled(self, face):
        signal.raise_signal(signal.SIGTERM)
    def __str__(self):
        return self.spelled(None)
def work(argv):
    raise Interrupting("wrong")
raise SystemExit(program.run_program("nlpdata", [], work, as_flag))
"""


def ended(folder, *words, **more):
    """(exit code, standard output, standard error) of a process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])} | more
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


SIGNALS = (("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated"))


@pytest.mark.parametrize(
    ("signal", "command", "module"),
    [
        (SIGNALS[0], "nlpdata", "typer"),
        (SIGNALS[1], "pretrain", "typer"),
        *((SIGNALS[at % 2], f"pretrain.{name}", "nlpdata.cli.program") for at, name in enumerate(COMMANDS)),
        (SIGNALS[0], "pipelines.vocabulary", "apache_beam"),
    ],
)
def test_a_signal_before_the_command_begins_ends_it_with_one_line(signal, command, module, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(_WHILE_IMPORTING)
    name, code, word = signal
    found = ended(tmp_path, "-m", command, MODULE=module, SIGNAL=name)
    assert found == (code, "", f"{command}: {word}.\n")


@pytest.mark.parametrize(("file", "command"), [("pretrain/submit.py", "pretrain.submit"), ("pretrain", "pretrain")])
def test_a_file_of_a_package_is_no_program(file, command, tmp_path):
    path = str(ROOT / file)
    shown = path if path.endswith(".py") else f"{path}/__main__.py"
    expected = f"pretrain: error: {shown} is a part of a package, not a program. Run `python -m {command}`.\n"
    assert ended(tmp_path, path, "--help") == (2, "", expected)


def test_a_signal_while_an_error_is_shown_ends_the_command_with_one_line(tmp_path):
    """Its work is over."""
    assert ended(tmp_path, "-c", _WHILE_AN_ERROR_IS_SHOWN) == (143, "", "nlpdata: terminated.\n")


def test_a_program_that_imports_the_packages_keeps_its_own_signals(tmp_path):
    (tmp_path / "theirs.py").write_text(
        "import pretrain, nlpdata, signal\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
    )
    assert ended(tmp_path, "-m", "theirs") == (0, "", "")


def test_an_interrupt_waits_for_a_library_that_is_being_imported(tmp_path):
    """In the midst of its C++ it would abort the process."""
    (tmp_path / "jax.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nprint('imported as a whole')\n"
    )
    assert ended(tmp_path, "-c", _IN_A_LIBRARY) == (130, "imported as a whole\n", "nlpdata: interrupted.\n")
