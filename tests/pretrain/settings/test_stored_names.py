"""What files of a checkpoint or a run name is data: it is not imported, unless the user has named its module."""

import json
import sys
from dataclasses import asdict

import pytest

from nlpdata.errors import UsageError
from nlpdata.registry import user_modules
from nlpdata.reports.run_facts import CONFIG_FILE
from pretrain.converters import native, read_encoder
from pretrain.converters.saved_model import read_description
from pretrain.encoders.configs import BertConfig
from pretrain.experiments import experiment
from pretrain.run import main, resolve
from pretrain.settings.flags import parse_flags
from pretrain.settings.schema import ExperimentConfig, own_modules
from pretrain.settings.yaml_files import compare_saved, dump_yaml

MODULE = """
from pathlib import Path
from pretrain.encoders.configs import BertConfig
Path(__file__).with_name("imported").touch()
class Encoder:
    config_class = BertConfig
class Task:
    from pretrain.tasks.configs import PretrainingConfig as config_class
"""
ENCODER = {"type": "planted:Encoder", "options": asdict(BertConfig(vocab_size=60, hidden_size=24))}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """The current folder, which is on the import path, with a module that leaves a trace when it is imported."""
    (tmp_path / "planted.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("planted", None)


def write_run(folder, encoder=ENCODER):
    native.write(folder / "checkpoints" / "step-00000001", {}, {"step": 1, "encoder": encoder})
    return folder


@pytest.mark.parametrize(
    "flags",
    [
        "--model_dir=run",
        "--model_dir=none --init_checkpoint=run",
        "--model_dir=sweep --seeds=2 --mode=train_and_eval",
    ],
)
def test_a_run_does_not_import_what_a_checkpoint_names(place, flags, capsys):
    write_run(place / "run")
    write_run(place / "sweep" / "seed-0")
    assert main(["--experiment=bert/pretraining", *flags.split()]) == 2
    said = capsys.readouterr().err
    assert "state.json: encoder 'planted:Encoder' is not part of this program" in said
    assert "name its module: --import_module planted " in said
    assert not (place / "imported").exists()


@pytest.mark.parametrize(
    "flags", ["--import_module=planted", "--params_override=task.model.encoder.type=planted:Encoder"]
)
def test_the_user_names_the_module(place, flags):
    """By the option, or by the configuration: so the command that began a run resumes it."""
    write_run(place / "run")
    values = parse_flags(["--experiment=bert/pretraining", "--model_dir=run", flags])
    with user_modules(values.get("import_module", ())):
        encoder = resolve(values).task.model.encoder
    assert (encoder.type, encoder.options.hidden_size) == ("planted:Encoder", 24)


def test_saved_models_and_configurations_of_runs(place):
    (place / "module" / "assets.extra").mkdir(parents=True)
    (place / "module" / "assets.extra" / "encoder.json").write_text(json.dumps(ENCODER))
    with pytest.raises(UsageError, match="--import_module planted "):
        read_description(place / "module")
    config = experiment("bert/local")
    for before, after in (
        ("task_type: pretraining", "task_type: planted:Task"),
        ("type: bert\n      bert:", "type: planted:Encoder\n      planted:Encoder:"),
        ("type: adamw\n      adamw:", "type: planted:Encoder\n      planted:Encoder:"),
    ):
        text = dump_yaml(config)
        assert before in text
        (place / CONFIG_FILE).write_text(text.replace(before, after))
        (difference,) = compare_saved(config, place)
        assert "--import_module planted " in difference
    assert not (place / "imported").exists()


def test_a_saved_configuration_may_name_what_the_given_one_names(place):
    config = experiment("bert/local", {"task_type": "planted:Task", "trainer": {"type": "planted:Trainer"}})
    assert own_modules(config) == {"planted"}
    (place / CONFIG_FILE).write_text(dump_yaml(config).replace("max_to_keep: 5", "max_to_keep: 4"))
    assert compare_saved(config, place) == ["trainer.max_to_keep: 4 -> 5"]


def test_own_modules_are_those_of_all_parts():
    assert own_modules(experiment("bert/local")) == set()
    encoder = {"type": "planted:Encoder", "vocab_size": 60}
    config = experiment("bert/local", {"task": {"model": {"encoder": encoder}}})
    assert isinstance(config, ExperimentConfig)
    assert own_modules(config) == {"planted"}


def test_layers_that_a_checkpoint_names(place):
    options = asdict(BertConfig(vocab_size=60, hidden_size=24)) | {"attention": "planted:Talk"}
    write_run(place / "run", {"type": "bert", "options": options})
    with pytest.raises(UsageError, match=r"state.json: attention 'planted:Talk' .*--import_module planted "):
        read_encoder(str(place / "run"))
    assert not (place / "imported").exists()
    with user_modules(["planted"]):
        assert read_encoder(str(place / "run")).options.attention == "planted:Talk"


def test_unregistered_short_names(place):
    write_run(place / "run", {"type": "scaled", "options": {}})
    with pytest.raises(UsageError, match=r"unknown encoder 'scaled'\. .* is named by --import_module"):
        read_encoder(str(place / "run"))
