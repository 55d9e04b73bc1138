"""Loads the weights of a checkpoint into a model, and reports what matched."""

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from nlpdata.errors import DataError, UsageError, opt
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.heads import HEADS, head_of, heads_of, listed, poolers_among
from pretrain.converters.weights import UNKNOWN
from pretrain.encoders.model import EncoderModel, weights_by_path
from pretrain.encoders.model_config import means_the_same
from pretrain.settings.fields import Choice

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadReport:
    """What became of the weights.

    Attributes:
      source: where they came from.
      format: its format.
      matched: paths that were loaded.
      missing: paths of the model that the checkpoint lacks -> how they start instead.
      unused: the checkpoint's other tensors -> why.
      left_out: heads of the checkpoint that cannot be used -> why.
      warnings: where the two encoders differ although their weights fit, e.g. in the activation; a pooler that starts anew.
    """

    source: str
    format: str
    matched: list[str]
    missing: dict[str, str]
    unused: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([*self._lines(), *(f"  warning: {warning}" for warning in self.warnings)])

    def log(self) -> None:
        """Logs the account: its warnings as warnings."""
        for line in self._lines():
            _log.info(line)
        for warning in self.warnings:
            _log.warning(warning)

    def _lines(self) -> list[str]:
        lines = [f"{self.source} ({self.format}): {len(self.matched)} weights matched"]
        for title, items in (("missing", self.missing), ("unused", self.unused)):
            lines += [f"  {title}: {', '.join(names)} ({why})" for why, names in _by_reason(items)]
        return lines + [f"  left out: {head} ({why})" for head, why in self.left_out.items()]


