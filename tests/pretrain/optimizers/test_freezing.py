"""Weights that a run leaves as they are: which, what is said, and what is refused."""

import math

import pytest

from nlpdata.errors import UsageError
from pretrain.encoders.model import weights_by_path
from pretrain.experiments.pretraining import bert_local
from pretrain.optimizers.freezing import freeze
from pretrain.optimizers.layer_rates import LayerRates
from pretrain.tasks.pretraining import PretrainingTask
from tests.messages import messages
from tests.pretrain.models import bert, task
from tests.pretrain.runs import ROOT


def test_frozen_weights_are_not_trainable_and_counted():
    model = task(bert()).build_model()
    weights = weights_by_path(model)
    frozen = [path for path in weights if "embeddings" in path or "layer_0/" in path]
    with messages() as said:
        assert freeze(weights, ["embeddings", "layer_0/"]) == [weights[path] for path in frozen]
    left = [weight for path, weight in weights.items() if path not in frozen]
    assert [weight.path for weight in model.trainable_variables] == [weight.path for weight in left]
    trained, whole = (sum(math.prod(weight.shape) for weight in each) for each in (left, weights.values()))
    assert said == [f"frozen: {len(frozen)} of {len(weights)} weights; {trained:,} of {whole:,} parameters are trained"]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (
            ["encoder/embedings"],
            r"freeze: 'encoder/embedings' matches none of the 46 weights .* Did you mean encoder/embeddings",
        ),
        (
            ["pooler", "layer_7/"],
            r"'layer_7/' matches none of the 46 weights that are trained, e.g. encoder/embeddings/",
        ),
        (["."], r"\['\.'\] freezes all 46 weights: nothing is left to train"),
    ],
)
def test_patterns_that_freeze_nothing_or_all_are_refused(patterns, message):
    weights = weights_by_path(task(bert()).build_model())
    with pytest.raises(UsageError, match=message):
        freeze(weights, patterns)
    assert all(weight.trainable for weight in weights.values())


def test_the_page_shows_what_a_run_says():
    config = bert_local()
    weights = weights_by_path(PretrainingTask(config.task).build_model())
    with messages() as said:
        freeze(weights, ["embeddings", "layer_0/"])
    (shown,) = said
    rates = f"share of the learning rate: {LayerRates(weights, 0.8)}"
    assert f"\n{shown}\n{rates}\n" in (ROOT / "docs" / "optimization.md").read_text(encoding="utf-8")
