"""Optimizer steps against numpy, schedules, decay by role."""

import json
from dataclasses import fields

import keras
import numpy as np
import pytest
from keras import ops

from nlpdata.errors import UsageError
from pretrain.encoders.model import weights_by_path
from pretrain.optimizers import build_optimizer
from pretrain.optimizers.adafactor import Adafactor
from pretrain.optimizers.adamw import AdamW, AdamWConfig
from pretrain.optimizers.decay import is_decayed
from pretrain.optimizers.lamb import Lamb, LambConfig
from pretrain.optimizers.schedules import (
    Constant,
    ConstantConfig,
    Cosine,
    LinearWarmup,
    LinearWarmupConfig,
    Polynomial,
    PolynomialConfig,
    PolynomialWarmup,
)
from pretrain.optimizers.sgd import Sgd
from pretrain.settings.fields import Choice
from pretrain.settings.trainer_section import OptimizationConfig
from tests.pretrain.models import albert, bert, randomize, task, to_numpy, updating

STEPS = 3
ONE_LAYER = bert(num_hidden_layers=1)


def train(optimizer, encoder):
    """Three steps with random gradients of a whole model: (weights before, gradients, weights after) by path."""
    model = task(encoder).build_model()
    before = randomize(model)
    generator = np.random.default_rng(1)
    gradients = {
        path: generator.normal(0, 0.1, (STEPS, *value.shape)).astype(np.float32) for path, value in before.items()
    }
    variables = weights_by_path(model)
    update = updating(optimizer, list(variables.values()))
    for step in range(STEPS):
        update([ops.convert_to_tensor(gradients[path][step]) for path in variables])
    return before, gradients, {path: to_numpy(weight) for path, weight in variables.items()}


