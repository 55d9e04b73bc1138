"""Reports of runs: what their folders say, finished or killed, whole or damaged, alone and next to each other."""

import json
import math
import os
import re
from dataclasses import replace

import pytest
import yaml

from nlpdata.cli.commands import main
from nlpdata.errors import UsageError
from nlpdata.files.json_files import json_lines
from nlpdata.reports import run_facts, run_words, runs
from nlpdata.reports.page import Table, html, markdown
from nlpdata.reports.run_facts import find_runs, read_run

ENCODER = {"type": "bert", "bert": {"vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2}}


def write_run(folder, steps=6, rate=1e-3, calls=None, evaluations=True):
    """The folder of a run as pretrain writes it, with `steps` of 6."""
    config = {
        "task": {
            "model": {"encoder": ENCODER},
            "train_data": {
                "global_batch_size": 16,
                "input_path": ["a", "b"],
                "masking": "static" if rate == 1e-3 else "dynamic",
            },
        },
        "trainer": {"train_steps": 6, "stages": [{"train_steps": 4}, {"train_steps": 2}], "ema": None},
        "rate": rate,
    }
    lines = [
        {"step": step, "split": "train", "loss": 8.0 - step, "learning_rate": rate, "tokens_per_second": 1000.0}
        for step in range(1, steps + 1)
    ]
    if evaluations:
        lines += [{"step": step, "split": "eval", "loss": 9.0 - step, "examples": 5} for step in range(2, steps + 1, 2)]
    meta = {
        "task_type": "bert_pretraining",
        "objective": "nsp",
        "options": {"masking": "dynamic", "masked_lm_prob": 0.15},
        "counters": {"documents": 3, "tokens": 1000, "tokens_unknown": 12},
        "tokenizer": {"type": "wordpiece", "vocab_size": 200, "do_lower_case": True},
        "inputs": [{"file": "<b>.txt", "bytes": 3}],
    }
    stage = {
        "num_hidden_layers": None,
        "batch_size": 16,
        "seq_length": 32,
        "masked_lm_prob": 0.4,
        "examples": 48,
        "records": meta,
    }
    call = {
        "started": "2026-01-02T03:04:05+00:00",
        "mode": "train_and_eval",
        "first_step": 1,
        "device": "CPU",
        "versions": {"numpy": "2.4.6"},
    }
    ended = {
        "outcome": "finished",
        "ended": "x",
        "last_step": 6,
        "seconds": {"steps": 6.0, "compiling": 2.0, "checkpoint": 0.04},
        "total_seconds": 10.0,
    }
    about = {
        "parameters": 1234,
        "steps": 6,
        "learning_rate": "peak 0.001",
        "idle_fields": ["task.train_data.masking", "task.train_data.text_key"],
        "stages": [{"first_step": 1, "last_step": 4} | stage, {"first_step": 5, "last_step": 6} | stage],
        "calls": [call | ended] if calls is None else [call | each for each in calls],
    }
    folder.mkdir(parents=True)
    (folder / "params.yaml").write_text(yaml.safe_dump(config))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "eval_data.json").write_text(json.dumps({"examples": 5, "files": ["dev.tfrecord"], "records": {}}))
    (folder / "eval_results.json").write_text(json.dumps({"step": steps, "loss": 9.0 - steps, "examples": 5}))
    checkpoint = folder / "checkpoints" / f"step-{steps:08d}"
    checkpoint.mkdir(parents=True)
    state = {"step": steps, "recoveries": [{"step": 2, "diverged_at": 3}]}
    (checkpoint / "state.json").write_text(json.dumps(state))
    return folder


def tables(report, title):
    return [
        item
        for section in report.sections
        if section.title == title
        for item in section.items
        if isinstance(item, Table)
    ]


def test_a_finished_run(tmp_path):
    folder = write_run(tmp_path / "run")
    run = read_run(folder)
    assert (run.outcome, run.step, run.steps, run.checkpoints, run.faults) == ("finished", 6, 6, (6,), ())
    assert run.encoder == ("bert", ENCODER["bert"])
    deeper = [stage | {"num_hidden_layers": depth} for stage, depth in zip(run.about["stages"], (3, 6), strict=True)]
    grown = replace(run, about=run.about | {"stages": deeper})
    assert run_words.encoder(grown) == "bert, 6 layers"  # not that of the configuration
    assert run.train["loss"].points == tuple((step, 8.0 - step) for step in range(1, 7))
    assert run.config["task.train_data.input_path"] == ["a", "b"]
    assert run.config["trainer.stages[1].train_steps"] == 2

    report = runs.runs_report([folder])
    assert (report.title, report.subtitle) == ("Run run", "finished")
    facts = {
        "steps": "6 of 6",
        "encoder": "bert, 2 layers",
        "parameters": 1234,
        "loss, training": 2.0,
        "loss, evaluation": 3.0,
    }
    assert dict(report.facts) == facts
    titles = [
        "Training",
        "Evaluations",
        "Stages",
        "Time",
        "Calls",
        "Recoveries",
        "Data",
        "Configuration",
        "Environment",
    ]
    assert [section.title for section in report.sections] == titles
    loss = report.sections[0].items[0]
    assert loss.columns == ("step", "training", "evaluation")
    assert loss.rows == tuple((step, 8.0 - step, 9.0 - step) for step in (2, 4, 6))
    shares = {row[0]: row[1:] for row in tables(report, "Time")[0].rows}
    assert shares["training steps"] == (6.0, "60.0%")
    assert shares["checkpoints"] == (0.04, "0.4%")
    assert shares["start, data, writing at the end"] == (1.96, "19.6%")
    assert "documents set aside for evaluation included" in next(s.text for s in report.sections if s.title == "Data")
    data = {row[0]: row[1:] for row in tables(report, "Data")[0].rows}
    assert data["objective"][0] == "masked words and next sentence"
    assert data["masked share of the tokens"][0] == "40.0%"  # the run's, not that of the records' options
    assert data["tokens unknown to the tokenizer"][0] == "1.2%"
    (configuration,) = (each for each in report.sections if each.title == "Configuration")
    assert "task.train_data.masking" not in dict(configuration.items[0].rows)
    assert configuration.text == "Left out where records are read: 1 field for text."
    assert tables(report, "Recoveries")[0].rows == (("run", 3, 2),)

    page = html(report)
    assert "&lt;b&gt;.txt" in page
    assert "<b>" not in page
    assert page == html(runs.runs_report([folder]))
    assert r"\<b\>.txt" in markdown(report)


def test_data_and_classes_of_a_run(tmp_path):
    """Records that were evaluated on are masked and cut otherwise than those of training; a classifier has scores by class."""
    folder = write_run(tmp_path / "run")
    options = {"masking": "dynamic", "masked_lm_prob": 0.15, "dupe_factor": 2}
    counters = {"documents": 9, "documents_train": 7, "documents_eval": 2, "tokens": 50}
    about = json.loads((folder / "run.json").read_text())
    train, evaluated = ({"split": split, "options": options, "counters": counters} for split in ("train", "eval"))
    about["stages"] = [about["stages"][0] | {"records": train}]
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "eval_data.json").write_text(json.dumps({"examples": 5, "files": ["a"], "records": evaluated}))
    (folder / "eval_results.json").write_text(json.dumps({"step": 6, "x_loss": 1.0, "loss": 3.0, "accuracy": 0.75}))
    classes = [
        {"name": "<b>", "precision": 0.75, "recall": 1.0, "f1": 0.857, "support": 3, "predicted": 4, "right": 3},
        {"name": "no", "precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1, "predicted": 0, "right": 0},
    ]
    found = {"step": 6, "kind": "classification", "remark": "all 4 predictions are '<b>'", "classes": classes}
    (folder / "eval_report.json").write_text(json.dumps(found))
    report = runs.runs_report([folder])
    assert dict(report.facts)["accuracy, evaluation"] == 0.75
    data = {row[0]: row[1:] for row in tables(report, "Data")[0].rows}
    assert data["masking"] == ("dynamic, anew in each epoch", "dynamic, in the same places each time")
    assert data["copies of the text"] == (2, None)
    assert data["documents"] == (7, 2)
    assert data["tokens of the text"] == (50, 50)
    assert tables(report, "Predictions")[0].rows[0] == ("<b>", 0.75, 1.0, 0.857, 3, 4, 3)
    said = next(each for each in report.sections if each.title == "Predictions")
    assert said.text == "Scores of the evaluation at step 6."
    assert said.items[1].lines == ("In its evaluation all 4 predictions are '<b>'.",)
    assert "<b>" not in html(report)
    assert tables(report, "Calls")[0].columns[-1] == "seconds"  # and no message, which no call has

    other = write_run(tmp_path / "other")
    section = next(each for each in runs.runs_report([folder, other]).sections if each.title == "Predictions")
    assert [line.partition(": ")[0] for line in section.items[0].lines] == ["run"]

    classes[1]["predicted"] = 1
    del found["remark"]
    (folder / "eval_report.json").write_text(json.dumps(found))
    section = next(each for each in runs.runs_report([folder]).sections if each.title == "Predictions")
    assert len(section.items) == 1
    number = {"step": 6, "kind": "regression", "remark": "all 40 predictions are from 1 to 1.1"}
    (folder / "eval_report.json").write_text(json.dumps(number))
    section = next(each for each in runs.runs_report([folder]).sections if each.title == "Predictions")
    assert section.items[0].lines == ("In its evaluation all 40 predictions are from 1 to 1.1.",)
    classes[1]["support"] = "many"
    (folder / "eval_report.json").write_text(json.dumps(found))
    (fault,) = read_run(folder).faults
    assert fault.endswith("classes[1].support is 'many', expected a whole number from 0 to 4611686018427387904")


def test_the_input_of_several_splits_is_not_that_of_one():
    inputs = [{"file": "train.tsv"}, {"file": "test.tsv"}]
    records = {"splits": {"train": {}, "test": {}}, "inputs": inputs}
    assert run_words.records({"records": records}) == {"input of all splits": "train.tsv, test.tsv"}
    assert run_words.records({"records": records | {"inputs": inputs[:1]}}) == {"input": "train.tsv"}


@pytest.mark.parametrize(
    ("calls", "subtitle"),
    [
        ([{}], "not finished: running, or killed"),
        ([{"outcome": "finished"}, {}], "not finished: running, or killed"),
        ([{"outcome": "interrupted"}], "not finished: interrupted"),
        ([{"outcome": "failed", "message": "loss is nan"}], "not finished: failed"),
        ([{"outcome": "max_time"}], "not finished: its time was up (trainer.max_time)"),
        ([{"outcome": "stopped_early"}], "finished: stopped early"),
        ([], "not finished: running, or killed"),
    ],
)
def test_how_a_run_ended(calls, subtitle, tmp_path):
    report = runs.runs_report([write_run(tmp_path / "run", steps=4, calls=calls)])
    assert report.subtitle == subtitle
    assert dict(report.facts)["steps"] == "4 of 6"
    assert [row[5] for table in tables(report, "Calls") for row in table.rows][-1:] == [subtitle] * bool(calls)


def test_a_run_of_an_older_version_is_finished_where_its_last_step_has_a_checkpoint(tmp_path):
    done, killed = write_run(tmp_path / "done"), write_run(tmp_path / "killed", steps=4)
    for folder in (done, killed):
        (folder / "run.json").unlink()
    assert [read_run(folder).outcome for folder in (done, killed)] == ["finished", "unfinished"]


def test_several_runs_next_to_each_other(tmp_path):
    folders = [write_run(tmp_path / "a" / "run"), write_run(tmp_path / "b" / "run", steps=4, rate=2e-3, calls=[{}])]
    metrics = folders[1] / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"train", ', '"train", "accuracy": 0.5, '))
    (folders[1] / "eval_results.json").write_text(json.dumps({"step": 4, "exact_match": 25.0, "f1": 40.0}))
    report = runs.runs_report([tmp_path / "a", *folders])
    assert (report.title, report.subtitle) == ("2 runs", "1 of them finished")
    assert tables(report, "Configuration")[0].rows == (("rate", "0.001", "0.002"),)
    assert "10 others are equal" in next(each.text for each in report.sections if each.title == "Configuration")
    loss = next(each for each in report.sections if each.title == "Training").items[0]
    assert loss.legend == ("a/run", "b/run")
    assert (4, 4.0, 4.0) in loss.rows
    notes = {item.title: item.note for item in report.sections[1].items}
    assert notes["accuracy"] == "Of b/run alone."
    assert "alone" not in notes["Loss"]
    overview = {row[0]: row[1:] for row in tables(report, "Runs")[0].rows}
    assert overview["f1, evaluation"] == (None, 40.0)
    assert report.sections[0].text.startswith("Scores of answers are in percent: exact_match and f1, ")
    assert overview["how it ended"] == ("finished", "not finished: running, or killed")
    assert html(report).count('<svg viewBox="0 0 3') == len(report.sections[1].items) + 1  # and the evaluations' loss


def test_a_sweep(tmp_path):
    """Runs in folders of folders, more than a chart shows, and the sweep's own table."""
    for task in ("mrpc", "rte"):
        for seed in range(5):
            write_run(tmp_path / task / f"seed-{seed}", rate=1e-3 * (seed + 1), evaluations=False)
    row = {"task": "mrpc", "metric": "f1", "median": 0.9, "min": 0.8, "max": math.nan, "std": ""}
    (tmp_path / "glue.json").write_text(json.dumps({"runs": {}, "table": [row]}))
    report = runs.runs_report([tmp_path])
    assert report.title == "10 runs"
    assert tables(report, "GLUE")[0].rows == (("mrpc", "f1", "90.00", "80.00", None, None),)
    assert [each[0] for each in tables(report, "Runs")[0].rows] == [
        f"{task}/seed-{seed}" for task in ("mrpc", "rte") for seed in range(5)
    ]
    training = next(section for section in report.sections if section.title == "Training")
    assert training.text.startswith("Charts show the first 8 of 10 runs.")
    assert len(training.items[0].legend) == 8


def test_a_page_is_bounded_and_counts_what_it_leaves_out(tmp_path, capsys):
    folder = write_run(tmp_path / "run")
    about = json.loads((folder / "run.json").read_text())
    about["stages"] = [about["stages"][0] | {"records": {}}] * 3000
    about["calls"] = [about["calls"][0] | {"message": "<" * 100_000, "device": "x" * 100_000}] * 10
    (folder / "run.json").write_text(json.dumps(about))
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": 7, "split": "train", "loss": 1.0, "m" * 1000: 2.0}) + "\n")
    assert main(["report", str(folder), "--output", str(tmp_path / "r.html")]) == 0
    page, text = (tmp_path / "r.html").read_text(), (tmp_path / "r.md").read_text()
    assert len(page) < 1_600_000
    shown = page.count('<tr><td class="n" data-of="stage"')
    assert 1000 < shown < 3000
    assert f"run, the first {shown:,} of 3,000" in page
    assert "## What is left out" in text
    assert f"- {3000 - shown:,} rows\n" in text
    assert page.count("(100,000 characters in all)") == 11
    assert "names of more than 100 characters; left out: mmm" in page
    assert "<h2>Configuration</h2>" in page  # what comes after the long table


def test_damage_is_named_and_the_rest_is_shown(tmp_path):
    folder = write_run(tmp_path / "run")
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"step": 7}\n[]\nnot json\n{"step": 8, "split": "train", "loss": NaN}\n{"step": 9, "split": "tr')
    (folder / "params.yaml").write_text("a: &a [*a, b]\ntrainer: {train_steps: 6}\n")
    (folder / "run.json").write_text('{"calls": [{"first_step": "<script>"}]}')
    (folder / "eval_results.json").write_text("{")
    newer = folder / "checkpoints" / "step-00000008"
    newer.mkdir()
    (newer / "state.json").write_text("[]")
    run = read_run(folder)
    assert (run.step, run.steps, run.outcome) == (8, 6, "finished")
    faults = "\n".join(run.faults)
    for said in (
        "metrics.jsonl: 3 lines are not metrics of a step, and are left out: 10, 11, 12",
        "run.json: calls[0].first_step is '<script>', expected a whole number",
        "eval_results.json: not JSON",
        "state.json: expected a JSON object",
    ):
        assert said in faults
    assert math.isnan(run.train["loss"].last)
    page = html(runs.runs_report([folder]))
    assert "What could not be read" in page
    assert "<script>" not in page
    assert len(re.findall("<li>", page[page.index("What could not be read</h2>") :])) == len(run.faults)


def test_checkpoints_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "metrics.jsonl").touch()
    os.symlink("checkpoints", tmp_path / "checkpoints")
    (fault,) = read_run(tmp_path).faults
    assert fault == f"{tmp_path}/checkpoints: cannot be read: Too many levels of symbolic links"


