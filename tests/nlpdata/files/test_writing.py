"""Writing in one step: a file or folder is whole or not there, whatever happens meanwhile."""

import errno
import os

import pytest

from nlpdata.files.writing import move, new_file, new_folder, rename_folder, write_whole
from tests.gcsfuse import refuse_renames_of_folders


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_has_its_name_when_it_is_whole(tmp_path, durable):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with new_file(path, durable) as made:
        made.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("fault", [OSError, KeyboardInterrupt])
def test_a_fault_leaves_what_was_there(tmp_path, durable, fault):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write() -> None:
        with new_file(path, durable) as made:
            made.write_text("half")
            raise fault

    with pytest.raises(fault):
        write()
    assert (os.listdir(tmp_path), path.read_text()) == (["a.txt"], "old")


def test_a_durable_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    rename = os.replace
    monkeypatch.setattr(os, "replace", lambda source, target: (calls.append("replace"), rename(source, target)))
    write_whole(tmp_path / "a", b"x")
    write_whole(tmp_path / "b", b"x", durable=False)
    assert calls == ["fsync", "replace", "replace"]


def test_a_folder_appears_whole(tmp_path):
    path = tmp_path / "folder"
    with new_folder(path) as made:
        (made / "a").write_text("1")
        assert not path.exists()
    assert os.listdir(path) == ["a"]
    with pytest.raises(OSError, match="folder"), new_folder(path) as made:
        (made / "b").write_text("2")
    assert os.listdir(path) == ["a"]
    with new_folder(path, replace=True) as made:
        (made / "b").write_text("2")
    assert (os.listdir(tmp_path), os.listdir(path)) == (["folder"], ["b"])


def test_nothing_is_moved_here_from_a_remote_place(tmp_path):
    with pytest.raises(ValueError, match="is remote"):
        move("s3://bucket/a", tmp_path / "a")


@pytest.fixture(params=[errno.ENOSYS, errno.EOPNOTSUPP, errno.EMFILE])
def no_rename_of_folders(request, monkeypatch):
    refuse_renames_of_folders(monkeypatch, request.param)


def test_a_folder_where_folders_cannot_be_renamed(tmp_path, no_rename_of_folders):
    target = tmp_path / "new"
    for text in ("one", "two"):
        with new_folder(target, replace=True) as made:
            (made / "variables").mkdir()
            (made / "empty").mkdir()
            (made / "variables" / "a.txt").write_text(text)
            (made / "b.txt").write_text(text)
        found = {str(path.relative_to(target)) for path in target.rglob("*")}
        assert found == {"variables", "empty", "variables/a.txt", "b.txt"}
        assert (target / "variables" / "a.txt").read_text() == text
        assert os.listdir(tmp_path) == ["new"]


def test_another_reason_why_a_folder_cannot_be_renamed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "y").touch()
    with pytest.raises(OSError, match="not empty"):
        rename_folder(tmp_path / "a", tmp_path / "b")
    assert os.listdir(tmp_path / "a") == ["x"]
