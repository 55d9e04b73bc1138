"""Private attributes of libraries: each has a test here that fails when the library drops or changes it."""

import ast

import keras
import pytest

from pretrain.training.engines.state import rate_at
from tests.test_architecture import modules

PUBLIC = {"_replace", "_asdict", "_exit"}  # documented: methods of named tuples, os._exit
GUARDED = {"_all_reduce_sum_gradients", "_learning_rate", "_registry"}


def test_every_private_attribute_of_a_library_is_guarded():
    used: set[str] = set()
    own: set[str] = set()
    for module, path in modules().items():
        if not module.startswith("pretrain."):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                own |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
                continue
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if of_self and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            elif not of_self:
                used.add(node.attr)
    assert used - own - PUBLIC == GUARDED


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="attributes of TensorFlow and Keras on it")
def test_gradients_of_functions_are_registered_where_a_run_removes_them():
    import tensorflow as tf
    from tensorflow.python.framework import ops

    registry = ops.gradient_registry._registry
    before = set(registry)
    function = tf.function(tf.custom_gradient(lambda x: (x * 2, lambda up: up * 7)))
    with tf.GradientTape() as tape:
        x = tf.constant(1.0)
        tape.watch(x)
        y = function(x)
    assert float(tape.gradient(y, x)) == 7
    added = set(registry) - before
    assert added
    for name in added:
        del registry[name]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="attributes of TensorFlow and Keras on it")
def test_an_optimizer_sums_gradients_over_replicas_where_a_run_switches_it_off(monkeypatch):
    optimizer = keras.optimizers.SGD(0.5)
    weight = keras.Variable([1.0])
    optimizer.build([weight])
    seen = []
    monkeypatch.setattr(optimizer, "_all_reduce_sum_gradients", lambda pairs: seen.append(len(pairs)) or pairs)
    optimizer.apply([keras.ops.ones((1,))], [weight])
    assert seen == [1]
    assert float(weight[0]) == 0.5


def test_the_rate_of_a_step_is_that_of_the_schedule():
    schedule = keras.optimizers.schedules.PolynomialDecay(1.0, 10, 0.0)
    optimizer = keras.optimizers.SGD(schedule)
    assert [rate_at(optimizer, step) for step in (0, 5, 10)] == pytest.approx([1.0, 0.5, 0.0])
    assert rate_at(keras.optimizers.SGD(0.25), 5) == 0.25
