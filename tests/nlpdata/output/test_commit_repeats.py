"""A commit that is repeated: where its sets stand already, where it died between two markers; files that are not ours."""

import json
import os
from pathlib import Path

import pytest

import nlpdata
from nlpdata.errors import DataError, UsageError
from nlpdata.output import complete, output_set, work_path
from nlpdata.output.committing import read_marker, remove_markers
from nlpdata.records.contract import committing_marker, read_meta
from tests.nlpdata.commands import contents
from tests.nlpdata.conftest import as_text, random_documents


class Death(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def make(tmp_path, tiny_model, monkeypatch):
    """create_pretraining of a training and an evaluation set into out/."""
    text = tmp_path / "text.txt"
    text.write_text(as_text(random_documents(30, seed=4)))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def run(**settings):
        settings = {"eval_fraction": 0.3, "num_shards": 2, "max_seq_length": 32, "workers": 1} | settings
        return nlpdata.create_pretraining(str(text), str(tmp_path / "out" / "x.tfrecord"), str(tiny_model), **settings)

    return run


def die_before_unlinking(ending, number, function):
    """Calls a function whose process ends as it is about to remove the `number`-th file whose name ends so."""
    left, real = number, os.unlink

    def unlink(path, *arguments, **settings):
        nonlocal left
        left -= os.fspath(path).endswith(ending)
        if not left:
            raise Death
        return real(path, *arguments, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        with pytest.raises(Death):
            function()


def die_with_all_in_place(make):
    """Ends before the journal goes, which a run also tries to remove as it begins."""
    die_before_unlinking("commit.json", 2, make)


def targets(folder):
    return [output_set(str(folder / name)) for name in ("x.tfrecord", "x.eval.tfrecord")]


def places(folder):
    """What tells that a file is the very one that lay there: its number and when it was written."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}


def refuse(*_, **__):
    raise AssertionError("made again")


@pytest.fixture
def stages_refused(monkeypatch):
    """stages_refused(): from then on, no part of a set can be made."""
    return lambda: monkeypatch.setattr("nlpdata.pretraining.create.run_stage", refuse)


def test_an_equal_run_over_its_own_whole_set_only_removes_the_work_folder(make, tmp_path, stages_refused, monkeypatch):
    """Not even for a moment may readers be refused: the set stands."""
    out = tmp_path / "out"
    die_with_all_in_place(make)
    assert not list(out.glob(".*.committing"))
    assert (out / ".x.work" / "commit.json").exists()
    whole, before = contents(out), places(out)
    stages_refused()
    monkeypatch.setattr("nlpdata.output.committing._mark", refuse)
    result = make()  # without --overwrite
    assert (contents(out), places(out)) == (whole, before)
    assert sorted(os.listdir(out)) == sorted(before)
    assert len(nlpdata.open_records(result.files["train"])) == sum(
        shard["records"] for shard in read_meta(out / "x.meta.json")["shards"]
    )


def test_a_set_that_differs_in_its_meta_file_is_replaced(make, tmp_path, stages_refused):
    """The journal's set and another one of equal file names are not the same: --overwrite is asked for."""
    out = tmp_path / "out"
    die_with_all_in_place(make)
    whole = contents(out)
    meta = out / "x.eval.meta.json"
    meta.write_text(meta.read_text().replace("\n", " \n", 1))
    stages_refused()
    with pytest.raises(UsageError, match="already holds"):
        make()
    make(overwrite=True)
    assert contents(out) == whole


@pytest.mark.parametrize("name", ["x.tfrecord", "x.eval.tfrecord"])
def test_a_whole_set_that_another_command_has_marked_since_is_refused(make, tmp_path, stages_refused, name):
    """The other one died as it began to replace one of the sets."""
    out = tmp_path / "out"
    die_with_all_in_place(make)
    whole = contents(out)
    committing_marker(str(out / name)).write_text(json.dumps({"key": "another", "files": []}))
    stages_refused()
    with pytest.raises(UsageError, match=r"(half replaced|already holds).*overwrite=True"):
        make()
    make(overwrite=True)
    assert contents(out) == whole
    assert [file for file in os.listdir(out) if file.startswith(".")] == []


def test_overwrite_by_an_equal_run_repairs_a_damaged_shard(make, tmp_path):
    """The meta file in place is that of the new set, and still its files are not."""
    out = tmp_path / "out"
    make()
    whole = contents(out)
    (out / "x.tfrecord-00001-of-00002").write_bytes(b"damaged")
    make(overwrite=True)
    assert contents(out) == whole


@pytest.mark.parametrize("old", [False, True])
def test_death_between_two_markers(make, tmp_path, stages_refused, old):
    """The first set's marker goes last: while it stands, the equal run has its commit to complete."""
    out = tmp_path / "out"
    if old:
        make(seed=7)
    die_before_unlinking(".committing", 2, lambda: make(overwrite=old))
    assert [name for name in sorted(os.listdir(out)) if name.endswith(".committing")] == [".x.committing"]
    whole = contents(out)
    with pytest.raises(DataError, match="being replaced"):
        nlpdata.open_records(str(out / "x.tfrecord-*"))
    with pytest.raises(UsageError, match="half replaced"):
        make(seed=8)
    stages_refused()
    make(overwrite=old)
    assert contents(out) == whole
    assert [name for name in os.listdir(out) if name.startswith(".")] == []


def test_a_late_attempt_that_died_between_two_markers_is_cleared_away(make, tmp_path):
    """As where two workers run the last step at once: what is left of it must not depend on where the second one died."""
    out = tmp_path / "out"
    make()
    whole, sets = contents(out), targets(out)
    for target in sets:
        committing_marker(target.output).write_text(json.dumps({"key": "k", "files": []}))
    die_before_unlinking(".committing", 2, lambda: remove_markers(sets))
    complete(sets, "of another run")
    assert [bool(read_marker(target)) for target in sets] == [True, False]
    complete(sets, "k")
    assert not any(map(read_marker, sets))
    assert contents(out) == whole
    assert not work_path(sets[0]).exists()


FOREIGN = {
    "no JSON": b"{\n",
    "no UTF-8": b"\xff\xfe{\x00}\x00",
    "a list": b"[]",
    "a number": b"7",
    "empty": b"",
    "deep": b"[" * 100_000,
    "of others": b'{"title": "mine"}',
    "with shards": b'{"shards": [{"file": "x.tfrecord"}]}',
}


@pytest.mark.parametrize("what", FOREIGN)
def test_overwrite_keeps_a_meta_file_that_no_run_wrote(make, tmp_path, what):
    out = tmp_path / "out"
    out.mkdir()
    (out / "x.meta.json").write_bytes(FOREIGN[what])
    with pytest.raises(UsageError, match=r"already holds x\.meta\.json"):
        make()
    with pytest.raises(UsageError, match=r"x\.meta\.json is not a meta file of records.*or meta\."):
        make(overwrite=True)
    assert contents(out) == {"x.meta.json": FOREIGN[what]}
    make(overwrite=True, meta=str(Path(out, "other.json")), eval_fraction=0.0)
    assert (out / "x.meta.json").read_bytes() == FOREIGN[what]
