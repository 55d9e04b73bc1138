"""The configuration files that come with the package load, by path and by name, and are in the wheel."""

import tomllib
from pathlib import Path

import pytest

import pretrain
from nlpdata.errors import UsageError
from pretrain.registry import EXPERIMENTS
from pretrain.settings.tree import with_layers
from pretrain.settings.yaml_files import find_config, read_yaml
from tests.messages import messages

CONFIGS = Path(pretrain.__file__).parent / "configs"
FILES = sorted(
    path for path in CONFIGS.rglob("*.yaml") if path.parent.name != "cerebras"
)  # of another form: test_cerebras.py


def experiment_of(path: Path) -> str:
    if path.stem.startswith("squad"):
        return "bert/squad"
    if path.stem == "race":
        return "albert/multiple_choice"
    if "albert" in path.stem:
        return "albert/pretraining"
    return "bert/pretraining" if path.stem.startswith(("tiny", "wiki", "bert_128")) else "bert/sentence_prediction"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_loads_without_a_note(path):
    with messages() as said:
        config = with_layers(EXPERIMENTS.get(experiment_of(path))(), [(path.name, read_yaml(path))])
    assert said == []
    trainer = config.trainer
    if trainer.best_checkpoint_export_subdir:
        assert trainer.best_checkpoint_metric_comp == "higher"
        assert trainer.best_checkpoint_eval_metric in ("accuracy", "f1", "matthews_corrcoef", "pearson")


@pytest.mark.parametrize(
    "name", ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli_matched", "mnli_mismatched", "qnli", "rte", "wnli"]
)
def test_every_glue_task_has_a_file(name):
    config = with_layers(EXPERIMENTS.get("albert/sentence_prediction")(), [("", read_yaml(f"glue_{name}"))])
    assert config.task.model.num_classes == {"mnli_matched": 3, "mnli_mismatched": 3, "stsb": 1}.get(name, 2)
    assert config.task.kind == ("regression" if name == "stsb" else "classification")
    assert config.task.train_data.trim_padding


@pytest.mark.parametrize(
    "name",
    [
        "configs/models/bert_en_uncased_base.yaml",
        "models/bert_en_uncased_base.yaml",
        "bert_en_uncased_base.yaml",
        "configs/models/bert_en_uncased_base",
        "bert_en_uncased_base",
    ],
)
def test_files_have_names(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_config(name) == CONFIGS / "models" / "bert_en_uncased_base.yaml"
    own = tmp_path / name
    own.mkdir(parents=True)
    assert find_config(name) == CONFIGS / "models" / "bert_en_uncased_base.yaml"  # of a run, maybe
    own.rmdir()
    own.write_text("trainer: {}\n")
    assert find_config(name) == Path(name)


def test_a_name_with_a_dot():
    wanted = CONFIGS / "experiments" / "squad_v1.1.yaml"
    for name in ("squad_v1.1", "squad_v1.1.yaml", "configs/experiments/squad_v1.yaml", "squad_v1"):
        assert find_config(name) == wanted


def test_a_path_of_the_model_garden_names_ours_and_this_is_reported(caplog):
    caplog.set_level("INFO", "pretrain")
    found = find_config("/nlp/bert/experiments/wiki_books_pretrain.yaml")
    assert found == CONFIGS / "experiments" / "wiki_books_pretrain.yaml"
    (line,) = caplog.messages
    assert line.endswith("is not there; the wiki_books_pretrain.yaml that comes with the package is used")
    with pytest.raises(UsageError, match=r"no configuration file /mine/wiki_books_pretrain\.yaml"):
        find_config("/mine/wiki_books_pretrain.yaml")


def test_a_miss_names_the_closest():
    with pytest.raises(UsageError, match=r"there is no configuration file glue_mrcp\.yaml .*Did you mean glue_mrpc"):
        find_config("glue_mrcp.yaml")


def test_the_files_are_package_data():
    root = CONFIGS.parents[1]
    data = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert data["pretrain"] == ["configs/**/*.gin", "configs/**/*.yaml", "py.typed"]
    assert {file.suffix for file in CONFIGS.rglob("*") if file.is_file()} == {".gin", ".yaml"}
