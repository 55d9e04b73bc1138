"""Where predictions go: what is refused, and files that are replaced whole."""

import json
import os
import shutil

import pytest

from nlpdata.errors import NlpdataError, UsageError
from pretrain.prediction.writing import Answers, check_output, write_answers, write_rows
from tests.nlpdata.commands import contents
from tests.nlpdata.interruptions import run_failing, run_killed


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    """As /dev/null and /dev/stdout are."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    check_output(tmp_path / "in.txt", pipe, False, False)
    write_rows(pipe, [{"index": "0", "prediction": "a", "scores": {"a": 1.0}}], "glue")
    assert os.read(reader, 1000) == b"index\tprediction\n0\ta\n"
    os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


ANSWERS = Answers({"q": -1.5}, {"q": [{"text": "old"}]}, {"q": "old"})


def test_answers_that_exist(tmp_path):
    out = tmp_path / "out"
    check_output(tmp_path / "in.json", out, True, False)
    write_answers(out, ANSWERS)
    (out / "notes.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"predictions\.json exists\. Use overwrite=True"):
        check_output(tmp_path / "in.json", out, True, False)
    check_output(tmp_path / "in.json", out, True, True)
    write_answers(out, Answers(None, {"q": []}, {"q": "\ud800"}))
    assert json.loads((out / "predictions.json").read_text()) == {"q": "\ud800"}
    assert sorted(os.listdir(out)) == ["nbest_predictions.json", "notes.txt", "predictions.json"]


@pytest.mark.parametrize("how", [run_killed, run_failing])
@pytest.mark.parametrize("old", [False, True])
def test_answers_are_replaced_whole_wherever_it_is_interrupted(tmp_path, how, old):
    new, out = Answers(None, {"q": [{"text": "new"}]}, {"q": "new"}), tmp_path / "out"

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
