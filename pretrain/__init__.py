"""Pretraining and fine-tuning of BERT-family encoders: records to weights to scores.

    import pretrain
    pretrain.run_experiment(pretrain.experiment("bert/local"), "run1")
    model = pretrain.load("run2")                   # any supported checkpoint, heads included
    model.predict(["a text", ("a", "pair")])        # labels and scores

What is imported from here is loaded when first used, so that `import pretrain` costs nothing.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from nlpdata.cli.start import end_at_once_if_run

if TYPE_CHECKING:
    from pretrain.experiments import experiment
    from pretrain.prediction.loading import load
    from pretrain.settings.schema import ExperimentConfig
    from pretrain.training.experiment import run_experiment

_MODULES = {
    "ExperimentConfig": "pretrain.settings.schema",
    "experiment": "pretrain.experiments",
    "load": "pretrain.prediction.loading",
    "run_experiment": "pretrain.training.experiment",
}
__all__ = ["ExperimentConfig", "experiment", "load", "run_experiment"]

end_at_once_if_run("pretrain")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from nlpdata.errors import EXTRAS, missing_package
        from pretrain.settings.backend import use_installed

        use_installed(os.environ)
        try:
            module = importlib.import_module(_MODULES[name])
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in EXTRAS:
                raise
            raise missing_package(f"pretrain.{name}", package) from None
        return getattr(module, name)
    raise AttributeError(f"module 'pretrain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
