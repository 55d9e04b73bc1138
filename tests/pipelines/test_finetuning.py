"""create-finetuning on Beam: the files of the local executor, byte for byte; faults; a dry run."""

import json
from functools import partial

import pytest

from nlpdata.cli import commands
from nlpdata.finetuning import batches, stages
from tests.nlpdata.commands import contents, run_command, visible
from tests.nlpdata.conftest import random_sentences
from tests.nlpdata.finetuning.conftest import vocab  # noqa: F401 (fixture)
from tests.nlpdata.finetuning.texts import squad, write
from tests.pipelines.test_equal_bytes import RUNNERS
from tests.pipelines.test_runner import CLOUD, IMAGE

SOURCES = {  # what `sources` writes -> options
    "RTE": ("--task", "rte", "--num-shards", "3", "--max-seq-length", "32"),
    "own.csv": ("--task", "multilabel", "--eval-fraction", "0.2", "--max-seq-length", "24"),
    "race.jsonl": (
        *("--task", "choice", "--text-column", "article", "--text-b-column", "question", "--max-seq-length", "24"),
        *("--max-qa-length", "9", "--blank", "_", "--num-shards", "2"),
    ),
    "squad": (
        *("--task", "squad", "--max-seq-length", "48", "--max-query-length", "16", "--doc-stride", "12"),
        *("--num-shards", "2", "--compression", "gzip"),
    ),
}
CASES = [  # in other processes: tests/pipelines/test_dask.py
    *(("in memory", source) for source in SOURCES),
    ("bundles twice", "squad"),  # of which the graph of the others is a part
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A GLUE folder, a CSV file, JSON lines with choices and a SQuAD folder, each of several batches."""
    folder = tmp_path_factory.mktemp("sources")
    texts = iter(random_sentences(850, seed=5, words=(4, 20)))
    header = "index\tsentence1\tsentence2" + "\tlabel"
    for split, count in (("train", 90), ("dev", 40), ("test", 30)):
        rows = [[str(i), next(texts), next(texts), ("entailment", "not_entailment")[i % 2]] for i in range(count)]
        rows = [row[:3] for row in rows] if split == "test" else rows
        write(folder / "RTE" / f"{split}.tsv", header.removesuffix("\tlabel" if split == "test" else ""), *rows)
    write(folder / "own.csv", "text,label", *(f'"{next(texts)}, and",{"a" if i % 2 else "b c"}' for i in range(80)))
    rows = [
        {
            "article": f"{i // 3} {next(texts)}",
            "question": "_ or not",
            "choices": [next(texts) for _ in range(3)],
            "label": i % 3,
        }
        for i in range(30)
    ]
    write(folder / "race.jsonl", *map(json.dumps, rows))
    for split, count in (("train", 40), ("dev", 30)):
        paragraphs = []
        for i in range(count):
            text = f"{next(texts)} {next(texts)} {next(texts)} {next(texts)}"
            answer = text.split()[9]
            asked = [(f"{split}{i}-{k}", text[: 20 + k], [(answer, text.index(answer))], False) for k in range(2)]
            paragraphs.append((text, *asked, (f"{split}{i}-no", "the fox ?", [], True)))
        (folder / "squad").mkdir(exist_ok=True)
        squad(folder / "squad" / f"{split}.json", *paragraphs)
    return folder


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(batches, "BATCH_ROWS", 7)


def finetuning_arguments(sources, vocab, source, output, *more):  # noqa: F811
    given = ("create-finetuning", "--input", sources / source, *SOURCES[source], "--tokenizer", vocab)
    return [str(word) for word in (*given, "--do-lower-case", "--output", output, *more)]


@pytest.fixture
def arguments(sources, vocab):  # noqa: F811
    """(source, output folder, more) -> arguments of a run."""
    return partial(finetuning_arguments, sources, vocab)


@pytest.fixture(scope="module")
def made():
    """source -> the files of the local executor, each made once."""
    return {}


@pytest.fixture
def local_files(made, arguments, tmp_path):
    def files(source):
        if source not in made:
            assert commands.main(arguments(source, tmp_path / "local", "--workers", "1")) == 0
            made[source] = contents(tmp_path / "local")
        return made[source]

    return files


@pytest.mark.parametrize(("name", "source"), CASES)
def test_runner_gives_the_local_files(name, source, arguments, local_files, tmp_path):
    assert commands.main(arguments(source, tmp_path / "out", *RUNNERS[name])) == 0
    assert contents(tmp_path / "out") == local_files(source)
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("change", [lambda made: made[1:], lambda made: [*made, made[-1]]], ids=["lost", "repeated"])
@pytest.mark.parametrize("step", ["plan_shards", "number_units"])
def test_lost_and_repeated_elements_are_found(step, change, arguments, tmp_path, monkeypatch, capsys):
    real = getattr(stages, step)
    monkeypatch.setattr(stages, step, lambda *given: real(*given[:-1], change(list(given[-1]))))
    outcome = run_command(capsys, *arguments("squad", tmp_path / "out", "--runner=DirectRunner"))
    assert outcome.code == 1
    assert "the runner lost" in outcome.err
    assert visible(tmp_path / "out") == []


def test_faults_read_as_they_do_locally(arguments, sources, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "RTE"
    write(folder / "train.tsv", "index\tsentence1\tsentence2\tlabel", "0\ta\tb\tentailment", "1\ta\tb")
    monkeypatch.setitem(SOURCES, folder, (*SOURCES["RTE"], "--splits", "train"))
    outputs = ((tmp_path / "a",), (tmp_path / "b", "--runner=DirectRunner"))
    local, beam = (run_command(capsys, *arguments(folder, *output)) for output in outputs)
    assert local.code == beam.code == 1
    assert "train.tsv:3: 3 columns, expected 4" in beam.err
    assert local.err == beam.err

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stages, "encode_columns", full)
    outcome = run_command(capsys, *arguments("own.csv", tmp_path / "out", "--runner=DirectRunner"))
    assert outcome.code == 1
    assert "tokenizing (train-000000): No space left on device" in outcome.err
    assert visible(tmp_path / "out") == []


def test_dry_run_shows_the_job(arguments, tmp_path, capsys):
    outcome = run_command(capsys, *arguments("squad", tmp_path / "out", "--runner=DirectRunner", "--dry-run"))
    assert outcome.code == 0, outcome.err
    names = [transform["name"] for transform in json.loads(outcome.out)["transforms"]]
    assert names[-1] == "Write shards"
    assert "Number records" in names
    assert not (tmp_path / "out").exists()


def test_dataflow_needs_a_bucket(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pipelines.runner._importable", lambda module: True)
    more = ("--runner=DataflowRunner", "--", *CLOUD, IMAGE)
    outcome = run_command(capsys, *arguments("own.csv", tmp_path / "out", *more))
    assert outcome.code == 2
    assert "share no file system with this machine: --output must be gs:// paths" in outcome.err
    assert f"Received: {tmp_path}/out/train.tfrecord" in outcome.err
    assert not (tmp_path / "out").exists()


def test_workers_are_of_the_local_runner(arguments, tmp_path, capsys):
    outcome = run_command(capsys, *arguments("own.csv", tmp_path / "out", "--runner=DirectRunner", "--workers", "2"))
    assert outcome.code == 2
    assert "--workers is for --runner local" in outcome.err
