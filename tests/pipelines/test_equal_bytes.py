"""Every runner gives the files of the local executor, byte for byte."""

import pytest

from nlpdata.cli import commands
from nlpdata.corpus import read_blocks
from nlpdata.execution.spill import SpillWriter
from pipelines import runs, steps
from pipelines.runner import Runner
from tests.nlpdata.commands import contents, open_files_limited
from tests.pipelines.conftest import OBJECTIVES, arguments
from tests.shared import shared

RUNNERS = {
    "in memory": ["--runner=DirectRunner"],
    "bundles twice": ["--runner=DirectRunner", "--", "--direct_runner_bundle_repeat=1"],
    "multi_processing": [
        "--runner=DirectRunner",
        "--",
        "--direct_running_mode=multi_processing",
        "--direct_num_workers=2",
    ],
}
CASES = [  # next sentence without --num-shards takes all steps
    *(("in memory", objective, shards) for objective in OBJECTIVES for shards in (None, 3)),
    ("bundles twice", "nsp", None),
    ("bundles twice", "nsp", 3),
    pytest.param("multi_processing", "nsp", None, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "objective", "shards"), CASES)
def test_runner_gives_the_local_files(name, objective, shards, tmp_path, corpus_folder, tiny_model, local_files):
    assert commands.main(arguments(corpus_folder, tmp_path, tiny_model, objective, shards, *RUNNERS[name])) == 0
    assert contents(tmp_path) == local_files(objective, shards)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("runs_are", ["files", "bytes"])
def test_few_open_files_whatever_the_number_of_runs(
    runs_are, tmp_path, corpus_folder, tiny_model, local_files, monkeypatch
):
    """More than 40 portions of the corpus, each with runs of every kind, and little in memory."""
    monkeypatch.setattr(Runner, "is_local", runs_are == "files")
    monkeypatch.setattr(steps, "SpillWriter", lambda prefix: SpillWriter(prefix, 500))
    expected = local_files("nsp", 3)
    given = arguments(corpus_folder, tmp_path, tiny_model, "nsp", 3, "--runner=DirectRunner", "--chunk-size", "1500")
    with open_files_limited(24):
        assert commands.main(given) == 0
    assert contents(tmp_path) == expected


