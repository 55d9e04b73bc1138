"""Our own checkpoints: a folder with weights.npz (arrays by path) and config.json (the encoder), made in one step.

    step-00001000/ weights.npz   path -> float32 array, e.g. "encoder/embeddings/word_embeddings"
                   config.json   {"type": "bert", "bert": {...}, "extras": {...}}

A folder of checkpoints (a model_dir, or its `checkpoints`) means its newest one.
"""

import json
import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError
from pretrain.config import Choice
from pretrain.converters.checkpoint import Checkpoint
from pretrain.registry import ENCODERS

WEIGHTS, CONFIG = "weights.npz", "config.json"


def write(folder: Path, weights: dict[str, np.ndarray], encoder: Choice, extras: dict | None = None) -> None:
    """Writes a checkpoint's files into an existing folder; the caller gives it its final name when all is there."""
    described = {"type": encoder.type, encoder.type: asdict(encoder.options), "extras": extras or {}}
    (folder / CONFIG).write_text(json.dumps(described, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    np.savez(folder / WEIGHTS, **{name: np.asarray(array) for name, array in sorted(weights.items())})


def find(path: Path) -> Path | None:
    """The checkpoint folder that a path means: itself, or the newest one below it."""
    if path.name == WEIGHTS and path.is_file():
        return path.parent
    if (path / WEIGHTS).is_file():
        return path
    newest = sorted([*path.glob("step-*"), *path.glob("checkpoints/step-*")])
    return newest[-1] if newest else None


def read(path: Path, model_config: Choice | None) -> Checkpoint | None:
    """Reads one of our checkpoints; None where the path holds none. DataError where it is damaged."""
    folder = find(path)
    if folder is None or not (folder / WEIGHTS).is_file():
        return None
    try:
        described = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        kind = described["type"]
        encoder = model_config or Choice(kind, ENCODERS.get(kind).config_class(**described[kind]))
        with np.load(folder / WEIGHTS, allow_pickle=False) as stored:
            weights = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{folder}: a damaged checkpoint: {error}") from None
    return Checkpoint("native", str(folder), encoder, weights, {}, described.get("extras", {}))
