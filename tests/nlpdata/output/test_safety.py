"""What may be removed and replaced: only a set's own files, whatever a meta file, a marker or a link says."""

import json
import os
import string

import pytest

from nlpdata import create_finetuning, create_pretraining
from nlpdata.errors import DataError, UsageError
from nlpdata.output import OutputSet, WorkFolder, commit, is_own, output_set, store_result
from nlpdata.output.committing import digest
from nlpdata.records.contract import committing_marker, read_meta
from nlpdata.records.reader import open_records
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.commands import contents, create_arguments, run_command, visible
from tests.nlpdata.conftest import as_text, random_documents

PRECIOUS = "precious"


@pytest.fixture
def create(tmp_path, tiny_model, capsys):
    """create-pretraining with --overwrite into out/x.tfrecord; the folder around holds precious.txt."""
    text = tmp_path / "text.txt"
    text.write_text(as_text(random_documents(12, seed=9)))
    (tmp_path / "precious.txt").write_text(PRECIOUS)
    (tmp_path / "out").mkdir()

    def run(*more, **settings):
        arguments = create_arguments(
            text, tmp_path / "out" / "x.tfrecord", tiny_model, "--overwrite", *more, **settings
        )
        return run_command(capsys, *arguments)

    return run


@pytest.mark.parametrize(
    "name",
    ["../precious.txt", "{folder}/precious.txt", "notes.txt", "tokenizer.model", "y.tfrecord", "x.txt", "", ".."],
)
def test_a_marker_removes_only_files_of_the_set(create, tmp_path, name):
    out = tmp_path / "out"
    mine = [out / each for each in ("notes.txt", "tokenizer.model", "y.tfrecord", "x.txt")]
    for path in mine:
        path.write_text(PRECIOUS)
    (out / "x.tfrecord-00000-of-00002").write_text("of the interrupted commit")
    files = [name.format(folder=tmp_path), "x.tfrecord-00000-of-00002"]
    (out / ".x.committing").write_text(json.dumps({"key": "k", "files": files}))
    assert create().code == 0
    assert [path.read_text() for path in [*mine, tmp_path / "precious.txt"]] == [PRECIOUS] * 5
    assert visible(out) == sorted(["x.meta.json", "x.tfrecord", "x.tokenizer.model", *(path.name for path in mine)])


@pytest.mark.parametrize("key", ["shards", "tokenizer", "splits"])
@pytest.mark.parametrize(
    "name", ["../precious.txt", "{folder}/precious.txt", "a/../../precious.txt", "..", ".", "", "a\0b"]
)
def test_a_meta_file_names_no_path(create, tmp_path, key, name):
    assert create().code == 0
    path = tmp_path / "out" / "x.meta.json"
    meta, name = json.loads(path.read_text()), name.format(folder=tmp_path)
    if key == "splits":
        meta["splits"] = {"dev": {"examples": name}}
    else:
        (meta["shards"][0] if key == "shards" else meta["tokenizer"])["file"] = name
    path.write_text(json.dumps(meta))
    with pytest.raises(DataError, match="expected the name of a file next to the records"):
        read_meta(path)
    before = contents(tmp_path / "out")
    assert create().code == 2  # what is not listed is not removed
    assert contents(tmp_path / "out") == before
    assert (tmp_path / "precious.txt").read_text() == PRECIOUS


def test_a_meta_file_removes_only_files_of_the_set(create, tmp_path):
    """A plain name that the naming rule does not make is not the set's, whatever lists it."""
    assert create().code == 0
    out = tmp_path / "out"
    meta = json.loads((out / "x.meta.json").read_text())
    for name in ("notes.txt", "tokenizer.model", "y.tfrecord", "x.tokenizer.json"):
        (out / name).write_text(PRECIOUS)
        meta["shards"].append({"file": name, "records": 1, "crc32c": "0"})
    (out / "x.meta.json").write_text(json.dumps(meta))
    assert create("--num-shards", 2).code == 0
    assert not (out / "x.tfrecord").exists()
    for name in ("notes.txt", "tokenizer.model", "y.tfrecord", "x.tokenizer.json"):
        assert (out / name).read_text() == PRECIOUS


