"""Reports a metric to the hyperparameter tuning of Vertex AI, in the file that the package cloudml-hypertune writes too.

A line of JSON a report, numbers as text: {"global_step": "114", "timestamp": ..., "trial": "3", "accuracy": "0.81"}. The
file is that of CLOUD_ML_HP_METRIC_FILE, and the trial that of CLOUD_ML_TRIAL_ID, which the service sets.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from nlpdata.errors import DataError, UsageError
from pretrain.tasks.metrics import own_name

_DEFAULT_FILE = "/tmp/hypertune/output.metrics"


def report(name: str, metrics: Mapping[str, float], step: int) -> None:
    """Appends the metric of that name at a step. UsageError where there is none, DataError where the disk refuses.

    A name of the TensorFlow Model Garden stays the name of the report: the tuning asks for it by that name.
    """
    own = own_name(name, metrics)
    if own not in metrics:
        raise UsageError(f"trainer.hypertune_metric is {name!r}; the evaluation has {', '.join(sorted(metrics))}.")
    path = Path(os.environ.get("CLOUD_ML_HP_METRIC_FILE") or _DEFAULT_FILE)
    line = {
        "global_step": str(step),
        "timestamp": time.time(),
        "trial": os.environ.get("CLOUD_ML_TRIAL_ID", "0"),
        name: str(float(metrics[own])),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None
