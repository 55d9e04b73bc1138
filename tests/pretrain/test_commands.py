"""The console command `pretrain`: which module does what, its version, and a user's modules in the current folder."""

import os
import subprocess
import sys
import tomllib

import pytest

from pretrain import commands, run
from tests.repository import ROOT


def test_a_command_is_the_module_of_its_name(capsys):
    assert commands.main(["run", "--experiment=help"]) == 0
    by_name = capsys.readouterr().out
    assert run.main(["--experiment=help"]) == 0
    assert by_name == capsys.readouterr().out
    assert commands.main(["run", "--max_stepz=3"]) == 2
    by_name = capsys.readouterr().err
    assert by_name.startswith("pretrain run: error: no flag --max_stepz.")
    assert run.main(["--max_stepz=3"]) == 2
    assert by_name == capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (["--version"], 0, "nlpdata ", ""),
        (["run", "--version"], 0, "nlpdata ", ""),
        ([], 2, "", "Usage: pretrain COMMAND [OPTIONS]"),
        (
            ["runn"],
            2,
            "",
            "pretrain: error: no command 'runn'. Did you mean run? `pretrain --help` lists the commands.",
        ),
        (
            ["evaluate"],
            2,
            "",
            "pretrain: error: no command 'evaluate'. Here it is `pretrain run --mode=eval`. `pretrain --help`",
        ),
        (["--mode=train"], 2, "", "pretrain: error: No such option: --mode"),
    ],
)
def test_words_in_place_of_a_command(words, code, out, err, capsys):
    assert commands.main(words) == code
    shown = capsys.readouterr()
    assert shown.out.startswith(out)
    assert shown.err.startswith(err)


def test_the_distribution_has_both_console_commands():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"nlpdata": "nlpdata.__main__:main", "pretrain": "pretrain.__main__:main"}


def test_help_loads_no_framework_and_modules_here_are_found(tmp_path):
    """As a console script is started, whose folder is first on the import path, not the current one."""
    (tmp_path / "mine.py").write_text(
        "from pretrain.registry import EXPERIMENTS\n\n\n@EXPERIMENTS.register('mine/own')\ndef own():\n    '''Of a user.'''\n"
    )
    (tmp_path / "json.py").write_text("raise SystemExit('a file here took the place of a library')\n")
    code = """
import sys
from pretrain.commands import main
def shown(*words):
    sys.argv = ["pretrain", *words]
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 0, words
shown("--help")
shown("predict", "--help")
loaded = {"tensorflow", "keras", "jax", "numpy"} & set(sys.modules)
assert not loaded - {"numpy"}, loaded
shown("run", "--experiment=help", "--import_module=mine")
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "mine/own" in done.stdout
