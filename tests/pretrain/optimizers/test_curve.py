"""The learning rate of a run: its rule, in numbers and as Keras computes it, and what checkpoints say of it."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.optimizers import build_learning_rate
from pretrain.optimizers.configs import ConstantConfig, LinearWarmupConfig, PolynomialConfig, PolynomialWarmupConfig
from pretrain.optimizers.curve import (
    curve_of,
    description,
    in_words,
    is_older,
    resolved,
    stored_description,
    with_older_rule,
)
from pretrain.optimizers.formulas import (
    CosineConfig,
    ExponentialConfig,
    InverseSquareRootConfig,
    PowerConfig,
    StepwiseConfig,
    WarmupStableDecayConfig,
)
from pretrain.registry import SCHEDULES
from pretrain.settings.fields import Choice
from pretrain.settings.trainer_section import OptimizationConfig

NAMES = {SCHEDULES.config_class(name): name for name in SCHEDULES.names()}


def optimization(decay, warmup=None) -> OptimizationConfig:
    kind = "polynomial" if isinstance(warmup, PolynomialWarmupConfig) else "linear"
    return OptimizationConfig(learning_rate=Choice(NAMES[type(decay)], decay), warmup=warmup and Choice(kind, warmup))


numbers = st.floats(1e-6, 1.0)
decays = st.one_of(
    st.builds(ConstantConfig, numbers),
    st.builds(
        PolynomialConfig,
        numbers,
        st.floats(0, 1e-6),
        st.none() | st.integers(1, 3000),
        st.none() | st.integers(0, 2000),
        st.floats(0.3, 3),
    ),
    st.builds(CosineConfig, numbers, st.none() | st.integers(1, 3000), st.none() | st.integers(0, 2000), st.floats(0, 1)),
    st.builds(ExponentialConfig, numbers, st.none() | st.integers(1, 3000), st.none(), st.floats(0.01, 1), st.booleans()),
    st.builds(InverseSquareRootConfig, numbers, st.none() | st.integers(1, 3000), st.none() | st.integers(0, 2000)),
    st.builds(
        WarmupStableDecayConfig, numbers, st.none() | st.integers(1, 500), st.floats(0, 1),
        decay_form=st.sampled_from(["linear", "cosine", "sqrt"]),
    ),
    st.builds(
        PowerConfig, numbers, st.floats(-2, 0), st.integers(0, 99), st.none() | numbers, st.none() | st.integers(1, 900),
        st.floats(0, 1),
    ),
    st.builds(StepwiseConfig, st.just([9, 70]), st.lists(numbers, min_size=3, max_size=3), st.integers(0, 50)),
)  # fmt: skip
warmups = st.one_of(
    st.none(),
    st.builds(LinearWarmupConfig, st.none() | st.integers(0, 900), st.floats(0, 0.9), st.floats(0, 1e-6)),
    st.builds(PolynomialWarmupConfig, st.integers(0, 900), st.just(0.1), st.floats(0, 1e-6), st.floats(0.3, 3)),
)


@settings(max_examples=30)
@given(decays, warmups, st.integers(1, 1000), st.lists(st.integers(0, 3000), min_size=1, max_size=9))
@pytest.mark.heavy
def test_the_numbers_are_what_keras_computes(decay, warmup, train_steps, steps):
    config = optimization(decay, warmup)
    curve, rate = curve_of(config, train_steps), build_learning_rate(config, train_steps)
    expected = [curve.at(step) for step in steps]
    np.testing.assert_allclose(np.asarray(rate(np.array(steps))), expected, rtol=1e-3, atol=1e-6)


@given(decays, warmups, st.integers(1, 300))
def test_the_peak_is_the_highest_rate(decay, warmup, train_steps):
    curve = curve_of(optimization(decay, warmup), train_steps)
    assert curve.peak(train_steps) == pytest.approx(max(curve.at(step) for step in range(train_steps)))


@given(numbers, st.integers(2, 1000), st.data())
def test_the_rate_given_is_reached_where_warmup_ends(rate, train_steps, data):
    warmup_steps = data.draw(st.integers(0, train_steps - 1))
    curve = curve_of(optimization(PolynomialConfig(rate), LinearWarmupConfig(warmup_steps)), train_steps)
    assert curve.at(warmup_steps) == curve.peak(train_steps) == rate
    assert curve.at(train_steps) == 0
    assert 0 < curve.at(train_steps - 1) <= rate
    middle = (warmup_steps + train_steps) / 2
    assert curve.at(middle) == pytest.approx(rate / 2)


def test_own_decay_steps_count_from_step_0_as_the_garden_does():
    config = optimization(PolynomialConfig(1e-4, decay_steps=1000), LinearWarmupConfig(100))
    rates = {0: 0, 50: 4.5e-5, 100: 9e-5, 550: 4.5e-5, 1000: 0}
    for train_steps in (200, 1000, 5000):
        curve = curve_of(config, train_steps)
        assert [curve.at(step) for step in rates] == pytest.approx(list(rates.values()))
    later = replace(config.learning_rate.options, decay_start=100)
    curve = curve_of(optimization(later, LinearWarmupConfig(100)), 1000)
    assert [curve.at(step) for step in (100, 600, 1100)] == pytest.approx([1e-4, 5e-5, 0])


# --------------------------------------------------------------------------------------------------------- formulas


def rates(decay, warmup_steps, train_steps, steps):
    curve = curve_of(optimization(decay, LinearWarmupConfig(warmup_steps) if warmup_steps else None), train_steps)
    return [curve.at(step) for step in steps]


@pytest.mark.heavy
def test_what_keras_has_too_is_equal():
    keras = pytest.importorskip("keras").optimizers.schedules
    cosine = keras.CosineDecay(1e-3, 100, alpha=0.1)
    exponential, stairs = (keras.ExponentialDecay(1e-3, 30, 0.5, staircase=staircase) for staircase in (False, True))
    stepwise = keras.PiecewiseConstantDecay([20, 50], [3e-3, 1e-3, 2e-3])
    for ours, theirs in (
        (CosineConfig(1e-3, 100, alpha=0.1), cosine),
        (ExponentialConfig(1e-3, 30, decay_rate=0.5), exponential),
        (ExponentialConfig(1e-3, 30, decay_rate=0.5, staircase=True), stairs),
        (StepwiseConfig([20, 50], [3e-3, 1e-3, 2e-3]), stepwise),
    ):
        steps = [0, 1, 20, 21, 29, 30, 50, 51, 77, 100, 130]
        assert rates(ours, 0, 200, steps) == pytest.approx([float(theirs(step)) for step in steps], rel=1e-5)


def test_a_decay_without_length_begins_where_warmup_ends_and_ends_with_the_run():
    assert rates(CosineConfig(1e-3, alpha=0.2), 10, 110, [5, 10, 35, 60, 110]) == pytest.approx(
        [5e-4, 1e-3, 2e-4 + 8e-4 * (1 + 0.5**0.5) / 2, 6e-4, 2e-4]
    )
    assert rates(ExponentialConfig(1e-3, decay_rate=0.01), 10, 110, [10, 60, 110]) == pytest.approx([1e-3, 1e-4, 1e-5])
    config = optimization(CosineConfig(1e-3, decay_steps=100), LinearWarmupConfig(50))  # as the Garden counts
    assert curve_of(config, 100).at(50) == pytest.approx(5e-4)


def test_the_inverse_square_root_falls_as_one_over_the_root_of_the_step():
    assert rates(InverseSquareRootConfig(1e-3), 100, 9000, [50, 100, 400, 2500]) == pytest.approx(
        [5e-4, 1e-3, 1e-3 / 2, 1e-3 / 5]
    )
    assert rates(InverseSquareRootConfig(1e-3, timescale=30), 10, 99, [10, 40, 100]) == pytest.approx(
        [1e-3, 1e-3 / 2**0.5, 5e-4]
    )


@pytest.mark.parametrize(("form", "quarter"), [("linear", 0.75), ("cosine", (1 + 0.5**0.5) / 2), ("sqrt", 0.5)])
def test_a_stable_rate_falls_at_the_end_alone(form, quarter):
    decay = WarmupStableDecayConfig(1e-3, decay_proportion=0.4, end_learning_rate=1e-4, decay_form=form)
    expected = [5e-4, 1e-3, 1e-3, 1e-3, 1e-4 + 9e-4 * quarter, 1e-4]
    assert rates(decay, 10, 100, [5, 10, 30, 60, 70, 100]) == pytest.approx(expected)
    assert rates(replace(decay, decay_steps=40), 10, 300, [259, 260, 270, 300]) == pytest.approx([1e-3, *expected[3:]])


def test_powers_of_the_step_as_in_the_garden():
    assert rates(PowerConfig(1e-3), 0, 99, [0, 1, 4, 25]) == pytest.approx([1e-3, 1e-3, 5e-4, 2e-4])
    later = PowerConfig(1e-3, -1.0, decay_start=10, pre_offset_learning_rate=5e-4)
    assert rates(later, 0, 99, [0, 10, 11, 20]) == pytest.approx([5e-4, 5e-4, 5e-4, 1e-4])
    linear = PowerConfig(1e-3, total_decay_steps=100, linear_decay_fraction=0.5)
    assert rates(linear, 0, 99, [25, 64, 100, 120]) == pytest.approx([2e-4, 1e-3 / 8 * 36 / 50, 0, 0])


def test_a_formula_describes_itself_to_checkpoints():
    stored = description(optimization(CosineConfig(1e-3), LinearWarmupConfig(10)), 100)
    formula = {"initial_learning_rate": 1e-3, "decay_steps": 90, "decay_start": 10, "alpha": 0.0}
    warmup = {"warmup_steps": 10, "warmup_rate": 0.0, "warmup_power": 1.0}
    assert stored == {"type": "cosine", "peak": 1e-3, **warmup, "formula": formula, "rule": "after_warmup"}
    words = "then cosine: initial_learning_rate 0.001, decay_steps 90, decay_start 10, alpha 0.0"
    assert in_words(stored) == f"peak 0.001, warm-up from 0 in 10 steps, {words}"
    assert not is_older({"schedule": stored})
    stable = in_words(description(optimization(WarmupStableDecayConfig(1e-3, decay_steps=20)), 100))
    assert "decay_steps 20, decay_start 80," in stable
    assert "decay_proportion" not in stable  # 0.1 is not what this run does


def test_a_description_is_plain_and_in_words():
    config = optimization(PolynomialConfig(1e-3, 1e-5, power=2.0), LinearWarmupConfig(None, 0.1))
    assert description(config, 100) == {
        "type": "polynomial", "peak": 1e-3, "rate": 1e-3, "warmup_steps": 10, "warmup_rate": 0.0, "warmup_power": 1.0,
        "decay_start": 10, "decay_end": 100, "end_rate": 1e-5, "power": 2.0, "rule": "after_warmup",
    }  # fmt: skip
    words = "peak 0.001, warm-up from 0 in 10 steps, decay with power 2 from 0.001 at step 10 to 1e-05 at step 100"
    assert in_words(description(config, 100)) == words
    assert in_words(description(optimization(ConstantConfig(0.5)), 9)) == "peak 0.5, then constant"
    assert "warm-up from 0 in 1 step, " in in_words(description(config, 10))


def test_parts_of_ones_own_are_described_by_their_options():
    config = OptimizationConfig(learning_rate=Choice("mine:Rate", ConstantConfig(0.5)), warmup=None)
    assert curve_of(config, 10) is None
    stored = description(config, 10)
    assert stored["learning_rate"] == {"type": "mine:Rate", "options": {"learning_rate": 0.5}}
    assert in_words(stored) == "mine:Rate, 10 steps"
    assert resolved(config, 10) == with_older_rule(config, 10) == config


# --------------------------------------------------------------------------------------------------- older checkpoints


def older_info(config, train_steps=None, epochs=1):
    """What a checkpoint without `schedule` says."""
    trainer = {"train_steps": train_steps, "num_train_epochs": epochs, "optimizer_config": asdict(config)}
    return {"config": {"trainer": trainer}, "data": {"num_examples": 1005, "batch_size": 10}}


@pytest.mark.parametrize(("train_steps", "epochs", "length"), [(150, 1, 150), (None, 3, 300)])
def test_an_older_run_decayed_from_step_0_to_its_last_step(train_steps, epochs, length):
    config = optimization(PolynomialConfig(1e-3), LinearWarmupConfig(100))
    info = older_info(config, train_steps, epochs)
    assert is_older(info)
    stored = stored_description(info)
    assert (stored["decay_start"], stored["decay_end"], stored["rule"]) == (0, length, "older_run")
    assert stored["peak"] == pytest.approx(1e-3 * (1 - 100 / length))
    assert stored == description(config, length, older=True)
    curve = curve_of(with_older_rule(config, length), length)
    assert curve.at(50) == pytest.approx(0.5 * curve.at(100))
    assert is_older({"schedule": stored})  # its next checkpoints say so themselves
    assert not is_older({"schedule": description(config, length)})


def test_the_older_rule_leaves_own_decay_steps_alone():
    config = optimization(PolynomialConfig(1e-3, decay_steps=70), LinearWarmupConfig(10))
    assert with_older_rule(config, 100) is config
    assert description(config, 100, older=True) == description(config, 100)


@pytest.mark.parametrize("damage", ["config", "data", "type", "options"])
def test_what_an_older_checkpoint_does_not_say_is_not_made_up(damage):
    info = older_info(optimization(PolynomialConfig(1e-3)))
    rate = info["config"]["trainer"]["optimizer_config"]["learning_rate"]
    if damage in info:
        del info[damage]
    elif damage == "type":
        rate["type"] = "os:system"
    else:
        rate["options"] = {"unknown": 1}
    assert stored_description(info) is None


def test_a_stored_formula_is_quoted_in_part():
    stored = description(optimization(CosineConfig(1e-3)), 100)
    assert len(in_words(stored | {"formula": {"x" * 9000: "y" * 9000}})) < 500
    assert in_words(stored | {"formula": [1]}).startswith("not understood: {")


@pytest.mark.parametrize("damage", [{"peak": None}, {"peak": "x"}, {"rate": [1]}, {"end_rate": {}}])
def test_a_stored_rate_that_is_not_understood_is_quoted(damage):
    stored = description(optimization(PolynomialConfig(1e-3)), 10)
    assert in_words(stored | damage).startswith("not understood: {")
    assert in_words({"type": "polynomial"}) == "not understood: {'type': 'polynomial'}"
