"""A module of TF-Hub as the Model Garden exports them, in TensorFlow alone: its names of variables and of operations."""

from pathlib import Path

import numpy as np
import tensorflow as tf

_ACTIVATIONS = {
    "gelu": lambda x: tf.nn.gelu(x, approximate=False),
    "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
    "relu": tf.nn.relu,
}


class GardenModule(tf.Module):
    """BERT, or ALBERT with one shared layer.

    Args:
      arrays: name of a variable in the Garden -> array.
      layers, activation, epsilon: what shapes do not show.
    """

    def __init__(self, arrays: dict[str, np.ndarray], layers: int, activation: str, epsilon: float) -> None:
        super().__init__()
        self.kept = [tf.Variable(array, name=name) for name, array in arrays.items()]
        self._by_name = dict(zip(arrays, self.kept, strict=True))
        self._layers, self._activation, self._epsilon = layers, _ACTIVATIONS[activation], epsilon

    @tf.function(
        input_signature=[
            {
                name: tf.TensorSpec([None, None], tf.int32, name=name)
                for name in ("input_word_ids", "input_mask", "input_type_ids")
            }
        ]
    )
    def __call__(self, inputs):
        own = self._by_name
        ids, mask = inputs["input_word_ids"], tf.cast(inputs["input_mask"], tf.float32)
        x = tf.gather(own["word_embeddings/embeddings"], ids)
        x += own["position_embedding/embeddings"][: tf.shape(ids)[1]]
        x = self._norm(
            x + tf.gather(own["type_embeddings/embeddings"], inputs["input_type_ids"]), "embeddings/layer_norm"
        )
        if "embedding_projection/kernel" in own:
            x = x @ own["embedding_projection/kernel"] + own["embedding_projection/bias"]
        for i in range(self._layers):
            layer = "transformer" if "transformer/intermediate/kernel" in own else f"transformer/layer_{i}"
            x = self._norm(
                x + self._attention(x, mask, f"{layer}/self_attention"), f"{layer}/self_attention_layer_norm"
            )
            inner = self._activation(x @ own[f"{layer}/intermediate/kernel"] + own[f"{layer}/intermediate/bias"])
            x = self._norm(
                x + inner @ own[f"{layer}/output/kernel"] + own[f"{layer}/output/bias"], f"{layer}/output_layer_norm"
            )
        pooled = tf.tanh(x[:, 0] @ own["pooler_transform/kernel"] + own["pooler_transform/bias"])
        return {"sequence_output": x, "pooled_output": pooled}

    def _attention(self, x, mask, name):
        own = self._by_name
        with tf.name_scope(name):
            q, k, v = (
                tf.einsum("abc,cde->abde", x, own[f"{name}/{part}/kernel"]) + own[f"{name}/{part}/bias"]
                for part in ("query", "key", "value")
            )
            q = tf.multiply(q, 1 / float(q.shape[-1]) ** 0.5, name="Mul")
            scores = tf.einsum("aecd,abcd->acbe", k, q) + (1 - mask)[:, None, None] * -1e9
            mixed = tf.einsum("acbe,aecd->abcd", tf.nn.softmax(scores), v)
            kernel, bias = (own[f"{name}/attention_output/{part}"] for part in ("kernel", "bias"))
            return tf.einsum("abcd,cde->abe", mixed, kernel) + bias

    def _norm(self, x, name):
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        gamma, beta = self._by_name[f"{name}/gamma"], self._by_name[f"{name}/beta"]
        with tf.name_scope(name):
            return tf.nn.batch_normalization(x, mean, variance, beta, gamma, self._epsilon)


def write(folder: Path, arrays: dict[str, np.ndarray], layers: int, activation: str, epsilon: float) -> GardenModule:
    """Writes the module as a SavedModel, without any configuration."""
    module = GardenModule(arrays, layers, activation, epsilon)
    tf.saved_model.save(module, str(folder))
    return module
