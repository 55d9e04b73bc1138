"""Which format a place is of: one list, in a stated order, to which users add their own."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from nlpdata.errors import UsageError
from pretrain import convert, export
from pretrain.converters import read_checkpoint
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.format import CheckpointFormat, checkpoint_format, format_of, formats_for_any_encoder
from pretrain.converters.write import write_checkpoint
from pretrain.registry import CHECKPOINT_FORMATS
from tests.pretrain.converters.test_round_trips import make

ROOT = Path(__file__).resolve().parents[3]


class Signed(CheckpointFormat):
    """A Hugging Face folder with a file of the user's in it: a special case of a built-in format."""

    place = "a signed folder"
    places = "signed folders"

    def recognises(self, place):
        return (place / "signature").is_file()

    def read(self, place, model_config):
        inner = checkpoint_format("hf").read(place, model_config)
        return Checkpoint("signed", str(place), inner.encoder, inner.weights)


class Doubled(Signed):
    """A special case of the special case."""

    def recognises(self, place):
        return super().recognises(place) and (place / "signature").read_text() == "twice"


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setattr(CHECKPOINT_FORMATS, "_entries", dict(CHECKPOINT_FORMATS._entries))
    CHECKPOINT_FORMATS.register("signed", f"{__name__}:Signed")
    CHECKPOINT_FORMATS.register("a_doubled", f"{__name__}:Doubled")


def test_one_list_for_reading_writing_help_and_documentation(capsys):
    formats = {name: checkpoint_format(name) for name in CHECKPOINT_FORMATS}
    assert list(formats) == ["native", "hf", "tf1", "h5", "savedmodel", "hub"]
    assert convert.main(["--help"]) == 0
    assert "native, hf, tf1, h5, savedmodel, hub" in " ".join(capsys.readouterr().out.split())
    page = (ROOT / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    table = page[page.index("| `--format` | what |") :].split("\n\n")[0].splitlines()[2:]
    rows = dict(re.match(r"\| `(\w+)` \| (.*) \|$", line).groups() for line in table)
    assert rows == {name: each.writes for name, each in formats.items()}
    assert formats_for_any_encoder() == "native, savedmodel, hub"


def test_each_format_recognises_what_it_writes_and_nothing_else(tmp_path):
    places = {}
    for name in ("native", "hf", "tf1", "h5"):
        write_checkpoint(tmp_path / name, make("albert", "encoder"), name)
        places[name] = tmp_path / name / ("tf2_model.h5" if name == "h5" else "")
    (tmp_path / "empty").mkdir()
    for place in (*places.values(), tmp_path / "empty", tmp_path / "absent"):
        found = [name for name in CHECKPOINT_FORMATS if checkpoint_format(name).recognises(place)]
        assert found == [name for name, own_place in places.items() if own_place == place]


def test_a_format_of_the_users_own_is_asked_first_and_the_latest_of_them(tmp_path, own):
    write_checkpoint(tmp_path / "out", make("bert", "encoder"), "hf")
    assert read_checkpoint(str(tmp_path / "out")).format == "hf"
    (tmp_path / "out" / "signature").write_text("once")
    assert read_checkpoint(str(tmp_path / "out")).format == "signed"
    assert type(format_of(tmp_path / "out")) is Signed
    (tmp_path / "out" / "signature").write_text("twice")
    assert type(format_of(tmp_path / "out")) is Doubled


def test_several_built_in_formats_are_refused_and_a_users_own_decides(tmp_path, own):
    write_checkpoint(tmp_path / "out", make("bert", "encoder"), "hf")
    np.savez(tmp_path / "out" / "state.npz", a=np.ones(1))
    with pytest.raises(
        UsageError, match=r"holds a run or checkpoint of ours \(state\.npz\) and Hugging Face's weights: which is meant"
    ):
        read_checkpoint(str(tmp_path / "out"))
    (tmp_path / "out" / "signature").write_text("once")
    assert read_checkpoint(str(tmp_path / "out")).format == "signed"


def test_what_a_place_nearly_is_decides_the_message(tmp_path, own):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "tf").mkdir()
    (tmp_path / "tf" / "checkpoint").write_text('model_checkpoint_path: "gone"\n')
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "state.json").write_text(json.dumps({"step": 1, "format_version": 1}))
    for name, message in (
        ("run", "the run has no finished checkpoint yet"),
        ("tf", "says that the latest checkpoint is 'gone', which is not in this folder"),
        ("half", r"half is damaged: state\.npz"),
        (
            ".",
            r"no checkpoint in this folder.*Known: our own run folders.*, Hugging Face folders, TensorFlow.*, signed folders",
        ),
    ):
        with pytest.raises(Exception, match=message):
            read_checkpoint(str(tmp_path / name))


def test_a_format_that_is_only_read_refuses_to_write(tmp_path, own):
    with pytest.raises(UsageError, match=r"a signed folder is only read, not written\. Choose another one with format"):
        write_checkpoint(tmp_path / "out", make("bert", "encoder"), "signed")
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_refused_before_anything_is_read(tmp_path, capsys):
    write_checkpoint(tmp_path / "run" / "checkpoints" / "step-00000000", make("bert", "encoder"), "native")
    for command, source in ((convert, "gone"), (export, str(tmp_path / "run"))):
        assert command.main([source, "out", "--format", "natve"]) == 2
        assert "unknown checkpoint format 'natve'. Did you mean native?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["os:path", "os:getcwd", "json:JSONDecoder"])
def test_what_is_not_a_format_is_refused_before_anything_is_read(tmp_path, capsys, name):
    assert convert.main([str(tmp_path / "absent"), str(tmp_path / "out"), f"--format={name}"]) == 2
    assert f"checkpoint format {name!r} is not a subclass of" in capsys.readouterr().err