OWN = ["t.tfrecord", "t.tf_record", "t.tfrecord-00000-of-00003", "t.tf_record-123456-of-1234567", "t.examples.jsonl.gz"]
OWN += ["t.tokenizer.model", "t.tokenizer.txt", "t.tokenizer.hf.json", "t.tokenizer"]
NOT_OWN = [
    "t.meta.json",
    "t.tokenizer.json",
    "t.tokenizer.a.b",
    "t.tfrecord.bak",
    "t.tfrecord-0-of-3",
    "xt.tfrecord",
    "t",
]
NOT_OWN += [
    "tokenizer.model",
    "meta.json",
    "../t.tfrecord",
    "a/t.tfrecord",
    "/t.tfrecord",
    "t.tfrecord/",
    "t.tfrecord\n",
    "",
]
NOT_OWN += [
    "t.tokenizer.../x",
    "t.tokenizer./../x",
    "t.tokenizer.mo\0del",
    "train.tfrecord",
    "T.tfrecord",
    "t.model",
    "t.vocab",
]


def test_naming_rule():
    target = output_set("out/t.tfrecord")
    assert [name for name in OWN if not is_own(target, name)] == []
    assert [name for name in NOT_OWN if is_own(target, name)] == []
    assert not any(is_own(target, letter) for letter in string.printable)


def test_naming_rule_of_finetuning():
    target = OutputSet("out/dev.tfrecord", "out/meta.json", "train|dev", "")
    own = ["dev.tfrecord", "train.tfrecord-00001-of-00002", "train.examples.jsonl.gz", "tokenizer.model"]
    assert [name for name in own if not is_own(target, name)] == []
    assert not any(
        is_own(target, name) for name in ("devtrain.tfrecord", "dev.tokenizer.model", "tokenizer.json", "x.tfrecord")
    )


def test_stem_is_not_a_pattern():
    assert not is_own(output_set("out/a.b+.tfrecord"), "aXb+.tfrecord")
    assert is_own(output_set("out/a.b+.tfrecord"), "a.b+.tfrecord")


# ---------------------------------------------------------------------------------------------------------------- links


def test_a_linked_shard_goes_and_what_it_leads_to_stays(create, tmp_path):
    assert create("--num-shards", 2).code == 0
    shard = tmp_path / "out" / "x.tfrecord-00000-of-00002"
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    kept = (tmp_path / "elsewhere").read_bytes()
    for more in (("--num-shards", 2), ()):  # replaced under its name, and removed
        assert create(*more).code == 0
        assert (tmp_path / "elsewhere").read_bytes() == kept
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())


def test_a_linked_meta_file_goes_and_what_it_leads_to_stays(create, tmp_path):
    assert create().code == 0
    meta = tmp_path / "out" / "x.meta.json"
    meta.rename(tmp_path / "elsewhere")
    meta.symlink_to(tmp_path / "elsewhere")
    kept = (tmp_path / "elsewhere").read_bytes()
    assert create("--seed", 5).code == 0
    assert (tmp_path / "elsewhere").read_bytes() == kept
    assert not meta.is_symlink()


def test_a_dangling_link_is_not_replaced_unasked(tmp_path, create, tiny_model, capsys):
    for name in ("x.meta.json", "x.tfrecord"):
        (tmp_path / "out" / name).symlink_to(tmp_path / "nowhere")
        outcome = run_command(capsys, *create_arguments(tmp_path / "text.txt", tmp_path / "out" / "x", tiny_model))
        assert outcome.code == 2
        assert name in outcome.err
        (tmp_path / "out" / name).unlink()