def test_memory_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(run_facts, "_MOST_POINTS", 4)
    monkeypatch.setattr(run_facts, "_MOST_METRICS", 3)
    monkeypatch.setattr(run_facts, "_MOST_FIELDS", 10)
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [{"step": step, "split": "train", "loss": float(step), "b": 1, "c": 2, "d": 3} for step in range(1, 17)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "params.yaml").write_text("".join(f"a{number}: 1\n" for number in range(100)))
    run = read_run(folder)
    points = run.train["loss"].points
    assert 4 <= len(points) < 8
    assert points[0][0] <= 8
    assert points[-1][0] == 16
    assert len(run.config) < 10
    assert "more than 3 metrics, or names of more than 100 characters; left out: d" in run.faults[0]
    assert "more than 10 fields" in run.faults[1]
    os.truncate(folder / "metrics.jsonl", 1 << 40)  # a hole, which takes no disk
    assert "metrics.jsonl: has more than 1024 MiB. Is it another file?" in read_run(folder).faults[0]


def test_lines_of_json(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b'{"a": 1}\n' + b"x" * (1 << 20) + b'y\n{"b": "\xff"}\n\n{"c": 2}')
    assert list(json_lines(path)) == [(1, {"a": 1}), (2, None), (3, None), (4, None), (5, {"c": 2})]
    assert list(json_lines(tmp_path / "none")) == []


