"""--dry-run on this machine: what is said of a run, next to what the run does; nothing is written."""

import gzip
import itertools
import json
import random

import pytest

from nlpdata.corpus import find_files, plan_portions
from nlpdata.corpus.sample import store_sample
from nlpdata.corpus.splitting import estimate as of_splitting
from nlpdata.pretraining import estimate
from nlpdata.tokenizers.training import estimate as of_training
from tests.nlpdata.commands import create_arguments, run_command
from tests.nlpdata.conftest import random_sentences


@pytest.fixture
def corpus(tmp_path):
    """Three files of documents of 1 to 9 sentences, which differ in length from file to file."""
    folder = tmp_path / "text"
    folder.mkdir()
    draw, sentences = random.Random(3), random_sentences(1500)
    for name, words in (("a", 4), ("b", 9), ("c", 30)):
        documents = []
        for _ in range(600):
            lines = [" ".join(draw.choice(sentences).split()[:words]) for _ in range(draw.randint(1, 9))]
            documents.append("\n".join(lines))
        (folder / f"{name}.txt").write_text("\n\n".join(documents))
    return folder


def contents(folder):
    """All files in a folder, hidden ones and those of its folders included."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def dry(capsys, *arguments, code=0):
    outcome = run_command(capsys, *arguments, "--dry-run", "--json")
    assert outcome.code == code, outcome.err
    return json.loads(outcome.out)


@pytest.mark.parametrize(
    "more", [(), ("--objective", "nsp", "--eval-fraction", "0.2"), ("--compression", "gzip")], ids=str
)
def test_pretraining_of_a_sample_of_a_third_is_near_the_run(corpus, tmp_path, tiny_model, capsys, monkeypatch, more):
    size = sum(path.stat().st_size for path in corpus.iterdir())
    monkeypatch.setattr(estimate, "SAMPLE_BYTES", size // 3)
    output = tmp_path / "out" / "x.tfrecord"
    arguments = create_arguments(f"{corpus}/*.txt", output, tiny_model, "--accept-loss", *more)
    before = contents(tmp_path)
    said = dry(capsys, *arguments)
    assert contents(tmp_path) == before
    assert not output.parent.exists()
    assert size / 4 < int(said["basis"].split()[2].replace(",", "")) < 0.7 * size
    assert said["reads"] == {str(path): path.stat().st_size for path in sorted(corpus.iterdir())}
    assert said["replaces"] == []
    assert said["seconds"] > 0 < said["memory_bytes"]
    made = run_command(capsys, *arguments, "--json")
    counters = json.loads(made.out)["counters"]
    for split, count in said["records"].items():
        assert count == pytest.approx(counters[f"examples_{split}"], rel=0.35), split
    assert sorted(said["writes"]) == sorted(str(path) for path in output.parent.iterdir())
    sizes = sum(path.stat().st_size for path in output.parent.iterdir() if "tfrecord" in path.name)
    assert said["output_bytes"] == pytest.approx(sizes, rel=0.35)


def test_a_small_input_is_measured_whole_and_a_run_is_refused_as_it_would_be(corpus, tmp_path, tiny_model, capsys):
    output = tmp_path / "out" / "x.tfrecord"
    arguments = create_arguments(f"{corpus}/*.txt", output, tiny_model, "--limit-documents", 50)
    said = dry(capsys, *arguments)
    made = json.loads(run_command(capsys, *arguments, "--json").out)
    assert said["records"]["train"] == pytest.approx(made["counters"]["examples_train"], rel=0.1)  # other draws
    assert said["output_bytes"] == pytest.approx(output.stat().st_size, rel=0.1)
    assert said["basis"].startswith("estimated from the whole input")
    before = contents(tmp_path)
    refused, real = run_command(capsys, *arguments, "--dry-run"), run_command(capsys, *arguments)
    assert (refused.code, refused.err) == (real.code, real.err) == (2, real.err)
    assert "already holds x.tfrecord" in refused.err
    shown = run_command(capsys, *arguments, "--dry-run", "--overwrite")
    assert f"would replace   {output}, {output.with_name('x.meta.json')}" in shown.out
    assert contents(tmp_path) == before
    wrong = run_command(capsys, *arguments, "--dry-run", "--overwrite", "--max-seq-length", 4)
    assert (wrong.code, wrong.out) == (2, "")
    few = create_arguments(f"{corpus}/*.txt", tmp_path / "y.tfrecord", tiny_model, "--limit-documents", 1)
    assert run_command(capsys, *few, "--dry-run", "--objective", "nsp").code == 1  # a lone document


def test_a_dry_run_makes_no_file_that_it_cannot_write_to(tmp_path, corpus, tiny_model, capsys):
    arguments = create_arguments(f"{corpus}/*.txt", tmp_path / "new" / "deep" / "x", tiny_model)
    assert dry(capsys, *arguments)["writes"][0] == str(tmp_path / "new" / "deep" / "x.tfrecord")
    assert not (tmp_path / "new").exists()


def test_a_dry_run_refuses_a_folder_that_cannot_be_made(tmp_path, corpus, tiny_model, capsys):
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "new"
    for arguments in (
        create_arguments(f"{corpus}/*.txt", place / "x", tiny_model),
        ["split-sentences", f"--input={corpus}", f"--output={place}/x.txt"],
        ["train-tokenizer", f"--input={corpus}", f"--output={place}/spm", "--vocab-size=200"],
    ):
        said, real = run_command(capsys, *arguments, "--dry-run", "--quiet"), run_command(capsys, *arguments, "--quiet")
        assert (said.code, said.err, said.out) == (real.code, real.err, "")
        assert f"{tmp_path}/file is not a folder" in said.err


def test_a_dry_run_that_is_interrupted_leaves_nothing(tmp_path, corpus, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(of_splitting, "_split", interrupted)
    arguments = ["split-sentences", f"--input={corpus}", f"--output={tmp_path}/out/x.txt", "--quiet", "--dry-run"]
    stopped = run_command(capsys, *arguments)
    assert (stopped.code, stopped.out, stopped.err) == (130, "", "nlpdata: interrupted.\n")


def test_fine_tuning_reads_all_rows_and_encodes_some(tmp_path, tiny_model, capsys):
    table = tmp_path / "a.csv"
    rows = [
        f"{' '.join(sentence.split()[: 3 + i % 7])},{'xy'[i % 2]}" for i, sentence in enumerate(random_sentences(900))
    ]
    table.write_text("text,label\n" + "\n".join(rows) + "\n")
    words = [
        "create-finetuning",
        "--task",
        "classification",
        "--input",
        table,
        "--tokenizer",
        tiny_model,
        "--workers",
        1,
    ]
    words += ["--max-seq-length", 32, "--eval-fraction", 0.25, "--output", tmp_path / "out", "--accept-loss"]
    before = contents(tmp_path)
    said = dry(capsys, *words)
    assert contents(tmp_path) == before
    made = json.loads(run_command(capsys, *words, "--json").out)
    assert said["records"] == {split: counts["examples"] for split, counts in made["counters"].items()}
    sizes = sum(path.stat().st_size for path in (tmp_path / "out").glob("*.tfrecord"))
    assert said["output_bytes"] == pytest.approx(sizes, rel=0.2)
    assert sorted(said["writes"]) == sorted(str(path) for path in (tmp_path / "out").iterdir())
    table.write_text(table.read_text() + "one,two,three,four\n")
    wrong = run_command(capsys, *words, "--overwrite", "--dry-run")
    assert (wrong.code, wrong.out) == (1, "")
    assert f"{table}:902: " in wrong.err


def test_training_a_vocabulary(corpus, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(of_training, "SAMPLE_BYTES", 20_000)
    words = [
        "train-tokenizer",
        f"{corpus}/*.txt",
        "--output",
        tmp_path / "tok" / "spm",
        "--vocab-size",
        80,
        "--sample-lines",
        500,
    ]
    said = dry(capsys, *words)
    assert not (tmp_path / "tok").exists()
    made = json.loads(run_command(capsys, *words, "--no-hard-vocab-limit", "--accept-loss", "--json").out)
    assert said["writes"] == made["files"]
    assert said["records"]["lines"] == pytest.approx(made["lines_read"], rel=0.35)
    assert said["records"]["used"] == made["lines_used"] == 500
    assert said["seconds"] > 0


def test_text_that_would_be_lost_is_told_and_refused_as_by_the_run(tmp_path, tiny_model, capsys):
    """A third of the text is unknown to the tokenizer, then all of it; lines too long for a vocabulary."""
    known = random_sentences(60)
    for name, lines in (("some", [*known, *["漢 字 文 章 語 句"] * 60]), ("most", ["漢 字 文 章 語 句"] * 120)):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(f"{line},{len(line) % 2}\n" for line in lines))
    for name, code in (("some", 0), ("most", 1)):
        pretraining = create_arguments(tmp_path / f"{name}.txt", tmp_path / name / "x", tiny_model)
        tuning = ["create-finetuning", "--task", "classification", "--input", tmp_path / f"{name}.csv", "--workers", 1]
        tuning += ["--tokenizer", tiny_model, "--output", tmp_path / f"{name}.out"]
        vocabulary = [
            "train-tokenizer",
            tmp_path / "some.txt",
            "--output",
            tmp_path / f"{name}.spm",
            "--vocab-size",
            40,
        ]
        vocabulary += [
            "--max-line-bytes",
            60 if name == "some" else 10,
            "--no-hard-vocab-limit",
            "--character-coverage",
            1,
        ]
        for command in (pretraining, tuning, vocabulary):
            said = run_command(capsys, *command, "--dry-run", "--json")
            made = run_command(capsys, *command, "--json")
            assert (said.code, made.code) == (code, code), (said.err, made.err)
            if code:
                assert said.err.splitlines()[-1] == made.err.splitlines()[-1]
            else:
                assert json.loads(said.out)["warnings"]
                assert set(json.loads(said.out)["warnings"]) <= set(json.loads(made.out)["warnings"])


def test_a_sample_has_the_documents_of_its_places(tmp_path):
    """Of compressed files the beginning; of JSON lines the texts; all of what is small."""
    plain = [f"document {number:05d}, first\ndocument {number:05d}, second\n" for number in range(40_000)]
    (tmp_path / "a.txt").write_text("\n".join(plain))
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("\n".join(plain))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"t": text}) + "\n" for text in plain[:9]))

    def sample(name, most, text_key=None):
        files, _ = find_files(str(tmp_path / name), json_lines=text_key is not None)
        folder = tmp_path / f"of {name} {most}"
        folder.mkdir()
        found = store_sample(
            folder, plan_portions(files, 300_000, text_key), most, invalid_utf8="fail", text_key=text_key
        )
        text = "\n".join(path.read_text().strip("\n") + "\n" for path in sorted(folder.iterdir()))
        return found, text.split("\n\n")

    found, documents = sample("a.txt", 400_000)
    numbers = [int(text.split()[1][:5]) for text in documents]
    assert numbers == sorted(numbers)
    assert max(b - a for a, b in itertools.pairwise(numbers)) < 6000  # the largest gap between places
    assert found.scale == pytest.approx(40_000 / len(numbers), rel=0.1)
    assert not found.is_whole
    found, documents = sample("b.txt.gz", 40_000)
    assert documents[0] == plain[0].strip("\n")
    assert found.scale == pytest.approx(40_000 / len(documents), rel=0.3)
    found, documents = sample("c.jsonl", 4_000, "t")
    assert found.is_whole
    assert [text.strip("\n") for text in documents] == [text.strip("\n") for text in plain[:9]]


def test_splitting_of_a_sample_is_near_the_run(tmp_path, capsys, monkeypatch):
    pytest.importorskip("sentencex")
    monkeypatch.setattr(of_splitting, "SAMPLE_BYTES", 60_000)
    raw = tmp_path / "raw"
    raw.mkdir()
    sentences = [f"{sentence.capitalize()}." for sentence in random_sentences(400)]
    for number in range(40):
        (raw / f"{number:02d}.txt").write_text(" ".join(sentences[number : number + 60]))
    words = ["split-sentences", f"{raw}/*.txt", "--output", tmp_path / "out" / "corpus.txt", "--workers", 1]
    before = contents(tmp_path)
    said = dry(capsys, *words)
    assert contents(tmp_path) == before
    made = json.loads(run_command(capsys, *words, "--json").out)
    for what in ("documents", "sentences"):
        assert said["records"][what] == pytest.approx(made["counters"][what]["written"], rel=0.2)
    assert said["output_bytes"] == pytest.approx((tmp_path / "out" / "corpus.txt").stat().st_size, rel=0.2)
    assert sorted(said["writes"]) == sorted(str(path) for path in (tmp_path / "out").iterdir())
    assert said["basis"].startswith("estimated from ")
    assert run_command(capsys, *words, "--dry-run").code == 2  # the output exists
