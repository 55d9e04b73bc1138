"""The pool of processes: what is said where it cannot start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CALL = """
import nlpdata.local

for _ in nlpdata.local.run_tasks(print, ["a", "b"], workers=2, initializer=int, initargs=()):
    pass
"""


@pytest.mark.parametrize("stdin", [False, True])
def test_program_that_workers_cannot_import(tmp_path, stdin):
    """A script without a guard, and code on standard input: not a matter of memory."""
    script = tmp_path / "script.py"
    script.write_text(CALL)
    command = [sys.executable, *([] if stdin else [str(script)])]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, input=CALL if stdin else "", capture_output=True, text=True, timeout=60, env=environment
    )
    last = ended.stderr.splitlines()[-1]
    assert ended.returncode == 1
    assert last.startswith("nlpdata.errors.UsageError: no worker process could start.")
    assert '`if __name__ == "__main__":`' in last
    assert "workers=1, now 2" in last
    assert "memory" not in last
