"""The learning rate of each layer: less in lower layers, and none until a layer is unfrozen.

Groups from the top: 0 is the heads and the pooler, 1 the highest layer, ..., n the lowest, n + 1 the embeddings. Layers that share
their weights, as all of an ALBERT do, are one group.

    layer_decay     group g has the rate times layer_decay ** g (Clark et al., arXiv 2003.10555; Bao et al., arXiv 2106.08254)
    unfreeze_steps  group g >= 1 has a rate from step unfreeze_steps[g - 1] on; those beyond the list, from its last step on
                    (Howard and Ruder, arXiv 1801.06146)
"""

import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any

import keras
from keras import ops

from nlpdata.errors import UsageError

_log = logging.getLogger(__name__)

_LAYER = re.compile(r"(?:^|/)encoder/(?:group_([0-9]+)/)?layer_([0-9]+)/")
_PATH = "trainer.optimizer_config"


def groups(paths: Iterable[str]) -> list[int]:
    """The group of each weight.

    Args:
      paths: of all weights that are trained or frozen, e.g. "encoder/layer_0/attention/query/kernel".

    UsageError where no weight is in a numbered layer of an encoder.
    """
    paths = list(paths)
    layers = sorted({layer for layer in map(_layer, paths) if layer is not None}, reverse=True)
    if not layers:
        raise UsageError(
            f"{_PATH}: layer_decay and unfreeze_steps need an encoder whose layers are named layer_0, layer_1, ...; this model has "
            f"weights such as {paths[0]}."
        )
    below = {layer: group for group, layer in enumerate(layers, 1)}
    return [_group(path, below) for path in paths]


def _layer(path: str) -> tuple[int, int] | None:
    found = _LAYER.search(path)
    return (int(found[1] or 0), int(found[2])) if found else None


def _group(path: str, below: dict) -> int:
    layer = _layer(path)
    if layer is not None:
        return below[layer]
    return len(below) + 1 if re.search("(?:^|/)encoder/(?!pooler/)", path) else 0


class LayerRates:
    """What the rate is multiplied by, for each weight.

    Args:
      paths: of all weights of the model.
      layer_decay, unfreeze_steps: see above.

    UsageError where there are more steps than groups.
    """

    def __init__(self, paths: Iterable[str], layer_decay: float = 1.0, unfreeze_steps: Sequence[int] = ()):
        paths = list(paths)
        self._groups = dict(zip(paths, groups(paths), strict=True))
        self._decay, self._steps = layer_decay, list(unfreeze_steps)
        self._lowest = max(self._groups.values())
        if len(self._steps) > self._lowest:
            raise UsageError(
                f"{_PATH}.unfreeze_steps is {self._steps}, {len(self._steps)} steps: the model has {self._lowest} groups below its "
                f"heads, {self._lowest - 1} of layers and the embeddings. Give one step for each, or fewer."
            )

    def factor(self, path: str, step: Any) -> Any:
        """Of the weight at that path, at a step (0 is the first): a number, or a tensor where it depends on the step."""
        group = self._groups[path]
        scale = self._decay**group
        if not group or not self._steps:
            return scale
        start = self._steps[min(group, len(self._steps)) - 1]
        return ops.where(ops.cast(step, "int32") >= start, scale, 0.0)

    def __str__(self) -> str:
        names = ["heads", *(f"layer {number} from the top" for number in range(1, self._lowest)), "embeddings"]
        parts = []
        for group, name in enumerate(names):
            start = self._steps[min(group, len(self._steps)) - 1] if group and self._steps else 0
            parts.append(f"{name} {self._decay**group:.3g}" + (f" from step {start}" if start else ""))
        return ", ".join(parts)


def with_layer_rates(optimizer: type, paths: Iterable[str], **options: Any) -> type:
    """A class of that optimizer whose steps are scaled by LayerRates(paths, **options); paths are those of the variables."""
    rates = LayerRates(paths, **options)
    _log.info(f"share of the learning rate: {rates}")

    class Scaled(optimizer):
        def build(self, variables: list[keras.Variable]) -> None:
            self.scaled_paths = tuple(variable.path for variable in variables)
            super().build(variables)

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            path = self.scaled_paths[self._get_variable_index(variable)]
            factor = ops.cast(rates.factor(path, self.iterations), learning_rate.dtype)
            super().update_step(gradient, variable, learning_rate * factor)

    return Scaled
