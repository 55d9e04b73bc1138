"""Ctrl-C while a command is imported, and while it imports a library that must not be interrupted."""

import os
import subprocess
import sys

import pytest

_WHILE_IMPORTING = """
import signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
from {package}.__main__ import main
main()
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


def ended(folder, code, *words):
    """(exit code, standard output, standard error) of a process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("package", ["nlpdata", "pretrain"])
def test_an_interrupt_before_the_command_begins_ends_it_quietly(package, tmp_path):
    assert ended(tmp_path, _WHILE_IMPORTING.format(package=package), "typer") == (130, "", "")


def test_an_interrupt_waits_for_a_library_that_is_being_imported(tmp_path):
    """In the midst of its C++ it would abort the process."""
    (tmp_path / "jax.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nprint('imported as a whole')\n"
    )
    assert ended(tmp_path, _IN_A_LIBRARY) == (130, "imported as a whole\n", "nlpdata: interrupted.\n")
