"""A deeper model from the state of a shallower one, by stacking copies of its layers.

Gong et al., "Efficient Training of BERT by Progressively Stacking" (2019): layer i of the deeper model starts as layer i mod n of
the n layers below, so that twice the depth is the whole stack on itself. As the Model Garden does, embeddings, pooler and heads
stay. The moments of the optimizer and the average of the weights are copied with the weights that they belong to.
"""

import re
from collections.abc import Iterable, Mapping

import numpy as np

from nlpdata.errors import UsageError

# model/encoder/layer_3/..., average/encoder/layer_3/..., optimizer/adamw/model_encoder_layer_3_...
_LAYER = re.compile(r"(?<![a-z])encoder([/_])layer_([0-9]+)(?=\1)")
_OF_NO_WEIGHT = ("iteration", "learning_rate")  # variables of an optimizer as a whole


def stacked(arrays: Mapping[str, np.ndarray], num_layers: int) -> dict[str, np.ndarray]:
    """The state of a model of that many layers.

    Args:
      arrays: the state of a model of as many or fewer, by name, as Engine.state gives it.
      num_layers: layers of the model to make.
    """
    below = _count_layers(arrays)
    result = {}
    for name, array in arrays.items():
        match = _LAYER.search(name)
        if match is None:
            result[name] = array
            continue
        start, end = match.span(2)
        for layer in range(int(match[2]), num_layers, below):
            result[f"{name[:start]}{layer}{name[end:]}"] = array
    return result


def _count_layers(names: Iterable[str]) -> int:
    return 1 + max((int(match[2]) for match in map(_LAYER.search, names) if match), default=-1)


def refuse_unstackable(names: Iterable[str], num_layers: int) -> None:
    """UsageError where a model cannot be made deeper.

    Args:
      names: of its state's arrays.
      num_layers: its own number of layers.
    """
    names = list(names)
    found = _count_layers(name for name in names if name.startswith("model/"))
    if found != num_layers:
        raise UsageError(
            f"trainer.stages: num_hidden_layers grows, and this encoder has {num_layers} layers, of which {found or 'none'} "
            "have weights of their own, named layer_0, layer_1, ... Stacking copies them; ALBERT, whose layers share theirs, "
            "cannot grow. Use an encoder such as bert, or leave num_hidden_layers out."
        )
    weights = {name.removeprefix("model/").replace("/", "_") for name in names if name.startswith("model/")}
    of_weights = (
        name for name in names if name.startswith("optimizer/") and name.rpartition("/")[2] not in _OF_NO_WEIGHT
    )
    for name in of_weights:
        if not any(weight in name for weight in weights):
            raise UsageError(
                f"trainer.stages: num_hidden_layers grows, and the optimizer's {name} does not say which weight it belongs to, "
                "so it cannot be copied with it. Use adamw, lamb or sgd."
            )
