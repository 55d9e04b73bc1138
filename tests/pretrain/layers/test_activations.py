"""Activations and the head's product: values against numpy, derivatives against differences."""

import numpy as np
import pytest
import tensorflow as tf

from pretrain.layers.activations import ACTIVATIONS
from pretrain.layers.masked_lm_head import _scores
from tests.pretrain import reference


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_and_derivatives(name):
    points = np.linspace(-6, 6, 241) + 0.01
    x = tf.constant(points, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = ACTIVATIONS[name](x)
    expected = reference.ACTIVATIONS[name]
    np.testing.assert_allclose(y, expected(points), atol=2e-6)
    slope = (expected(points + 1e-6) - expected(points - 1e-6)) / 2e-6
    np.testing.assert_allclose(tape.gradient(y, x), slope, atol=5e-6)


def test_scores_and_their_gradients():
    generator = np.random.default_rng(0)
    hidden, table, upstream = (
        tf.constant(generator.normal(size=shape), tf.float32) for shape in ((2, 3, 4), (7, 4), (2, 3, 7))
    )
    with tf.GradientTape() as tape:
        tape.watch((hidden, table))
        scores = _scores(hidden, table)
    np.testing.assert_allclose(scores, np.einsum("bne,ve->bnv", hidden, table), rtol=1e-5, atol=1e-6)
    to_hidden, to_table = tape.gradient(scores, (hidden, table), output_gradients=upstream)
    np.testing.assert_allclose(to_hidden, np.einsum("bnv,ve->bne", upstream, table), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(to_table, np.einsum("bnv,bne->ve", upstream, hidden), rtol=1e-5, atol=1e-6)
