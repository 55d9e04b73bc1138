"""Every command of the README and the docs runs, on the example corpus."""

import glob
import re
import shlex
import shutil
from pathlib import Path

import pytest

from nlpdata.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]
# What the commands cannot have on a corpus of a few kilobytes.
SMALLER = {"--vocab-size 30000": "--vocab-size 500 --character-coverage 1.0"}


def _blocks(language):
    return [
        (page.name, block)
        for page in PAGES
        for block in re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    ]


@pytest.fixture
def example_folder(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples" / "corpus", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_documented_commands_run(example_folder, capsys):
    blocks = _blocks("bash")
    assert blocks
    for page, block in blocks:
        for line in block.splitlines():
            for long, short in SMALLER.items():
                line = line.replace(long, short)
            words = shlex.split(line, comments=True)
            if not words:
                continue
            assert words[0] == "nlpdata", f"{page}: a bash block holds another command than nlpdata: {line}"
            quoted = re.findall(r"'([^']*)'", line)
            argv = [n for w in words[1:] for n in (sorted(glob.glob(w)) if "*" in w and w not in quoted else [w])]
            assert main(argv) == 0, f"{page}: {line}\n{capsys.readouterr().err}"
    for page, block in _blocks("python"):
        exec(compile(block, page, "exec"), {"__name__": "documented"})


def test_make_targets_are_documented():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.M):
        assert re.search(rf"^{target}:", makefile, re.M)


def test_demo_commands_run(example_folder, capsys):
    """The commands of `make demo`, without the set-up."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    commands = re.findall(r"^\t\$\(BIN\)/nlpdata (.*)$", text, re.M)
    assert len(commands) == 4
    shutil.copytree(example_folder / "data", example_folder / "examples" / "corpus")
    for command in commands:
        assert main(shlex.split(command.replace("$(OUT)", "out"))) == 0, capsys.readouterr().err
    assert "MASK:" in capsys.readouterr().out
