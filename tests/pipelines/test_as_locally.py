"""Whatever is wrong or odd about the data, a run on Beam prints what the local run prints, and ends as it does."""

import gzip
import math
import shutil
import socket
from contextlib import suppress

import pytest

from nlpdata.execution import executor
from tests.nlpdata.commands import run_command, visible
from tests.nlpdata.conftest import as_text, random_documents
from tests.nlpdata.finetuning.conftest import vocab  # noqa: F401 (fixture)
from tests.pipelines.test_equal_bytes import RUNNERS

GOOD = as_text(random_documents(40, seed=3)).encode()
PACKED = gzip.compress(GOOD, mtime=0)
ROWS = b"".join(b"%d\tthe fox %d\tthe dog\t%s\n" % (i, i, (b"entailment", b"not_entailment")[i % 2]) for i in range(20))
RTE = b"index\tsentence1\tsentence2\tlabel\n" + ROWS
TABLE = b"text,label\n" + b"the fox,a\nthe dog,b\n" * 20

# name -> files, options
TEXT = {  # of create-pretraining and train-tokenizer
    "good": ({"a.txt": GOOD}, ()),
    "not UTF-8": ({"a.txt": GOOD, "b.txt": b"One line.\nAnother.\n\nbad \xff byte\nSecond.\n"}, ()),
    "not UTF-8, left out": ({"a.txt": GOOD, "b.txt": b"bad \xff byte\nSecond.\nThird.\n"}, ("--invalid-utf8", "skip")),
    "UTF-16": ({"a.txt": "One line.\nAnother.\n".encode("utf-16") * 50}, ()),
    "empty": ({"a.txt": b""}, ()),
    "empty and another": ({"a.txt": b"", "b.txt": GOOD}, ()),
    "blank": ({"a.txt": b"\n\n  \n"}, ()),
    "cut gzip": ({"a.txt.gz": PACKED[: len(PACKED) // 2]}, ()),
    "damaged gzip": ({"a.txt.gz": PACKED[:-6] + b"\0" + PACKED[-5:]}, ()),
    "empty gzip": ({"a.txt.gz": gzip.compress(b"")}, ()),
    "no such key": ({"a.jsonl": b'{"body": "One. Two."}\n'}, ("--text-key", "text")),
    "not JSON": ({"a.jsonl": b'{"text": "One. Two."}\n{"text": \n'}, ("--text-key", "text")),
    "no such file": ({}, ()),
    "nothing left": ({"a.txt": "\u0301\n\u0301\n".encode()}, ()),
}
PRETRAINING = TEXT | {
    "no examples": ({"a.txt": b"Only one sentence.\n\nAnd another.\n"}, ()),
    "lone document": ({"a.txt": b"First one.\nSecond one.\nThird one.\n"}, ("--objective", "nsp")),
    "lone of a file": ({"a.txt": b"First.\nSecond.\n"}, ("--objective", "nsp", "--nsp-scope", "file")),
    "long document": ({"a.txt": GOOD, "b.txt": b"One.\nTwo.\n\n" + b"the fox runs .\n" * 10_001}, ()),
    "empty sentences": ({"a.txt": GOOD + "\u0301\n\u0301\n".encode() * 300}, ()),
    "one sentence each": ({"a.txt": GOOD + b"\n\n".join(GOOD.split(b"\n")[:100]) + b"\n"}, ()),
    "not a model": ({"a.txt": GOOD}, ("--tokenizer", "a.txt")),
}
VOCABULARY = TEXT | {
    "too few pieces": ({"a.txt": b"a b\nb a\n"}, ()),
    "vocabulary of specials": ({"a.txt": b"a b\n"}, ("--vocab-size=3",)),
    "long lines": ({"a.txt": GOOD + b"word " * 2000 + b"\n"}, ()),
    "weight": ({"a.txt": GOOD}, ("--input", "a.txt@2")),
}
FINETUNING = {
    "good": ({"train.tsv": RTE}, ()),
    "short row": ({"train.tsv": RTE + b"1\ta\tb\n"}, ()),
    "short row, left out": ({"train.tsv": RTE + b"1\ta\tb\n1\ta\tb\tmaybe\n"}, ("--on-bad-row", "skip")),
    "unknown label": ({"train.tsv": RTE + b"1\ta\tb\tmaybe\n"}, ()),
    "not UTF-8": ({"train.tsv": RTE + b"1\ta\xff\tb\tentailment\n"}, ()),
    "empty": ({"train.tsv": b""}, ()),
    "no such file": ({}, ()),
    "not JSON": (
        {"a.jsonl": b'{"text": "a", "label": "x"}\n{"text": \n'},
        ("--task=classification", "--input=a.jsonl"),
    ),
    "cut gzip": ({"a.csv.gz": gzip.compress(TABLE)[:-20]}, ("--task=classification", "--input=a.csv.gz")),
    "one label": ({"a.csv": b"text,label\n" + b"the fox,a\n" * 20}, ("--task=classification", "--input=a.csv")),
    "texts cut off": (
        {"a.csv": TABLE + b"the fox " * 400 + b",a\n"},
        ("--task=classification", "--input=a.csv", "--max-seq-length=16"),
    ),
    "not SQuAD": ({"train.json": b'{"data": [{"paragraphs": ['}, ("--task=squad", "--input=.", "--splits=train")),
}
CASES = {"create-pretraining": PRETRAINING, "train-tokenizer": VOCABULARY, "create-finetuning": FINETUNING}


@pytest.fixture
def given(tmp_path, monkeypatch, tiny_model, vocab):  # noqa: F811
    """(command, case) -> its arguments, without the runner; the files are in the current folder."""

    def make(command, case):
        files, more = CASES[command][case]
        monkeypatch.chdir(tmp_path)
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        common = {
            "create-pretraining": [f"--tokenizer={tiny_model}", "--output=out/t.tfrecord", "--dupe-factor=1"],
            "train-tokenizer": ["--output=out/t", "--vocab-size=150"],
            "create-finetuning": [f"--tokenizer={vocab}", "--do-lower-case", "--output=out"],
        }[command]
        if command == "create-pretraining":
            common += ["--max-seq-length=64"]
        if command != "create-finetuning":
            common += [f"--input={name}" for name in files or ["no*.txt"]]
        elif not any(word.startswith("--task") for word in more):
            common += ["--task=rte", "--input=.", "--splits=train", "--max-seq-length=32"]
        return [command, *common, *more]

    return make


@pytest.fixture(autouse=True)
def _without_progress(monkeypatch):
    """A run that takes more than ten seconds, on a busy machine, shows how far it is."""
    monkeypatch.setattr(executor, "_LINE_SECONDS", math.inf)


def of_the_data(err):
    """What is printed, without the runner's own lines."""
    return [line for line in err.splitlines() if not line.startswith(("DirectRunner: ", "DaskRunner: "))]


@pytest.mark.parametrize(("command", "case"), [(command, case) for command, cases in CASES.items() for case in cases])
def test_prints_and_ends_as_locally(command, case, given, tmp_path, capsys, caplog):
    arguments = given(command, case)
    local = run_command(capsys, *arguments, "--workers=1")
    made = visible(tmp_path / "out")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    beam = run_command(capsys, *arguments, "--runner=DirectRunner")
    assert of_the_data(beam.err) == of_the_data(local.err)
    assert (beam.code, beam.out) == (local.code, local.out)
    assert "Traceback" not in caplog.text
    assert visible(tmp_path / "out") == made
    assert (local.code == 0) == bool(made) == ("nlpdata: error: " not in local.err)


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["multi_processing", "Dask"])
def test_workers_in_other_processes_keep_off_the_screen(runner, given, tmp_path, capfd):
    """What they write themselves, past Python, is kept off as well. Dask's are of a cluster that this run starts, where the
    port of Dask's dashboard is taken already."""
    if runner == "Dask":
        pytest.importorskip("distributed", reason="needs Dask (pip install '.[dask]')")
    more = RUNNERS.get(runner) or ["--runner=DaskRunner", "--", "--dask_npartitions=2"]
    arguments = given("create-pretraining", "not UTF-8")
    local = run_command(capfd, *arguments, "--workers=1")
    shutil.rmtree(tmp_path / "out")
    with socket.socket() as dashboard:
        with suppress(OSError):  # another program has it
            dashboard.bind(("0.0.0.0", 8787))
            dashboard.listen()
        beam = run_command(capfd, *arguments, *more)
    assert of_the_data(beam.err) == of_the_data(local.err)
    assert beam.code == local.code == 1
