"""ALBERT's answer layer against numpy, on both backends: scores, beams, losses, gradients, and the mask of the records."""

import contextlib
import io
import json
import os
import subprocess

import keras
import numpy as np
import pytest

from tests import warm_python
from tests.pages import plain_environment

HIDDEN, LENGTH, STARTS, ENDS = 4, 7, 3, 2


def batch() -> dict[str, np.ndarray]:
    """[CLS] q [SEP] c c c [SEP] with the answer at 4 to 5; [CLS] q [SEP] c [SEP] and padding, without answer."""
    return {
        "input_ids": np.ones((2, LENGTH), np.int32),
        "input_mask": np.array([[1] * 7, [1, 1, 1, 1, 1, 0, 0]], np.int32),
        "segment_ids": np.array([[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0]], np.int32),
        "start_positions": np.array([4, 0], np.int32),
        "end_positions": np.array([5, 0], np.int32),
    }


ALLOWED = np.array([[1, 0, 0, 1, 1, 1, 0], [1, 0, 0, 1, 0, 0, 0]], bool)


def weights() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(5)
    shapes = {
        "start_logits/kernel": (HIDDEN, 1), "start_logits/bias": (1,),
        "end_hidden/kernel": (2 * HIDDEN, HIDDEN), "end_hidden/bias": (HIDDEN,),
        "layer_norm/gamma": (HIDDEN,), "layer_norm/beta": (HIDDEN,),
        "end_logits/kernel": (HIDDEN, 1), "end_logits/bias": (1,),
        "class_hidden/kernel": (2 * HIDDEN, HIDDEN), "class_hidden/bias": (HIDDEN,),
        "class_logits/kernel": (HIDDEN, 1),
    }  # fmt: skip
    return {name: draw.normal(0, 0.7, shape) for name, shape in shapes.items()}


def encoded() -> np.ndarray:
    return np.random.default_rng(6).normal(size=(2, LENGTH, HIDDEN))


def log_softmax(x):
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def dense(w, name, x):
    return x @ w[f"{name}/kernel"] + w.get(f"{name}/bias", 0.0)


def start_logits(w, x):
    return dense(w, "start_logits", x)[:, 0]


def end_logits(w, x, start):
    """(L,): each token next to the vector of the start, as the original lays them out."""
    pairs = np.concatenate([x, np.repeat(x[start][None], len(x), 0)], axis=1)
    hidden = np.tanh(dense(w, "end_hidden", pairs))
    mean, variance = hidden.mean(-1, keepdims=True), hidden.var(-1, keepdims=True)
    hidden = (hidden - mean) / np.sqrt(variance + 1e-12) * w["layer_norm/gamma"] + w["layer_norm/beta"]
    return dense(w, "end_logits", hidden)[:, 0]


def class_logit(w, x, allowed):
    probabilities = np.exp(log_softmax(np.where(allowed, start_logits(w, x), -1e30)))
    hidden = np.tanh(dense(w, "class_hidden", np.concatenate([probabilities @ x, x[0]])))
    return dense(w, "class_logits", hidden)[0]


def loss(w, x):
    """The mean over the examples of (start + end) / 2 + class / 2."""
    total = 0.0
    for example, (start, end) in enumerate(((4, 5), (0, 0))):
        own, allowed = x[example], ALLOWED[example]
        of_start = log_softmax(np.where(allowed, start_logits(w, own), -1e30))[start]
        of_end = log_softmax(np.where(allowed, end_logits(w, own, start), -1e30))[end]
        probability = 1 / (1 + np.exp(-class_logit(w, own, allowed)))
        of_class = np.log(probability if start == 0 else 1 - probability)
        total -= (of_start + of_end) / 2 + of_class / 2
    return total / 2


