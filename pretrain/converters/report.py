"""Giving a model the weights of a checkpoint, and the account of what matched."""

from dataclasses import dataclass, field

import numpy as np

from nlpdata.errors import DataError, UsageError
from pretrain.config import Choice
from pretrain.converters.checkpoint import UNKNOWN, Checkpoint
from pretrain.encoders.model import EncoderModel, weights_by_path


@dataclass(frozen=True)
class LoadReport:
    """What became of the weights.

    Attributes:
      source: where they came from.
      format: its format.
      matched: paths that were loaded.
      missing: paths of the model that the checkpoint lacks -> how they start instead.
      unused: the checkpoint's other tensors -> why.
      differences: fields in which the two encoders differ although their weights fit, e.g. the activation.
    """

    source: str
    format: str
    matched: list[str]
    missing: dict[str, str]
    unused: dict[str, str] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    def __str__(self):
        lines = [f"{self.source} ({self.format}): {len(self.matched)} weights matched"]
        for title, items in (("missing", self.missing), ("unused", self.unused)):
            lines += [f"  {title}: {', '.join(names)} ({why})" for why, names in _by_reason(items)]
        lines += [f"  warning: {difference}" for difference in self.differences]
        return "\n".join(lines)


def _by_reason(items: dict[str, str]):
    reasons: dict[str, list[str]] = {}
    for name, why in items.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        shown = names if len(names) <= 4 else [*names[:3], f"... {len(names)} in all"]
        yield why, shown


# Fields that shapes of weights do not show, and that change what a model computes.
_INVISIBLE = ("hidden_act", "layer_norm_eps", "num_attention_heads", "num_hidden_layers")


def _differences(model: Choice | None, checkpoint: Checkpoint) -> list[str]:
    """What the two encoders' configurations say differently; UsageError where they are of different types."""
    if model is None or checkpoint.encoder is None:
        return []
    if model.type != checkpoint.encoder.type:
        raise UsageError(
            f"{checkpoint.source} holds an encoder of type {checkpoint.encoder.type}, the model's is {model.type}. Name "
            "the checkpoint's configuration with --model_config."
        )
    own, theirs = model.options, checkpoint.encoder.options
    pairs = [(name, getattr(theirs, name, None), getattr(own, name, None)) for name in _INVISIBLE]
    return [
        f"{name} is {there!r} in the checkpoint, {here!r} in this model" for name, there, here in pairs if there != here
    ]


def assign(
    model: EncoderModel, checkpoint: Checkpoint, encoder: Choice | None = None, replace: tuple[str, ...] = ()
) -> LoadReport:
    """Loads what a checkpoint and a built model have in common.

    Args:
      model: built; what the checkpoint lacks keeps its initial value.
      encoder: the configuration of the model's encoder, to be compared with the checkpoint's.
      replace: heads (first part of the path) whose weights may have another shape in the checkpoint: those keep their
        initial values, and the report says so.

    Raises DataError where a shape differs, UsageError where nothing matches.
    """
    differences = _differences(encoder, checkpoint)
    own = weights_by_path(model)
    found = dict(checkpoint.weights)
    unused = dict(checkpoint.unused)
    wrong = []
    for path in sorted(found.keys() & own.keys()):
        shapes = tuple(found[path].shape), tuple(own[path].shape)
        if shapes[0] != shapes[1]:
            if path.split("/")[0] in replace:
                unused[path] = "another shape: a head of its own is trained"
                del found[path]
            else:
                wrong.append(f"{path} is {shapes[0]}, the model's {shapes[1]}")
    if wrong:
        raise DataError(
            f"{checkpoint.source}: shapes differ: {'; '.join(wrong[:3])}{' ...' if len(wrong) > 3 else ''}. Is the model "
            "configuration that of this checkpoint?"
        )
    matched = sorted(found.keys() & own.keys())
    if not matched:
        raise UsageError(
            f"{checkpoint.source}: none of its {len(found)} weights belongs to this model. It has {_sample(found)}; the model "
            f"has {_sample(own)}"
        )
    for path in matched:
        own[path].assign(np.asarray(found[path], np.float32))
    unused |= {path: "this model has no such head" for path in found.keys() - own.keys()}
    missing = {path: _initial(path) for path in own if path not in found}
    return LoadReport(checkpoint.source, checkpoint.format, matched, missing, unused, differences)


def refuse_gaps(report: LoadReport) -> None:
    """DataError where the encoder misses weights; all but the pooler, which some published models do not have."""
    gaps = [path for path in report.missing if path.startswith("encoder/") and not path.startswith("encoder/pooler/")]
    if gaps:
        unknown = [name for name, why in report.unused.items() if why == UNKNOWN]
        raise DataError(
            f"{report.source}: {len(gaps)} weights of the encoder are missing, e.g. {gaps[0]}."
            + (f" It has names that we do not know: {_sample(unknown)}." if unknown else "")
            + " Is it whole, and of this model configuration?"
        )


def _initial(path: str) -> str:
    role = path.rsplit("/", 1)[-1]
    return {"gamma": "start at 1", "beta": "start at 0", "bias": "start at 0", "output_bias": "start at 0"}.get(
        role, "start at random"
    )


def _sample(names) -> str:
    return ", ".join(sorted(names)[:2]) + (", ..." if len(names) > 2 else "")
