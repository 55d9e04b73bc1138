"""Which weights a run leaves as they are."""

import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nlpdata.errors import UsageError, closest

_log = logging.getLogger(__name__)

_PATH = "trainer.optimizer_config.freeze"


def freeze(weights: Mapping[str, Any], patterns: Sequence[str]) -> list[Any]:
    """Makes the weights whose path has a match of a pattern not trainable: they get no gradient and no optimizer variables.

    Args:
      weights: path -> variable, those of a model.
      patterns: regular expressions.

    Returns the frozen variables, in the order of `weights`.

    UsageError for a pattern that matches nothing, and where nothing is left to train.
    """
    trained = {path for path, weight in weights.items() if weight.trainable}
    found = {pattern: {path for path in trained if re.search(pattern, path)} for pattern in patterns}
    for pattern, paths in found.items():
        if not paths:
            places = {path[:end] for path in trained for end in (*_slashes(path), len(path))}
            raise UsageError(
                f"{_PATH}: {pattern!r} matches none of the {len(trained)} weights that are trained, e.g. {min(trained)}."
                f"{closest(pattern, sorted(places), 3, 0.5)}"
            )
    frozen = set().union(*found.values())
    if frozen == trained:
        raise UsageError(f"{_PATH}: {list(patterns)} freezes all {len(trained)} weights: nothing is left to train.")
    variables = [weight for path, weight in weights.items() if path in frozen]
    for weight in variables:
        weight.trainable = False
    left, whole = (sum(math.prod(weights[path].shape) for path in paths) for paths in (trained - frozen, trained))
    if frozen:
        _log.info(f"frozen: {len(frozen)} of {len(trained)} weights; {left:,} of {whole:,} parameters are trained")
    return variables


def _slashes(path: str) -> list[int]:
    return [at for at, letter in enumerate(path) if letter == "/"]
