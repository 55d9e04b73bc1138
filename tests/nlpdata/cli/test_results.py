"""What --json prints: one object, alone on standard output; and what --quiet leaves of the messages."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from nlpdata.cli.results import Summary, plain
from tests.nlpdata.commands import create_arguments, run_command
from tests.nlpdata.conftest import random_sentences


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    sentences = random_sentences(24)
    path.write_text("\n\n".join("\n".join(sentences[at : at + 4]) for at in range(0, 24, 4)))
    return path


def facts(outcome, code=0):
    """The object that a command has printed, alone, in one line."""
    assert outcome.code == code, outcome.err
    assert outcome.out.count("\n") == 1
    return json.loads(outcome.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_records_in_figures(tmp_path, text, tiny_model, capsys):
    arguments = create_arguments(text, tmp_path / "out" / "x.tfrecord", tiny_model, "--json")
    made = facts(run_command(capsys, *arguments))
    meta = json.loads((tmp_path / "out" / "x.meta.json").read_text())
    assert made["command"] == "create-pretraining"
    assert made["files"] == {"train": [str(tmp_path / "out" / "x.tfrecord")]}
    assert made["meta"] == {"train": str(tmp_path / "out" / "x.meta.json")}
    assert made["tokenizer"] == {"train": str(tmp_path / "out" / "x.tokenizer.model")}
    assert made["counters"]["documents"] == meta["counters"]["documents"] == 6
    checked = facts(run_command(capsys, "verify", tmp_path / "out" / "x.tfrecord", "--json"))
    assert (checked["faults"], checked["files"], checked["records"]) == (0, 1, meta["train_data_size"])
    shown = facts(run_command(capsys, "inspect", tmp_path / "out" / "x.tfrecord", "--limit", 1, "--json"))
    assert shown["text"].startswith(f"{meta['train_data_size']} records in 1 file")


def test_faults_are_in_the_object_and_an_error_prints_none(tmp_path, text, tiny_model, capsys):
    output = tmp_path / "out" / "x.tfrecord"
    assert run_command(capsys, *create_arguments(text, output, tiny_model)).code == 0
    data = bytearray(output.read_bytes())
    data[40] ^= 1
    output.write_bytes(data)
    found = facts(run_command(capsys, "verify", output, "--json"), code=1)
    assert found["faults"] == sum(found["faults_by_kind"].values()) == len(found["messages"]) > 0
    refused = run_command(capsys, *create_arguments(text, output, tiny_model, "--json"))
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("nlpdata: error: ")


def test_fine_tuning_records_in_figures(tmp_path, tiny_model, capsys):
    table = tmp_path / "a.csv"
    table.write_text("text,label\n" + "".join(f"a b c,{'xy'[i % 2]}\n" for i in range(8)))
    words = ("create-finetuning", "--task", "classification", "--input", table, "--tokenizer", tiny_model)
    made = facts(run_command(capsys, *words, "--output", tmp_path / "out", "--json", "--workers", 1))
    assert made["files"] == {"train": [str(tmp_path / "out" / "train.tfrecord")]}
    assert made["others"] == [str(tmp_path / "out" / "tokenizer.model")]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "meta.json",
        "tokenizer.model",
        "train.tfrecord",
    ]
    assert made["counters"]["train"]["labels"] == {"x": 4, "y": 4}


def test_quiet_leaves_warnings_errors_and_the_result(tmp_path, text, tiny_model, capsys):
    """--input names the file twice, which is a warning; the length of a run is said otherwise."""
    arguments = create_arguments([text, text], tmp_path / "out" / "x", tiny_model, "--quiet")
    outcome = run_command(capsys, *arguments)
    assert outcome.code == 0
    assert "written: " in outcome.out
    assert outcome.err
    assert all(line.startswith("warning: ") for line in outcome.err.splitlines()), outcome.err
    trained = ("train-tokenizer", text, "--output", tmp_path / "tok", "--vocab-size", 60, "--no-hard-vocab-limit")
    assert "Training a unigram vocabulary" in run_command(capsys, *trained, "--accept-loss").err
    quiet = run_command(capsys, *trained, "--accept-loss", "--overwrite", "--quiet")
    assert "Training a unigram vocabulary" not in quiet.err
    assert "written: " in quiet.out


def test_plain_values():
    given = {
        "path": Path("a/b"),
        "odd": "a\udcffb",
        "counts": Counter(x=2),
        "numbers": np.array([1, 2]),
        "one": np.float32(0.5),
        "none": math.nan,
        "endless": (math.inf, 1.5, True, None),
        "nested": Summary("x", {1: "y"}),
    }
    found = plain(given)
    assert json.loads(json.dumps(found, allow_nan=False)) == found == {
        "path": "a/b",
        "odd": "a\\udcffb",
        "counts": {"x": 2},
        "numbers": [1, 2],
        "one": 0.5,
        "none": None,
        "endless": [None, 1.5, True, None],
        "nested": {"command": "x", "facts": {"1": "y"}, "lines": [], "exit_code": 0},
    }  # fmt: skip


def test_what_a_command_prints_otherwise_goes_to_standard_error(capsys):
    from nlpdata.cli.results import reserved_output

    with reserved_output(True):
        print("of a library")
    with reserved_output(False):
        print("as ever")
    Summary("x", lines=["for people"]).show(as_json=False)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("as ever\nfor people\n", "of a library\n")
