"""Encoders with other layers than the standard ones: formats that hold them, formats that refuse them, and what names them."""

import json

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.converters import Checkpoint, read_checkpoint
from pretrain.converters.checkpoint import stored_encoder
from pretrain.converters.write import write_checkpoint
from pretrain.encoders.model import build_encoder, new_model
from pretrain.encoders.model_config import read_model_config
from tests.pretrain.models import SMALL, albert, bert, randomize, task

VARIANTS = {
    "bert": bert(attention="talking_heads", feed_forward="gated"),
    "albert": albert(feed_forward="gated"),
}


def checkpoint(encoder):
    return Checkpoint("native", "tests", encoder, randomize(new_model(build_encoder(encoder), {}, 0)))


@pytest.mark.parametrize("kind", VARIANTS)
def test_they_come_back_in_our_own_format_and_others_refuse_them(kind, tmp_path):
    whole = checkpoint(VARIANTS[kind])
    assert [path for path in whole.weights if path.endswith("/gate/kernel")]
    write_checkpoint(tmp_path / "native", whole, "native")
    again = read_checkpoint(tmp_path / "native")
    assert again.encoder == whole.encoder
    assert again.weights.keys() == whole.weights.keys()
    for path, array in whole.weights.items():
        np.testing.assert_array_equal(again.weights[path], array)
    odd = "attention 'talking_heads' and feed_forward 'gated'" if kind == "bert" else "feed_forward 'gated'"
    for format in ("hf", "tf1", *(["h5"] if kind == "albert" else [])):
        with pytest.raises(UsageError, match=f"has no place for {odd} of an encoder"):
            write_checkpoint(tmp_path / format, whole, format)
        assert not (tmp_path / format).exists()


def test_a_checkpoint_that_does_not_mention_the_layers_has_the_standard_ones():
    stored = {"type": "bert", "options": dict(SMALL)}
    assert stored_encoder(stored, "state.json") == bert(attention="standard", feed_forward="standard")


def test_published_configurations_do_not_mention_the_layers(tmp_path):
    write_checkpoint(tmp_path / "hf", checkpoint(bert()), "hf")
    write_checkpoint(tmp_path / "tf1", checkpoint(bert(hidden_act="gelu_tanh")), "tf1")
    for path in ("hf/config.json", "tf1/bert_config.json"):
        fields = json.loads((tmp_path / path).read_text())
        assert fields["hidden_size"] == 16
        assert not fields.keys() & {"attention", "feed_forward"}


def test_weights_of_standard_layers_are_no_start_for_others(tmp_path):
    write_checkpoint(tmp_path / "plain", checkpoint(bert()), "native")
    job = task(VARIANTS["bert"], init_checkpoint=str(tmp_path / "plain"))
    with pytest.raises(DataError, match=r"attention/post_softmax|feed_forward/gate"):
        job.initialize(job.build_model())


def test_a_file_names_layers_that_are_registered_and_no_others(tmp_path):
    path = tmp_path / "sizes.json"
    path.write_text(json.dumps(SMALL | {"attention": "talking_heads"}))
    assert read_model_config(str(path)).options.attention == "talking_heads"
    for name, message in (
        ("talking_head", "unknown attention 'talking_head'. Did you mean talking_heads?"),
        ("planted:Talk", "attention 'planted:Talk' is not part of this program.*--import_module planted "),
        (3, "attention must be one of standard, talking_heads. Received: 3"),
    ):
        path.write_text(json.dumps(SMALL | {"attention": name}))
        with pytest.raises(UsageError, match=f"sizes.json: {message}"):
            read_model_config(str(path))
