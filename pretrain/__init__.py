"""Pretraining and fine-tuning of BERT-family encoders: records to weights to scores.

    import pretrain
    pretrain.run_experiment(pretrain.experiment("bert/local"), "run1")
    model = pretrain.load("albert_base_v2/")        # any supported checkpoint, heads included

Functions are imported when first used, so that `import pretrain` costs nothing.
"""

import importlib
import os

from pretrain.settings.backend import use_installed

_EXPORTS = {
    "experiment": "pretrain.experiments",
    "load": "pretrain.converters.load",
    "run_experiment": "pretrain.training.experiment",
}
__all__ = [*_EXPORTS]


def __getattr__(name: str):
    if name in _EXPORTS:
        use_installed(os.environ)
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'pretrain' has no attribute {name!r}")


def __dir__():
    return __all__
