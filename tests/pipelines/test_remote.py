"""Paths on an object store: a real S3 server on this machine, seen by its own client and by ours."""

import gzip
from pathlib import Path

import pytest

from nlpdata import open_records
from nlpdata.cli import commands
from nlpdata.corpus import find_files
from nlpdata.errors import UsageError
from nlpdata.files.remote import RemotePath
from pipelines import finetuning
from tests.nlpdata.commands import contents, run_command
from tests.nlpdata.finetuning.texts import squad
from tests.object_store import running_store
from tests.pipelines.conftest import MORE

MODEL = "s3://bucket/tok/spm.model"
RUNS = {  # -> objective, option; with one worker and with DirectRunner itself a commit is interrupted below
    "two workers": ("nsp", "--workers=2"),
    "DirectRunner bytes": ("nsp", "--runner=DirectRunner"),
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(corpus_folder, tiny_model):
    """The server; its bucket holds the corpus, a part of it compressed, and the tokenizer with its sidecar."""
    with running_store() as found:
        found.put("in/a.txt", (corpus_folder / "a.txt").read_bytes())
        found.put("in/b.txt.gz", gzip.compress((corpus_folder / "b.txt").read_bytes()))
        for path in tiny_model.parent.glob("spm.*"):
            found.put(f"tok/{path.name}", path.read_bytes())
        yield found


@pytest.fixture(scope="module")
def local_copy(store, tmp_path_factory, tiny_model):
    """objective -> what the local executor makes of the same files on this machine."""
    made, folder = {}, tmp_path_factory.mktemp("copy")
    for name, data in store.contents("in/").items():
        (folder / name).write_bytes(data)

    def files(objective):
        if objective not in made:
            out = tmp_path_factory.mktemp(objective)
            assert commands.main(create(f"{folder}/*", f"{out}/t", objective, tiny_model, "--workers=1")) == 0
            made[objective] = contents(out)
        return made[objective]

    return files


def create(inputs, output, objective, model=MODEL, *more):
    given = ["--input", inputs, "--output", output, "--objective", objective, "--tokenizer", str(model), *MORE]
    return ["create-pretraining", *given, "--max-seq-length=64", "--dupe-factor=1", "--num-shards=2", *more]


@pytest.mark.parametrize("name", RUNS)
def test_same_objects_as_local_files(name, store, local_copy, monkeypatch):
    if name.endswith("bytes"):
        monkeypatch.setattr("pipelines.runner.Runner.is_local", False)
    place, (objective, run) = f"out/{name}/", RUNS[name]
    assert commands.main(create("s3://bucket/in/*", f"s3://bucket/{place}t", objective, MODEL, run)) == 0
    assert store.contents(place) == local_copy(objective)


def test_records_are_read_there(store, local_copy, capsys):
    place = "records/"
    for name, content in local_copy("sop").items():
        store.put(f"{place}{name}", content)
    assert run_command(capsys, "verify", f"s3://bucket/{place}t*.tfrecord*").code == 0
    shown = run_command(capsys, "inspect", f"s3://bucket/{place}t.tfrecord*", "--limit", 1)
    assert "[CLS]" in shown.out
    records = open_records(f"s3://bucket/{place}t.tfrecord*")
    assert len(records) == records.meta["counters"]["examples"] == sum(records.counts)


@pytest.mark.parametrize("run", ["--workers=1", "--runner=DirectRunner"])
def test_interrupted_commit_is_refused_and_completed(run, store, local_copy, monkeypatch, capsys):
    place = f"half{run}/"
    old = create(
        "s3://bucket/in/a.txt", f"s3://bucket/{place}t", "sop", MODEL, "--limit-documents=20", "--num-shards=3"
    )
    assert commands.main([*old, "--workers=1"]) == 0
    before = store.contents(place)
    new = create("s3://bucket/in/*", f"s3://bucket/{place}t", "sop", MODEL, run)
    refused = run_command(capsys, *new)
    assert refused.code == 2
    assert f"s3://bucket/{place[:-1]}/ already holds t.tfrecord-00000-of-00003" in refused.err
    new.append("--overwrite")
    arriving, arrived = "receive" if "workers" in run else "rename", []
    arrive = getattr(RemotePath, arriving)

    def second_fails(self, other):
        target = self if arriving == "receive" else other
        if "tfrecord" in target.name and target.parent.name == place[:-1]:
            arrived.append(target)
            if len(arrived) == 2:
                raise OSError("the connection was lost")
        return arrive(self, other)

    monkeypatch.setattr(RemotePath, arriving, second_fails)
    outcome = run_command(capsys, *new)
    assert outcome.code == 1
    assert "the connection was lost" in outcome.err
    assert "Run the same command again" in outcome.err
    half = store.contents(place)
    assert "t.meta.json" not in half
    assert half != before
    for command in ("verify", "inspect"):
        refused = run_command(capsys, command, f"s3://bucket/{place}t.tfrecord*")
        assert refused.code == 1
        assert "being replaced" in refused.err
    monkeypatch.setattr(RemotePath, arriving, arrive)
    assert run_command(capsys, *new).code == 0
    assert store.contents(place) == local_copy("sop")


def test_vocabulary(store, corpus_folder, tmp_path):
    given = ["train-tokenizer", "--vocab-size=150"]
    local = ["--input", f"{corpus_folder}/*.txt", "--output", f"{tmp_path}/v"]
    assert commands.main([*given, *local]) == 0
    for run in ("--workers=1", "--runner=DirectRunner"):
        assert commands.main([*given, "--input", "s3://bucket/in/*", "--output", f"s3://bucket/tok{run}/v", run]) == 0
        assert store.contents(f"tok{run}/") == contents(tmp_path)


WRONG = {
    "nothing matches": (("s3://bucket/none*", "s3://bucket/x/t"), 2, "matches no file"),
    "a folder": (("s3://bucket/tok", "s3://bucket/x/t"), 2, "holds no *.txt or *.text: it holds "),
    "no such bucket": (("s3://absent/a.txt", "s3://bucket/x/t"), 2, "'s3://absent/a.txt' matches no file"),
    "no bucket to write": (("s3://bucket/in/*", "s3://absent/t"), 2, "cannot write to s3://absent/"),
    "output is a folder": (("s3://bucket/in/*", "s3://bucket/in"), 2, "is a folder"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_paths(name, store, capsys):
    (inputs, output), code, message = WRONG[name]
    outcome = run_command(capsys, *create(inputs, output, "sop"))
    assert outcome.code == code
    assert message in outcome.err
    assert store.contents("x/") == {}


def test_unreachable_server(store, tmp_path, monkeypatch, capsys, tiny_model):
    from s3fs import S3FileSystem  # keeps its clients

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    S3FileSystem.clear_instance_cache()
    outcome = run_command(capsys, *create("s3://bucket/in/a.txt", f"{tmp_path}/t", "sop", tiny_model))
    S3FileSystem.clear_instance_cache()
    assert outcome.code == 1
    assert "s3://bucket/in/a.txt: " in outcome.err
    assert Path(tmp_path, "t.meta.json").exists() is False


@pytest.mark.parametrize("run", ["--workers=1", "--runner=DirectRunner"])
def test_fine_tuning_records_go_there(run, store, tmp_path, tiny_model, capsys):
    table = tmp_path / "table.csv"
    table.write_text("text,label\n" + "".join(f"the river {number},{'ab'[number % 2]}\n" for number in range(40)))
    given = ["create-finetuning", "--task=classification", "--input", table, "--eval-fraction=0.25", "--tokenizer"]
    given += [tiny_model, "--max-seq-length=32"]
    assert run_command(capsys, *given, "--output", tmp_path / "here", "--workers=1").code == 0
    place = f"tuning{run}"
    assert run_command(capsys, *given, "--output", f"s3://bucket/{place}", run).code == 0
    assert store.contents(f"{place}/") == contents(tmp_path / "here")
    refused = run_command(capsys, *given[:3], f"s3://bucket/{place}/table.csv", *given[4:], "--output", "s3://bucket/x")
    assert refused.code == 2
    assert f"datasets are read from this machine. Received: s3://bucket/{place}/table.csv" in refused.err


def test_fine_tuning_by_workers_elsewhere(store, tmp_path, tiny_model, monkeypatch, capsys):
    """Rows, windows, records and shards are then next to the output, where all workers can read them."""
    paragraphs = [
        (f"the river {i} and the hill", (f"q{i}", "the river ?", [("hill", 20)], False)) for i in range(10, 40)
    ]
    squad(tmp_path / "train.json", *paragraphs)
    squad(tmp_path / "dev.json", *paragraphs[:9])
    given = ["create-finetuning", "--task=squad", "--input", tmp_path / "train.json", "--dev-input"]
    given += [tmp_path / "dev.json", "--tokenizer", tiny_model, "--max-seq-length=48", "--max-query-length=16"]
    given += ["--doc-stride=12", "--num-shards=2", "--compression=gzip"]
    monkeypatch.setattr("nlpdata.finetuning.batches.BATCH_ROWS", 7)
    assert run_command(capsys, *given, "--output", tmp_path / "here", "--workers=1").code == 0

    monkeypatch.setattr("pipelines.runner.Runner.is_local", False)
    place, run, seen = "elsewhere/", finetuning.run_pipeline, []

    def run_and_look(*arguments, **options):
        seen.append(store.contents(place).keys())
        run(*arguments, **options)
        seen.append(store.contents(place).keys())

    monkeypatch.setattr(finetuning, "run_pipeline", run_and_look)
    given += ["--output", f"s3://bucket/{place[:-1]}", "--runner=DirectRunner"]
    assert run_command(capsys, *given).code == 0
    assert store.contents(place) == contents(tmp_path / "here")
    endings = [{name.rpartition(".")[2] for name in names} for names in seen]
    assert endings[0] == {"rows", "model"}
    assert endings[1] > {"rows", "windows", "records", "lengths"}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nlpdata.finetuning.stages.encode_columns", full)
    outcome = run_command(capsys, *given, "--overwrite")
    assert outcome.code == 1
    assert "encoding (" in outcome.err
    assert store.contents(place) == contents(tmp_path / "here")


def test_a_folder_of_a_bucket_stands_for_its_text_files(store):
    for name in ("tree/c.txt", "tree/deep/d.txt.gz", "tree/README.md", "tree/.hidden/e.txt"):
        store.put(name, gzip.compress(b"a line\n") if name.endswith(".gz") else b"a line\n")
    expected = ["s3://bucket/tree/c.txt", "s3://bucket/tree/deep/d.txt.gz"]
    for folder in ("s3://bucket/tree", "s3://bucket/tree/"):
        assert find_files([folder]) == find_files(expected)
    with pytest.raises(UsageError, match=r"s3://bucket/tok holds no \*.txt or \*.text: it holds .*\*.model"):
        find_files(["s3://bucket/tok"])


@pytest.mark.parametrize("run", ["--workers=1", "--runner=DirectRunner"])
def test_split_sentences(run, store, tmp_path, monkeypatch):
    """Of text, a table and a page in a bucket; on Beam the workers share no folder of this machine."""
    page = "<html><body><article><p>One page is here. It has text.</p></article></body></html>"
    given = {
        "a.txt": "One is here.\nTwo is here.\n\nOne is here.\n",
        "b.csv": "id,text\n1,One is here. Three.\n",
        "c.html": page,
    }
    for name, text in given.items():
        store.put(f"raw/{name}", text.encode())
        (tmp_path / name).write_text(text)
    command = ["split-sentences", "--deduplicate-lines", "--deduplicate-documents", "--num-shards=2", "--quiet"]
    assert commands.main([*command, f"--input={tmp_path}", f"--output={tmp_path}/out/c.txt", "--workers=1"]) == 0
    monkeypatch.setattr("pipelines.runner.Runner.is_local", False)
    place = f"split{run}/"
    assert commands.main([*command, "--input=s3://bucket/raw", f"--output=s3://bucket/{place}c.txt", run]) == 0
    assert store.contents(place) == contents(tmp_path / "out")
    assert len(contents(tmp_path / "out")) == 3
    (first, second), _ = find_files(f"s3://bucket/{place}c.txt*")
    assert (first.name, second.name) == ("c.txt-00000-of-00002", "c.txt-00001-of-00002")
