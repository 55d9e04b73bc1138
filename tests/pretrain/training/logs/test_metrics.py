"""metrics.jsonl, TensorBoard, the live line, the plot."""

import io
import json
import sys
import time
import types

import pytest

from nlpdata.errors import DataError
from pretrain.training.logs import metrics
from pretrain.training.logs.metrics import LiveLine, MetricsLog, read_lines
from pretrain.training.logs.plot import plot_loss
from pretrain.training.logs.run_logs import RunLogs
from pretrain.training.logs.tensorboard import TensorBoardLog
from tests.messages import messages


def test_lines_past_the_restored_step_are_cut(tmp_path):
    log = MetricsLog(tmp_path)
    for step in range(1, 7):
        log.write(step, "train", {"loss": 1 / step})
    log.write(4, "eval", {"loss": 2.0})
    log.close()
    with open(log.path, "a") as file:
        file.write('{"step": 3, "split": "tr')  # killed in the middle of a line
    again = MetricsLog(tmp_path, 4)
    again.write(5, "train", {"loss": 9.0})
    again.close()
    lines = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [(line["step"], line["split"]) for line in lines] == [
        (1, "train"), (2, "train"), (3, "train"), (4, "train"), (4, "eval"), (5, "train"),
    ]  # fmt: skip
    assert lines[2]["loss"] == 1 / 3
    assert lines[-1]["loss"] == 9.0
    MetricsLog(tmp_path).close()
    assert len(read_lines(log.path)) == 6
    assert read_lines(tmp_path / "absent") == []


