"""pretrain export, and the tf2_model.h5 that a pretraining run of ALBERT ends with."""

import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest

from pretrain.converters import native, read_checkpoint
from pretrain.export import main
from pretrain.training import run_experiment
from tests.messages import messages
from tests.pretrain.converters.test_round_trips import make
from tests.pretrain.runs import experiment, tiny


def write_step(folder, step, seed, best_subdir=""):
    checkpoint = make("bert", "pretraining", seed)
    arrays = {f"model/{path}": array for path, array in checkpoint.weights.items()}
    encoder = {"type": "bert", "options": asdict(checkpoint.encoder.options)}
    trainer = {"best_checkpoint_export_subdir": best_subdir}
    native.write(
        folder / f"step-{step:08d}", arrays, {"step": step, "encoder": encoder, "config": {"trainer": trainer}}
    )
    return checkpoint.weights


def same(folder, weights):
    read = read_checkpoint(str(folder)).weights
    assert read.keys() == weights.keys()
    for path, array in weights.items():
        np.testing.assert_array_equal(read[path], array)


def test_newest_and_best(tmp_path, capsys):
    write_step(tmp_path / "run" / "checkpoints", 10, 1, "best")
    newest = write_step(tmp_path / "run" / "checkpoints", 20, 2, "best")
    best = write_step(tmp_path / "run" / "best", 10, 3, "best")
    assert main([str(tmp_path / "run"), str(tmp_path / "newest"), "--format", "hf"]) == 0
    assert "step-00000020" in capsys.readouterr().out
    assert main([str(tmp_path / "run"), str(tmp_path / "best"), "--format", "hf", "--which", "best", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "command": "export",
        "checkpoint": str(tmp_path / "run" / "best" / "step-00000010"),
        "written": [str(tmp_path / "best")],
        "format": "hf",
    }
    same(tmp_path / "newest", newest)
    same(tmp_path / "best", best)


@pytest.mark.parametrize(
    ("place", "which", "message"),
    [
        ("nowhere", "newest", "not the folder of a run"),
        ("run", "best", "best_checkpoint_export_subdir was not set"),
        ("started", "newest", "no finished checkpoint yet"),
    ],
)
def test_user_mistakes(place, which, message, tmp_path, capsys):
    write_step(tmp_path / "run" / "checkpoints", 10, 1)
    (tmp_path / "started" / "checkpoints").mkdir(parents=True)
    assert main([str(tmp_path / place), str(tmp_path / "out"), "--which", which]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("eagerly")
def test_a_run_of_albert_ends_with_its_core_model(record_sets, tmp_path):
    encoder = tiny("albert", dropout=0.0)
    config = experiment(record_sets["static"], encoder=encoder, trainer={"train_steps": 2})
    with messages() as notes:
        run_experiment(config, tmp_path / "run", "train")
    assert f"core model for fine-tuning: {tmp_path / 'run' / 'tf2_model.h5'}" in notes
    core = read_checkpoint(str(tmp_path / "run" / "tf2_model.h5"))
    run = read_checkpoint(str(tmp_path / "run")).weights
    assert core.encoder == encoder
    same(tmp_path / "run" / "tf2_model.h5", {path: a for path, a in run.items() if path.startswith("encoder/")})


@pytest.mark.usefixtures("eagerly")
def test_the_own_tokenizer_of_a_run_may_be_smaller_than_its_model(record_sets, tmp_path, capsys):
    """tiny_albert.yaml has 8,000 rows, whatever the vocabulary: a fact, not a doubt."""
    config = experiment(
        record_sets["static"], encoder=tiny("albert", dropout=0.0, vocab_size=500), trainer={"train_steps": 1}
    )
    run_experiment(config, tmp_path / "run", "train")
    assert main([str(tmp_path / "run"), str(tmp_path / "out"), "--format", "hf"]) == 0
    said = "".join(capsys.readouterr())
    assert "entries; the model has 500)" in said
    assert "warning: " not in said


@pytest.mark.usefixtures("eagerly")
def test_where_the_format_has_no_place_for_it_that_is_said(record_sets, tmp_path):
    encoder = tiny("albert", dropout=0.0, hidden_act="gelu")
    config = experiment(record_sets["static"], encoder=encoder, trainer={"train_steps": 1})
    with messages() as notes:
        run_experiment(config, tmp_path / "run", "train")
    assert any(note.startswith("no tf2_model.h5: ") for note in notes)
    assert not (tmp_path / "run" / "tf2_model.h5").exists()
    assert not (tmp_path / "run" / "config.json").exists()


def test_a_run_in_an_archive(tmp_path, capsys):
    weights = write_step(tmp_path / "run[1], a" / "checkpoints", 3, seed=3)
    archive = shutil.make_archive(str(tmp_path / "run"), "zip", tmp_path, "run[1], a")
    assert main([archive, str(tmp_path / "out"), "--format", "native"]) == 0
    said = "".join(capsys.readouterr())
    assert f"checkpoint: {archive}/run[1], a/checkpoints/step-00000003\n" in said
    assert "nlpdata-archive" not in said
    same(tmp_path / "out", weights)
