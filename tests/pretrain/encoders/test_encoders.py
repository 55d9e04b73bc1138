"""Encoders and heads against independent arithmetic, their weights' names, precision, errors."""

import hashlib

import keras
import numpy as np
import pytest
from keras import ops

from nlpdata.errors import UsageError
from pretrain.encoders.albert import AlbertConfig
from pretrain.encoders.bert import BertConfig
from pretrain.encoders.model import build_encoder, weights_by_path
from pretrain.layers.layer_norm import LayerNorm
from pretrain.registry import ENCODERS
from pretrain.settings.fields import choose
from tests.pretrain.models import albert, batch, bert, compiled, randomize, task, to_numpy
from tests.pretrain.reference import Reference

LAYER = {
    f"{part}/{name}"
    for part, names in {
        "attention": ("query", "key", "value", "output"),
        "feed_forward": ("intermediate", "output"),
    }.items()
    for dense in names
    for name in (f"{dense}/kernel", f"{dense}/bias", "layer_norm/gamma", "layer_norm/beta")
}
AROUND = {
    *(f"encoder/embeddings/{name}_embeddings" for name in ("word", "position", "token_type")),
    *("encoder/embeddings/layer_norm/gamma", "encoder/embeddings/layer_norm/beta"),
    *("encoder/pooler/kernel", "encoder/pooler/bias"),
    *("masked_lm/transform/kernel", "masked_lm/transform/bias", "masked_lm/output_bias"),
    *("masked_lm/layer_norm/gamma", "masked_lm/layer_norm/beta"),
    *("sentence_pair/logits/kernel", "sentence_pair/logits/bias"),
}


@pytest.mark.parametrize(
    "encoder",
    [
        bert(hidden_act="gelu"),
        bert(hidden_act="gelu_tanh", layer_norm_eps=1e-5),
        bert(hidden_act="relu", type_vocab_size=3),
        bert(hidden_act="gelu_new", type_vocab_size=1),
        albert(hidden_act="gelu"),
        albert(
            hidden_act="gelu_tanh", num_hidden_layers=5, num_hidden_groups=2, inner_group_num=2, layer_norm_eps=1e-3
        ),
        albert(embedding_size=16, type_vocab_size=3),
        albert(embedding_size=16, embedding_projection=True),
        bert(attention="talking_heads", feed_forward="gated"),
        albert(attention="talking_heads", num_hidden_layers=3, num_hidden_groups=2),
        albert(feed_forward="gated"),
    ],
    ids=lambda encoder: (
        f"{encoder.type}-{encoder.options.attention}-{encoder.options.feed_forward}-{encoder.options.hidden_act}"
    ),
)
def test_forward_pass_equals_numpy(encoder):
    model = task(encoder).build_model()
    inputs = batch(segments=encoder.options.type_vocab_size)
    expected = Reference(encoder.options, randomize(model))(inputs)
    outputs = model(inputs)
    assert set(outputs) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(ops.convert_to_numpy(outputs[name]), value, atol=2e-5, err_msg=name)


def test_talking_heads_keep_the_examples_of_a_row_apart():
    model = task(bert(attention="talking_heads", feed_forward="gated")).build_model()
    randomize(model)
    ids = np.arange(1, 10, dtype=np.int32)[None]
    apart = []
    for part in (ids[:, :5], ids[:, 5:]):
        alone = {"input_ids": part, "input_mask": np.ones_like(part), "segment_ids": np.zeros_like(part)}
        apart.append(ops.convert_to_numpy(model(alone, heads=())["sequence_output"]))
    row = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "position_ids": np.array([[0, 1, 2, 3, 4, 0, 1, 2, 3]], np.int32),
        "sequence_ids": np.array([[0] * 5 + [1] * 4], np.int32),
        "sequence_starts": np.array([[0, 5]], np.int32),
    }
    together = ops.convert_to_numpy(model(row, heads=())["sequence_output"])
    np.testing.assert_allclose(together, np.concatenate(apart, axis=1), atol=1e-5)