def test_the_command(tmp_path, capsys):
    folders = [str(write_run(tmp_path / name / "run", rate=rate)) for name, rate in (("a", 1e-3), ("b", 2e-3))]
    page = tmp_path / "runs.html"
    assert main(["report", *folders, "--output", str(page), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["kind"] == "runs"
    assert said["files"] == [str(page), str(tmp_path / "runs.md")]
    assert said["figures"] == {"runs": 2, "finished": 2}
    assert "| rate | 0.001 | 0.002 |" in (tmp_path / "runs.md").read_text()
    assert page.read_text().startswith("<!DOCTYPE html>")
    (tmp_path / "text.txt").write_text("a\n")
    for arguments, message in (
        ([*folders, str(tmp_path / "text.txt")], "a/run holds runs, and "),
        ([*folders, "--limit", "3"], "--limit is for text and records, and runs are given."),
        ([*folders, "--evaluation", "x"], "--evaluation is for text, and runs are given."),
    ):
        assert main(["report", *arguments, "--output", str(tmp_path / "other.html")]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "other.html").exists()


def test_folders_without_runs(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file is not a folder\. Name that of a run"):
        runs.runs_report([tmp_path / "file"])
    with pytest.raises(
        UsageError, match=r"empty holds no run: expected metrics\.jsonl, run\.json or checkpoints/step-"
    ):
        runs.runs_report([tmp_path / "empty"])
    assert find_runs(tmp_path) == []


HUGE = 10**400


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("run.json", {"calls": [{"seconds": {"steps": HUGE}, "total_seconds": 1.0}]}),
        ("run.json", {"calls": [{"seconds": {"steps": math.inf}, "total_seconds": math.nan}]}),
        ("run.json", {"stages": [{"records": {"counters": {"tokens": HUGE}, "options": {"max_ngram": HUGE}}}]}),
        ("eval_results.json", {"loss": HUGE, "accuracy": -math.inf}),
        ("seeds.json", {"summary": {"loss": {"median": HUGE, "min": [1]}}}),
        ("checkpoints/step-00000006/state.json", {"recoveries": [{"step": [1], "diverged_at": {"a": 2}}, {"step": HUGE}]}),
    ],
)  # fmt: skip
def test_numbers_of_any_size_and_kind(tmp_path, file, change):
    folder = write_run(tmp_path / "run")
    path = folder / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | change))
    with open(folder / "metrics.jsonl", "a") as lines:
        lines.write(
            f'{{"step": 7, "split": "train", "loss": {HUGE}}}\n{{"step": 8, "split": "train", "loss": -1e305}}\n'
        )
    assert read_run(folder).train["loss"].points[-2:] == ((7, math.inf), (8, -math.inf))
    text = markdown(runs.runs_report([folder]))
    assert "0" * 300 not in text


