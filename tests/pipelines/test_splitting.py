"""split-sentences on Beam: the files of the local run, byte for byte, and its messages."""

import json
import shutil

import pytest

from nlpdata.cli import commands
from nlpdata.corpus.splitting import repeats
from tests.nlpdata.commands import contents, run_command, visible
from tests.nlpdata.corpus.splitting.raw import raw_documents, write_raw
from tests.pipelines.test_equal_bytes import RUNNERS

LINES = ("--deduplicate-documents", "--deduplicate-lines")


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    write_raw(folder, raw_documents(60, seed=2))
    return folder


def split_arguments(raw, output, *more):
    words = [f"--input={raw}", f"--output={output / 'c.txt'}", "--num-shards=3", "--chunk-size=2000", "--quiet"]
    return ["split-sentences", *words, *more]


@pytest.mark.parametrize("name", ["in memory", "bundles twice"])
def test_runner_gives_the_local_files(name, raw, tmp_path, monkeypatch):
    monkeypatch.setattr(repeats, "RANGE_ROWS", 100)
    assert commands.main(split_arguments(raw, tmp_path / "local", "--workers=1", *LINES)) == 0
    assert commands.main(split_arguments(raw, tmp_path / "beam", *LINES, *RUNNERS[name])) == 0
    assert contents(tmp_path / "beam") == contents(tmp_path / "local")
    assert not [path for path in (tmp_path / "beam").iterdir() if path.name.startswith(".")]


CASES = {
    "no text": ({"a.txt": b"\n\n"}, ()),
    "empty": ({"a.txt": b""}, ()),
    "nothing left": ({"a.txt": b"One here.\n"}, ("--min-characters=1000",)),
    "not UTF-8": ({"a.txt": b"One here.\nbad \xff byte\n"}, ()),
}


@pytest.mark.parametrize("case", CASES)
def test_prints_and_ends_as_locally(case, tmp_path, monkeypatch, capsys):
    files, more = CASES[case]
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    given = [
        "split-sentences",
        *(f"--input={name}" for name in files),
        "--output=out/c.txt",
        "--quiet",
        *more,
    ]
    local = run_command(capsys, *given, "--workers=1")
    made = contents(tmp_path / "out")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    beam = run_command(capsys, *given, "--runner=DirectRunner")
    assert [line for line in beam.err.splitlines() if not line.startswith("DirectRunner: ")] == local.err.splitlines()
    assert (beam.code, beam.out) == (local.code, local.out)
    assert contents(tmp_path / "out") == made
    assert (local.code, made) == (1, {})


def test_similar_documents_are_local(raw, tmp_path, capsys):
    done = run_command(
        capsys,
        "split-sentences",
        "--input",
        raw,
        "--output",
        tmp_path / "c.txt",
        "--near-duplicates=0.8",
        "--runner=DirectRunner",
    )
    assert done.code == 2
    assert (
        "--near-duplicates compares each document with all before it, in one process: use --runner local." in done.err
    )
    assert visible(tmp_path) == []


def test_dry_run(raw, tmp_path, capsys):
    done = run_command(
        capsys,
        "split-sentences",
        "--input",
        raw,
        "--output",
        tmp_path / "c.txt",
        "--runner=DirectRunner",
        "--dry-run",
        *LINES,
    )
    assert done.code == 0
    names = [each["name"] for each in json.loads(done.out)["transforms"]]
    assert any(name.startswith("Finding equal lines") for name in names)
    assert visible(tmp_path) == []
