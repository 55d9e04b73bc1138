"""The messages of docs/troubleshooting.md are those that the commands print."""

import gzip
import re
import shlex
import shutil
from pathlib import Path

import pytest

from nlpdata.cli import commands as nlpdata
from pretrain import commands as pretrain

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
CASES = re.findall(r"^```console\n\$ (.*)\n(.*)\n```$", PAGE, re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What the commands of the page find."""
    text = b"The house is old.\nIt stands by the river.\n\nA second text.\nIts end.\n"
    shutil.copy(ROOT / "tests/nlpdata/golden/vocab.txt", tmp_path / "vocab.txt")
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait\nmore\n")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(text)[:40])
    (tmp_path / "t.csv").write_text("sentence,klass\na,1\n")
    (tmp_path / "out.tfrecord").write_text("x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AIP_MODEL_DIR", raising=False)
    return tmp_path


def test_the_page_has_cases():
    assert len(CASES) >= 9


def _is_heavy(command):
    return pytest.mark.heavy if command.startswith("pretrain run ") or "--runner" in command else ()


@pytest.mark.parametrize(("command", "message"), [pytest.param(*case, marks=_is_heavy(case[0])) for case in CASES])
def test_the_message_is_what_the_command_prints(command, message, folder, capsys):
    program, *words = shlex.split(command)
    code = {"nlpdata": nlpdata.main, "pretrain": pretrain.main}[program](words)
    assert code in (1, 2)
    assert capsys.readouterr().err.splitlines()[-1].replace(str(folder), "/home/me") == message
