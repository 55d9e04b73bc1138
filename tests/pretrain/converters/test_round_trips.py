"""What is written in another format comes back bit for bit, and answers the same."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tensorflow as tf

from nlpdata.errors import UsageError
from nlpdata.finetuning.encode import lay_out
from nlpdata.tokenizers import load_tokenizer
from pretrain.converters import read_checkpoint
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.load import build_model
from pretrain.converters.write import write_checkpoint
from pretrain.encoders.albert import AlbertConfig
from pretrain.encoders.bert import BertConfig
from pretrain.encoders.configs import MobileBertConfig
from pretrain.encoders.model import weights_by_path
from pretrain.registry import CHECKPOINT_FORMATS
from pretrain.settings.fields import Choice
from tests.nlpdata.tokenizers.test_wordpiece import write
from tests.pretrain.converters.cards import run_usage, usage

SHAPE = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
ENCODERS = {
    "bert": Choice("bert", BertConfig(**SHAPE)),
    "albert": Choice("albert", AlbertConfig(**SHAPE, embedding_size=8)),
    "albert groups": Choice(
        "albert",
        AlbertConfig(**SHAPE | {"num_hidden_layers": 4}, embedding_size=8, num_hidden_groups=2, inner_group_num=2),
    ),
    "albert square": Choice("albert", AlbertConfig(**SHAPE, embedding_size=16)),
    "mobilebert": Choice(
        "mobilebert", MobileBertConfig(**SHAPE, embedding_size=8, intra_bottleneck_size=8, num_feedforward_networks=3)
    ),
    "mobilebert pooled": Choice(
        "mobilebert",
        MobileBertConfig(
            **SHAPE,
            embedding_size=16,
            intra_bottleneck_size=8,
            num_feedforward_networks=1,
            classifier_activation=True,
        ),
    ),
    "mobilebert wide": Choice(
        "mobilebert",
        MobileBertConfig(**SHAPE, embedding_size=8, intra_bottleneck_size=8, key_query_shared_bottleneck=False),
    ),
    "bert odd": Choice("bert", BertConfig(**SHAPE, type_vocab_size=3, layer_norm_eps=1e-5, hidden_act="gelu")),
}
# More encoders, for what others compute of them.
MORE = {
    "albert square projected": Choice("albert", AlbertConfig(**SHAPE, embedding_size=16, embedding_projection=True)),
    "albert exact gelu": Choice("albert", AlbertConfig(**SHAPE, embedding_size=8, hidden_act="gelu")),
    "albert odd": Choice("albert", AlbertConfig(**SHAPE, embedding_size=8, type_vocab_size=3, layer_norm_eps=1e-3)),
    "bert thin": Choice("bert", BertConfig(**SHAPE | {"num_hidden_layers": 1, "hidden_dropout_prob": 0.5})),
    "bert exact gelu": Choice("bert", BertConfig(**SHAPE, hidden_act="gelu")),
    "mobilebert narrow": Choice(
        "mobilebert",
        MobileBertConfig(**SHAPE, embedding_size=8, intra_bottleneck_size=8, use_bottleneck_attention=True),
    ),
}
HEADS = {
    "pretraining": {"masked_lm/output_bias": (60,), "sentence_pair/logits/kernel": (16, 2)},
    "encoder": {},
    "classifier": {"classifier/logits/kernel": (16, 3)},
    "span": {"span/logits/kernel": (16, 2)},
    "choice": {"choice/logits/kernel": (16, 1)},
    "conditional span": {"span/start_logits/kernel": (16, 1)},
}
# Formats that have no place for a model; the message says so (tested below).
IMPOSSIBLE = {
    ("tf1", "bert odd"),
    ("h5", "bert"),
    ("h5", "bert odd"),
    ("h5", "albert groups"),
    ("h5", "mobilebert"),
    ("h5", "mobilebert pooled"),
    ("h5", "mobilebert wide"),
    ("hf", "mobilebert wide"),
}
# Formats that have no place for a head.
NO_PLACE = {
    ("h5", "classifier"),
    ("h5", "span"),
    ("h5", "choice"),
    ("h5", "conditional span"),
    ("hf", "conditional span"),
}


def make(encoder: str, heads: str, seed=0, layers: int | None = None) -> Checkpoint:
    """A checkpoint of random weights, none zero."""
    rng = np.random.default_rng(seed)
    extras: dict = {"classifier": {"label_names": ["no", "maybe", "yes"]}, "choice": {"kind": "choice"}}.get(heads, {})
    choice, shapes = shapes_of(encoder, heads, layers)
    weights = {path: rng.normal(0, 0.3, shape).astype(np.float32) for path, shape in shapes.items()}
    return Checkpoint("native", "here", choice, weights, {}, extras)


@cache
def shapes_of(encoder: str, heads: str, layers: int | None) -> tuple[Choice, dict[str, tuple[int, ...]]]:
    """The encoder, and the shapes of all weights by path."""
    choice = (ENCODERS | MORE)[encoder]
    if layers:
        choice = replace(choice, options=replace(choice.options, num_hidden_layers=layers))
    of_heads = {path: np.zeros(shape, np.float32) for path, shape in HEADS[heads].items()}
    model = build_model(Checkpoint("native", "here", choice, of_heads, {}, {}))
    return choice, {path: tuple(weight.shape) for path, weight in weights_by_path(model).items()}


# Every head with every family; other encoders with the heads that depend on them.
PAIRS = [
    *((encoder, heads) for encoder in ("bert", "albert", "mobilebert") for heads in HEADS),
    *((encoder, "pretraining") for encoder in ENCODERS if encoder not in ("bert", "albert", "mobilebert")),
    ("albert square", "encoder"),
    ("mobilebert pooled", "classifier"),
]
# SavedModels take seconds each, most of them for each layer that is traced: these have two.
SAVED = [
    ("savedmodel", "albert groups", "classifier"),
    ("savedmodel", "bert odd", "conditional span"),
    ("hub", "albert", "pretraining"),
    ("savedmodel", "mobilebert", "pretraining"),
]
CASES = [
    *(
        (format, encoder, heads)
        for format in ("native", "hf", "tf1", "h5")
        for encoder, heads in PAIRS
        if (format, encoder) not in IMPOSSIBLE and (format, heads) not in NO_PLACE
    ),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in SAVED),
]


@pytest.mark.parametrize(("format", "encoder", "heads"), CASES)
def test_comes_back_bit_for_bit(format, encoder, heads, tmp_path):
    checkpoint = make(encoder, heads, layers=2 if format in ("savedmodel", "hub") else None)
    write_checkpoint(tmp_path / "out", checkpoint, format)
    place = tmp_path / "out"
    if format == "h5" and heads == "pretraining":
        place = place / "tf2_model_full.h5"
    elif format == "h5":
        place = place / "tf2_model.h5"
    again = read_checkpoint(str(place))
    wanted = dict(checkpoint.weights)
    if format == "hf" and encoder == "albert square":  # Hugging Face always projects; the identity stands for none
        wanted["encoder/embedding_projection/kernel"] = np.eye(16, dtype=np.float32)
        wanted["encoder/embedding_projection/bias"] = np.zeros(16, np.float32)
    assert again.weights.keys() == wanted.keys()
    for path, array in wanted.items():
        np.testing.assert_array_equal(again.weights[path], array, err_msg=path)
    own, other = checkpoint.encoder.options, again.encoder.options
    for name in ("num_attention_heads", "layer_norm_eps", "type_vocab_size", "num_hidden_layers"):
        assert getattr(own, name) == getattr(other, name)
    assert {"gelu_new": "gelu_tanh"}.get(other.hidden_act, other.hidden_act) == own.hidden_act
    if format in ("native", "hf", "savedmodel"):
        assert again.extras.get("label_names") == checkpoint.extras.get("label_names")
    if heads == "choice":
        assert again.extras["kind"] == "choice"
    assert not (tmp_path / "out.tmp").exists()


@pytest.mark.parametrize(
    ("format", "encoder", "message"),
    [
        ("tf1", "bert odd", "hidden_act 'gelu': its gelu is the tanh approximation"),
        ("h5", "albert groups", "one shared layer only"),
        ("h5", "bert", "one shared layer only"),
        ("hf", "mobilebert wide", r"vectors of hidden_size \(16\). transformers, .* of intra_bottleneck_size \(8\)"),
        ("h5", "albert choice", "format h5 has no place for choice/logits/bias, choice/logits/kernel"),
        ("onnx", "bert", "unknown checkpoint format 'onnx'"),
    ],
)
def test_formats_without_a_place_for_it(format, encoder, message, tmp_path):
    checkpoint = make(encoder.removesuffix(" choice"), "choice" if encoder.endswith("choice") else "encoder")
    with pytest.raises(UsageError, match=message):
        write_checkpoint(tmp_path / "out", checkpoint, format)
    assert not list(tmp_path.iterdir())


def test_heads_that_transformers_has_no_class_for(tmp_path):
    checkpoint = make("bert", "classifier")
    more = make("bert", "span").weights | checkpoint.weights
    with pytest.raises(UsageError, match="no class of Bert with the heads classifier, span"):
        write_checkpoint(tmp_path / "out", replace(checkpoint, weights=more), "hf")


def test_saved_model_answers_as_the_model_does(tmp_path):
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdef!", *(f"##{c}" for c in "abcdef")]
    tokenizer = load_tokenizer(write(tmp_path / "vocab.txt", entries), do_lower_case=True)
    checkpoint = replace(make("albert", "pretraining", layers=1), tokenizer=tokenizer)
    assert write_checkpoint(tmp_path / "out", checkpoint, "savedmodel") == []
    assert 'model.signatures["text"]' in usage(tmp_path / "out")
    assert run_usage(tmp_path / "out").startswith("[[[")
    rng = np.random.default_rng(3)
    inputs = {
        "input_ids": rng.integers(0, 60, (2, 9)).tolist(),
        "input_mask": [[1] * 9, [1] * 6 + [0] * 3],
        "segment_ids": [[0] * 5 + [1] * 4] * 2,
        "masked_lm_positions": [[1, 3], [2, 2]],
    }
    served = tf.saved_model.load(str(tmp_path / "out")).signatures
    answers = served["masked_lm"](**{name: tf.constant(rows, tf.int32) for name, rows in inputs.items()})
    first, second = ["ab Cab", "", "fed! " * 20], ["", "cab", "abc " * 20]
    of_text = served["text"](text=tf.constant(first))
    of_pair = served["text_pair"](text=tf.constant(first), text_pair=tf.constant(second))
    model = build_model(checkpoint)
    for path, weight in weights_by_path(model).items():
        weight.assign(checkpoint.weights[path])
    ours = model({name: np.array(rows, np.int32) for name, rows in inputs.items()})
    assert answers.keys() == ours.keys()
    for name, value in ours.items():
        np.testing.assert_allclose(np.array(answers[name]), np.asarray(value), atol=1e-6)
    for answer, other in ((of_text, ["", "", ""]), (of_pair, second)):
        columns, _ = lay_out(tokenizer, 20, tokenizer.encode(first), tokenizer.encode(other))
        inputs = {name: column.astype(np.int32) for name, column in columns.items()}
        for name in ("input_ids", "input_mask"):
            np.testing.assert_array_equal(answer.pop(name), inputs[name])
        ours = model(inputs, heads=["sentence_pair"])
        assert answer.keys() == ours.keys()
        for name, value in ours.items():
            np.testing.assert_allclose(np.array(answer[name]), np.asarray(value), atol=2e-6)


def test_every_writer_is_tested():
    assert {case[0] for case in [*CASES[: -len(SAVED)], *SAVED]} == set(CHECKPOINT_FORMATS)
