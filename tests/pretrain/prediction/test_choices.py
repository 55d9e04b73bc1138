"""From a file of choices to records, a run, an export, and the choices of `pretrain predict` and of Python."""

import csv
import json
import random

import numpy as np
import pytest

import pretrain
from nlpdata import create_finetuning
from nlpdata.errors import DataError, UsageError
from pretrain.export import main as export
from pretrain.predict import main as predict
from pretrain.training import run_experiment
from tests.messages import messages
from tests.pages import WORDS
from tests.pretrain.finetuning import choice_experiment
from tests.pretrain.runs import changed

LENGTH, CHOICES = 24, 4


def rows(count: int, seed: int) -> list[dict]:
    """Rows of which the choice w10 is right. Every third one has a blank, and every fourth a context that must be cut."""
    draw, found = random.Random(seed), []
    for number in range(count):
        label, words = draw.randrange(CHOICES), draw.sample(WORDS[40:], 30)
        choices = [f"w{11 + at} {words[at]}" for at in range(CHOICES)]
        choices[label] = f"w10 {words[label]}"
        context = " ".join(words[4 : 30 if number % 4 == 0 else 9])
        question = f"w30 _ w31 {words[9]}" if number % 3 == 0 else f"w30 {words[9]}"
        found.append({"context": context, "question": question, "choices": choices, "label": label})
    return found


