"""Where predictions go: what is refused, and files that are replaced whole."""

import json
import logging
import os
import shutil
import sys
from pathlib import Path

import pytest

from nlpdata.cli.streams import OutputRefused, standard_streams
from nlpdata.errors import DataError, NlpdataError, UsageError
from pretrain.converters.checkpoint import Head
from pretrain.prediction import writing
from pretrain.prediction.sentences import SentencePredictor
from pretrain.prediction.writing import AnswerFiles, check_output, format_of_name, opened, row_lines, write_answers
from tests.nlpdata.commands import contents
from tests.nlpdata.interruptions import run_failing, run_killed


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    """As /dev/null and /dev/stdout are."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    check_output(tmp_path / "in.txt", pipe, False, False)
    with opened(pipe) as write:
        write("index\tprediction")
        assert os.read(reader, 1000) == b"index\tprediction\n"
        write("0\ta")
    assert os.read(reader, 1000) == b"0\ta\n"
    os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_pipe_that_nobody_reads_is_not_waited_for_without_end(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(writing, "_SECONDS", 0.3)
    monkeypatch.setattr(writing, "_SAYS_AFTER", 0.0)
    with (
        pytest.raises(DataError, match=r"pipe: is a FIFO \(a named pipe\), and nobody read from it"),
        opened(tmp_path / "pipe"),
    ):
        pass
    assert caplog.messages == [f"{tmp_path}/pipe is a FIFO; waiting for somebody who reads it"]


def test_names_of_files_that_are_not_text(tmp_path):
    for name in ("p.gz", "p.tsv.zst", "p.PARQUET"):
        with pytest.raises(
            UsageError, match=r"predictions are written as text, not as \.(gz|zst|PARQUET)\. Name a \.tsv or"
        ):
            check_output(tmp_path / "in.txt", tmp_path / name, False, False)
    assert [format_of_name(name) for name in ("p.jsonl", tmp_path / "p.tsv", "-")] == ["jsonl", "tsv", "tsv"]


@pytest.mark.parametrize("format", ["tsv", "glue"])
def test_names_of_classes_that_a_table_cannot_hold(format):
    predictor = SentencePredictor(None, Head("classification", ("a", "b\tc")), None)
    with pytest.raises(
        UsageError, match=r"the class 'b\\tc' has tabs or line breaks, which a table cannot hold. Use format='jsonl'"
    ):
        row_lines(predictor, format)
    row_lines(predictor, "jsonl")


ANSWERS = AnswerFiles({"q": -1.5}, {"q": [{"text": "old"}]}, {"q": "old"})


def test_answers_that_exist(tmp_path):
    out = tmp_path / "out"
    check_output(tmp_path / "in.json", out, True, False)
    write_answers(out, ANSWERS)
    (out / "notes.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"predictions\.json exists\. Use overwrite=True"):
        check_output(tmp_path / "in.json", out, True, False)
    check_output(tmp_path / "in.json", out, True, True)
    write_answers(out, AnswerFiles(None, {"q": []}, {"q": "\ud800"}))
    assert json.loads((out / "predictions.json").read_text()) == {"q": "\ud800"}
    assert sorted(os.listdir(out)) == ["nbest_predictions.json", "notes.txt", "predictions.json"]


@pytest.mark.parametrize("how", [run_killed, run_failing])
@pytest.mark.parametrize("old", [False, True])
def test_answers_are_replaced_whole_wherever_it_is_interrupted(tmp_path, how, old):
    new, out = AnswerFiles(None, {"q": [{"text": "new"}]}, {"q": "new"}), tmp_path / "out"

    def command():
        try:
            check_output(tmp_path / "in.json", out, True, old)
            write_answers(out, new)
        except NlpdataError as error:
            return error.exit_code
        return 0

    for step in range(60):
        shutil.rmtree(out, ignore_errors=True)
        if old:
            write_answers(out, ANSWERS)
        _, interrupted = how(command, step)
        found = {name: data.decode() for name, data in contents(out).items()}
        if "predictions.json" in found:
            assert ("old" in "".join(found.values())) != ("new" in "".join(found.values())), step
        if not interrupted:
            break
        done = "new" in found.get("predictions.json", "") and not old
        assert command() == (2 if done else 0), step
        assert sorted(os.listdir(out)) == ["nbest_predictions.json", "predictions.json"]
        assert json.loads((out / "predictions.json").read_text()) == {"q": "new"}
    assert not interrupted
    assert step > 8


@pytest.mark.parametrize("how", [run_killed, run_failing])
def test_lines_are_in_place_when_they_are_all_there(tmp_path, how):
    out = tmp_path / "out.tsv"

    def command():
        try:
            check_output(tmp_path / "in.txt", out, False, False)
            with opened(out) as write:
                for number in range(3):
                    write(f"line {number}")
        except NlpdataError as error:
            return error.exit_code
        return 0

    for step in range(40):
        out.unlink(missing_ok=True)
        _, interrupted = how(command, step)
        assert not out.exists() or out.read_text() == "line 0\nline 1\nline 2\n", step
        if not interrupted:
            break
        assert command() == (2 if out.exists() and step else 0) or out.exists()
        assert os.listdir(tmp_path) == ["out.tsv"]
    assert not interrupted
    assert step > 3


def test_an_error_leaves_what_was_there(tmp_path):
    out = tmp_path / "out.tsv"
    out.write_text("index\tprediction\n")

    def fail():
        with opened(out) as write:
            write("new")
            raise UsageError("x")

    with pytest.raises(UsageError):
        fail()
    assert out.read_text() == "index\tprediction\n"
    assert os.listdir(tmp_path) == ["out.tsv"]


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_standard_output_also_where_it_is_redirected_to_a_file(tmp_path, monkeypatch, name):
    with open(tmp_path / "out", "w", encoding="utf-8") as redirected:
        monkeypatch.setattr(sys, "stdout", redirected)
        check_output(tmp_path / "in.txt", Path(name), False, False)
        with opened(Path(name)) as write:
            write("é")
            assert (tmp_path / "out").read_text() == "é\n"
    assert os.listdir(tmp_path) == ["out"]


def test_nobody_reads_standard_output(monkeypatch):
    """As with `| head`, which the commands end quietly for."""
    reader, writer = os.pipe()
    os.close(reader)

    def show():
        with standard_streams(), opened(Path("-")) as write:
            write("é")

    with open(writer, "w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(OutputRefused):
            show()
