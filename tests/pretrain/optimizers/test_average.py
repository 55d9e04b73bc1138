"""The average of weights over steps against Keras's own and against numpy."""

import keras
import numpy as np
import pytest
from keras import ops

from pretrain.optimizers.average import Average
from pretrain.settings.trainer_section import EmaConfig
from tests.pretrain.models import to_numpy


def test_the_average_is_that_of_keras():
    generator = np.random.default_rng(0)
    start, gradients = generator.normal(size=(2, 3)), generator.normal(size=(5, 2, 3))
    weight = keras.Variable(start, name="kernel")
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.7)
    optimizer.build([weight])
    average = Average(EmaConfig(0.7, dynamic_decay=False), [weight])
    for step, gradient in enumerate(gradients):
        optimizer.apply([ops.convert_to_tensor(gradient, "float32")], [weight])
        (moved,) = average.moved([average.variables[0].value], [weight.value], step)
        average.variables[0].assign(moved)
        expected = to_numpy(optimizer._model_variables_moving_average[0])
        np.testing.assert_allclose(to_numpy(average.variables[0]), expected, rtol=1e-6)
    assert np.abs(to_numpy(average.variables[0]) - to_numpy(weight)).max() > 0.01


def test_the_decay_rises_from_the_step_at_which_it_starts():
    weight = keras.Variable(np.zeros(2, np.float32))

    def decays(*steps, **options):
        return [float(Average(EmaConfig(**options), [weight]).decay(step)) for step in steps]

    assert decays(0, 1, 8, 2000) == pytest.approx([0, 3 / 12, 10 / 19, 0.99])
    assert decays(0, 1, 8, average_decay=0.5, dynamic_decay=False) == [0, 0.5, 0.5]
    assert decays(0, 3, 8, 9, 29, start_step=10) == pytest.approx([0, 0, 0, 1 / 10, 21 / 30])
    assert decays(3, 8, 9, start_step=10, dynamic_decay=False) == pytest.approx([0, 0, 0.99])