COMPUTE = """
import json, sys
import keras
import numpy as np
from keras import ops
from pretrain.encoders.model import EncoderModel, weights_by_path
from pretrain.layers.answer_places import may_answer
from pretrain.layers.conditional_span_head import ConditionalSpanHead
from pretrain.tasks.configs import QuestionAnsweringConfig, QuestionAnsweringModelConfig
from pretrain.tasks.question_answering import QuestionAnsweringTask
from tests.pretrain.layers import test_conditional_span_head as given

class Given(keras.layers.Layer):
    max_position_embeddings = given.LENGTH
    word_embeddings = None
    @property
    def embeddings(self):
        return self
    def build(self, input_shape=None):
        pass
    def call(self, inputs, training=False):
        return {"sequence_output": ops.convert_to_tensor(given.encoded().astype(np.float32))}

head = ConditionalSpanHead(hidden_size=given.HIDDEN, start_n_top=given.STARTS, end_n_top=given.ENDS)
model = EncoderModel(Given(), {"span": head})
model.build()
wanted = {f"span/{name}": value for name, value in given.weights().items()}
own = weights_by_path(model)
assert own.keys() == wanted.keys(), own.keys()
for name, weight in own.items():
    weight.assign(wanted[name].astype(np.float32))
batch = given.batch()
inputs = {name: ops.convert_to_tensor(value) for name, value in batch.items()}
task = QuestionAnsweringTask(QuestionAnsweringConfig(model=QuestionAnsweringModelConfig(answer_layer="conditional")))
shares = task.denominators(batch | {"record": np.arange(2)})

def total():
    return task.loss(model, inputs, shares, training=True)[0]

names = [weight.path[len("model/"):] for weight in model.trainable_variables]
if keras.backend.backend() == "jax":
    import jax
    def within(function):
        def pure(values):
            with keras.StatelessScope(state_mapping=list(zip(model.trainable_variables, values))):
                return function()
        return pure
    def everything(values):
        return jax.value_and_grad(within(total))(values), within(lambda: model(inputs))(values)
    values = [weight.value for weight in model.trainable_variables]
    (value, gradients), outputs = jax.jit(everything)(values)
else:
    import tensorflow as tf
    with tf.GradientTape() as tape:
        value = total()
    gradients = tape.gradient(value, [weight.value for weight in model.trainable_variables])
    outputs = model(inputs)
found = {name: np.asarray(each).tolist() for name, each in outputs.items()}
found["allowed"] = np.asarray(may_answer(inputs, ops)).tolist()
found["loss"] = float(value)
found["gradients"] = {name: np.asarray(each).tolist() for name, each in zip(names, gradients)}
json.dump(found, sys.stdout)
"""


def computed(backend) -> dict:
    """What COMPUTE prints on a backend: here, where it is the one of the tests, else in a process of its own."""
    if keras.backend.backend() == backend:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(COMPUTE, {})
        return json.loads(printed.getvalue())
    environment = plain_environment() | {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [*warm_python.COMMAND, "-c", COMPUTE], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_scores_losses_and_gradients_are_those_of_numpy(backend):
    found = {name: np.array(value) if isinstance(value, list) else value for name, value in computed(backend).items()}
    w, x = weights(), encoded()
    np.testing.assert_array_equal(found["allowed"], ALLOWED)
    for example, start in enumerate(batch()["start_positions"]):
        own, allowed = x[example], ALLOWED[example]
        starts, ends = (np.where(allowed, each, -1e30) for each in (start_logits(w, own), end_logits(w, own, start)))
        np.testing.assert_allclose(found["start_logits"][example], starts, rtol=1e-4)
        np.testing.assert_allclose(found["end_logits"][example], ends, rtol=1e-4)
        np.testing.assert_allclose(found["class_logits"][example], class_logit(w, own, allowed), rtol=1e-4)
        scores = log_softmax(starts)
        for at, best in enumerate(np.argsort(-scores, kind="stable")[: min(STARTS, allowed.sum())]):
            assert found["start_top_index"][example, at] == best
            assert found["start_top_log_probs"][example, at] == pytest.approx(scores[best], rel=1e-4)
            of_ends = log_softmax(np.where(allowed, end_logits(w, own, best), -1e30))
            order = np.argsort(-of_ends, kind="stable")[:ENDS]
            np.testing.assert_array_equal(found["end_top_index"][example, at], order)
            np.testing.assert_allclose(found["end_top_log_probs"][example, at], of_ends[order], rtol=1e-4)
    assert (found["start_top_log_probs"][1, 2:] < -1e29).all()  # two tokens may be a start there
    assert found["loss"] == pytest.approx(loss(w, x), rel=1e-5)
    for name, values in w.items():
        slopes = np.zeros_like(values)
        for place in np.ndindex(values.shape):
            step = np.zeros_like(values)
            step[place] = 1e-5
            slopes[place] = (loss(w | {name: values + step}, x) - loss(w | {name: values - step}, x)) / 2e-5
        np.testing.assert_allclose(found["gradients"][f"span/{name}"], slopes, rtol=1e-3, atol=1e-5, err_msg=name)
