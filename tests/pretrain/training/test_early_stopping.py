"""When a run stops early: after a number of evaluations without a better one, including those before it resumed."""

import json
import math

import pytest

from pretrain.settings.trainer_section import TrainerConfig
from pretrain.training.early_stopping import EarlyStopping


def stopping(folder, comparison="lower", patience=2, step=100, lines=(), metric="f1"):
    """Of a run that resumes after `step` and has these lines in metrics.jsonl."""
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = TrainerConfig(
        early_stopping_patience=patience, best_checkpoint_metric_comp=comparison, best_checkpoint_eval_metric=metric
    )
    return EarlyStopping(settings, folder, step)


@pytest.mark.parametrize(("comparison", "sign"), [("higher", 1), ("lower", -1)])
def test_it_stops_after_that_many_without_a_better_one(tmp_path, comparison, sign):
    for patience in (1, 2, 3):
        own = stopping(tmp_path, comparison, patience)
        assert own.reason() is None  # nothing was evaluated yet
        for step, value in ((5, 0.5), (10, 0.7)):  # 0.5 is no longer the best
            own.add(step, sign * value)
            assert own.reason() is None
        for step in range(11, 11 + patience):
            assert own.reason() is None
            own.add(step, sign * 0.7)  # equal is not better
        assert own.reason() == (
            f"{patience} evaluations brought no better f1 than {sign * 0.7:g} at step 10 "
            f"(trainer.early_stopping_patience {patience})"
        )
        own.add(20, sign * 0.8)
        assert own.reason() is None


@pytest.mark.parametrize("comparison", ["higher", "lower"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_nan_is_worse_than_any_number_wherever_it_is(tmp_path, comparison, at):
    own = stopping(tmp_path, comparison, patience=3)
    values = [1e30, 1e30, 1e30]
    values[at] = math.nan
    for step, value in enumerate(values, 1):
        own.add(step, value)
    assert own.reason() is None
    own.add(4, math.nan)
    own.add(5, math.nan)
    best = 2 if at == 0 else 1
    assert own.reason().startswith(f"{5 - best} evaluations brought no better f1 than 1e+30 at step {best} ")


def test_steps_count_in_their_order(tmp_path):
    own = stopping(tmp_path, "higher", patience=1)
    for step, value in ((30, 0.2), (20, 0.9), (10, 0.1)):
        own.add(step, value)
    assert own.reason().startswith("1 evaluations brought no better f1 than 0.9 at step 20 ")
    own.add(30, 0.95)  # the same step again
    assert own.reason() is None


def test_without_a_patience_nothing_stops(tmp_path):
    own = stopping(tmp_path, patience=None)
    for step in range(50):
        own.add(step, float(step))
    assert own.reason() is None


def test_a_resumed_run_counts_the_evaluations_up_to_its_step(tmp_path):
    evaluated = [
        {"step": step, "split": "eval", "f1": value} for step, value in ((2, 0.5), (4, 0.4), (6, 0.3), (8, 0.9))
    ]
    others = [
        {"step": 1, "split": "train", "f1": 0.99},  # the training's own
        {"step": 3, "split": "eval", "loss": 0.99},
        {"step": 5, "split": "eval", "f1": None},
    ]
    own = stopping(tmp_path, "higher", 2, step=6, lines=[*evaluated, *others])
    assert own.reason().startswith("2 evaluations brought no better f1 than 0.5 at step 2 ")
    assert stopping(tmp_path, "higher", 2, step=5, lines=[*evaluated, *others]).reason() is None
    assert stopping(tmp_path, "higher", 2, step=8, lines=[*evaluated, *others]).reason() is None


def test_the_first_of_equals_and_each_step_once_count(tmp_path):
    settings = TrainerConfig(
        early_stopping_patience=2, best_checkpoint_metric_comp="higher", best_checkpoint_eval_metric="f1"
    )
    written = [(1, 0.5), (2, 0.7), (3, 0.7), (3, 0.7), (9, 0.9)]  # step 9 was cut off
    log = [json.dumps({"step": step, "split": "eval", "f1": value}) for step, value in written]
    (tmp_path / "metrics.jsonl").write_text("\n".join(log) + "\n")
    own = EarlyStopping(settings, tmp_path, 3)
    assert own.reason() is None
    own.add(4, 0.6)
    assert own.reason().startswith("2 evaluations brought no better f1 than 0.7 at step 2")
    own.add(5, 0.8)
    assert own.reason() is None
    own.add(6, float("nan"))
    own.add(7, float("nan"))
    assert own.reason().startswith("2 evaluations brought no better f1 than 0.8 at step 5")


def test_numbers_alone_count(tmp_path):
    settings = TrainerConfig(early_stopping_patience=1)
    values = ["null", '"x"', "[1]", "0.5"]
    lines = [f'{{"step": {step}, "split": "eval", "loss": {value}}}' for step, value in enumerate(values, 1)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    own = EarlyStopping(settings, tmp_path, 4)
    assert own.reason() is None
    own.add(5, 0.6)
    assert own.reason().startswith("1 evaluations brought no better loss than 0.5 at step 4")
