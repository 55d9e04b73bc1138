"""A module written for hub.KerasLayer has what readers of the Model Garden's modules use, in a process of TensorFlow alone."""

import numpy as np
import pytest

from nlpdata.finetuning.encode import lay_out
from nlpdata.tokenizers import load_tokenizer
from pretrain.convert import main as convert
from pretrain.converters.hub_module import HUB_INPUTS, PREPROCESS
from tests.pretrain.converters.cards import run_usage, usage
from tests.shared import shared

pytestmark = pytest.mark.heavy

TEXTS = ["The fox, which eats 3 berries!", "", "Ünïcode and " + "long " * 40]
PAIRS = ["A second text.", "here", "x " * 30]


@pytest.fixture(scope="module", params=["bert_tf1", pytest.param("albert_tf1", marks=pytest.mark.slow)])
def exported(request, tmp_path_factory):
    """(name of the original, folder of the module)."""
    folder = tmp_path_factory.mktemp("hub") / "out"
    assert convert([str(shared("oracle", request.param)), str(folder), "--format", "hub"]) == 0
    return request.param, folder


@pytest.fixture(scope="module")
def encoder(exported):
    import tensorflow as tf

    return tf.saved_model.load(str(exported[1]))


@pytest.fixture(scope="module")
def reference(exported):
    stored = np.load(shared("oracle", exported[0], "reference.npz"))
    names = dict(zip(HUB_INPUTS, ("input_ids", "input_mask", "segment_ids"), strict=True))
    return {name: stored[f"s40/in/{ours}"].astype(np.int32) for name, ours in names.items()}, {
        key.removeprefix("s40/out/"): stored[key] for key in stored if key.startswith("s40/out/")
    }


def test_the_program_of_the_model_card(exported):
    assert f'tf.saved_model.load("{PREPROCESS}")' in usage(exported[1])
    if exported[0] == "bert_tf1":  # the other one's program is the same
        assert run_usage(exported[1]).startswith("(1, ")


def test_outputs_are_the_originals(encoder, reference):
    inputs, wanted = reference
    outputs = encoder(inputs)
    layers = [wanted[f"encoder_layer_{i}"] for i in range(len(outputs["encoder_outputs"]))]
    assert f"encoder_layer_{len(layers)}" not in wanted
    for found, own in zip(outputs["encoder_outputs"], layers, strict=True):
        assert np.abs(found.numpy() - own).max() < 2e-5
    for name in ("pooled_output", "sequence_output"):
        assert np.abs(outputs[name].numpy() - wanted[name]).max() < 2e-5
    np.testing.assert_array_equal(outputs["default"], outputs["pooled_output"])
    np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])
    assert encoder.regularization_losses == []


def test_a_list_gives_the_two_outputs_of_the_first_modules(encoder, reference):
    inputs, wanted = reference
    pooled, sequence = encoder([inputs[name] for name in HUB_INPUTS])
    assert np.abs(pooled.numpy() - wanted["pooled_output"]).max() < 2e-5
    assert np.abs(sequence.numpy() - wanted["sequence_output"]).max() < 2e-5
    dropped, _ = encoder([inputs[name] for name in HUB_INPUTS], training=True)
    assert dropped.shape == pooled.shape


def test_the_signature_and_the_masked_language_model(encoder, reference):
    inputs, wanted = reference
    signature = encoder.signatures["serving_default"]
    assert signature.structured_input_signature[1].keys() == set(HUB_INPUTS)
    outputs = signature(**{name: values for name, values in inputs.items()})
    assert {"pooled_output", "sequence_output", "default"} <= outputs.keys()
    assert np.abs(outputs["pooled_output"].numpy() - wanted["pooled_output"]).max() < 2e-5
    masked = encoder.mlm(inputs | {"masked_lm_positions": np.array([[1, 2]] * len(inputs["input_mask"]), np.int32)})
    assert masked["mlm_logits"].shape[1] == 2
    assert "encoder_outputs" in masked


def test_what_users_read_of_the_tokenizer(exported, encoder):
    name, _ = exported
    file = encoder.vocab_file if name == "bert_tf1" else encoder.sp_model_file
    own = load_tokenizer(file.asset_path.numpy().decode(), do_lower_case=bool(encoder.do_lower_case.numpy()))
    original = load_tokenizer(shared("oracle", name, "vocab.txt" if name == "bert_tf1" else "30k-clean.model"))
    assert (own.vocab_size, own.options()["do_lower_case"]) == (original.vocab_size, True)
    assert own.encode(["a fox"])[0].tolist() == original.encode(["a fox"])[0].tolist()


def test_the_preprocessor_makes_the_inputs_of_our_records(exported, encoder):
    import tensorflow as tf

    name, folder = exported
    preprocess = tf.saved_model.load(str(folder / PREPROCESS))
    tokenizer = load_tokenizer(shared("oracle", name, "vocab.txt" if name == "bert_tf1" else "30k-clean.model"))
    empty = (np.zeros(0, np.int32), np.zeros(len(TEXTS), np.int64))
    length = {"bert_tf1": 128, "albert_tf1": 512}[name]
    single, _ = lay_out(tokenizer, length, tokenizer.encode(TEXTS), empty)
    compare(preprocess(tf.constant(TEXTS)), single)
    compare(preprocess.signatures["serving_default"](sentences=tf.constant(TEXTS)), single)
    tokens = [preprocess.tokenize(tf.constant(texts)) for texts in (TEXTS, PAIRS)]
    pair, _ = lay_out(tokenizer, 24, tokenizer.encode(TEXTS), tokenizer.encode(PAIRS))
    compare(preprocess.bert_pack_inputs(tokens, seq_length=tf.constant(24)), pair)
    assert preprocess.bert_pack_inputs(tokens[:1])["input_mask"].shape == (3, length)
    special = preprocess.tokenize.get_special_tokens_dict()
    found = [int(special[key]) for key in ("padding_id", "start_of_sequence_id", "end_of_segment_id", "mask_id")]
    assert found == [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
    assert encoder(preprocess(tf.constant(TEXTS)))["pooled_output"].shape[0] == 3


def compare(inputs, columns):
    for name, ours in zip(HUB_INPUTS, ("input_ids", "input_mask", "segment_ids"), strict=True):
        np.testing.assert_array_equal(inputs[name].numpy(), columns[ours].astype(np.int32))


def test_we_read_it_back(exported):
    import pretrain

    name, folder = exported
    model = pretrain.load(folder)
    assert {"masked_lm", "sentence_pair"} <= model.heads.keys()
    assert model.encoder.hidden_size == 32, name