def _by_reason(items: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    reasons: dict[str, list[str]] = {}
    for name, why in items.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        shown = names if len(names) <= 4 else [*names[:3], f"... {len(names)} in all"]
        yield why, shown


_POOLER = "encoder/pooler/"

# Fields that shapes of weights do not show, and that change what a model computes.
_INVISIBLE = ("hidden_act", "layer_norm_eps", "num_attention_heads", "num_hidden_layers")


def _differences(model: Choice | None, checkpoint: Checkpoint) -> list[str]:
    """Where the two encoders' configurations differ; UsageError where they are of different types."""
    if model is None or checkpoint.encoder is None:
        return []
    if model.type != checkpoint.encoder.type:
        raise UsageError(
            f"{checkpoint.source} holds an encoder of type {checkpoint.encoder.type}, the model's is {model.type}. Name "
            f"the checkpoint's configuration with {opt('model_config')}."
        )
    own, theirs = model.options, checkpoint.encoder.options
    pairs = [(name, getattr(theirs, name, None), getattr(own, name, None)) for name in _INVISIBLE]
    return [
        f"{name} is {there!r} in the checkpoint, {here!r} in this model"
        for name, there, here in pairs
        if not means_the_same(there, here)
    ]


def assign(model: EncoderModel, checkpoint: Checkpoint, encoder: Choice | None = None) -> LoadReport:
    """Loads what a checkpoint and a built model have in common: the whole encoder, and each head that fits as a whole.

    Args:
      model: built; a head that the checkpoint lacks, or that is left out, keeps its initial values.
      encoder: the configuration of the model's encoder, to be compared with the checkpoint's.

    Raises DataError where the encoder has gaps or another shape, UsageError where there is nothing to load. Only a pooler
    may be missing, because some published models have none, and only where no head of the checkpoint reads its output.
    """
    warnings = _differences(encoder, checkpoint)
    own = weights_by_path(model)
    _check_encoder(own, checkpoint)
    left_out = checkpoint.left_out | _misfits(own, checkpoint.weights)
    found = {path: array for path, array in checkpoint.weights.items() if head_of(path) not in left_out}
    matched = sorted(found.keys() & own.keys())
    if not matched:
        raise UsageError(
            f"{checkpoint.source}: none of its {len(checkpoint.weights)} weights belongs to this model. It has "
            f"{_sample(checkpoint.weights)}; the model has {_sample(own)}"
        )
    for path in matched:
        own[path].assign(np.asarray(found[path], np.float32))
    unused = {path: "this model has no such weight" for path in found if path not in own}
    unused |= {path: f"of {head_of(path)}, which is left out" for path in checkpoint.weights if path not in found}
    missing = {path: _initial(path) for path in own if path not in found}
    readers = _readers_of_pooled_output(model)
    if f"{_POOLER}kernel" in missing and readers:
        warnings.append(f"the checkpoint has no pooler: the one that {' and '.join(readers)} reads starts anew")
    return LoadReport(
        checkpoint.source, checkpoint.format, matched, missing, checkpoint.unused | unused, left_out, warnings
    )


def _check_encoder(own: Mapping, checkpoint: Checkpoint) -> None:
    """Raises where the model's encoder is not whole in the checkpoint; see assign."""
    wanted = {path: tuple(weight.shape) for path, weight in own.items() if head_of(path) is None}
    found = {path: array.shape for path, array in checkpoint.weights.items() if head_of(path) is None}
    if not wanted:
        return
    if not found:
        if {head_of(path) for path in checkpoint.weights} & {*HEADS, *map(head_of, own)}:
            raise UsageError(
                f"{checkpoint.source} holds no encoder: there is nothing to start from.{_unknown(checkpoint)}"
            )
        return
    wrong = [
        f"{path} is {found[path]}, the model's {wanted[path]}"
        for path in sorted(found.keys() & wanted.keys())
        if found[path] != wanted[path]
    ]
    if wrong:
        raise DataError(
            f"{checkpoint.source}: shapes differ: {'; '.join(wrong[:3])}{' ...' if len(wrong) > 3 else ''}. Is the model "
            "configuration that of this checkpoint?"
        )
    gaps = sorted(wanted.keys() - found.keys())
    if not gaps or (_is_whole_pooler(gaps, wanted) and not _reads_pooled_output(checkpoint)):
        return
    raise DataError(
        f"{checkpoint.source}: {len(gaps)} weights of the encoder are missing, e.g. {gaps[0]}.{_unknown(checkpoint)} Is it "
        "whole, and of this model configuration?"
    )


def _unknown(checkpoint: Checkpoint) -> str:
    """What to add to a message about weights that are not there: the names that may be theirs."""
    unknown = [name for name, why in checkpoint.unused.items() if why == UNKNOWN]
    return f" It has names that we do not know: {_sample(unknown)}." if unknown else ""


def _is_whole_pooler(gaps: list[str], wanted: Mapping) -> bool:
    return gaps == sorted(path for path in wanted if path.startswith(_POOLER))


def _reads_pooled_output(checkpoint: Checkpoint) -> bool:
    """Whether a head of the checkpoint does not have its own pooler, so that it needs the encoder's."""
    weights = checkpoint.weights
    return any(
        f"{head}/logits/kernel" in weights and f"{head}/pooler/kernel" not in weights
        for head in ("sentence_pair", "classifier", "choice")
    )


def _readers_of_pooled_output(model: EncoderModel) -> list[str]:
    """The model's heads that do not have their own pooler, so that they read the encoder's."""
    heads = getattr(model, "heads", {})
    return [name for name, head in heads.items() if hasattr(head, "pooler") and head.pooler is None]


def _misfits(own: Mapping, weights: Mapping) -> dict[str, str]:
    """Heads that model and checkpoint both have, but not with the same weights -> what differs."""
    wanted, found = ({path: tuple(value.shape) for path, value in each.items()} for each in (own, weights))
    misfits = {}
    for head in sorted(heads_of(wanted) & heads_of(found)):
        here, there = ({p: shape for p, shape in each.items() if head_of(p) == head} for each in (wanted, found))
        if len(poolers_among(there)) == len(there):
            here = {path: here[path] for path in poolers_among(here)}
        differ = sorted(path for path in here.keys() | there.keys() if here.get(path) != there.get(path))
        if differ:
            path = differ[0]
            misfits[head] = f"{path} is {there.get(path, 'missing')}, in this model {here.get(path, 'missing')}"
    return misfits


def refuse_missing(report: LoadReport | None, model: EncoderModel, use: str) -> None:
    """UsageError where weights of a model that it computes with were not loaded, for a use that trains nothing."""
    unread = () if _readers_of_pooled_output(model) else (_POOLER,)
    missing = [path for path in (report.missing if report else ()) if not path.startswith(unread)]
    if report is not None and missing:
        why = f" It was left out: {listed(report.left_out)}." if report.left_out else ""
        raise UsageError(
            f"{report.source}: lacks {_sample(missing)}, which {use} needs and which would start at random.{why}"
        )


def _initial(path: str) -> str:
    role = path.rsplit("/", 1)[-1]
    return {"gamma": "start at 1", "beta": "start at 0", "bias": "start at 0", "output_bias": "start at 0"}.get(
        role, "start at random"
    )


def _sample(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:2]) + (", ..." if len(names) > 2 else "")
