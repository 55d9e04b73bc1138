"""Learning rates by layer: which group a weight is in, and what its steps are, against numpy."""

from itertools import pairwise

import numpy as np
import pytest
from keras import ops

from nlpdata.errors import UsageError
from pretrain.encoders.model import weights_by_path
from pretrain.optimizers import build_optimizer
from pretrain.optimizers.configs import AdamWConfig, ConstantConfig, SgdConfig
from pretrain.optimizers.layer_rates import LayerRates, groups
from pretrain.settings.fields import Choice
from pretrain.settings.trainer_section import OptimizationConfig
from tests.messages import messages
from tests.pretrain.models import albert, bert, randomize, task, to_numpy, updating


def group_of(path: str) -> int:
    """For BERT of three layers."""
    if "layer_2/" in path or "layer_1/" in path or "layer_0/" in path:
        return 3 - int(path.split("layer_")[1][0])
    return 4 if path.startswith("encoder/embeddings") else 0


def test_groups_count_from_the_heads_down():
    paths = list(weights_by_path(task(bert(num_hidden_layers=3)).build_model()))
    assert groups(paths) == [group_of(path) for path in paths]
    assert {"encoder/pooler/kernel", "masked_lm/output_bias"} <= {path for path in paths if group_of(path) == 0}
    deep = [f"encoder/layer_{layer}/kernel" for layer in range(12)]
    assert groups(["model/" + path for path in deep]) == list(range(12, 0, -1))


def test_layers_that_share_their_weights_are_one():
    model = task(albert(num_hidden_layers=6)).build_model()
    found = dict(zip(weights_by_path(model), groups(weights_by_path(model)), strict=True))
    assert {group for path, group in found.items() if "/group_0/" in path} == {1}
    assert found["encoder/embedding_projection/kernel"] == found["encoder/embeddings/word_embeddings"] == 2
    two = groups(["encoder/group_0/layer_0/kernel", "encoder/group_1/layer_0/kernel", "encoder/group_1/layer_1/kernel"])
    assert two == [3, 2, 1]


def test_an_encoder_without_numbered_layers_is_refused():
    with pytest.raises(
        UsageError, match=r"need an encoder whose layers are named layer_0, .* such as encoder/dense/kernel"
    ):
        LayerRates(["encoder/dense/kernel", "head/kernel"], 0.5)


def test_more_steps_than_groups_are_refused():
    paths = ["encoder/embeddings/word_embeddings", "encoder/layer_0/kernel", "head/kernel"]
    assert (
        str(LayerRates(paths, 0.5, [10, 20]))
        == "heads 1, layer 1 from the top 0.5 from step 10, embeddings 0.25 from step 20"
    )
    with pytest.raises(
        UsageError, match=r"unfreeze_steps is \[1, 2, 3\], 3 steps: the model has 2 groups below its heads"
    ):
        LayerRates(paths, 1.0, [1, 2, 3])


def steps(optimizer, encoder, count, **options):
    """(weights before each of `count` steps with gradients of 1, and after the last), a list of dicts by path."""
    model = task(encoder).build_model()
    randomize(model)
    config = OptimizationConfig(optimizer, Choice("constant", ConstantConfig(0.1)), None, **options)
    with messages() as said:
        built, _ = build_optimizer(config, 100, model.weights)
    assert len(said) == 1
    assert said[0].startswith("share of the learning rate: heads 1, ")
    weights, history = weights_by_path(model), []
    update = updating(built, list(weights.values()))
    for _ in range(count):
        history.append({path: to_numpy(weight).copy() for path, weight in weights.items()})
        update([ops.ones(weight.shape) for weight in weights.values()])
    return [*history, {path: to_numpy(weight) for path, weight in weights.items()}]


def test_a_step_is_the_share_of_its_layer():
    before, after = steps(Choice("sgd", SgdConfig()), bert(num_hidden_layers=3), 1, layer_decay=0.5)
    for path, value in before.items():
        np.testing.assert_allclose(value - after[path], 0.1 * 0.5 ** group_of(path), rtol=1e-3, err_msg=path)


def test_layers_are_unfrozen_from_the_top():
    """With weight decay, which moves no frozen weight either."""
    optimizer = Choice("adamw", AdamWConfig(weight_decay_rate=0.1))
    history = steps(optimizer, bert(num_hidden_layers=3), 5, unfreeze_steps=[1, 4])
    begins = {0: 0, 1: 1, 2: 4, 3: 4, 4: 4}  # the list has no step for the lowest: the last one
    for step, (before, after) in enumerate(pairwise(history)):
        for path, value in before.items():
            assert (value != after[path]).all() == (step >= begins[group_of(path)]), (step, path)
            assert (value == after[path]).all() != (step >= begins[group_of(path)]), (step, path)
