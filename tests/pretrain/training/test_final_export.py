"""The trained model, written at the end of a run in the formats that the configuration names."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from nlpdata.errors import UsageError
from pretrain import submit
from pretrain.converters import native, read_checkpoint
from pretrain.converters.format import checkpoint_format
from pretrain.registry import CHECKPOINT_FORMATS
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.training import final_export
from pretrain.training.final_export import check_export, export_folders
from tests.gcsfuse import refuse_renames_of_folders
from tests.object_store import running_store
from tests.pretrain.runs import experiment, run


@pytest.mark.parametrize(
    ("formats", "place", "folders"),
    [
        ("", "export", {}),
        ("hf", "export", {"hf": "run/export/hf"}),
        ("hf, savedmodel", "final", {"hf": "run/final/hf", "savedmodel": "run/final/savedmodel"}),
        (["h5"], "/models/a", {"h5": "/models/a/h5"}),
        (["hf"], "gs://bucket/a", {"hf": "gs://bucket/a/hf"}),
    ],
)
def test_where_a_model_goes(formats, place, folders):
    found = export_folders(TrainerConfig(export_formats=formats, export_dir=place), Path("run"))
    assert {name: str(folder) for name, folder in found.items()} == folders


def test_what_is_found_before_the_training(tmp_path):
    with pytest.raises(UsageError, match=r"unknown checkpoint format 'safetensor'"):
        check_export(TrainerConfig(export_formats="safetensor"), tmp_path)
    (tmp_path / "export" / "hf").mkdir(parents=True)
    check_export(TrainerConfig(export_formats="hf"), tmp_path)  # an empty folder may be used
    (tmp_path / "export" / "hf" / "mine.txt").touch()
    with pytest.raises(UsageError, match=r"export/hf is there, and no run has written it.*Name another --export_dir"):
        check_export(TrainerConfig(export_formats="hf"), tmp_path)
    with pytest.raises(UsageError, match=r"ftp://x/y: expected a path of this machine"):
        check_export(TrainerConfig(export_formats="hf", export_dir="ftp://x/y"), tmp_path)


def test_a_format_whose_package_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(final_export, "is_installed", lambda package: package != "tensorflow")
    check_export(TrainerConfig(export_formats="hf"), tmp_path)
    with pytest.raises(
        UsageError, match=r"trainer\.export_formats savedmodel needs tensorflow, which is not installed.*\[train\]"
    ):
        check_export(TrainerConfig(export_formats="hf,savedmodel"), tmp_path)


@pytest.mark.parametrize("name", ["tf1", "savedmodel", "hub"])
def test_which_formats_are_written_with_tensorflow(name):
    """The others are what a job without it can export (pretrain.submit)."""
    assert checkpoint_format(name).written_with == "tensorflow"
    assert {
        each for each in CHECKPOINT_FORMATS if not checkpoint_format(each).written_with
    } == submit._WITHOUT_TENSORFLOW


@pytest.fixture
def records(record_sets):
    return record_sets["static"]


def same_weights(exported, model_dir) -> bool:
    newest = read_checkpoint(str(native.locate(model_dir))).weights
    found = read_checkpoint(str(exported)).weights
    return all(np.array_equal(found[path], array) for path, array in newest.items())


@pytest.mark.heavy
@pytest.mark.usefixtures("eagerly")
def test_a_run_exports_its_last_weights(records, tmp_path):
    """Anew where it is trained further, only at its end, and never over what it has not written itself."""
    model_dir, place = tmp_path / "run", tmp_path / "run" / "final" / "hf"
    trainer = {"export_formats": "hf", "export_dir": "final", "train_steps": 2}
    said = run(experiment(records, trainer=trainer), model_dir)
    assert f"exported: {place} (hf)" in said
    assert same_weights(place, model_dir)
    before = (place / "model.safetensors").read_bytes()
    run(experiment(records, trainer=trainer | {"train_steps": 4, "steps_a_call": 1}), model_dir)  # step 3 of 4
    assert (place / "model.safetensors").read_bytes() == before
    card = (place / "README.md").read_text()
    assert "| steps | 2 of 2 |" in card
    (place / "README.md").write_text(f"{card}Edited.\n")
    said = run(experiment(records, trainer=trainer | {"train_steps": 4}), model_dir)
    kept = f"{place / 'README.md'} was edited, and is kept. The card of the new model is README.new.md next to it."
    assert any(line.endswith(kept) for line in said)
    assert (place / "README.md").read_text() == f"{card}Edited.\n"
    assert "| steps | 4 of 4 |" in (place / "README.new.md").read_text()
    assert (place / "model.safetensors").read_bytes() != before
    assert same_weights(place, model_dir)
    assert not list(place.parent.glob(".*"))
    (model_dir / "mine" / "hf").mkdir(parents=True)
    (model_dir / "mine" / "hf" / "notes").touch()
    with pytest.raises(UsageError, match="no run has written it"):
        run(experiment(records, trainer=trainer | {"train_steps": 6, "export_dir": "mine"}), model_dir)
    assert native.locate(model_dir).name == "step-00000004"
    # ALBERT's h5 has no place for one head alone, which is found before the training.
    own = experiment(records, trainer=trainer | {"export_formats": "h5"}, task={"use_next_sentence_label": False})
    with pytest.raises(
        UsageError, match=r"export_formats: .*other: has the heads masked_lm; a file of format h5 has both"
    ):
        run(own, tmp_path / "other")
    assert native.locate(tmp_path / "other") is None


@pytest.mark.parametrize("removed", range(4))
def test_what_a_kill_leaves_of_an_earlier_export_is_replaced(tmp_path, monkeypatch, removed):
    """The removal ends after some files, whichever they are; the next call must not take the rest for somebody else's."""
    place = tmp_path / "export" / "savedmodel"
    (place / "variables").mkdir(parents=True)
    for name in (".exported", "a.json", "variables/data", "z.pb"):
        (place / name).touch()
    unlink, calls = os.unlink, []

    def killed(*args, **options):
        calls.append(args)
        if len(calls) > removed:
            raise KeyboardInterrupt
        unlink(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            final_export._remove_export(place)
    check_export(TrainerConfig(export_formats="savedmodel"), tmp_path)
    final_export._remove_export(place)
    assert not place.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_run_exports_to_an_object_store(records, tmp_path):
    with running_store() as store:
        store.put("models/a/hf/older.txt", b"gone after the export")
        trainer = {"export_formats": "hf", "export_dir": "s3://bucket/models/a", "train_steps": 1}
        said = run(experiment(records, trainer=trainer), tmp_path / "run")
        assert "exported: s3://bucket/models/a/hf (hf)" in said
        found = store.contents("models/a/hf/")
    for name, content in found.items():
        (tmp_path / "copy").mkdir(exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(content)
    assert "older.txt" not in found
    assert json.loads(found["config.json"])["model_type"] == "albert"
    assert same_weights(tmp_path / "copy", tmp_path / "run")


@pytest.mark.heavy
@pytest.mark.usefixtures("eagerly")
def test_a_run_where_folders_cannot_be_renamed(records, tmp_path, monkeypatch):
    """In the model_dir of a job, a bucket that Cloud Storage FUSE mounts: checkpoints, the best one and the export are whole."""
    refuse_renames_of_folders(monkeypatch, errno.EMFILE)
    trainer = {"export_formats": "hf", "train_steps": 2, "checkpoint_interval": 1, "max_to_keep": 1}
    trainer |= {"best_checkpoint_export_subdir": "best", "validation_interval": 1, "validation_steps": 1}
    run(experiment(records, eval_path=records, trainer=trainer), tmp_path / "run", "train_and_eval")
    run(
        experiment(records, eval_path=records, trainer=trainer | {"train_steps": 3}), tmp_path / "run", "train_and_eval"
    )
    assert [folder.name for folder in native.finished(tmp_path / "run" / "checkpoints")] == ["step-00000003"]
    assert native.locate(tmp_path / "run" / "best") is not None
    assert same_weights(tmp_path / "run" / "export" / "hf", tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*.tmp"))
