"""Layers that are computed again for their gradients: the same steps, dropout included, and on resuming."""

import functools
from dataclasses import dataclass

import keras
import numpy as np
import pytest

from nlpdata.errors import UsageError
from pretrain.layers.transformer import TransformerLayer
from pretrain.registry import ENGINES, TASKS
from pretrain.settings.schema import RuntimeConfig
from pretrain.training.engines.state import build_model, stored
from tests.pretrain.runs import changed, experiment, tiny


def states_after(config, steps=2, state=None, first=0):
    """The state of the engine after each step."""
    task = TASKS.get(config.task_type)(config.task)
    data = task.build_inputs(config.task.train_data)
    engine = ENGINES.get(keras.backend.backend())(task, config, 6)
    if state is not None:
        engine.load_state(state)
    found = []
    for step in range(first, first + steps):
        batch = data.batch(step)
        engine.train_step(step, batch, task.denominators(batch))
        found.append(engine.state())
    engine.close()
    return found


@pytest.mark.parametrize(("encoder", "layers", "micro_steps"), [("albert", 2, 2), ("bert", 1, 1)])
def test_the_step_is_the_same_with_dropout(record_sets, encoder, layers, micro_steps, monkeypatch, request):
    """Micro-steps are a loop in a graph; without them the steps are taken as they come."""
    if micro_steps == 1:
        request.getfixturevalue("eagerly")
    calls, call = [], TransformerLayer.call

    @functools.wraps(call)
    def counted(layer, *inputs, **options):
        calls.append(layer.name)
        return call(layer, *inputs, **options)

    monkeypatch.setattr(TransformerLayer, "call", counted)
    config = experiment(
        record_sets["static"],
        encoder=tiny(encoder, dropout=0.2, num_hidden_layers=layers),
        optimizer={"epsilon": 1e-3},
        warmup_steps=0,
    )
    config = changed(config, "trainer", gradient_accumulation_steps=micro_steps)
    *_, expected = states_after(config)
    without = len(calls)
    *_, found = states_after(changed(config, "runtime", gradient_checkpointing=True))
    assert len(calls) - without > without  # layers are called again for their gradients
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.usefixtures("eagerly")
def test_moments_in_bfloat16_are_stored_and_restored(record_sets):
    config = experiment(record_sets["static"], encoder=tiny(), optimizer={"momentum_dtype": "bfloat16"})
    half, whole = states_after(config)
    assert {values.dtype.name for values in half.values()} <= {"float32", "int32", "int64"}
    (again,) = states_after(config, 1, half, first=1)
    for name, values in whole.items():
        np.testing.assert_array_equal(again[name], values, err_msg=name)


@dataclass
class Model:
    encoder: object


class Task:
    def build_model(self, seed):
        return Model(object())


def test_an_encoder_that_cannot():
    with pytest.raises(
        UsageError, match=r"runtime\.gradient_checkpointing is true, but object cannot compute its layers again"
    ):
        build_model(Task(), RuntimeConfig(gradient_checkpointing=True))


def test_other_arrays_are_stored_as_they_are():
    array = np.arange(3, dtype=np.float16)
    assert stored(array) is array
