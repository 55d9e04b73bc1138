"""Checkpoints made by the original code give the outputs that the original code gave."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import pretrain
from pretrain.encoders.model_config import read_model_config
from pretrain.settings.schema import registered
from pretrain.settings.tree import with_layers
from pretrain.settings.yaml_files import read_yaml
from tests.shared import shared

pytestmark = pytest.mark.heavy


TOLERANCE = 2e-5
# checkpoint, its configuration where it holds none, reference, prefix of the inputs, prefix of the outputs
CASES = [
    ("bert_tf1", None, "bert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("bert_tf1", None, "bert_tf1/reference.npz", "s40/in/", "s40/out/"),
    ("bert_tf1/with_optimizer", "bert_tf1", "bert_tf1/with_optimizer/reference.npz", "s16/in/", "s16/out/"),
    ("albert_tf1", None, "albert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("albert_tf1", None, "albert_tf1/reference.npz", "s40/in/", "s40/out/"),
    ("albert_tf1/with_optimizer", None, "albert_tf1/with_optimizer/reference.npz", "s40/in/", "s40/out/"),
    ("albert_tf1/groups2_inner1", None, "albert_tf1/groups2_inner1/reference.npz", "s16/in/", "s16/out/"),
    ("albert_tfhub_v2/module", None, "albert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("albert_tfhub_v2_nosop/module.tar.gz", None, "albert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("bert_tfhub_v1/module", None, "bert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("kamalkraj_tf2/albert_tfhub_v2/tf2_model.h5", None, "albert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("kamalkraj_tf2/albert_tfhub_v2/tf2_model_full.h5", None, "albert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("tfm/bert_ckpt_encoder", None, "bert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("tfm/bert_ckpt_pretrainer", None, "bert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("tfm/albert_ckpt_encoder", "albert_tf1", "albert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("tfm/albert_ckpt_pretrainer", "albert_tf1", "albert_tf1/reference.npz", "s16/in/", "s16/out/"),
    ("tfm/native_bert_pretrainer", None, "tfm/native_bert_pretrainer/reference.npz", "in/", "out/"),
    ("tfm/native_albert_pretrainer", "albert_tf1", "tfm/native_albert_pretrainer/reference.npz", "in/", "out/"),
    *(
        (
            f"tfm/{kind}_hub_model{mlm}.tar.gz",
            None,
            f"tfm/{kind}_hub_model{mlm}_reference.npz",
            "s16/in/",
            "s16/",
        )
        for kind in ("bert", "albert")
        for mlm in ("", "_with_mlm")
    ),
    *(
        (
            f"tfm/native_{kind}_hub_with_mlm.tar.gz",
            None,
            f"tfm/native_{kind}_hub_with_mlm_reference.npz",
            "in/",
            "out/",
        )
        for kind in ("bert", "albert")
    ),
    *(
        (f"hf/{name}", None, f"hf/{name}/reference.npz", "", "")
        for name in ("albert_for_pretraining", "bert_for_pretraining_gelu", "bert_for_sequence_classification")
    ),
]


@cache
def _reference(name):
    return dict(np.load(shared("oracle", name)))


@cache
def _model(source, config):
    model_config = read_model_config(str(shared("oracle", config))) if config else None
    return pretrain.load(str(shared("oracle", source)), model_config)


def _log_softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def _comparisons(outputs, reference):
    """(what, ours, the original's) for everything that both have."""
    same = {
        "sequence_output": "sequence_output",
        "last_hidden": "sequence_output",
        "pooled_output": "pooled_output",
        "pooled": "pooled_output",
        "mlm/mlm_logits": "mlm_logits",
        "mlm_logits": "mlm_logits",
        "prediction_logits": "mlm_logits",
        "next_sentence": "sentence_logits",
        "sop_logits": "sentence_logits",
        "seq_relationship_logits": "sentence_logits",
        "logits": "logits",
    }
    log_probs = {"mlm_log_probs": "mlm_logits", "nsp_log_probs": "sentence_logits", "sop_log_probs": "sentence_logits"}
    for theirs, ours in same.items():
        if theirs in reference and ours in outputs:
            yield theirs, outputs[ours], reference[theirs]
    for theirs, ours in log_probs.items():
        if theirs in reference and ours in outputs:
            yield theirs, _log_softmax(outputs[ours]).reshape(reference[theirs].shape), reference[theirs]


@pytest.mark.parametrize(("source", "config", "reference", "inputs", "outputs"), CASES)
def test_outputs_equal_the_originals(source, config, reference, inputs, outputs):
    stored = _reference(reference)
    names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
    batch = {name: stored[inputs + name] for name in names if inputs + name in stored}
    model = _model(source, config)
    ours = {name: np.asarray(value) for name, value in model(batch).items()}
    theirs = {name[len(outputs) :]: value for name, value in stored.items() if name.startswith(outputs)}
    compared = list(_comparisons(ours, theirs))
    assert {"sequence_output", "last_hidden"} & {what for what, *_ in compared}
    expected = {"masked_lm", "sentence_pair", "classifier"} & model.heads.keys()
    heads = {"mlm": "masked_lm", "prediction": "masked_lm", "logits": "classifier"}
    heads |= dict.fromkeys(("nsp", "sop", "next", "seq"), "sentence_pair")
    seen = {
        heads[what.split("_")[0].split("/")[0]] for what, *_ in compared if what.split("_")[0].split("/")[0] in heads
    }
    optional = (
        {"masked_lm"} if not any("mlm_log" in name for name in theirs) and "prediction_logits" not in theirs else set()
    )
    assert expected - seen <= optional
    for what, mine, original in compared:
        assert mine.shape == original.shape, what
        assert np.abs(mine - original).max() < TOLERANCE, f"{what}: {np.abs(mine - original).max()}"


@pytest.mark.parametrize(("activation", "most", "least"), [("gelu", TOLERANCE, 0), ("exact", 1, 1e-4)])
def test_the_gelu_of_the_model_garden_is_its_tanh_form(tmp_path, activation, most, least):
    """A configuration of the Garden for a checkpoint of the Garden, without a graph, which ALBERT's layers need."""
    layer = read_yaml(shared("oracle", "tfm", "albert_encoder.yaml"))
    encoder = with_layers(
        registered("albert/pretraining"), [("albert_encoder.yaml", {"task": {"model": {"encoder": layer}}})]
    )
    encoder = encoder.task.model.encoder
    assert encoder.options.hidden_act == "gelu_tanh"
    if activation == "exact":
        encoder = replace(encoder, options=replace(encoder.options, hidden_act="gelu"))
    stored = _reference("albert_tf1/reference.npz")
    batch = {name: stored[f"s40/in/{name}"] for name in ("input_ids", "input_mask", "segment_ids")}
    ours = pretrain.load(shared("oracle", "tfm", "albert_ckpt_encoder"), encoder)(batch)["sequence_output"]
    assert least <= np.abs(np.asarray(ours) - stored["s40/out/sequence_output"]).max() < most


GOLDEN = Path(__file__).parents[1] / "golden"


def test_mobilebert_equals_transformers():
    """golden/make_mobilebert.py says how the files were made."""
    folder = GOLDEN / "mobilebert"
    stored = dict(np.load(folder / "reference.npz"))
    ours = pretrain.load(str(folder))({name: stored[name] for name in ("input_ids", "input_mask", "segment_ids")})
    real = stored["input_mask"].astype(bool)
    for name in ("sequence_output", "mlm_logits", "pooled_output", "sentence_logits"):
        found, wanted = np.asarray(ours[name]), stored[name]
        rows = real if wanted.ndim == 3 else slice(None)
        assert found.shape == wanted.shape
        assert np.abs(wanted[rows]).max() > 0.1
        assert np.abs(found - wanted)[rows].max() < TOLERANCE, name