def write_rows(path, items):
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(folder, metrics) of a run on 64 rows; folder has records/, run/, dev.jsonl."""
    folder = tmp_path_factory.mktemp("choices")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    train, dev = (write_rows(folder / f"{name}.jsonl", rows(size, size)) for name, size in (("train", 64), ("dev", 24)))
    create_finetuning(
        task="choice", input=str(train), dev_input=str(dev), text_column="context", text_b_column="question", blank="_",
        tokenizer=str(folder / "vocab.txt"), output=str(folder / "records"), max_seq_length=LENGTH, max_qa_length=7, workers=1,
    )  # fmt: skip
    records = folder / "records"
    config = choice_experiment(records / "train.tfrecord", records / "dev.tfrecord", train_steps=40)
    return folder, run_experiment(config, folder / "run", "train_and_eval")


@pytest.mark.slow
def test_predictions_are_those_of_the_evaluation(run, tmp_path, capsys):
    folder, metrics = run
    assert metrics["accuracy"] == 1.0
    out = tmp_path / "out.jsonl"
    with messages() as said:
        assert (
            predict(["--model_dir", f"{folder / 'run'}", "--input", f"{folder / 'dev.jsonl'}", "--output", f"{out}"])
            == 0
        )
    found, wanted = [json.loads(line) for line in out.read_text().splitlines()], rows(24, 24)
    assert [each["prediction"] for each in found] == [row["label"] for row in wanted]
    assert [each["choice"] for each in found] == [row["choices"][row["label"]] for row in wanted]
    losses = [-np.log(each["scores"][row["label"]]) for each, row in zip(found, wanted, strict=True)]
    assert np.mean(losses) == pytest.approx(metrics["choice_loss"], rel=1e-3)  # the texts are made as in the records
    assert all(sum(each["scores"]) == pytest.approx(1) for each in found)
    assert any("6 of 24 rows are longer than 24 tokens: their ends were cut" in line for line in said)
    with open(tmp_path / "in.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "sent1", "sent2", *(f"ending{at}" for at in range(CHOICES))])
        table.writerows([f"r{at}", row["context"], row["question"], *row["choices"]] for at, row in enumerate(wanted))
    assert export([f"{folder / 'run'}", f"{tmp_path / 'hf'}", "--format", "hf"]) == 0
    capsys.readouterr()
    assert predict(["--model_dir", f"{tmp_path / 'hf'}", "--input", f"{tmp_path / 'in.csv'}", "--output", "-"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["index", "prediction", "choice", "score"]
    assert [line[:3] for line in lines[1:]] == [
        [f"r{at}", str(each["prediction"]), each["choice"]] for at, each in enumerate(found)
    ]
    for number in (3, 5):
        wanted[number]["label"] = "DABC"[wanted[number]["label"]]  # wrong answers, by their letters
    words = ["--model_dir", f"{folder / 'run'}", "--output", f"{tmp_path / 'scored.tsv'}", "--label_column", "label"]
    assert predict([*words, "--input", f"{write_rows(tmp_path / 'scored.jsonl', wanted)}"]) == 0
    report = json.loads((tmp_path / "scored_report.json").read_text())
    assert report["metrics"] == {"accuracy": 22 / 24}
    assert sorted((each["id"], each["line"], each["prediction"]) for each in report["errors"]) == [
        (str(at), at + 1, found[at]["prediction"]) for at in (3, 5)
    ]
    assert all(each["label_text"] == each["choices"][each["label"]] for each in report["errors"])
    assert [float(line[3]) for line in lines[1:]] == pytest.approx([max(each["scores"]) for each in found], abs=2e-6)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForMultipleChoice"]
    card = (tmp_path / "hf" / "README.md").read_text()
    assert "pipeline_tag: multiple-choice" in card
    assert "| heads | choices |" in card


@pytest.mark.slow
def test_from_python_and_what_is_refused(run, tmp_path, capsys):
    folder, _ = run
    model, row = pretrain.load(str(folder / "run")), rows(24, 24)[1]
    (found,) = model.predict([(row["context"], row["question"], row["choices"])])
    assert (found["prediction"], found["choice"]) == (row["label"], row["choices"][row["label"]])
    pair, _ = model.predict(
        [(row["context"], ["w10", "w11"]), (row["context"], ["w11", "w10", "w12"])]
    )  # of any number
    assert (pair["prediction"], len(pair["scores"])) == (0, 2)
    for items, match in (
        ([("a", "b", ["c"])], "item 0: expected 2 to 64 choices"),
        ([("a", "b", ["c", " "])], "none of them empty"),
        ([("a", "b", "cd")], r"item 0: expected \(context, question, \[choice, ...\]\)"),
        (["a"], r"item 0: expected \(context, question"),
    ):
        with pytest.raises(UsageError, match=match):
            model.predict(items)

    def refused(line: str, text: str, name: str = "in.jsonl", model: str = "run") -> str:
        (tmp_path / name).write_text(text)
        capsys.readouterr()
        words = ["--model_dir", f"{folder / model}", "--input", f"{tmp_path / name}", "--output", "-", *line.split()]
        assert predict(words) in (1, 2)
        return capsys.readouterr().err

    good = '{"context": "w5", "choices": ["w6", "w7"], "label": 0}\n'
    assert "in.jsonl:2: choice 1 ('choices') is empty" in refused(
        "", good + '{"context": "w5", "choices": ["w6", ""]}\n'
    )
    bad = refused("", good + '{"context": "w5", "choices": ["w6"]}\n')
    assert "in.jsonl:2: 'choices': expected 2 to 64 choices, found 1" in bad
    assert "none is called choices, options, endings, ending0" in refused("", "context,b\nw5,w6\n", "in.csv")
    assert "--choice_columns is missing: without a header" in refused(
        "--noheader --text_column 0", "w5,w6,w7\n", "a.csv"
    )
    for option in (
        "--text_column 0 --choice_columns 1," + "9" * 5000,
        f"--text_column {'9' * 5000} --choice_columns 1,2",
    ):
        assert "a column is a number from 0" in refused(f"--noheader {option}", "w5,w6,w7\n", "a.csv")
    assert "choices are read from a table with the columns context and choices" in refused("", "w5\n", "in.txt")
    assert "--format=glue has no place for choices" in refused("--format glue", good)
    wrong = refused("--label_column label", good.replace("0", '"C"'))
    assert (
        "in.jsonl:1: the label is 'C', expected the number of the right choice, 0 to 1, or its letter, A to B" in wrong
    )
    assert "different ones with commas between them. Received: 'a,a'" in refused("--choice_columns a,a", good)
    config = choice_experiment(folder / "records" / "train.tfrecord")
    meta = json.loads((folder / "records" / "meta.json").read_text())
    meta["options"]["max_qa_length"] = "long"
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(DataError, match=r"options\.max_qa_length is 'long', expected a whole number"):
        run_experiment(
            changed(config, "task.train_data", meta_path=str(tmp_path / "meta.json")), tmp_path / "x", "train"
        )
