"""Dropout follows from its key, and only from it."""

import keras
import numpy as np
import pytest
from keras import ops

from pretrain.layers.dropout import Dropout, dropout_scope
from tests.pretrain.models import albert, batch, task


def key(first, second):
    return ops.convert_to_tensor(np.array([first, second], np.int32))


def drop(inputs, rate=0.1, scope=(1, 2), times=1):
    """The outputs of `times` uses of one layer in one forward pass."""
    layer = Dropout(rate)
    with dropout_scope(key(*scope)):
        return [ops.convert_to_numpy(layer(inputs, training=True)) for _ in range(times)]


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5])
def test_share_and_scale(rate):
    (out,) = drop(np.ones((100, 2000), np.float32), rate)
    dropped = (out == 0).mean()
    assert abs(dropped - rate) < 4 * np.sqrt(rate * (1 - rate) / out.size) + 1 / 65536
    assert np.allclose(out[out != 0], 1 / (1 - rate), rtol=1e-4)
    assert abs(out.mean() - 1) < 0.01
    # Rows, columns and neighbours are all alike.
    zero = out == 0
    assert np.abs(zero.mean(0) - rate).max() < 6 * np.sqrt(rate * (1 - rate) / 100)
    assert np.abs(zero.mean(1) - rate).max() < 6 * np.sqrt(rate * (1 - rate) / 2000)
    assert abs((zero[:, 1:] & zero[:, :-1]).mean() - rate**2) < 0.003


def test_mask_follows_from_key_and_count():
    x = np.ones((7, 11, 13), np.float32)
    first, second = drop(x, times=2)
    assert (drop(x, times=2)[1] == second).all()
    for other in (second, *drop(x, scope=(1, 3)), *drop(x, scope=(2, 2)), *drop(x, scope=(2, 1))):
        agree = ((first == 0) == (other == 0)).mean()
        assert 0.75 < agree < 0.89  # independent masks agree in 0.82 of the places


def test_training_needs_a_scope():
    with pytest.raises(RuntimeError, match="dropout_scope"):
        Dropout(0.1)(np.ones((2, 3), np.float32), training=True)
    x = np.ones((2, 3), np.float32)
    assert (ops.convert_to_numpy(Dropout(0.1)(x)) == 1).all()
    assert (ops.convert_to_numpy(Dropout(0.0)(x, training=True)) == 1).all()


def test_shared_layers_of_albert_draw_different_masks():
    model = task(albert(hidden_dropout_prob=0.2, num_hidden_layers=3)).build_model()
    seen = []
    layer = model.encoder.layers[0].layers[0].feed_forward.dropout
    call = layer.call
    layer.call = lambda x, training: seen.append(ops.convert_to_numpy(call(x, training=training)) == 0) or call(x)
    with dropout_scope(key(3, 4)):
        model(batch(), training=True)
    assert len(seen) == 3
    assert (seen[0] != seen[1]).mean() > 0.2
    assert (seen[1] != seen[2]).mean() > 0.2


def test_same_mask_compiled():
    x = np.ones((5, 7, 9), np.float32)
    layer = Dropout(0.3)

    def run(key):
        with dropout_scope(key):
            return layer(x, training=True)

    expected = ops.convert_to_numpy(run(key(5, 6)))
    if keras.backend.backend() == "jax":
        import jax

        compiled = jax.jit(run)
    else:
        import tensorflow as tf

        compiled = tf.function(run)
    assert (ops.convert_to_numpy(compiled(key(5, 6))) == expected).all()
    assert (ops.convert_to_numpy(compiled(key(5, 7))) != expected).any()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the generator of TensorFlow")
def test_the_words_are_those_of_tensorflow_with_and_without_xla():
    """Runs of older versions drew them with stateless_uniform; a resumed one must draw the same."""
    import tensorflow as tf

    from pretrain.layers.dropout import _philox_words

    compiled = tf.function(lambda seed: _philox_words(1003, seed), jit_compile=True)
    for seed in ([5, 7], [-5, 7], [5, -7], [-(2**31), 2**31 - 1]):
        seed = tf.constant(seed, tf.int32)
        expected = tf.random.stateless_uniform([1003], seed, minval=None, maxval=None, dtype=tf.uint32).numpy()
        assert (_philox_words(1003, seed).numpy() == expected).all()
        assert (compiled(seed).numpy() == expected).all()
