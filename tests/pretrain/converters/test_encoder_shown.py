"""Without a configuration the architecture is what the weights and the graph show; what they do not show is asked for."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest

import pretrain
from nlpdata.errors import DataError, UsageError
from nlpdata.files.unpacking import unpacked
from pretrain.converters import read_checkpoint, read_encoder
from pretrain.converters.architecture import agreeing, encoder_shown, shown_by
from pretrain.converters.checkpoint import NoConfigurationError
from pretrain.converters.graph_facts import GraphFacts, read_graph
from pretrain.converters.weights import give
from pretrain.encoders.model import weights_by_path
from pretrain.encoders.model_config import published_shapes
from pretrain.encoders.published import published_form
from pretrain.registry import ENCODERS
from pretrain.run import resolve
from pretrain.settings.fields import choose
from pretrain.settings.flags import parse_flags
from tests.messages import messages
from tests.pretrain.runs import tiny
from tests.pretrain.settings import garden_files
from tests.shared import shared

pytestmark = pytest.mark.heavy

GRAPH = GraphFacts(attention_size=8, attentions=3, hidden_act="gelu", layer_norm_eps=1e-6, hidden_dropout_prob=0.2)


def garden_shapes(encoder) -> dict[str, tuple[int, ...]]:
    """The names and shapes of an encoder's weights in the Model Garden's checkpoints."""
    from pretrain.converters.checkpoint import Checkpoint
    from pretrain.encoders.model import EncoderModel, build_encoder

    model = EncoderModel(build_encoder(encoder))
    model.build()
    weights = {path: np.zeros(weight.shape, np.float32) for path, weight in weights_by_path(model).items()}
    arrays = give(Checkpoint("tf2", "x", encoder, weights), published_form(encoder.type).names["tf2"])
    return {name: array.shape for name, array in arrays.items()}


@pytest.mark.parametrize("kind", ["bert", "albert"])
@pytest.mark.parametrize("heads", [2, 4, 8])
def test_all_sizes_are_in_the_shapes(kind, heads):
    encoder = tiny(kind, num_attention_heads=heads, num_hidden_layers=3, type_vocab_size=3, max_position_embeddings=40)
    shown = shown_by(garden_shapes(encoder), "tf2", GRAPH)
    found, notes = encoder_shown(shown, "here")
    wanted = replace(
        encoder.options, hidden_act="gelu", layer_norm_eps=1e-6, hidden_dropout_prob=0.2,
        attention_probs_dropout_prob={"bert": 0.1, "albert": 0.0}[kind], initializer_range=0.02,
    )  # fmt: skip
    assert (found.type, found.options) == (kind, wanted)
    assert notes[0].startswith(
        f"no configuration; its weights and graph show {kind}, hidden_size 32, num_hidden_layers 3"
    )
    assert "attention_probs_dropout_prob" in notes[1]
    assert "hidden_dropout_prob" not in notes[1]


def test_google_weights_need_a_graph_for_their_heads():
    shapes = {
        "bert/embeddings/word_embeddings": (30522, 768), "bert/embeddings/position_embeddings": (512, 768),
        "bert/embeddings/token_type_embeddings": (2, 768), "bert/embeddings/LayerNorm/gamma": (768,),
        **{f"bert/encoder/layer_{i}/attention/self/query/kernel": (768, 768) for i in range(12)},
        "bert/encoder/layer_0/intermediate/dense/kernel": (768, 3072),
    }  # fmt: skip
    with pytest.raises(
        NoConfigurationError, match=r"bert, hidden_size 768, .*not show num_attention_heads.*bert_base_uncased"
    ):
        encoder_shown(shown_by(shapes, "tf1", None), "here")
    shown = shown_by(
        shapes, "tf1", GraphFacts(attention_size=64, attentions=12, hidden_act="gelu_tanh", layer_norm_eps=1e-12)
    )
    assert encoder_shown(shown, "here")[0] == published_shapes()["bert_base_uncased"]


def test_weights_of_no_known_encoder_show_nothing():
    assert shown_by({"other/weights": (3, 4)}, "tf2", None) is None


def test_a_configuration_that_contradicts_the_weights():
    encoder = tiny("bert", num_attention_heads=4, num_hidden_layers=2)
    shown = shown_by(garden_shapes(encoder), "tf2", None)
    assert agreeing(shown, encoder, "here") == encoder
    for other, message in (
        (tiny("bert", num_attention_heads=2, num_hidden_layers=2), "num_attention_heads 4, the configuration says 2"),
        (tiny("bert", num_hidden_layers=3, num_attention_heads=4), "num_hidden_layers 2, the configuration says 3"),
        (tiny("albert"), "an encoder of type 'bert', the configuration says 'albert'"),
    ):
        with pytest.raises(UsageError, match=f"here: its weights show {message}"):
            agreeing(shown, other, "here")


def test_the_graph_decides_on_what_shapes_do_not_show():
    encoder = tiny("bert", num_attention_heads=4, num_hidden_layers=2, hidden_act="gelu_new")
    shown = shown_by(garden_shapes(encoder), "tf2", GraphFacts(hidden_act="gelu_tanh", layer_norm_eps=1e-3))
    assert agreeing(shown, encoder, "here").options == replace(encoder.options, layer_norm_eps=1e-3)


ORACLES = {
    "tfm/bert_hub_model.tar.gz": "bert_tf1", "tfm/albert_hub_model.tar.gz": "albert_tf1", "bert_tfhub_v1/module": "bert_tf1",
    "tfm/native_bert_pretrainer": "bert_tf1",
}  # fmt: skip


@pytest.mark.parametrize("source", ORACLES)
def test_modules_and_checkpoints_of_the_original_code(source):
    from pretrain.encoders.model_config import read_model_config

    assert read_encoder(str(shared("oracle", source))) == read_model_config(str(shared("oracle", ORACLES[source])))


def test_layers_that_share_weights_without_a_graph_are_asked_for():
    source = str(shared("oracle", "tfm", "albert_ckpt_encoder"))
    with pytest.raises(NoConfigurationError, match=r"albert, hidden_size 32, .* do not show num_hidden_layers"):
        read_encoder(source, choose(ENCODERS, "albert"))
    assert pretrain.load(source, shared("oracle", "albert_tf1")).encoder.num_hidden_layers == 3


def test_a_model_config_may_be_a_name():
    with pytest.raises(UsageError, match="vocab_size 2000, the configuration says 30000"):
        pretrain.load(str(shared("oracle", "tfm", "albert_ckpt_encoder")), model_config="albert_base_v2")
    with pytest.raises(UsageError, match=r"no model configuration 'albert_bas_v2'.*Did you mean albert_base_v2"):
        pretrain.load("x", model_config="albert_bas_v2")


@pytest.mark.parametrize("sizes", [True, False])
def test_a_module_decides_the_architecture_as_in_the_model_garden(sizes, tmp_path):
    (tmp_path / "base.yaml").write_text(garden_files.BERT_BASE)
    module = shared("oracle", "tfm", "bert_hub_model.tar.gz")
    flags = [f"--config_file={tmp_path}/base.yaml"] if sizes else []
    flags = ["--experiment=bert/squad", *flags, f"--params_override=task.hub_module_url={module}"]
    with messages() as said:
        config = resolve(parse_flags(flags))
    assert config.task.model.encoder == read_encoder(str(module))
    assert any(f"with the sizes of {module}" in line for line in said)
    named = resolve(parse_flags([*flags, "--model_config=bert_l2_h128"]))
    assert named.task.model.encoder.options.hidden_size == 128


def test_a_graph_that_tensorflow_writes(tmp_path):
    import tensorflow as tf

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.float32)])
        def __call__(self, x):
            for layer in range(2):
                with tf.name_scope(f"transformer/layer_{layer}/self_attention"):
                    x = tf.nn.softmax(tf.multiply(x, 0.25, name="Mul"))
                    x = tf.nn.dropout(x, 0.3)
                with tf.name_scope(f"transformer/layer_{layer}/output_dropout"):
                    x = tf.nn.dropout(x, 0.1)
                with tf.name_scope(f"transformer/layer_{layer}/output_layer_norm/"):
                    x = tf.nn.batch_normalization(x, *tf.nn.moments(x, [1], keepdims=True), 0.0, 1.0, 1e-5)
                x = tf.nn.gelu(x)
            return x

    tf.saved_model.save(Module(), str(tmp_path))
    assert read_graph(tmp_path / "saved_model.pb") == GraphFacts(
        attention_size=16, attentions=2, hidden_act="gelu", layer_norm_eps=1e-5, hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.3,
    )  # fmt: skip
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 100)
    with pytest.raises(DataError, match=r"saved_model\.pb: cannot be read as a SavedModel"):
        read_graph(tmp_path / "saved_model.pb")


def test_what_is_not_shown_is_reported_once_with_the_archives_name():
    source = str(shared("oracle", "tfm", "bert_hub_model.tar.gz"))
    with messages() as said:
        read_checkpoint(source)
    assert [line.partition(": ")[0] for line in said] == [source, source]


def test_damage_to_a_graph_is_reported_or_not_seen(tmp_path):
    content = (unpacked(shared("oracle", "tfm", "albert_hub_model.tar.gz")) / "saved_model.pb").read_bytes()
    draw = np.random.default_rng(0)
    for _ in range(12):
        damaged = bytearray(content)
        for at in draw.integers(0, len(content), 40):
            damaged[at] ^= 1 << int(draw.integers(0, 8))
        (tmp_path / "saved_model.pb").write_bytes(bytes(damaged[: int(draw.integers(len(content) // 2, len(content)))]))
        with contextlib.suppress(DataError):
            assert isinstance(read_graph(tmp_path / "saved_model.pb"), GraphFacts)


@pytest.mark.parametrize("shape", [(), (3,), (3, 4, 5, 6)])
def test_shapes_of_damaged_weights_show_nothing(shape):
    shapes = garden_shapes(tiny("bert", num_hidden_layers=2))
    for name in ("word_embeddings/embeddings", "transformer/layer_0/self_attention/query/kernel"):
        assert shown_by(shapes | {name: shape}, "tf2", None) is None


@pytest.mark.parametrize(
    ("kind", "heads", "layers", "activation", "epsilon"),
    [("bert", 4, 3, "relu", 1e-6), ("bert", 2, 1, "gelu", 1e-5), ("albert", 8, 4, "gelu_tanh", 1e-12)],
)
def test_a_module_of_another_size_computes_the_same_without_a_configuration(
    kind, heads, layers, activation, epsilon, tmp_path
):
    from tests.pretrain.converters.garden_module import write

    encoder = tiny(kind, num_attention_heads=heads, num_hidden_layers=layers)
    draw = np.random.default_rng(0)
    shapes = {name: shape for name, shape in garden_shapes(encoder).items() if "cls" not in name}
    arrays = {name: draw.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    module = write(tmp_path / "module", arrays, layers, activation, epsilon)
    ids = draw.integers(0, 200, (2, 9)).astype(np.int32)
    mask, segments = np.array([[1] * 9, [1] * 5 + [0] * 4], np.int32), np.array([[0] * 4 + [1] * 5] * 2, np.int32)
    theirs = module({"input_word_ids": ids, "input_mask": mask, "input_type_ids": segments})
    ours = pretrain.load(tmp_path / "module")({"input_ids": ids, "input_mask": mask, "segment_ids": segments})
    options = read_encoder(str(tmp_path / "module")).options
    assert (options.num_attention_heads, options.num_hidden_layers, options.hidden_act, options.layer_norm_eps) == (
        heads, layers, activation, epsilon,
    )  # fmt: skip
    real = mask.astype(bool)
    for name, rows in (("sequence_output", real), ("pooled_output", slice(None))):
        assert np.abs(np.asarray(ours[name])[rows] - theirs[name].numpy()[rows]).max() < 2e-5