def numpy_steps(weight, gradients, rates, decay, trust, bias_correction):
    """The paper's arithmetic in float64: beta 0.9 and 0.999, epsilon 1e-6."""
    weight = weight.astype(np.float64)
    m = v = np.zeros_like(weight)
    for step, (gradient, rate) in enumerate(zip(gradients.astype(np.float64), rates, strict=True), 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        m_hat, v_hat = (m / (1 - 0.9**step), v / (1 - 0.999**step)) if bias_correction else (m, v)
        update = m_hat / (np.sqrt(v_hat) + 1e-6) + decay * weight
        ratio = np.linalg.norm(weight) / np.linalg.norm(update) if trust else 1.0
        weight = weight - rate * ratio * update
    return weight


def decays(path):
    return path.endswith(("kernel", "embeddings"))


def test_a_first_moment_in_bfloat16_is_half_as_large_and_learns_nearly_the_same():
    _, _, exact = train(AdamW(1e-2), ONE_LAYER)
    optimizer = AdamW(1e-2, momentum_dtype="bfloat16")
    before, _, found = train(optimizer, ONE_LAYER)
    kinds = {
        name: {str(v.dtype) for v in optimizer.variables if v.path.endswith(name)} for name in ("momentum", "velocity")
    }
    assert kinds == {"momentum": {"bfloat16"}, "velocity": {"float32"}}
    for path, value in before.items():
        moved = np.linalg.norm(exact[path] - value)
        assert np.linalg.norm(found[path] - exact[path]) < 0.01 * moved


@pytest.mark.parametrize("bias_correction", [False, True])
def test_adamw_equals_numpy(bias_correction):
    schedule = LinearWarmup(Polynomial(1e-2, 10), 2)
    optimizer = AdamW(schedule, weight_decay_rate=0.3, bias_correction=bias_correction)
    before, gradients, after = train(optimizer, ONE_LAYER)
    for path, value in before.items():
        decay = 0.3 if decays(path) else 0.0
        expected = numpy_steps(value, gradients[path], [0.0, 4e-3, 8e-3], decay, False, bias_correction)
        np.testing.assert_allclose(after[path], expected, rtol=1e-5, atol=1e-6, err_msg=path)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_equals_numpy(momentum):
    before, gradients, after = train(Sgd(Polynomial(1e-2, 10), momentum=momentum), ONE_LAYER)
    for path, value in before.items():
        expected, velocity = value.astype(np.float64), 0.0
        for gradient, rate in zip(gradients[path], [1e-2, 9e-3, 8e-3], strict=True):
            velocity = momentum * velocity + gradient
            expected = expected - rate * velocity
        np.testing.assert_allclose(after[path], expected, rtol=1e-5, atol=1e-6, err_msg=path)


def adafactor_steps(weight, gradients, rate, decay):
    """Algorithms 4 and 5 of the paper in float64: relative steps, factored matrices, updates clipped to a norm of 1."""
    weight, row, column, moment = weight.astype(np.float64), 0.0, 0.0, 0.0
    for step, gradient in enumerate(gradients.astype(np.float64), 1):
        keep, square = 1 - step**-0.8, gradient**2 + 1e-30
        if weight.ndim >= 2:
            row = keep * row + (1 - keep) * square.sum(-1)
            column = keep * column + (1 - keep) * square.sum(-2)
            moment = row[..., :, None] * column[..., None, :] / row.sum(-1)[..., None, None]
        else:
            moment = keep * moment + (1 - keep) * square
        update = gradient / np.sqrt(moment)
        update = update / max(1.0, np.sqrt(np.mean(update**2)))
        relative = max(1e-3, np.sqrt(np.mean(weight**2))) * min(rate, step**-0.5)
        weight = weight - relative * update - rate * decay * weight
    return weight


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_adafactor_equals_numpy(decay):
    optimizer = Adafactor(Constant(0.05), weight_decay_rate=decay, exclude_from_weight_decay=["pooler"])
    before, gradients, after = train(optimizer, ONE_LAYER)
    for path, value in before.items():
        rate = decay if decays(path) and "pooler" not in path else 0.0
        expected = adafactor_steps(value, gradients[path], 0.05, rate)
        np.testing.assert_allclose(after[path], expected, rtol=1e-4, atol=1e-5, err_msg=path)


@pytest.mark.parametrize("bias_correction", [False, True])
def test_lamb_equals_numpy(bias_correction):
    optimizer = Lamb(1e-2, weight_decay_rate=0.3, bias_correction=bias_correction)
    before, gradients, after = train(optimizer, albert())
    for path, value in before.items():
        decay, trust = (0.3, True) if decays(path) else (0.0, False)
        expected = numpy_steps(value, gradients[path], [1e-2] * STEPS, decay, trust, bias_correction)
        np.testing.assert_allclose(after[path], expected, rtol=1e-5, atol=1e-6, err_msg=path)


def test_patterns_exclude_from_decay_and_trust_ratio():
    optimizer = Lamb(
        1e-2,
        weight_decay_rate=0.3,
        exclude_from_weight_decay=["pooler"],
        exclude_from_layer_adaptation=["word_embeddings$"],
    )
    before, gradients, after = train(optimizer, ONE_LAYER)
    for path, value in before.items():
        decay = 0.3 if decays(path) and "pooler" not in path else 0.0
        expected = numpy_steps(value, gradients[path], [1e-2] * STEPS, decay, "word_embeddings" not in path, True)
        np.testing.assert_allclose(after[path], expected, rtol=1e-5, atol=1e-6, err_msg=path)


def test_trust_ratio_of_zero_weights_is_one():
    weight = keras.Variable(np.zeros((2, 3), np.float32), name="kernel")
    Lamb(0.1, weight_decay_rate=0.0).apply([ops.ones((2, 3))], [weight])
    np.testing.assert_allclose(to_numpy(weight), -0.1 * np.ones((2, 3)), rtol=1e-4)


def test_roles_decide_on_decay():
    weights = weights_by_path(task(albert()).build_model())
    assert {path for path in weights if is_decayed(path)} == {path for path in weights if decays(path)}
    assert not is_decayed("encoder/pooler/kernel", ["pooler"])
    assert not is_decayed("masked_lm/output_bias")


def test_polynomial():
    schedule = Polynomial(1e-3, 100, end_learning_rate=1e-4, power=2.0)
    for step in (0, 1, 37, 100, 250):
        expected = 1e-4 + 9e-4 * (1 - min(step, 100) / 100) ** 2
        assert float(schedule(step)) == pytest.approx(expected, rel=1e-5)


def test_what_schedules_do_unless_told_otherwise():
    """A straight line to 0 from step 0, warm-up from 0; the shortest decay is of one step."""
    assert [float(Polynomial(0.8, 4)(step)) for step in range(6)] == pytest.approx([0.8, 0.6, 0.4, 0.2, 0, 0])
    assert [float(Polynomial(0.8, 1)(step)) for step in range(3)] == pytest.approx([0.8, 0, 0])
    warmup = PolynomialWarmup(Constant(0.8), 4)
    assert [float(warmup(step)) for step in range(6)] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 0.8])
    assert [float(PolynomialWarmup(Constant(0.8), 0)(step)) for step in range(2)] == pytest.approx([0.8, 0.8])
    curved = PolynomialWarmup(Constant(0.8), 4, 0.4, 2.0)
    assert [float(curved(step)) for step in range(5)] == pytest.approx([0.4, 0.425, 0.5, 0.625, 0.8])


@pytest.mark.parametrize("after", [Polynomial(1e-3, 100), Polynomial(1e-3, 100, 1e-5, 0.5), Constant(1e-3)])
def test_warmup_is_linear_and_does_not_jump(after):
    schedule = LinearWarmup(after, 40, 1e-6)
    rates = [float(schedule(step)) for step in range(101)]
    target = float(after(40))
    assert rates[0] == pytest.approx(1e-6)
    assert rates[40] == pytest.approx(target)
    assert rates[10] == pytest.approx(1e-6 + (target - 1e-6) / 4, rel=1e-5)
    assert rates[70] == pytest.approx(float(after(70)))
    assert np.abs(np.diff(rates)).max() < 1e-3 / 30 or after.get_config().get("power") == 0.5
    assert float(LinearWarmup(after, 0)(0)) == pytest.approx(float(after(0)))


