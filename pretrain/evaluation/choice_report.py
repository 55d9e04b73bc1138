"""The report of multiple choice: its wrong choices, and scores of each number of a choice."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pretrain.evaluation.class_report import class_report
from pretrain.evaluation.report import Report
from pretrain.evaluation.sentence import only_choice

_PAIR = ("label", "prediction")


def choice_report(
    labels: np.ndarray,
    predictions: np.ndarray,
    choices: int,
    errors: Sequence[Mapping[str, Any]],
    identifiers: Sequence[str],
    texts: Sequence[str],
) -> Report:
    """The report. Its classes are the numbers of the choices, from 0: they show a model that prefers a place.

    Args:
      labels, predictions: numbers of the right and of the predicted choices of all examples, int (n,).
      choices: the most that an example has.
      errors: mistakes with label, prediction and probability, what identifies their examples, and texts and choices where they
        are known.
      identifiers, texts: the names under which they have the former, and texts other than choices.
    """
    told = []
    for error in errors:
        pair = {name: int(error[name]) for name in _PAIR}
        own = {f"{name}_text": error["choices"][number] for name, number in pair.items()} if "choices" in error else {}
        told.append({**error, **pair, **own})
    columns = (*identifiers, *_PAIR, "probability", *texts, *(f"{name}_text" for name in _PAIR))
    classes = class_report(labels, predictions, tuple(map(str, range(choices))))
    return Report("choice", columns, told, classes, only_choice(labels, predictions, choices) or "")
