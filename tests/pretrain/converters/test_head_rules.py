"""The rules of heads on arrays alone: what is left out, what poolers start from, which facts are refused."""

import re
from dataclasses import replace

import numpy as np
import pytest

from nlpdata.errors import DataError
from pretrain.converters import heads
from pretrain.converters.checkpoint import Checkpoint
from pretrain.encoders.configs import BertConfig
from pretrain.settings.fields import Choice

HIDDEN = 8
ENCODER = Choice("bert", BertConfig(vocab_size=20, hidden_size=HIDDEN, num_attention_heads=2))
BODY = {"encoder/embeddings/word_embeddings": (20, HIDDEN)}
POOLER = {"encoder/pooler/kernel": (HIDDEN, HIDDEN), "encoder/pooler/bias": (HIDDEN,)}
PAIR_POOLER = {"sentence_pair/pooler/kernel": (HIDDEN, HIDDEN), "sentence_pair/pooler/bias": (HIDDEN,)}
PAIR = {"sentence_pair/logits/kernel": (HIDDEN, 2), "sentence_pair/logits/bias": (2,)}


def classifier(rows):
    return {"classifier/logits/kernel": (HIDDEN, rows), "classifier/logits/bias": (rows,)}


def made(shapes, encoder=ENCODER, **extras):
    rng = np.random.default_rng(0)
    return Checkpoint(
        "native", "here", encoder, {path: rng.random(shape) for path, shape in shapes.items()}, {}, extras
    )


def test_a_regression_of_several_numbers_is_left_out():
    for rows, kind, why in ((1, "regression", {}), (3, "classification", {}), (2, "multilabel", {})):
        assert heads.settled(made(BODY | classifier(rows), kind=kind)).left_out == why
    found = heads.settled(made(BODY | classifier(2), kind="regression"))
    assert found.left_out == {"classifier": "a regression of 2 numbers: our heads have one"}
    assert found.weights.keys() == BODY.keys()
    assert set(found.unused.values()) == {"of classifier, which is left out"}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"kind": "ranking"}, "its kind is 'ranking'. Expected one of"),
        ({"label_names": ["a", "b"]}, "label_names has 2 names (a, b), the classifier 3 rows"),
        ({"label_names": ["a", "b", "a"]}, "two classes are called 'a'"),
        ({"label_names": ["a", "b", 3]}, "label_names must be a list of names"),
        ({"label_names": "abc"}, "label_names must be a list of names"),
        ({"kind": 3}, "kind must be a word"),
        ({"seq_length": 0}, "seq_length must be a whole number above 0"),
        ({"seq_length": True}, "seq_length must be a whole number above 0"),
        ({"seq_length": 12.0}, "seq_length must be a whole number above 0"),
        ({"tokenizer_sha256": 1}, "tokenizer_sha256 must be a checksum in text"),
        ({"version_2_with_negative": 1}, "version_2_with_negative must be true or false"),
    ],
)
def test_facts_that_contradict_the_weights_or_are_of_another_type(facts, message):
    with pytest.raises(DataError, match=f"^here: .*{re.escape(message)}"):
        heads.settled(made(BODY | classifier(3), **facts))


def test_facts_that_may_be_there_or_not():
    for facts in (
        {},
        {
            "kind": None,
            "label_names": None,
            "seq_length": None,
            "tokenizer_sha256": None,
            "version_2_with_negative": None,
        },
        {"label_names": ["a", "b", "c"], "seq_length": 1, "version_2_with_negative": False, "label_names_of": 3},
    ):
        heads.check_facts(facts, "here")
        assert not heads.settled(made(BODY | classifier(3), **facts)).left_out
    with pytest.raises(DataError, match=r"^here: expected an object of facts about the model\. Received: 3"):
        heads.check_facts(3, "here")


