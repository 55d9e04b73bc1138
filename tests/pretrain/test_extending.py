"""The task in docs/extending.md, run as it stands there."""

import re
from pathlib import Path

import numpy as np
import pytest
from keras import ops

from pretrain.config import ModelConfig
from pretrain.encoders.model import weights_by_path
from tests.pretrain.models import batch, bert, randomize

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "extending.md"


class Context:
    """Steps of plain gradient descent with rate 1: what an engine gives to train_step, at its smallest."""

    def __init__(self, model):
        self.model = model

    def value_and_grad(self, function, batch, denominators):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss, statistics = function(self.model, batch, denominators, training=False)
        variables = [weight.value for weight in self.model.trainable_variables]
        return (loss, statistics), [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    def apply(self, gradients):
        for weight, gradient in zip(self.model.trainable_variables, gradients, strict=True):
            weight.assign_sub(gradient)


@pytest.fixture
def example():
    code = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S).group(1)
    namespace = {"__name__": "my_task"}
    exec(compile(code, str(DOCUMENT), "exec"), namespace)
    return namespace


def test_the_documented_task_trains(example):
    config = example["WeightedConfig"](model=ModelConfig(bert()), later=0.5, variable_clip_norm=0.01)
    job = example["WeightedTask"](config)
    model = job.build_model()
    before = randomize(model)
    data = batch()
    denominators = job.denominators(data)
    weights = data["masked_lm_weights"] * np.array([1, 0.5, 0.25])
    assert denominators["masked_lm"] == pytest.approx(weights.sum())
    losses = []
    for _ in range(20):
        statistics = job.train_step(Context(model), data, denominators)
        losses.append(job.reduce_aggregated_logs(job.aggregate_logs(None, statistics))["loss"])
        if len(losses) == 1:
            after = {path: ops.convert_to_numpy(weight) for path, weight in weights_by_path(model).items()}
            steps = [np.linalg.norm(after[path] - value) for path, value in before.items()]
            assert max(steps) == pytest.approx(0.01, rel=1e-3)
    assert float(statistics["masked_lm_weight"]) == pytest.approx(weights.sum())
    assert losses[-1] < losses[0] - 0.1
