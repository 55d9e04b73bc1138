"""What an evaluation keeps of each record, for scores that need all of them at once, and for reports."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from pretrain.data.record_set import Sources
from pretrain.evaluation.mistakes import Mistakes
from pretrain.layers.tensors import Tensor
from pretrain.tasks.metrics import part_names

Scores = Callable[[np.ndarray, np.ndarray], dict[str, float]]


class EvaluatedData(Protocol):
    """Data whose records can be shown to people, and are known by their source."""

    sources: Sources

    def shown(self, record: np.ndarray) -> list[dict[str, Any]]: ...


def with_outputs(state: dict[str, Any], outputs: Mapping[str, Tensor] | None) -> dict[str, Any]:
    """The state of an evaluation with a step's outputs, arrays (b, ...) by name, under "outputs"."""
    for name, values in (outputs or {}).items():
        state.setdefault("outputs", {}).setdefault(name, []).append(np.asarray(values))
    return state


def outputs_of(state: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(numbers of the records, ascending; their labels; their logits) of an evaluation, each record once."""
    outputs = {name: np.concatenate(parts) for name, parts in state["outputs"].items()}
    records, once = np.unique(outputs["record"], return_index=True)
    return records, outputs["label"][once], outputs["logits"][once]


def parts_of(data: EvaluatedData) -> list[str]:
    """Names of the parts of the data that are scored each for itself, too: matched, mismatched; [] for one."""
    return part_names(data.sources.names)


def scores_of_parts(
    data: EvaluatedData, records: np.ndarray, labels: np.ndarray, logits: np.ndarray, scores: Scores
) -> dict[str, float]:
    """The scores of each part of the data by itself, as metric_part; a part without records has none.

    Args:
      data: that of the evaluation.
      records: numbers of the records, int (n,).
      labels, logits: of the records, (n, ...).
      scores: labels and logits -> metrics.
    """
    found: dict[str, float] = {}
    part_of = data.sources.of(records)
    for number, part in enumerate(parts_of(data)):
        rows = np.flatnonzero(part_of == number)
        if len(rows):
            found |= {f"{name}_{part}": value for name, value in scores(labels[rows], logits[rows]).items()}
    return found


def shown_mistakes(mistakes: Mistakes, records: np.ndarray, data: EvaluatedData | None) -> list[dict[str, Any]]:
    """Mistakes with the records that they are about, for a report.

    Args:
      mistakes: their rows among the records, and what is said about each.
      records: numbers of the records, as outputs_of gives them.
      data: that of the evaluation; None: the numbers are all that is known.
    """
    numbers = records[np.array([row for row, _ in mistakes], np.int64)].astype(np.int64)
    shown = data.shown(numbers) if data else [{"record": int(number)} for number in numbers]
    return [{**entry, **about} for entry, (_, about) in zip(shown, mistakes, strict=True)]
