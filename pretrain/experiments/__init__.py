"""Named, complete configurations: a function of no arguments -> ExperimentConfig; its docstring's first line lists it."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nlpdata.registry import user_modules
from pretrain.registry import EXPERIMENTS
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ExperimentConfig, own_modules, registered
from pretrain.settings.tree import to_tree, with_layers

_log = logging.getLogger(__name__)


def experiment(name: str, *layers: dict) -> ExperimentConfig:
    """The registered experiment (or that at module:attribute) with trees of changes over it, lowest first.

    experiment("bert/pretraining", {"trainer": {"train_steps": 1000}, "task": {"model": {"encoder": {"type": "albert"}}}})

    Where no layer names the sizes of an encoder, it is that of task.init_checkpoint, if there is one, as on the command line.
    """
    base, named = registered(name), [(f"layer {i}", layer) for i, layer in enumerate(layers)]
    config = with_layers(base, named)
    if any(map(names_sizes, layers)):
        return config
    source = config.task.init_checkpoint
    encoder = stored_encoder(config, source)
    if encoder is None:
        return config
    _log.info(f"the model is of type {encoder.type}, with the sizes of {source}")
    return with_layers(base, [(source, encoder_layer(encoder)), *named], quiet=True)


def names_sizes(layer: Mapping) -> bool:
    """Whether a layer sets the size of the encoder."""
    encoder = ((layer.get("task") or {}).get("model") or {}).get("encoder") or {}
    if isinstance(encoder, str):  # the type alone
        return False
    parts = [encoder, *(part for part in encoder.values() if isinstance(part, Mapping))]
    return any("hidden_size" in part for part in parts)


def stored_encoder(config: ExperimentConfig, source: str) -> Choice | None:
    """The encoder of a checkpoint; None where the configuration has it, or has no encoder, or `source` is "".

    Where the stages of the run say how many layers it has, its depth is the configuration's.

    Raises UsageError, DataError where there is no such checkpoint, or it cannot be read.
    """
    model: Any = getattr(config.task, "model", None)
    if not source or not hasattr(model, "encoder"):
        return None
    from pretrain.converters import read_encoder

    with user_modules(own_modules(config)):
        encoder = read_encoder(source, model.encoder)
    depths = [stage.num_hidden_layers for stage in config.trainer.stages]
    if encoder is not None and encoder.type == model.encoder.type and any(depths):
        own = replace(encoder.options, num_hidden_layers=model.encoder.options.num_hidden_layers)
        encoder = replace(encoder, options=own)
    return None if encoder == model.encoder else encoder


def encoder_layer(encoder: Choice) -> dict:
    """A layer that sets the encoder."""
    return {"task": {"model": {"encoder": to_tree(encoder)}}}


def experiment_lines() -> list[str]:
    """Name and description of each registered experiment."""
    width = max(map(len, EXPERIMENTS.names()))
    return [f"{name:<{width}}  {_description(name)}".rstrip() for name in EXPERIMENTS.names()]


def _description(name: str) -> str:
    try:
        function = EXPERIMENTS.get(name)
    except Exception as error:  # a user's module: whatever it raises, the others are listed
        return f"({type(error).__name__}: {' '.join(str(error).split())})"
    text = function.__doc__ if function.__doc__ != type(function).__doc__ else None  # of a functools.partial
    return next(iter((text or "").strip().splitlines()), "")
