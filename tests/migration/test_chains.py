"""The commands of docs/migration run as they stand, step by step in one folder, from text to score."""

import re
import sys
from pathlib import Path

import pytest

from tests import warm_python
from tests.migration.systems import SYSTEMS, index
from tests.pages import commands_of_this_environment, lines_of_libraries, run_script

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "migration"


def test_pages_are_those_of_the_list():
    pages = {"README.md": index(), **{f"{system.name}.md": system.page() for system in SYSTEMS}}
    assert {path.name for path in FOLDER.iterdir()} == pages.keys()
    for name, text in pages.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"{name} is old: run `python -m tests.migration`"


@pytest.mark.heavy
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_document_runs_from_data_to_score(system, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    system.give(folder)
    # What libraries write as they are imported shows in one of the chains.
    python = [sys.executable] if system.name == "gcp_sample" else warm_python.COMMAND
    environment = commands_of_this_environment(tmp_path / "bin", python)
    exported = tmp_path / "exported"
    exported.touch()
    for step in system.steps:
        script = f". {exported}\n{system.tried(step)}\nexport -p > {exported}\n"
        done = run_script(script, folder, environment)
        assert done.returncode == 0, f"{step.heading}: {script}\n{done.stdout}"
        assert not lines_of_libraries(done.stdout), f"{step.heading}: lines of a library in\n{done.stdout}"
        for pattern in step.prints:
            assert re.search(pattern, done.stdout, re.MULTILINE), f"{step.heading}: no {pattern!r} in\n{done.stdout}"
        for name in step.writes:
            assert (folder / name).exists(), f"{step.heading}: no {name}. It wrote:\n{done.stdout}"
        if step.check:
            step.check(folder, done.stdout)