BOMB = "a0: &a0 {}\n" + "".join(f"a{n}: &a{n} {{}}[{', '.join([f'k: *a{n - 1}'] * 9)}]\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a: !!int ""', "is not YAML"),
        ("a: !!bool x", "is not YAML"),
        ("a: !!timestamp x", "is not YAML"),
        ("a: " + "1:" * 9000 + "1", None),
        ("a: &a " + "x" * 10_000 + "\nb: [" + "*a, " * 200 + "]", "more than 4000 fields or 524288 characters"),
        ("- &a0 [x]\n" + "".join(f"- &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 12)), "found a list"),
        (BOMB.replace("{}[", "!!omap [").replace("{}", "!!omap [x: y]"), None),
    ],
)
def test_a_configuration_of_another_hand(tmp_path, text, said):
    """Tags with values of another kind, and few bytes whose aliases stand for gigabytes."""
    folder = write_run(tmp_path / "run")
    (folder / "params.yaml").write_text(text)
    report = runs.runs_report([folder])
    assert len(markdown(report)) < 20_000
    faults = [
        line
        for section in report.sections
        if section.title == "What could not be read"
        for line in section.items[0].lines
    ]
    assert (said is None and not faults) or said in faults[0]


def test_a_damaged_table_of_a_sweep_is_named(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "glue.json").write_text("{")
    assert "glue.json: not JSON" in runs.runs_report([folder]).sections[-1].items[0].lines[0]
