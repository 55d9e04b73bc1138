"""Faults that users of earlier converters reported: here they are found and reported, or do not happen."""

import numpy as np
import pytest
import tensorflow as tf

import pretrain
from nlpdata.errors import DataError
from pretrain.convert import main
from pretrain.converters import assign, read_checkpoint
from pretrain.converters.load import build_model
from pretrain.converters.write import write_checkpoint
from pretrain.encoders.model import EncoderModel, build_encoder, weights_by_path
from pretrain.settings.schema import ModelConfig
from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask
from tests.messages import messages
from tests.pretrain.converters.test_round_trips import ENCODERS, make


def convert(*argv, capsys):
    code = main([str(word) for word in argv])
    said = capsys.readouterr()
    return code, said.out, said.err


def rewritten(folder, change):
    """The checkpoint of format tf1 in a folder, with other tensors: change(dict of arrays by name)."""
    prefix = str(folder / "model.ckpt-best")
    reader = tf.train.load_checkpoint(prefix)
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    tensors = change(tensors) or tensors
    names = sorted(tensors)
    arrays = [tf.constant(tensors[name]) for name in names]
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=arrays)


@pytest.fixture
def albert(tmp_path):
    write_checkpoint(tmp_path / "albert", make("albert", "pretraining"), "tf1")
    return tmp_path / "albert"


@pytest.mark.parametrize(
    ("entries", "code", "message"), [(59, 0, "has 59 entries, the model has 60"), (61, 2, "another model's")]
)
def test_a_vocabulary_of_another_size(entries, code, message, tmp_path, capsys):
    """trueto/medbert#6: lines of vocab.txt and rows of the embedding differ."""
    write_checkpoint(tmp_path / "bert", make("bert", "encoder"), "hf")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(entries - 5))]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(words) + "\n")
    found, out, err = convert(tmp_path / "bert", tmp_path / "out", "--format", "native", capsys=capsys)
    assert (found, message in out + err) == (code, True), out + err


def test_success_is_visible(albert, tmp_path, capsys):
    """kamalkraj/ALBERT-TF2.0#23: all 25 weights of the encoder, leftovers by name."""
    rewritten(albert, lambda tensors: tensors | {"bert/extra": np.zeros(3, np.float32)})
    code, _, err = convert(albert, tmp_path / "out", "--format", "h5", "--encoder_only", capsys=capsys)
    assert code == 0
    assert "25 weights matched" in err
    assert "unused: bert/extra (unknown to this encoder)" in err


def test_names_of_a_later_tensorflow(albert, tmp_path, capsys):
    """google-research/albert#241: layer_normalization_N in each layer. The message says which names are unknown."""
    new = "bert/encoder/transformer/group_0_1/layer_1/inner_group_0/layer_normalization_4/gamma"
    old = "bert/encoder/transformer/group_0/inner_group_0/LayerNorm_1/gamma"
    rewritten(albert, lambda tensors: {new if name == old else name: array for name, array in tensors.items()})
    code, _, err = convert(albert, tmp_path / "out", "--format", "hf", capsys=capsys)
    assert code == 1
    assert "encoder/group_0/layer_0/feed_forward/layer_norm/gamma" in err
    assert new in err
    assert not (tmp_path / "out").exists()
    with pytest.raises(DataError, match="layer_normalization_4"):
        pretrain.load(str(albert))


def test_a_fine_tuned_checkpoint_with_slots(albert, tmp_path, capsys):
    """huggingface/transformers#3779: adam_m, adam_v and a task head."""

    def tune(tensors):
        slots = {f"{name}/{slot}": array for name, array in tensors.items() for slot in ("adam_m", "adam_v")}
        head = {"output_weights": np.ones((3, 16), np.float32), "output_bias": np.zeros(3, np.float32)}
        kept = {name: array for name, array in tensors.items() if not name.startswith("cls/")}
        return kept | slots | head | {"global_step": np.int64(7)}

    rewritten(albert, tune)
    code, _, err = convert(albert, tmp_path / "out", "--format", "hf", capsys=capsys)
    assert code == 0
    assert "(optimizer slot)" in err
    assert "global_step (counter or bookkeeping)" in err
    np.testing.assert_array_equal(
        read_checkpoint(str(tmp_path / "out")).weights["classifier/logits/kernel"], np.ones((16, 3))
    )


def test_weights_of_a_file_arrive(tmp_path):
    """tensorflow#35930: loading h5 into a model that is not built restored nothing, without a word."""
    checkpoint = make("albert", "encoder")
    write_checkpoint(tmp_path / "out", checkpoint, "h5")
    model = pretrain.load(str(tmp_path / "out" / "tf2_model.h5"))
    for path, weight in weights_by_path(model).items():
        np.testing.assert_array_equal(np.asarray(weight), checkpoint.weights[path])
        assert np.abs(checkpoint.weights[path] - np.asarray(weights_by_path(build_model(checkpoint))[path])).max() > 0
    with pytest.raises(ValueError, match="not built"):
        assign(EncoderModel(build_encoder(ENCODERS["albert"])), checkpoint)


def test_an_encoder_into_a_pretraining_model(tmp_path):
    """tensorflow#24623: a file of an encoder alone starts a model with heads; what the heads start from is reported."""
    write_checkpoint(tmp_path / "out", make("albert", "encoder"), "h5")
    config = PretrainingConfig(
        init_checkpoint=str(tmp_path / "out" / "tf2_model.h5"), model=ModelConfig(ENCODERS["albert"])
    )
    task = PretrainingTask(config)
    with messages() as said:
        report = task.initialize(task.build_model())
    assert len(report.matched) == 25
    assert report.missing["masked_lm/output_bias"] == "start at 0"
    assert report.missing["sentence_pair/logits/kernel"] == "start at random"
    assert "missing: " in "\n".join(said)


def test_a_model_without_pooler(tmp_path, capsys):
    """BertForMaskedLM and BertForQuestionAnswering of transformers have none."""
    checkpoint = make("bert", "span")
    for name in ("kernel", "bias"):
        del checkpoint.weights[f"encoder/pooler/{name}"]
    write_checkpoint(tmp_path / "bert", checkpoint, "hf")
    code, _, err = convert(tmp_path / "bert", tmp_path / "out", "--format", "native", capsys=capsys)
    assert code == 0
    assert "missing: encoder/pooler/kernel" in err
    assert "encoder/pooler/kernel" not in read_checkpoint(str(tmp_path / "out")).weights
