"""Published configurations: names, Google's files, Hugging Face's."""

import json
import logging
import math

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.encoders import model_config
from pretrain.encoders.albert import AlbertConfig
from pretrain.encoders.bert import BertConfig
from pretrain.encoders.model_config import model_config_names, read_model_config
from pretrain.layers.activations import ACTIVATIONS
from tests.shared import shared


def test_every_published_shape_reads():
    names = model_config_names()
    assert len(names) >= 40
    for name in names:
        choice = read_model_config(name)
        assert choice.type == name.split("_")[0]
        if choice.type == "mobilebert":  # a shape of its own: relu, bottlenecks
            continue
        assert choice.options.hidden_act == "gelu_tanh"
        assert choice.options.intermediate_size == 4 * choice.options.hidden_size
        assert choice.options.max_position_embeddings == 512


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads", "vocabulary", "dropout"),
    [
        ("bert_tiny", 2, 128, 2, 30522, 0.1),
        ("bert_mini", 4, 256, 4, 30522, 0.1),
        ("bert_small", 4, 512, 8, 30522, 0.1),
        ("bert_medium", 8, 512, 8, 30522, 0.1),
        ("bert_base_uncased", 12, 768, 12, 30522, 0.1),
        ("bert_large_cased", 24, 1024, 16, 28996, 0.1),
        ("bert_base_multilingual_cased", 12, 768, 12, 119547, 0.1),
        ("bert_base_chinese", 12, 768, 12, 21128, 0.1),
        ("bert_l10_h256", 10, 256, 4, 30522, 0.1),
        ("albert_base_v1", 12, 768, 12, 30000, 0.1),
        ("albert_base_v2", 12, 768, 12, 30000, 0),
        ("albert_large_v1", 24, 1024, 16, 30000, 0.1),
        ("albert_xlarge_v2", 24, 2048, 16, 30000, 0),
        ("albert_xxlarge_v1", 12, 4096, 64, 30000, 0),
    ],
)
def test_published_shapes(name, layers, hidden, heads, vocabulary, dropout):
    options = read_model_config(name).options
    assert (options.num_hidden_layers, options.hidden_size, options.num_attention_heads) == (layers, hidden, heads)
    assert (options.vocab_size, options.hidden_dropout_prob) == (vocabulary, dropout)


def test_google_gelu_is_the_approximation_and_hugging_face_gelu_is_exact(tmp_path):
    google = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_act": "gelu"}
    (tmp_path / "bert_config.json").write_text(json.dumps(google))
    assert read_model_config(tmp_path).options.hidden_act == "gelu_tanh"
    (tmp_path / "config.json").write_text(json.dumps(google | {"model_type": "bert"}))
    assert read_model_config(str(tmp_path / "config.json")).options.hidden_act == "gelu"
    (tmp_path / "config.json").write_text(json.dumps(google | {"model_type": "albert", "hidden_act": "gelu_new"}))
    albert = read_model_config(tmp_path / "config.json")
    assert albert.type == "albert"
    assert albert.options.hidden_act == "gelu_new"
    assert albert.options.embedding_projection is True


def test_fields_without_effect_are_named(tmp_path, caplog):
    model_config._report_once.cache_clear()  # another test may have read this configuration
    with caplog.at_level(logging.INFO):
        assert isinstance(read_model_config("albert_base_v1").options, AlbertConfig)
    assert (
        "albert_base_v1: no effect here: down_scale_factor, gap_size, net_structure_type, num_memory_blocks"
        in caplog.text
    )


SHAPE = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}


def hugging_face(tmp_path, kind="bert", **fields):
    (tmp_path / "config.json").write_text(json.dumps(SHAPE | {"model_type": kind} | fields))
    return read_model_config(tmp_path).options


@pytest.mark.parametrize("kind", ["bert", "albert", "mobilebert"])
@pytest.mark.parametrize(
    ("name", "function"),
    [  # as transformers 4.48 defines them (activations.py)
        ("gelu_fast", lambda x: 0.5 * x * (1 + np.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x)))),
        ("gelu_accurate", lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        ("gelu_pytorch_tanh", lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        ("gelu_new", lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        ("gelu_python", lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
        ("gelu", lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))),
        ("relu", lambda x: np.maximum(x, 0)),
    ],
)
def test_activations_of_hugging_face_are_what_its_code_computes(kind, name, function, tmp_path):
    more = {"embedding_size": 4, "intra_bottleneck_size": 4} if kind == "mobilebert" else {"embedding_size": 8}
    options = hugging_face(tmp_path, kind, hidden_act=name, **more)
    points = np.linspace(-6, 6, 4001, dtype=np.float32)
    np.testing.assert_allclose(ACTIVATIONS[options.hidden_act](points), function(points.astype(np.float64)), atol=1e-6)


@pytest.mark.parametrize("name", ["gelu_10", "quick_gelu", "silu", "swish", "mish", "tanh", "linear", "relu6"])
def test_other_activations_are_refused(name, tmp_path):
    with pytest.raises(UsageError, match=rf"hidden_act must be one of gelu, .* Received: '{name}'"):
        hugging_face(tmp_path, hidden_act=name)


