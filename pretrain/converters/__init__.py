"""Checkpoints of any supported format as weights by path (see pretrain.encoders.model.weights_by_path).

    report = assign(model, read_checkpoint("run1").weights)      # the newest checkpoint of a run
    print(report)                                                # what matched, what is missing, what was not used
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from pretrain.config import Choice
from pretrain.registry import CHECKPOINT_FORMATS

_SHOWN = 12  # names of a kind in a report


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint of any format holds.

    Attributes:
      format: name in the registry of formats.
      weights: path -> array, float32.
      config: the encoder that it belongs to, where the checkpoint tells.
      source: the file or folder that was read.
      facts: about the data that it was trained on, e.g. tokenizer_sha256, where it tells.
    """

    format: str
    weights: Mapping[str, np.ndarray]
    config: Choice | None = None
    source: str = ""
    facts: Mapping = field(default_factory=dict)


@dataclass(frozen=True)
class LoadReport:
    """Which weights of a model a checkpoint filled: paths, sorted.

    Attributes:
      matched: taken from the checkpoint.
      missing: in the model only; they keep their initial values.
      unused: in the checkpoint only.
    """

    matched: list[str]
    missing: list[str]
    unused: list[str]

    def __str__(self) -> str:
        lines = [f"weights loaded: {len(self.matched)} of the model's {len(self.matched) + len(self.missing)}"]
        for title, names in (("missing (keep their initial values)", self.missing), ("unused", self.unused)):
            if names:
                lines += [f"  {title}: {len(names)}", *(f"    {name}" for name in names[:_SHOWN])]
                lines += [f"    ... {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        return "\n".join(lines)


def read_checkpoint(path) -> Checkpoint:
    """Finds out a checkpoint's format, and reads it.

    Raises UsageError where nothing is there or the format is unknown, DataError where the checkpoint is damaged.
    """
    if not Path(path).exists():
        near = sorted(entry.name for entry in Path(path).parent.glob(f"{Path(path).name}*"))[:5]
        hint = f" There are {', '.join(near)}: files of a format that is not supported." if near else ""
        raise UsageError(f"checkpoint {path}: no such file or folder.{hint}")
    for name in CHECKPOINT_FORMATS.names():
        checkpoint = CHECKPOINT_FORMATS.get(name)(path)
        if checkpoint is not None:
            return checkpoint
    raise UsageError(
        f"checkpoint {path}: not of a known format. Known: {', '.join(CHECKPOINT_FORMATS.names())}. Expected a run's "
        "model_dir, or one of its checkpoints, e.g. run1/checkpoints/step-00001000."
    )


def assign(model, weights: Mapping[str, np.ndarray]) -> LoadReport:
    """Sets the weights of a built model to those of equal path.

    Raises DataError, before any is set, where one has another shape, or none matches.
    """
    from pretrain.encoders.model import weights_by_path

    own = weights_by_path(model)
    matched = sorted(own.keys() & weights.keys())
    wrong = [name for name in matched if tuple(own[name].shape) != weights[name].shape]
    if wrong:
        lines = [f"  {name}: the model has {tuple(own[name].shape)}, the checkpoint {weights[name].shape}" for name in wrong]
        raise DataError(
            f"{len(wrong)} weights differ in shape. Does the model's configuration belong to the checkpoint?\n"
            + "\n".join(lines[:_SHOWN])
        )
    if not matched:
        raise DataError(
            f"0 of {len(own)} weights match the checkpoint's {len(weights)}. The model has {_some(own)}; the checkpoint "
            f"has {_some(weights)}." + ("" if own else " Was the model built?")
        )
    for name in matched:
        own[name].assign(weights[name])
    return LoadReport(matched, sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys()))


def _some(names) -> str:
    return ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "") if names else "none"