def test_a_linked_work_folder_is_refused(create, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("lock", "key", "notes.txt"):
        (other / name).write_text(PRECIOUS)
    (tmp_path / "out" / ".x.work").symlink_to(other)
    outcome = create()
    assert outcome.code == 2
    assert ".x.work" in outcome.err
    assert "is a link" in outcome.err
    assert contents(other) == {name: PRECIOUS.encode() for name in ("lock", "key", "notes.txt")}


def test_links_in_a_work_folder_lead_nowhere(tmp_path, create):
    """Not to the key, not to a finished part, not to a shard that is being written."""
    work = tmp_path / "out" / ".x.work"
    work.mkdir()
    (work / "lock").write_text("")
    for name in ("key", "chunk-000000.json", "x.tfrecord", "x.tokenizer.model", "commit.json", "a.tmp"):
        (work / name).symlink_to(tmp_path / "precious.txt")
    assert create().code == 0
    assert (tmp_path / "precious.txt").read_text() == PRECIOUS
    assert visible(tmp_path / "out") == ["x.meta.json", "x.tfrecord", "x.tokenizer.model"]
    assert not work.exists()


def test_results_of_units_name_no_paths(tmp_path):
    """Runs that were merged are removed, so what a result names is as much data as what a meta file lists."""
    work = WorkFolder([output_set(str(tmp_path / "x"))], "key")
    (tmp_path / "precious.txt").write_text(PRECIOUS)
    for result in (
        {"file": "../precious.txt", "bytes": len(PRECIOUS)},
        {"runs": {"records-train": ["a.run", "../precious.txt"]}},
        {"runs": {}, "merged": [f"{tmp_path}/precious.txt"]},
        {"runs": {"records-train": [1]}},
        [],
    ):
        stored = {"result": result, "files": {}}
        stored["check"] = digest(["chunk-0", result, {}])
        (work.path / "chunk-0.json").write_text(json.dumps(stored))
        assert work.result("chunk-0") is None
    (work.path / "a.run").write_bytes(b"a")
    store_result(work.path, "chunk-0", {"runs": {"records-train": ["a.run"]}})
    assert work.result("chunk-0") == {"runs": {"records-train": ["a.run"]}}
    work.remove()


def test_a_linked_lock_is_not_followed(tmp_path, create):
    work = tmp_path / "out" / ".x.work"
    work.mkdir()
    (work / "lock").symlink_to(tmp_path / "new.txt")
    outcome = create()
    assert outcome.code == 1
    assert "cannot use the work folder" in outcome.err
    assert not (tmp_path / "new.txt").exists()


def test_a_folder_of_that_name_that_is_not_ours_stays(create, tmp_path):
    work = tmp_path / "out" / ".x.work"
    (work / "inner").mkdir(parents=True)
    (work / "notes.txt").write_text(PRECIOUS)
    outcome = create()
    assert outcome.code == 2
    assert "is not a work folder of nlpdata" in outcome.err
    assert (work / "notes.txt").read_text() == PRECIOUS


# ---------------------------------------------------------------------------------------------- files that are in the way


def test_a_tokenizer_that_no_run_wrote_is_not_replaced(create, tmp_path, tiny_model):
    copy = tmp_path / "out" / "x.tokenizer.model"
    copy.write_text(PRECIOUS)
    outcome = create()
    assert outcome.code == 2
    assert "x.tokenizer.model exists" in outcome.err
    assert copy.read_text() == PRECIOUS
    copy.write_bytes(tiny_model.read_bytes())  # the very file: nothing is lost
    assert create().code == 0


@pytest.mark.parametrize("name", ["x.tfrecord-00001-of-00002", "x.tokenizer.model", "x.meta.json"])
def test_a_folder_in_the_way_is_found_before_anything_is_touched(create, tmp_path, name):
    assert create("--num-shards", 2).code == 0
    place = tmp_path / "out" / name
    place.unlink()
    place.mkdir()
    before = sorted(os.listdir(tmp_path / "out"))
    outcome = create("--num-shards", 2, "--seed", 4)
    assert outcome.code == 2
    assert "folder" in outcome.err
    assert sorted(os.listdir(tmp_path / "out")) == before


def test_the_tokenizer_of_a_half_replaced_set_is_refused(create, tmp_path):
    assert create().code == 0
    committing_marker(tmp_path / "out" / "x").touch()
    with pytest.raises(DataError, match="is being replaced"):
        load_tokenizer(tmp_path / "out" / "x.tokenizer.model")


# ---------------------------------------------------------------------------------------------- names that are not UTF-8


def test_input_whose_name_is_not_utf8(create, tmp_path, tiny_model, capsys):
    assert create().code == 0
    odd = os.fsencode(tmp_path) + b"/bad\xff\xc3\xa9.txt"
    os.rename(tmp_path / "text.txt", odd)
    given = create_arguments(os.fsdecode(odd), tmp_path / "out" / "x.tfrecord", tiny_model, "--overwrite", "--seed", 2)
    assert run_command(capsys, *given).code == 0
    meta = read_meta(tmp_path / "out" / "x.meta.json")
    assert meta["inputs"] == [{"file": "bad\\xffé.txt", "bytes": os.path.getsize(odd)}]
    assert meta["seed"] == 2
    assert len(open_records(str(tmp_path / "out" / "x.tfrecord"))) == sum(s["records"] for s in meta["shards"])


def test_output_whose_name_is_not_utf8(tmp_path, tiny_model, create, capsys):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/out/bad\xff.tfrecord")
    given = create_arguments(tmp_path / "text.txt", odd, tiny_model)
    for more in ((), ("--overwrite",)):
        outcome = run_command(capsys, *given, *more)
        assert outcome.code == 0, outcome.err
        assert "bad\\udcff.tfrecord" in outcome.out
    assert run_command(capsys, "verify", odd).code == 0
    assert len(os.listdir(tmp_path / "out")) == 3


def test_work_folder_is_let_go_where_it_cannot_be_used(tmp_path):
    target = output_set(str(tmp_path / "x.tfrecord"))
    (tmp_path / ".x.work").write_text("")
    with pytest.raises(DataError, match="cannot use the work folder"):
        WorkFolder([target], "key")
    (tmp_path / ".x.work").unlink()
    first = WorkFolder([target], "key")
    with pytest.raises(UsageError, match="another run"):
        WorkFolder([target], "key")
    first.remove()
    assert os.listdir(tmp_path) == []


def other_command_first(monkeypatch, module: str, other) -> None:
    """Lets another command run between a command's last part and its commit."""

    def late(*arguments, **settings):
        monkeypatch.setattr(f"{module}.commit", commit)
        other()
        commit(*arguments, **settings)

    monkeypatch.setattr(f"{module}.commit", late)


ANOTHER = r"another command has written to .*out/ since this one began"


def test_records_that_another_command_has_made_meanwhile_stay(tmp_path, tiny_model, create, monkeypatch):
    """Their work folders differ, so neither waits for the other."""
    out = tmp_path / "out"

    def make(name, **settings):
        text = str(tmp_path / "text.txt")
        return create_pretraining(text, str(out / name), str(tiny_model), workers=1, max_seq_length=32, **settings)

    other_command_first(monkeypatch, "nlpdata.pretraining.create", lambda: make("x.eval.tfrecord", seed=2))
    with pytest.raises(DataError, match=ANOTHER):
        make("x.tfrecord", eval_fraction=0.5)
    before = contents(out)
    assert visible(out) == ["x.eval.meta.json", "x.eval.tfrecord", "x.eval.tokenizer.model"]
    with pytest.raises(UsageError, match="already holds"):
        make("x.tfrecord", eval_fraction=0.5)
    assert contents(out) == before
    make("x.tfrecord", eval_fraction=0.5, overwrite=True)
    assert read_meta(out / "x.eval.meta.json")["seed"] == read_meta(out / "x.meta.json")["seed"]


def test_splits_that_another_command_has_made_meanwhile_stay(tmp_path, tiny_model, monkeypatch):
    table = tmp_path / "table.tsv"
    table.write_text("text\tlabel\na good one\tyes\na bad one\tno\n" * 8)
    out = tmp_path / "out"

    def make(splits):
        given = {"train": {}, "dev": {"dev_input": str(table)}}[splits]
        options = {"task": "classification", "splits": splits, "workers": 1, "max_seq_length": 16}
        return create_finetuning(str(table), str(out), str(tiny_model), **options, **given)

    other_command_first(monkeypatch, "nlpdata.output.running", lambda: make("dev"))
    with pytest.raises(DataError, match=ANOTHER):
        make("train")
    assert visible(out) == ["dev.tfrecord", "meta.json", "tokenizer.model"]


def test_an_interrupt_after_the_release_of_a_work_folder_is_not_hidden(tmp_path, monkeypatch):
    folder = WorkFolder([output_set(str(tmp_path / "x.tfrecord"))], "key")
    close = os.close

    def interrupted(descriptor):
        close(descriptor)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            folder.close()
    folder.close()
