"""The loss curve as a picture, from metrics.jsonl."""

import io
import logging
import os
from pathlib import Path

from nlpdata.errors import install_command
from nlpdata.files.json_files import write_file
from nlpdata.reports.run_facts import METRICS
from pretrain.training.logs.metrics import read_lines

_log = logging.getLogger(__name__)


def plot_loss(model_dir: str | os.PathLike) -> Path | None:
    """Draws `<model_dir>/loss.png`; None where matplotlib is not installed, which is reported, or nothing was logged."""
    lines = [line for line in read_lines(Path(model_dir, METRICS)) if isinstance(line.get("loss"), int | float)]
    if not lines:
        return None
    try:
        from matplotlib.figure import Figure
    except ImportError:
        _log.info(
            f"no loss.png: matplotlib is not installed ({install_command('plot')}); the figures are in metrics.jsonl"
        )
        return None
    figure = Figure(figsize=(8, 4.5))
    axes = figure.add_axes((0.09, 0.11, 0.89, 0.81))  # a layout that is worked out draws everything twice
    for split, style in (("train", "-"), ("eval", "o-")):
        points = [(line["step"], line["loss"]) for line in lines if line.get("split") == split]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=split, markersize=4)
    axes.set(xlabel="step", ylabel="loss")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False)  # above, where it hides no point
    path = Path(model_dir, "loss.png")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120, metadata={"Software": None})
    write_file(path, picture.getvalue())
    return path
