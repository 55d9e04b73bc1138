"""Temporary files and folders: removed when done, and where their owner is gone, but never another's."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nlpdata.files import temporary as module
from nlpdata.files.temporary import file_of, remove_left, remove_left_in, temporary
from nlpdata.files.writing import write_whole
from tests.disks import files_up_to

HEX = "0123456789abcdef" * 2


def names(folder):
    return sorted(os.listdir(folder))


def open_files(folder):
    """What this process has open in a folder, other threads' files aside; nothing where the system does not list them."""
    found = []
    for number in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with suppress(OSError):  # closed meanwhile
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in found if path.startswith(str(folder))]


@contextmanager
def another_process(path, folder):
    """A live process that has made a temporary file or folder for `path`, which it never renames; yields it."""
    code = "import sys; from nlpdata.files.temporary import temporary\n"
    code += f"with temporary(sys.argv[1], folder={folder}) as made: print(made, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Path(process.stdout.readline().strip())
        finally:
            process.kill()


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
    code = "import os, sys; from nlpdata.files.temporary import temporary\n"
    code += f"with temporary(sys.argv[1], folder={folder}) as made: os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.json")]).returncode == 9
    assert len(names(tmp_path)) == 1
    write_whole(tmp_path / "x.json.txt", b"")  # another name's are its own
    assert len(names(tmp_path)) == 2
    write_whole(tmp_path / "x.json", b"new")
    assert names(tmp_path) == ["x.json", "x.json.txt"]


@pytest.mark.bound(60)
def test_another_run_keeps_its_own(tmp_path):
    with temporary(tmp_path / "x") as first, temporary(tmp_path / "x") as second:
        assert first.exists()
        assert second.exists()


@pytest.mark.bound(60)  # who waits for the lock of a live process waits as long as it lives
@pytest.mark.parametrize("folder", [False, True])
def test_what_a_live_process_writes_stays_until_it_is_killed(tmp_path, folder):
    with another_process(tmp_path / "step-1", folder) as made:
        remove_left(tmp_path / "step-1")
        remove_left_in(tmp_path, "step-")
        with temporary(tmp_path / "step-1", folder=folder):
            assert made.exists()
        assert names(tmp_path) == [made.name]
    remove_left(tmp_path / "step-1")
    assert names(tmp_path) == []


@pytest.mark.bound(60)
@pytest.mark.parametrize("folder", [False, True])
def test_one_that_is_removed_before_it_is_locked_is_made_again(tmp_path, monkeypatch, folder):
    lock, taken = module.fcntl.flock, []

    def late(descriptor, operation):
        if not taken:
            taken.append(tmp_path / names(tmp_path)[0])
            shutil.rmtree(taken[0]) if folder else taken[0].unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(module.fcntl, "flock", late)
    with temporary(tmp_path / "x", folder=folder) as made:
        assert made.is_dir() == folder
        assert names(tmp_path) == [made.name] != [taken[0].name]
    assert open_files(tmp_path) == []


@pytest.mark.parametrize("folder", [False, True])
def test_no_file_stays_open(tmp_path, folder):
    with temporary(tmp_path / "x", folder=folder):
        remove_left(tmp_path / "x")  # which is held
        (tmp_path / f".y.{HEX}.tmp").touch()
        remove_left(tmp_path / "y")  # which is not
    assert open_files(tmp_path) == []
    assert names(tmp_path) == []


def test_a_file_has_the_permissions_that_the_user_gives_to_new_files(tmp_path):
    for mask in (0o000, 0o027):
        before = os.umask(mask)
        try:
            with temporary(tmp_path / "x") as made:
                assert made.stat().st_mode & 0o7777 == 0o666 & ~mask
        finally:
            os.umask(before)


@pytest.mark.parametrize("folder", [False, True])
def test_where_there_are_no_locks_nothing_is_taken_for_left_over(tmp_path, monkeypatch, folder):
    monkeypatch.setattr(module, "fcntl", None)
    (tmp_path / f".x.{HEX}.tmp").touch()
    with temporary(tmp_path / "x", folder=folder) as made:
        made.write_text("new") if not folder else (made / "inner").touch()
        assert names(tmp_path) == sorted([f".x.{HEX}.tmp", made.name])
    assert names(tmp_path) == [f".x.{HEX}.tmp"]


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


def test_a_file_of_an_object_is_closed_with_it_in_silence_when_it_is_full():
    """What the disk refused would be written once more as the file is closed, where nobody hears of it."""

    class Owner:
        pass

    owner = Owner()
    file = file_of(owner)
    with files_up_to(100):
        file.write(b"x" * 200)
        with pytest.raises(OSError, match="too large"):
            file.flush()
        del owner  # pytest would tell of an error in the finalizer
    assert file.closed