def test_weights_of_bert_by_path():
    model = task(bert()).build_model()
    weights = weights_by_path(model)
    assert set(weights) == AROUND | {f"encoder/layer_{i}/{name}" for i in range(2) for name in LAYER}
    shapes = {path: tuple(weight.shape) for path, weight in weights.items()}
    assert shapes["encoder/embeddings/word_embeddings"] == (60, 16)
    assert shapes["encoder/layer_1/feed_forward/intermediate/kernel"] == (16, 24)
    assert shapes["masked_lm/transform/kernel"] == (16, 16)
    assert shapes["sentence_pair/logits/kernel"] == (16, 2)
    assert set(weights_by_path(task(bert()).build_model())) == set(weights)  # the second model of a process too


def test_weights_of_albert_by_path():
    model = task(albert(num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2)).build_model()
    projection = {"encoder/embedding_projection/kernel", "encoder/embedding_projection/bias"}
    layers = {f"encoder/group_{g}/layer_{j}/{name}" for g in range(2) for j in range(2) for name in LAYER}
    weights = weights_by_path(model)
    assert set(weights) == AROUND | projection | layers
    assert tuple(weights["masked_lm/transform/kernel"].shape) == (16, 8)
    assert tuple(weights["encoder/embedding_projection/kernel"].shape) == (8, 16)
    equal = task(albert(embedding_size=16)).build_model()
    assert not projection & set(weights_by_path(equal))


def test_initial_weights_are_truncated_normal_and_follow_from_the_seed():
    first, again, other = (task(bert(vocab_size=2000)).build_model(seed) for seed in (7, 7, 8))
    weights = {path: to_numpy(value) for path, value in weights_by_path(first).items()}
    table = weights["encoder/embeddings/word_embeddings"]
    assert 0.0395 < np.abs(table).max() <= 0.04
    assert abs(table.std() - 0.02 * 0.8796) < 2e-4  # of a normal distribution cut at two standard deviations
    assert abs(table.mean()) < 5e-4
    assert (weights["encoder/layer_0/attention/layer_norm/gamma"] == 1).all()
    assert not weights["masked_lm/output_bias"].any()
    path = "encoder/layer_0/attention/query/kernel"
    assert (weights[path] == to_numpy(weights_by_path(again)[path])).all()
    assert (weights[path] != to_numpy(weights_by_path(other)[path])).any()
    assert (weights[path] != weights["encoder/layer_1/attention/query/kernel"]).any()
    # The same on every backend, and from one release to the next.
    assert hashlib.sha256(weights[path].tobytes()).hexdigest()[:16] == "b779d5c260316a35"


def test_padding_changes_nothing():
    model = task(albert()).build_model()
    randomize(model)
    inputs = batch()
    masked = inputs["input_mask"] == 0
    noisy = inputs | {"input_ids": np.where(masked, 33, inputs["input_ids"]).astype(np.int32)}
    real = ~masked
    first, second = (ops.convert_to_numpy(model(each)["sequence_output"]) for each in (inputs, noisy))
    np.testing.assert_allclose(first[real], second[real], atol=1e-6)
    assert np.abs(first[masked] - second[masked]).max() > 0.1


def test_logits_at_all_positions_contain_those_at_the_masked_ones():
    model = task(bert()).build_model()
    randomize(model)
    inputs = batch()
    chosen = ops.convert_to_numpy(model(inputs)["mlm_logits"])
    positions = inputs.pop("masked_lm_positions")
    everywhere = ops.convert_to_numpy(model(inputs)["mlm_logits"])
    assert everywhere.shape == (5, 12, 60)
    np.testing.assert_allclose(chosen, np.take_along_axis(everywhere, positions[..., None], 1), atol=1e-5)


def test_heads_can_be_left_out():
    model = task(bert()).build_model()
    assert set(model(batch(), heads=())) == {"sequence_output", "pooled_output"}
    assert set(model(batch(), heads=["sentence_pair"])) == {"sequence_output", "pooled_output", "sentence_logits"}
    assert "sentence_pair" not in task(bert(), use_next_sentence_label=False).build_model().heads


