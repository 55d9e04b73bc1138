"""Checkpoints with heads, and changes to the Hugging Face folders that are made of them, for tests."""

import json
from dataclasses import replace

from pretrain.convert import main as convert
from pretrain.converters import safetensors
from tests.pretrain.converters.test_round_trips import make

KINDS = {"classification": ["no", "maybe", "yes"], "multilabel": ["a", "b", "c"], "regression": []}
FAMILIES = {"bert": "Bert", "albert": "Albert", "mobilebert": "MobileBert"}
WORDS = "encoder/embeddings/word_embeddings"


def classifier(kind, encoder="bert", names=None, **extras):
    """A checkpoint with a classifier of this kind; a regression has one row."""
    checkpoint = make(encoder, "classifier")
    weights = dict(checkpoint.weights)
    if kind == "regression":
        weights["classifier/logits/kernel"] = weights["classifier/logits/kernel"][:, :1]
        weights["classifier/logits/bias"] = weights["classifier/logits/bias"][:1]
    extras |= {"kind": kind, "label_names": KINDS[kind] if names is None else names}
    return replace(checkpoint, weights=weights, extras=extras)


def edit(folder, **changes):
    """Other fields in config.json; ... removes one."""
    path = folder / "config.json"
    fields = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not ...}))


def rewrite(folder, change):
    """Other tensors in model.safetensors: change(dict of arrays)."""
    path = folder / "model.safetensors"
    tensors = {name: array.copy() for name, array in safetensors.Safetensors(path).items()}
    change(tensors)
    safetensors.write(path, tensors, {"format": "pt"})


def refused(argv, capsys) -> str:
    assert convert([str(word) for word in argv]) in (1, 2)
    return capsys.readouterr().err
