"""Outputs of google-research/bert and google-research/albert, run unmodified, on their own checkpoints."""

import keras
import numpy as np
import pytest
from keras import ops

from pretrain.encoders.model import weights_by_path
from pretrain.encoders.model_config import read_model_config
from tests.pretrain.models import task
from tests.shared import shared

OURS_TO_TF1 = [  # in this order; the last two turn BERT's layer names into theirs
    ("encoder/embeddings/layer_norm", "bert/embeddings/LayerNorm"),
    ("encoder/embeddings/", "bert/embeddings/"),
    ("encoder/embedding_projection", "bert/encoder/embedding_hidden_mapping_in"),
    ("encoder/pooler", "bert/pooler/dense"),
    ("masked_lm/transform", "cls/predictions/transform/dense"),
    ("masked_lm/layer_norm", "cls/predictions/transform/LayerNorm"),
    ("masked_lm/output_bias", "cls/predictions/output_bias"),
    ("sentence_pair/logits/kernel", "cls/seq_relationship/output_weights"),
    ("sentence_pair/logits/bias", "cls/seq_relationship/output_bias"),
]
BERT_LAYER = [
    *((f"attention/{name}/", f"attention/self/{name}/") for name in ("query", "key", "value")),
    ("attention/output/", "attention/output/dense/"),
    ("attention/layer_norm", "attention/output/LayerNorm"),
    ("feed_forward/intermediate", "intermediate/dense"),
    ("feed_forward/output/", "output/dense/"),
    ("feed_forward/layer_norm", "output/LayerNorm"),
]
ALBERT_LAYER = [
    *((f"attention/{name}/", f"attention_1/self/{name}/") for name in ("query", "key", "value")),
    ("attention/output/", "attention_1/output/dense/"),
    ("attention/layer_norm", "LayerNorm"),
    ("feed_forward/intermediate", "ffn_1/intermediate/dense"),
    ("feed_forward/output/", "ffn_1/intermediate/output/dense/"),
    ("feed_forward/layer_norm", "LayerNorm_1"),
]


def tf1_name(path: str) -> str:
    for ours, theirs in OURS_TO_TF1:
        if path.startswith(ours):
            return path.replace(ours, theirs)
    table = BERT_LAYER
    if "/group_" in path:
        table = ALBERT_LAYER
        path = path.replace("encoder/", "encoder/transformer/").replace("/layer_0/", "/inner_group_0/")
    ours, theirs = next(pair for pair in table if pair[0] in path)
    return f"bert/{path.replace(ours, theirs)}"


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="reads TF1 checkpoints")
@pytest.mark.parametrize(
    ("folder", "prefix", "sentence"),
    [
        ("bert_tf1", "bert_model.ckpt", "nsp"),
        ("bert_tf1/with_optimizer", "model.ckpt-3", "nsp"),
        ("albert_tf1", "model.ckpt-best", "sop"),
        ("albert_tf1/with_optimizer", "model.ckpt-3", "sop"),
        ("albert_tf1/groups2_inner1", "model.ckpt-best", "sop"),
    ],
)
def test_outputs_equal_those_of_the_original_code(folder, prefix, sentence):
    import tensorflow as tf

    path = shared("oracle", *folder.split("/"))
    config = path if list(path.glob("*_config.json")) else path.parent
    model = task(read_model_config(config)).build_model()
    reader = tf.train.load_checkpoint(str(path / prefix))
    for name, weight in weights_by_path(model).items():
        value = reader.get_tensor(tf1_name(name))
        weight.assign(value.T if name == "sentence_pair/logits/kernel" else value)

    reference = np.load(path / "reference.npz")
    compared = []
    for case in ("s16", "s40"):
        inputs = {key.split("/")[-1]: reference[key] for key in reference if key.startswith(f"{case}/in/")}
        outputs = model(inputs)
        ours = {
            "sequence_output": outputs["sequence_output"],
            "pooled_output": outputs["pooled_output"],
            "mlm_log_probs": ops.reshape(ops.log_softmax(outputs["mlm_logits"]), (-1, model.encoder.vocab_size)),
            f"{sentence}_log_probs": ops.log_softmax(outputs["sentence_logits"]),
        }
        for name, value in ours.items():
            if f"{case}/out/{name}" in reference:
                expected = reference[f"{case}/out/{name}"]
                np.testing.assert_allclose(ops.convert_to_numpy(value), expected, atol=2e-5, err_msg=f"{case} {name}")
                compared.append((case, name))
    assert len(compared) >= 6
    assert ("s16", "mlm_log_probs") in compared or "optimizer" in folder