def test_bfloat16_keeps_weights_norms_and_probabilities_in_float32(monkeypatch):
    seen = []
    softmax = ops.softmax
    monkeypatch.setattr(ops, "softmax", lambda x: seen.append(keras.backend.standardize_dtype(x.dtype)) or softmax(x))
    encoder = albert(num_hidden_layers=4)
    values = randomize(task(encoder).build_model())
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = task(encoder).build_model()
        randomize(model)
        outputs = compiled(model.__call__)(batch())
    finally:
        keras.config.set_dtype_policy("float32")
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert keras.backend.standardize_dtype(outputs["sequence_output"].dtype) == "bfloat16"
    assert seen == ["float32"] * 4
    expected = Reference(encoder.options, values)(batch())["sequence_output"]
    difference = ops.convert_to_numpy(ops.cast(outputs["sequence_output"], "float32")) - expected
    assert 1e-4 < np.abs(difference).mean() < 0.03


def test_layer_norm_computes_in_float32():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        layer = LayerNorm(64, 1e-6)
        layer.build()
        x = ops.cast(np.random.default_rng(0).normal(100, 1, (8, 64)), "bfloat16")
        out = ops.convert_to_numpy(ops.cast(layer(x), "float32"))
    finally:
        keras.config.set_dtype_policy("float32")
    x = ops.convert_to_numpy(ops.cast(x, "float32")).astype(np.float64)
    expected = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    np.testing.assert_allclose(out, expected, rtol=2**-8, atol=1e-4)  # off by the rounding of the result only


def test_sequences_longer_than_the_positions_are_refused():
    with pytest.raises(UsageError, match=r"sequences of 21 tokens.*max_position_embeddings 20.*Cut them to 20"):
        task(bert()).build_model()(batch(length=21))
    assert task(bert()).build_model()(batch(length=20))["sequence_output"].shape == (5, 20, 16)


def test_inputs_of_wrong_shape_or_missing_are_refused():
    model = task(bert()).build_model()
    inputs = batch()
    with pytest.raises(UsageError, match=r"must all be \(batch, length\).*\(5, 11\)"):
        model(inputs | {"input_mask": inputs["input_mask"][:, :11]})
    with pytest.raises(UsageError, match=r"needs input_mask. Received: input_ids"):
        model({"input_ids": inputs["input_ids"], "segment_ids": inputs["segment_ids"]})


@pytest.mark.parametrize(
    ("config_class", "options", "message"),
    [
        (
            BertConfig,
            {"hidden_size": 10, "num_attention_heads": 4},
            "multiple of num_attention_heads. Received: 10 and 4",
        ),
        (BertConfig, {"num_hidden_layers": 0}, "num_hidden_layers must be a whole number above 0. Received: 0"),
        (BertConfig, {"vocab_size": 1.5}, "vocab_size must be a whole number"),
        (BertConfig, {"hidden_act": "gleu"}, "hidden_act must be one of gelu, .*Received: 'gleu'"),
        (BertConfig, {"hidden_dropout_prob": 1.0}, "hidden_dropout_prob must be at least 0 and below 1"),
        (BertConfig, {"layer_norm_eps": 0.0}, "layer_norm_eps must be above 0"),
        (AlbertConfig, {"embedding_size": 0}, "embedding_size must be a whole number"),
        (AlbertConfig, {"num_hidden_groups": 13}, "must not exceed num_hidden_layers. Received: 13 and 12"),
        (AlbertConfig, {"embedding_projection": False}, "embedding_projection can be false only.*128 and 768"),
    ],
)
def test_impossible_shapes_are_refused(config_class, options, message):
    with pytest.raises(UsageError, match=message):
        config_class(**options)


def test_parts_of_a_layer_that_are_none_are_refused():
    for options in ({"attention": "os:system"}, {"feed_forward": "keras.layers:Dense"}):
        for encoder in ("bert", "albert", "mobilebert"):
            chosen = choose(ENCODERS, encoder, **options)
            with pytest.raises(
                UsageError, match=rf"{next(iter(options.values()))}' is not a subclass of pretrain\.layers"
            ):
                build_encoder(chosen)
