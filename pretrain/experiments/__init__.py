"""Named, complete configurations: a function of no arguments -> ExperimentConfig; its docstring's first line lists it."""

from pretrain.registry import EXPERIMENTS
from pretrain.settings.schema import ExperimentConfig, registered
from pretrain.settings.tree import with_layers


def experiment(name: str, *layers: dict) -> ExperimentConfig:
    """The registered experiment (or that at module:attribute) with trees of changes over it, lowest first.

    experiment("bert/pretraining", {"trainer": {"train_steps": 1000}, "task": {"model": {"encoder": {"type": "albert"}}}})
    """
    return with_layers(registered(name), [(f"layer {i}", layer) for i, layer in enumerate(layers)])


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