def test_metrics_that_cannot_be_read(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(DataError, match=r"metrics\.jsonl: cannot be read: Is a directory"):
        MetricsLog(tmp_path, 1)
    with pytest.raises(DataError, match=r"cannot write .*metrics\.jsonl: Is a directory"):
        MetricsLog(tmp_path)


def test_two_processes_append_to_one_log(tmp_path):
    trains = MetricsLog(tmp_path, 0)
    trains.write(1, "train", {"loss": 1.0})
    evaluates = MetricsLog(tmp_path)
    trains.write(2, "train", {"loss": 2.0})  # not into a file that was replaced
    evaluates.write(1, "eval", {"loss": 3.0})
    trains.close()
    evaluates.close()
    assert [(line["step"], line["split"]) for line in read_lines(tmp_path / "metrics.jsonl")] == [
        (1, "train"), (2, "train"), (1, "eval"),
    ]  # fmt: skip
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 3, "split": "tr')
    again = MetricsLog(tmp_path)
    again.write(2, "eval", {"loss": 4.0})
    again.close()
    assert read_lines(tmp_path / "metrics.jsonl")[-1] == {"step": 2, "split": "eval", "loss": 4.0}


def test_an_evaluation_that_is_repeated_says_nothing_new(tmp_path):
    trains = RunLogs(tmp_path, 4, 0, True, True)
    trains.write(2, "train", {"loss": 1.0})
    for loss in (2.0, 2.0, 3.0, 2.0):  # of other data, the third time
        with RunLogs(tmp_path, 4, None, True, True) as evaluates:
            evaluates.write(2, "eval", {"loss": loss})
    with trains:
        trains.write(2, "train", {"loss": 1.0})  # the run that trains keeps what it writes
    lines = [(line["split"], line["loss"]) for line in read_lines(tmp_path / "metrics.jsonl")]
    assert lines == [("train", 1.0), ("eval", 2.0), ("eval", 3.0), ("train", 1.0)]
    sizes = [path.stat().st_size for path in (tmp_path / "tensorboard" / "eval").iterdir()]
    assert len(set(sizes)) == 2  # with an event, and without
    assert sizes.count(max(sizes)) == 2


@pytest.mark.slow
def test_tensorboard_events_are_read_by_tensorflow(tmp_path):
    import tensorflow as tf

    log = TensorBoardLog(tmp_path, 0)
    log.write(300, {"loss": 1.5, "masked_lm_accuracy": 0.25, "example_digest": "text"})
    log.close()
    resumed = TensorBoardLog(tmp_path, 300)
    resumed.close()
    events = list(tf.compat.v1.train.summary_iterator(str(log.path)))
    assert events[0].file_version == "brain.Event:2"
    assert events[1].step == 300
    assert events[1].wall_time > 1e9
    assert {value.tag: value.simple_value for value in events[1].summary.value} == {
        "loss": 1.5,
        "masked_lm_accuracy": 0.25,
    }
    start = list(tf.compat.v1.train.summary_iterator(str(resumed.path)))[1]
    assert start.step == 301
    assert start.session_log.status == tf.compat.v1.SessionLog.START


def test_tensorboard_reads_what_is_written(tmp_path, monkeypatch):
    """By its own reader, which takes no TensorFlow: the curves of both splits, without what a run took back."""
    pytest.importorskip("tensorboard")
    monkeypatch.setitem(
        sys.modules, "tensorboard.compat.notf", types.ModuleType("notf")
    )  # as where TensorFlow is absent
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    with RunLogs(tmp_path, 30, 0, True, True) as run_logs:
        for step in (10, 20, 30):
            run_logs.write(step, "train", {"loss": 1 / step, "learning_rate": 0.1})
        run_logs.write(20, "eval", {"loss": 0.5, "masked_lm_perplexity": 1.5})
    time.sleep(0.01)
    with RunLogs(tmp_path, 30, 20, True, True) as resumed:
        resumed.write(30, "train", {"loss": 0.25, "learning_rate": 0.1})
    reader = EventMultiplexer().AddRunsFromDirectory(str(tmp_path / "tensorboard")).Reload()
    assert {run: sorted(tags["scalars"]) for run, tags in reader.Runs().items()} == {
        "train": ["learning_rate", "loss"],
        "eval": ["loss", "masked_lm_perplexity"],
    }
    read = [(event.step, event.value) for event in reader.Scalars("train", "loss")]
    assert read == [(10, pytest.approx(0.1)), (20, pytest.approx(0.05)), (30, 0.25)]
    assert [(event.step, event.value) for event in reader.Scalars("eval", "masked_lm_perplexity")] == [(20, 1.5)]


def test_live_line():
    stream = io.StringIO()
    line = LiveLine(1000, stream)
    values = {"loss": 7.12345, "learning_rate": 1e-4, "tokens_per_second": 12345.6, "padding": 0.083}
    line.show(400, values, 300, 1000)
    line.show(500, values, 65, 600)  # of a stage, or of a call with trainer.steps_a_call
    told = "loss 7.1235  lr 0.0001  12,346 tokens/s  8% padding"
    shown = [f"step 400/1000  {told}  5m00s left", f"step 500/1000  {told}  1m05s left to step 600"]
    assert stream.getvalue().splitlines() == shown


def test_notes_of_what_takes_long_are_lines_where_there_is_no_terminal(monkeypatch):
    now, stream = [100.0], io.StringIO()
    monkeypatch.setattr(metrics.time, "monotonic", lambda: now[0])
    line = LiveLine(10, stream)
    for number in range(1, 31):
        line.note(f"evaluating, batch {number} of 30")
        now[0] += 0.75
    assert stream.getvalue() == "evaluating, batch 15 of 30\nevaluating, batch 29 of 30\n"
    line.end()
    now[0] += 60
    line.note("evaluating, batch 1 of 30")  # another evaluation, which has just begun
    assert stream.getvalue().count("\n") == 2


def test_live_line_on_a_terminal_stays_one_line():
    stream = io.StringIO()
    stream.isatty = lambda: True
    line = LiveLine(10, stream)
    for step in (1, 2):
        line.show(step, {"loss": 1.0, "learning_rate": 0.1}, 1, 10)
    line.end()
    line.end()
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().count("\r") == 2


def test_loss_plot(tmp_path):
    pytest.importorskip("matplotlib")
    log = MetricsLog(tmp_path)
    for step in range(1, 20):
        log.write(step, "train", {"loss": 1 / step})
    log.write(10, "eval", {"loss": 0.2})
    log.close()
    path = plot_loss(tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 5000


def test_a_missing_matplotlib_is_reported(tmp_path, monkeypatch):
    log = MetricsLog(tmp_path)
    log.write(1, "train", {"loss": 1.0})
    log.close()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with messages() as said:
        assert plot_loss(tmp_path) is None
    assert "pip install '.[plot]'" in said[0]
    assert not (tmp_path / "loss.png").exists()