@pytest.mark.parametrize("runs_are", ["files", "bytes"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_size_and_form_of_runs_change_nothing(
    objective, runs_are, tmp_path, corpus_folder, tiny_model, local_files, monkeypatch
):
    monkeypatch.setattr(Runner, "is_local", runs_are == "files")
    monkeypatch.setattr(runs, "RUN_BYTES", 20_000)
    monkeypatch.setattr(steps, "GROUP_BYTES", 10_000)
    monkeypatch.setattr("nlpdata.pretraining.buckets.BUCKET_DOCUMENTS", 64)
    shards = 3 if runs_are == "files" else None
    assert (
        commands.main(arguments(corpus_folder, tmp_path, tiny_model, objective, shards, "--runner=DirectRunner")) == 0
    )
    assert contents(tmp_path) == local_files(objective, shards)


@pytest.mark.parametrize("runs_are", ["files", "bytes"])
def test_several_runs_of_a_kind_and_shards_by_size(runs_are, tmp_path, corpus_folder, tiny_model, monkeypatch):
    """A portion leaves several runs of each kind, each under its own name; the shards go by the bytes of all."""

    def small_blocks(portion, **settings):
        for byte_range in portion.byte_ranges:
            yield from read_blocks(byte_range, block_bytes=4000, **settings)

    monkeypatch.setattr("nlpdata.output.naming.SHARD_BYTES", 100_000)
    monkeypatch.setattr(Runner, "is_local", runs_are == "files")
    monkeypatch.setattr(steps, "read_portion", small_blocks)
    monkeypatch.setattr(runs, "RUN_BYTES", 2000)
    taken, take = [], runs.RunBuilder._take
    monkeypatch.setattr(runs.RunBuilder, "_take", lambda *about: taken.append(about[1]) or take(*about))
    for folder, run in (("local", "--workers=1"), ("beam", "--runner=DirectRunner")):
        assert commands.main(arguments(corpus_folder, tmp_path / folder, tiny_model, "nsp", None, run)) == 0
    made = contents(tmp_path / "beam")
    assert made == contents(tmp_path / "local")
    assert len([name for name in made if name.startswith("t.tfrecord-")]) > 5
    assert min(taken.count(f"{kind}-train") for kind in ("records", "documents", "waiting")) > 10  # of 5 portions


@pytest.mark.parametrize(("objective", "shards"), [("nsp", None), ("none", 2)])
def test_without_an_evaluation_set(objective, shards, tmp_path, corpus_folder, tiny_model):
    for folder, run in (("local", "--workers=1"), ("beam", "--runner=DirectRunner")):
        more = ("--eval-fraction", 0, run)
        assert commands.main(arguments(corpus_folder, tmp_path / folder, tiny_model, objective, shards, *more)) == 0
    made = contents(tmp_path / "beam")
    assert made == contents(tmp_path / "local")
    assert not any("eval" in name for name in made)


def test_packed_documents(tmp_path, corpus_folder, tiny_model, monkeypatch):
    """On Beam, documents and the runs with them come in small parts, of which the buckets must know nothing."""
    local, beam = (
        arguments(corpus_folder, tmp_path / name, tiny_model, "none", None, "--pack-across-documents", run)
        for name, run in (("local", "--workers=1"), ("beam", "--runner=DirectRunner"))
    )
    assert commands.main(local) == 0
    monkeypatch.setattr(Runner, "is_local", False)
    monkeypatch.setattr(runs, "RUN_BYTES", 5000)
    monkeypatch.setattr(steps, "GROUP_BYTES", 5000)
    monkeypatch.setattr("nlpdata.pretraining.packing.SHORT_SEQ_PERIOD", 2)
    assert commands.main(beam) == 0
    assert contents(tmp_path / "beam") == contents(tmp_path / "local")


def test_more_shards_than_records(tmp_path, corpus_folder, tiny_model):
    """A shard into which no record falls is written all the same, as the local executor does."""
    for folder, more in ((tmp_path / "local", ("--workers=1",)), (tmp_path / "beam", ("--runner=DirectRunner",))):
        given = arguments(corpus_folder, folder, tiny_model, "none", 200, "--limit-documents", "10", *more)
        assert commands.main(given) == 0
    made = contents(tmp_path / "beam")
    assert made == contents(tmp_path / "local")
    assert b"" in made.values()


def test_gzip_shards(tmp_path, corpus_folder, tiny_model):
    for folder, more in ((tmp_path / "local", ("--workers=1",)), (tmp_path / "beam", ("--runner=DirectRunner",))):
        given = arguments(corpus_folder, folder, tiny_model, "none", None, "--compression", "gzip", *more)
        assert commands.main(given) == 0
    assert contents(tmp_path / "beam") == contents(tmp_path / "local")


@pytest.mark.slow
def test_real_corpus(tmp_path, tiny_model):
    """Arabic and Chinese text: the local executor with one and two workers, and Beam, whose bundles run twice."""
    corpus = shared("data", "ospl")
    common = ["create-pretraining", "--input", str(corpus / "debian-handbook.[az]*.gz"), "--tokenizer", str(tiny_model)]
    common += ["--objective", "nsp", "--max-seq-length", "128", "--dupe-factor", "1", "--eval-fraction", "0.05"]
    common += ["--accept-loss"]  # the vocabulary of the demo corpus knows few Chinese characters
    made = {}
    for name, more in {"one": ["--workers=1"], "two": ["--workers=2"], "beam": RUNNERS["bundles twice"]}.items():
        assert commands.main([*common, "--output", str(tmp_path / name / "t.tfrecord"), *more]) == 0
        made[name] = contents(tmp_path / name)
    assert len(made["one"]) >= 6
    assert made["one"] == made["two"] == made["beam"]