def test_fields_without_effect_in_hugging_face_files(tmp_path, caplog):
    standard = {
        **{"tokenizer_class": "BertTokenizer", "torchscript": True, "chunk_size_feed_forward": 4, "num_beams": 4},
        **{"_attn_implementation_autoset": True, "max_length": 20, "do_sample": False, "add_cross_attention": False},
        **{"pruned_heads": {}, "quantization_config": None, "embedding_size": 8, "is_decoder": False},
    }
    with caplog.at_level(logging.INFO):
        plain = hugging_face(tmp_path, **standard)
        assert caplog.text == ""
        for _ in range(2):
            assert hugging_face(tmp_path, my_note="x", hidden_dropout_probs=0.5, **standard) == plain
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/config.json: unknown fields, not read: hidden_dropout_probs, my_note. hidden_dropout_probs: Did you mean "
        "hidden_dropout_prob?"
    ]


@pytest.mark.parametrize(
    ("field", "value", "only"),
    [
        ("is_decoder", True, "False"),
        ("add_cross_attention", True, "False"),
        ("is_encoder_decoder", True, "False"),
        ("position_embedding_type", "relative_key_query", "'absolute'"),
        ("pruned_heads", {"0": [1]}, "{}"),
        ("quantization_config", {"quant_method": "gptq"}, "{}"),
        ("auto_map", {"AutoModel": "own.Model"}, "{}"),
        ("embedding_size", 4, "8"),
    ],
)
def test_fields_of_other_computations_are_refused(field, value, only, tmp_path):
    with pytest.raises(
        UsageError, match=rf"config.json: {field} .* is not supported, only {only}: our encoders do not"
    ):
        hugging_face(tmp_path, **{field: value})


def test_what_hugging_face_files_leave_out_is_what_its_code_takes(tmp_path):
    """The defaults of BertConfig, AlbertConfig and MobileBertConfig of transformers 4.48."""
    assert hugging_face(tmp_path).intermediate_size == 3072
    (tmp_path / "config.json").write_text(
        '{"model_type": "albert", "vocab_size": 9, "hidden_size": 64, "num_hidden_layers": 1}'
    )
    albert = read_model_config(tmp_path).options
    assert (albert.num_attention_heads, albert.intermediate_size, albert.embedding_size) == (64, 16384, 128)
    assert (albert.hidden_act, albert.hidden_dropout_prob, albert.attention_probs_dropout_prob) == ("gelu_new", 0, 0)
    mobile = hugging_face(tmp_path, "mobilebert", hidden_size=512, num_attention_heads=4)
    assert (mobile.hidden_act, mobile.classifier_activation, mobile.attention_probs_dropout_prob) == ("relu", True, 0.1)


def test_a_byte_order_mark(tmp_path):
    plain = hugging_face(tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "config.json").read_bytes())
    assert read_model_config(tmp_path).options == plain


def test_hugging_face_folders_read():
    bert = read_model_config(shared("oracle", "hf", "bert_for_pretraining_gelu"))
    assert isinstance(bert.options, BertConfig)
    assert bert.options.hidden_act == "gelu"
    assert read_model_config(shared("oracle", "hf", "albert_for_pretraining")).type == "albert"


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("{", DataError, "bert_config.json: not JSON"),
        ("[1]", DataError, r"expected a JSON object, \{...\}, found '\[1\]'"),
        ('{"hiden_size": 8}', UsageError, "unknown field 'hiden_size'. Did you mean hidden_size"),
        ('{"hidden_size": 8}', UsageError, "vocab_size, num_hidden_layers missing"),
        ('{"model_type": "roberta"}', UsageError, "model_type 'roberta' is not supported. Supported: albert, bert"),
        (
            '{"model_type": "my_model"}',
            UsageError,
            "mobilebert. A module of yours that registers it is named by --import_module",
        ),
        (
            '{"model_type": "bert", "position_embedding_type": "relative_key"}',
            UsageError,
            "position_embedding_type 'relative_key' is not supported, only 'absolute'",
        ),
        (
            '{"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 3}',
            UsageError,
            "bert_config.json: hidden_size must be a multiple",
        ),
    ],
)
def test_bad_files_are_refused(tmp_path, content, error, message):
    (tmp_path / "bert_config.json").write_text(content)
    with pytest.raises(error, match=message):
        read_model_config(tmp_path)


def test_a_folder_without_a_configuration_hides_no_name(tmp_path, monkeypatch):
    known = read_model_config("albert_base_v2")
    (tmp_path / "albert_base_v2").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read_model_config("albert_base_v2") == known


def test_unknown_names_and_empty_folders_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"no model configuration 'albert_bse_v2'.*Did you mean .*albert_base_v2"):
        read_model_config("albert_bse_v2")
    with pytest.raises(UsageError, match=r"Expected one of bert_config.json, albert_config.json, config.json"):
        read_model_config(tmp_path)