SCHEDULES = [
    Constant(0.3),
    Polynomial(1e-2, 10, 1e-3, 2.0, 3),
    LinearWarmup(Polynomial(1e-2, 10, 1e-3, 2.0, 3), 4, 1e-5),
    PolynomialWarmup(Constant(1e-2), 6, 1e-5, 0.5),
    LinearWarmup(PolynomialWarmup(Constant(1e-2), 6, 1e-5, 0.5), 2),
    LinearWarmup(Cosine(initial_learning_rate=1e-2, decay_steps=10, decay_start=3, alpha=0.1), 4),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: type(schedule).__name__)
def test_a_schedule_is_made_again_from_its_configuration(schedule):
    stored = json.loads(json.dumps(keras.optimizers.schedules.serialize(schedule)))
    for again in (type(schedule).from_config(schedule.get_config()), keras.optimizers.schedules.deserialize(stored)):
        assert type(again) is type(schedule)
        assert [float(again(step)) for step in range(20)] == [float(schedule(step)) for step in range(20)]


OPTIONS = {
    "beta_1": 0.8,
    "beta_2": 0.9,
    "epsilon": 1e-5,
    "weight_decay_rate": 0.3,
    "exclude_from_weight_decay": ["pooler"],
    "bias_correction": True,
    "momentum_dtype": "bfloat16",
}
LAMB_OPTIONS = OPTIONS | {"bias_correction": False, "exclude_from_layer_adaptation": ["embeddings"]}


ADAFACTOR_OPTIONS = {
    "decay_rate": 0.7,
    "epsilon_1": 1e-20,
    "epsilon_2": 1e-2,
    "clip_threshold": 2.0,
    "weight_decay_rate": 0.1,
    "exclude_from_weight_decay": ["pooler"],
}


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [(AdamW, OPTIONS), (Lamb, LAMB_OPTIONS), (Sgd, {"momentum": 0.7}), (Adafactor, ADAFACTOR_OPTIONS)],
)
def test_an_optimizer_is_made_again_from_its_configuration(optimizer, options):
    """None of its options is left out, and none is at its default here."""
    defaults = {field.name: field for field in fields(optimizer.config_class)}
    assert options.keys() == defaults.keys() - {"gradient_clip_norm"}
    assert not [name for name, value in options.items() if getattr(optimizer.config_class(), name) == value]
    first = optimizer(SCHEDULES[2], name="own", **options)
    stored = json.loads(json.dumps(keras.optimizers.serialize(first)))
    for again in (optimizer.from_config(first.get_config()), keras.optimizers.deserialize(stored)):
        assert type(again) is optimizer
        assert again.name == "own"
        assert {name: getattr(again, name) for name in options} == options
        assert float(again._learning_rate(2)) == float(SCHEDULES[2](2))


def test_build_optimizer_fills_in_what_follows_from_the_run():
    config = OptimizationConfig(
        optimizer=Choice("lamb", LambConfig(weight_decay_rate=0.02, gradient_clip_norm=0.5)),
        learning_rate=Choice("polynomial", PolynomialConfig(2e-3)),
        warmup=Choice("linear", LinearWarmupConfig()),
    )
    optimizer, clip_norm = build_optimizer(config, 1000)
    assert isinstance(optimizer, Lamb)
    assert clip_norm == 0.5
    assert optimizer.weight_decay_rate == 0.02
    rates = [float(optimizer._learning_rate(step)) for step in (0, 50, 100, 500, 1000)]
    assert rates == pytest.approx([0, 1e-3, 2e-3, 2e-3 * 5 / 9, 0], rel=1e-5, abs=1e-9)

    plain = OptimizationConfig(
        optimizer=Choice("adamw", AdamWConfig(gradient_clip_norm=0.0)),
        learning_rate=Choice("constant", ConstantConfig(0.5)),
        warmup=None,
    )
    optimizer, clip_norm = build_optimizer(plain, 10)
    assert clip_norm is None
    assert float(optimizer.learning_rate) == 0.5


@pytest.mark.parametrize(
    ("config", "steps", "message"),
    [
        (OptimizationConfig(), 0, "train_steps must be above 0. Received: 0"),
        (OptimizationConfig(warmup=Choice("linear", LinearWarmupConfig(-1))), 5, "warmup_steps must not be negative"),
        (OptimizationConfig(learning_rate=Choice("polynomial", PolynomialConfig(decay_steps=0))), 5, "decay_steps"),
        (OptimizationConfig(optimizer=Choice("adamw", AdamWConfig(gradient_clip_norm=-1.0))), 5, "gradient_clip_norm"),
    ],
)
def test_impossible_values_are_refused(config, steps, message):
    with pytest.raises(UsageError, match=message):
        build_optimizer(config, steps)
