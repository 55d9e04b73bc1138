"""That tests leave nothing in the repository, which `_nothing_left` of conftest.py checks after each file of them."""

import pytest

from tests import conftest, repository


def test_files_are_those_that_no_tool_keeps(tmp_path):
    names = ("a.txt", "b/c.py", "b/__pycache__/c.pyc", ".cache/d", "n.egg-info/e", "f.pyc", ".gitignore")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert repository.files(tmp_path) == {"a.txt", "b/c.py"}


def test_what_a_merge_brings_is_not_left_by_a_test():
    names = {"pyproject.toml", "tests/test_repository.py", "left.txt"}
    assert repository.without_committed(names, repository.ROOT) == {"left.txt"}


def test_a_file_that_is_left_fails(tmp_path, monkeypatch):
    (tmp_path / "kept").touch()
    monkeypatch.setattr(repository, "ROOT", tmp_path)
    check = conftest._nothing_left.__wrapped__()
    next(check)
    (tmp_path / "left").touch()
    with pytest.raises(AssertionError, match=r"new in the repository .*: \['left'\]"):
        next(check)
