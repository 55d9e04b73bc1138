"""Temporary files and folders: removed when done, and where their owner is gone, but never another's."""

import os
import subprocess
import sys

import pytest

from nlpdata.files import write_whole
from nlpdata.temporary import remove_left_in, temporary

HEX = "0123456789abcdef" * 2


def names(folder):
    return sorted(os.listdir(folder))


def test_renamed_or_gone(tmp_path):
    with temporary(tmp_path / "a.txt") as made:
        made.write_text("new")
        assert names(tmp_path) == [made.name]
        os.replace(made, tmp_path / "a.txt")
    with temporary(tmp_path / "f", folder=True) as made:
        (made / "inner").mkdir()
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("folder", [False, True])
def test_what_a_killed_process_left_goes_with_the_next(tmp_path, folder):
    code = "import os, sys; from nlpdata.temporary import temporary\n"
    code += f"with temporary(sys.argv[1], folder={folder}) as made: os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.json")]).returncode == 9
    assert len(names(tmp_path)) == 1
    write_whole(tmp_path / "x.json.txt", b"")  # another name's are its own
    assert len(names(tmp_path)) == 2
    write_whole(tmp_path / "x.json", b"new")
    assert names(tmp_path) == ["x.json", "x.json.txt"]


def test_another_run_keeps_its_own(tmp_path):
    with temporary(tmp_path / "x") as first, temporary(tmp_path / "x") as second:
        assert first.exists()
        assert second.exists()


def test_only_names_of_ours_go_and_links_lead_nowhere(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("")
    others = [
        ".x.tmp",
        f".x.{HEX[:-1]}.tmp",
        f".x.{HEX.upper()}.tmp",
        f"x.{HEX}.tmp",
        f".y.{HEX}.tmp",
        f".x.{HEX}.tmp.bak",
    ]
    for name in others:
        (tmp_path / name).write_text("")
    (tmp_path / f".x.{HEX}.tmp").symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "x", b"")
    assert names(tmp_path) == sorted(["precious", "x", f".x.{HEX}.tmp", *others])
    assert names(tmp_path / "precious") == ["file"]


def test_all_that_begin_so(tmp_path):
    for name in (f".step-1.{HEX}.tmp", f".step-22.{HEX}.tmp", f".other.{HEX}.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    remove_left_in(tmp_path, "step-")
    assert names(tmp_path) == [f".other.{HEX}.tmp"]