def test_a_head_needs_its_own_shapes_and_a_pooler_alone_is_one():
    assert not heads.settled(made(BODY | PAIR)).left_out
    assert not heads.settled(made(BODY | PAIR_POOLER)).left_out
    assert not heads.settled(made(BODY | PAIR | PAIR_POOLER)).left_out
    half = heads.settled(made(BODY | PAIR | {"sentence_pair/pooler/kernel": (HIDDEN, HIDDEN)}))
    assert half.left_out == {"sentence_pair": "sentence_pair/pooler/bias is missing"}
    three = heads.settled(made(BODY | PAIR | {"sentence_pair/logits/bias": (3,)}))
    assert three.left_out == {"sentence_pair": "sentence_pair/logits/bias is (3,), expected (2,)"}
    odd = {"sentence_pair/logits/bias": (3,)}
    for nothing_to_fit in (made(BODY | odd, encoder=None), made(odd)):
        assert not heads.settled(nothing_to_fit).left_out
    known = replace(made(BODY | PAIR), left_out={"sentence_pair": "said before"})
    assert heads.settled(known).left_out == {"sentence_pair": "said before"}


@pytest.mark.parametrize("width", [4, 6])
def test_the_width_of_the_masked_lm_head_may_exceed_that_of_the_embeddings(width):
    shapes = {
        "encoder/embeddings/word_embeddings": (20, 4),
        "masked_lm/transform/kernel": (HIDDEN, width),
        "masked_lm/transform/bias": (width,),
        "masked_lm/layer_norm/gamma": (width,),
        "masked_lm/layer_norm/beta": (width,),
        "masked_lm/output_bias": (20,),
    }
    extra = {"masked_lm/extra_output_weights": (20, width - 4)} if width > 4 else {}
    assert not heads.settled(made(shapes | extra)).left_out
    for path in shapes.keys() | extra.keys():
        if path.startswith("masked_lm/"):
            less = {name: shape for name, shape in (shapes | extra).items() if name != path}
            assert f"{path} " in heads.settled(made(less)).left_out["masked_lm"]


def test_poolers_start_from_the_sentence_pairs_first():
    whole = made(BODY | POOLER | PAIR | PAIR_POOLER)
    found, notes = heads.with_pooler(whole, "classifier/pooler")
    np.testing.assert_array_equal(
        found.weights["classifier/pooler/kernel"], whole.weights["sentence_pair/pooler/kernel"]
    )
    np.testing.assert_array_equal(found.weights["classifier/pooler/bias"], whole.weights["sentence_pair/pooler/bias"])
    assert notes == ["classifier/pooler starts from the checkpoint's sentence_pair/pooler"]
    assert heads.with_pooler(found, "classifier/pooler") == (found, [])
    own = made(BODY | POOLER)
    found, notes = heads.with_pooler(own, "classifier/pooler")
    np.testing.assert_array_equal(found.weights["classifier/pooler/kernel"], own.weights["encoder/pooler/kernel"])
    assert notes == ["classifier/pooler starts from the checkpoint's encoder/pooler"]
    assert heads.with_pooler(made(BODY), "classifier/pooler")[1] == []


def test_a_shared_pooler_is_the_sentence_pairs():
    whole = made(BODY | POOLER | PAIR | PAIR_POOLER)
    found, notes = heads.with_shared_pooler(whole)
    assert found.weights.keys() == (BODY | POOLER | PAIR).keys()
    for part in ("kernel", "bias"):
        np.testing.assert_array_equal(
            found.weights[f"encoder/pooler/{part}"], whole.weights[f"sentence_pair/pooler/{part}"]
        )
    assert len(notes) == 1
    assert heads.with_shared_pooler(found) == (found, [])


def test_the_encoder_alone():
    whole = replace(made(BODY | POOLER | classifier(2), kind="classification", seq_length=9), left_out={"span": "why"})
    alone = heads.encoder_alone(whole)
    assert alone.weights.keys() == (BODY | POOLER).keys()
    assert (alone.extras, alone.left_out) == ({"seq_length": 9}, {})
    assert heads.poolers_among([*POOLER, *PAIR, *PAIR_POOLER]) == [*POOLER, *PAIR_POOLER]
    assert [heads.head_of(path) for path in ("encoder/pooler/kernel", "span/logits/bias")] == [None, "span"]
    assert heads.listed({"a": "x", "b": "y"}) == "a: x; b: y"
