"""Model cards: facts of the checkpoint and of its run, and nothing else; programs that run; data that stays data."""

import json
import shutil
from dataclasses import asdict, replace

import pytest
from markdown_it import MarkdownIt

from nlpdata.tokenizers import load_tokenizer
from pretrain.converters import native
from pretrain.converters.convert import convert_place
from pretrain.converters.write import write_checkpoint
from pretrain.export import main as export
from tests.nlpdata.reports.test_runs import write_run
from tests.nlpdata.tokenizers.test_wordpiece import write
from tests.pretrain.converters.cards import metadata, run_usage, usage
from tests.pretrain.converters.test_round_trips import make

ATTACK = "<script>a()</script> | [x](javascript:y)\n---\nlicense: stolen\n```\n# h"
ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdef!", *(f"##{c}" for c in "abcdef")]


@pytest.fixture
def tokenizer(tmp_path):
    return load_tokenizer(write(tmp_path / "vocab.txt", ENTRIES), do_lower_case=True)


def text(folder):
    return (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("format", "encoder", "heads", "printed"),
    [
        ("native", "bert", "classifier", "'scores': {'no': "),
        ("native", "bert", "span", "'answer': "),
        ("tf1", "albert", "pretraining", "'masks': "),
        ("h5", "albert", "encoder", "(1, 16)"),
    ],
)
def test_the_programs_run(format, encoder, heads, printed, tokenizer, tmp_path):
    """Those of the other formats: test_round_trips, test_hub_module; transformers' are compared below."""
    checkpoint = replace(make(encoder, heads, layers=1), tokenizer=tokenizer)
    write_checkpoint(tmp_path / "out", checkpoint, format)
    assert printed in run_usage(tmp_path / "out")
    assert metadata(tmp_path / "out")["library_name"] == "nlpdata"


def test_a_program_without_a_tokenizer_takes_ids(tmp_path):
    write_checkpoint(tmp_path / "out", make("bert", "encoder", layers=1), "native")
    assert "'pooled_output': " in run_usage(tmp_path / "out")


@pytest.mark.parametrize(
    ("heads", "pipeline", "line"),
    [
        ("classifier", "text-classification", 'classify = pipeline("text-classification", model=".")'),
        ("choice", "multiple-choice", 'model = AutoModelForMultipleChoice.from_pretrained(".")'),
        ("span", "question-answering", 'model = AutoModelForQuestionAnswering.from_pretrained(".")'),
        ("pretraining", "fill-mask", 'fill = pipeline("fill-mask", model=".")'),
        ("encoder", "feature-extraction", 'model = AutoModel.from_pretrained(".")'),
    ],
)
def test_transformers(heads, pipeline, line, tokenizer, tmp_path):
    write_checkpoint(tmp_path / "out", replace(make("bert", heads), tokenizer=tokenizer), "hf")
    assert metadata(tmp_path / "out") == {"library_name": "transformers", "pipeline_tag": pipeline, "tags": ["bert"]}
    assert line in usage(tmp_path / "out").splitlines()
    compile(usage(tmp_path / "out"), "card", "exec")


@pytest.fixture
def run(tmp_path):
    """The folder of a run of 6 steps, whose checkpoint is a classifier of three labels."""
    folder = write_run(tmp_path / "a run")
    shutil.rmtree(folder / "checkpoints")
    checkpoint = make("bert", "classifier", layers=1)
    arrays = {f"model/{path}": array for path, array in checkpoint.weights.items()}
    encoder = {"type": "bert", "options": asdict(checkpoint.encoder.options)}
    data = {"kind": "classification", "label_names": [ATTACK, "maybe", "yes"], "seq_length": 12}
    native.write(folder / "checkpoints" / "step-00000006", arrays, {"step": 6, "encoder": encoder, "data": data})
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": 6, "split": "eval", "loss": 3.0, "accuracy": 0.875, "examples": 5}) + "\n")
    records = {"processor_type": ATTACK, "options": {"language": "fr,de"}}
    classes = [
        {"name": ATTACK, "support": 3, "predicted": 5, "right": 3},
        {"name": "yes", "support": 2, "predicted": 0, "right": 0},
    ]
    remark = f"all 5 predictions are {ATTACK!r}"
    found = {"step": 6, "kind": "classification", "remark": remark, "classes": classes}
    (folder / "eval_report.json").write_text(json.dumps(found))
    about = json.loads((folder / "run.json").read_text())
    about["stages"] = [about["stages"][0] | {"last_step": 6, "steps_per_epoch": 4, "records": records}]
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "eval_data.json").write_text(json.dumps({"examples": 5, "files": ["dev.tfrecord"], "records": records}))
    return folder


def test_a_card_of_a_run(run, tmp_path, capsys):
    assert export([str(run), str(tmp_path / "out"), "--format", "hf", "--quiet"]) == 0
    capsys.readouterr()
    found, card = metadata(tmp_path / "out"), text(tmp_path / "out")
    (model,) = found.pop("model-index")
    assert found == {
        "language": ["de", "fr"],
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
        "tags": ["bert"],
    }
    assert model["name"] == "a run"
    (result,) = model["results"]
    assert result["task"] == {"type": "text-classification"}
    assert result["dataset"]["name"] == ATTACK.replace("\n", "\\n") + " (dev.tfrecord)"
    assert result["metrics"] == [{"type": "accuracy", "value": 0.875}]
    for line in (
        "# a run",
        "| accuracy | 0.875 |",
        "| steps | 6 of 6 |",
        "| examples a step | 16 |",
        "| epochs | 1.5 |",
        "| learning rate | peak 0.001 |",
        "- It takes at most 20 tokens, and was trained on examples of at most 12.",
    ):
        assert line in card.splitlines(), card
    assert ", 5 examples." in card
    assert "- In its evaluation all 5 predictions are '" in card
    assert str(tmp_path) not in card
    shown = MarkdownIt().enable("table").render(card.partition("\n---\n")[2])
    assert "<script" not in shown
    assert "<a " not in shown
    assert "# h" not in card.splitlines()
    assert shown.count("<h1>") == 1


def test_what_is_not_known_is_left_out(run, tmp_path, capsys):
    """An evaluation of other data than the run names; none; no run at all."""
    (run / "eval_data.json").write_text(json.dumps({"examples": 7, "files": ["other"], "records": {}}))
    assert export([str(run), str(tmp_path / "other"), "--format", "native", "--quiet"]) == 0
    assert "On data that the run does not name, 5 examples." in text(tmp_path / "other")
    assert "model-index" not in metadata(tmp_path / "other")
    (run / "metrics.jsonl").unlink()
    assert export([str(run), str(tmp_path / "none"), "--format", "native", "--quiet"]) == 0
    assert "No evaluation of this checkpoint is recorded." in text(tmp_path / "none")
    assert "- How good it is was not measured." in text(tmp_path / "none")
    convert_place(str(tmp_path / "none"), str(tmp_path / "again"), "hf")
    card = text(tmp_path / "again")
    capsys.readouterr()
    assert "A model of the type bert, converted by nlpdata from the format native." in card
    assert not {"## Training", "## Evaluation", "## Versions"} & set(card.splitlines())
