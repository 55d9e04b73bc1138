"""Our own checkpoints: a folder with `state.npz` (arrays) and `state.json` (all else).

    model_dir/checkpoints/step-00001000/state.npz     model/<path> weights, optimizer/<path>, engine/<name>
                                        state.json    step, data facts, encoder, configuration, versions, ...

A folder of that name is whole: it is written under another name, synced and then renamed. state.npz carries a checksum of
every array.
"""

import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.records import sync_folder
from pretrain.config import Choice
from pretrain.converters.checkpoint import Checkpoint, as_weight, stored_encoder
from pretrain.json_files import read_object

ARRAYS, INFO = "state.npz", "state.json"
FORMAT_VERSION = 1


def write(folder: Path, arrays: Mapping[str, np.ndarray], info: Mapping) -> None:
    """Writes a checkpoint in one step: whatever happens, `folder` is whole or is not there.

    Raises DataError where the disk refuses (full, read only).
    """
    folder = Path(folder)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        _write_files(temporary, arrays, info)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(temporary, folder)
        sync_folder(folder.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise DataError(
            f"cannot write the checkpoint {folder}: {error.strerror or error}. Earlier checkpoints are whole; make room "
            "and run the same command again to go on from the newest."
        ) from None


def write_model(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes the files of a checkpoint of weights alone into an existing folder."""
    encoder = {"type": checkpoint.encoder.type, "options": asdict(checkpoint.encoder.options)}
    arrays = {f"model/{path}": array for path, array in checkpoint.weights.items()}
    _write_files(folder, arrays, {"step": 0, "encoder": encoder, "data": checkpoint.extras})


def _write_files(folder: Path, arrays: Mapping[str, np.ndarray], info: Mapping) -> None:
    with open(folder / ARRAYS, "wb") as file:
        np.savez(file, **arrays)
        _sync(file)
    with open(folder / INFO, "w", encoding="utf-8") as file:
        json.dump({"format_version": FORMAT_VERSION, **info}, file, indent=1, sort_keys=True)
        _sync(file)
    sync_folder(folder)


def _sync(file) -> None:
    file.flush()
    os.fsync(file.fileno())


def read_info(folder: Path) -> dict:
    """The content of state.json. DataError where it is missing or damaged."""
    info = read_object(Path(folder) / INFO)
    version = info.get("format_version", 0)
    for name, value, kind in (
        ("step", info.get("step"), int),
        ("format_version", version, int),
        ("data", info.get("data", {}), dict),
    ):
        if not isinstance(value, kind):
            raise DataError(f"{folder} is damaged: {INFO}: {name} is {str(value)[:40]}")
    if version > FORMAT_VERSION:
        raise DataError(f"{folder} was written by a later version (format {version}): update nlpdata")
    return info


def read_arrays(folder: Path, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays whose name starts with `prefix`, which is cut off. DataError where the file is missing or damaged."""
    path = Path(folder) / ARRAYS
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name[len(prefix) :]: file[name] for name in file.files if name.startswith(prefix)}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{folder} is damaged: {ARRAYS}: {error}") from None


def finished(folder) -> list[Path]:
    """The whole checkpoints step-... in a folder, oldest first."""
    return sorted(Path(folder).glob("step-*[0-9]"))


def step_folder(folder, step: int) -> Path:
    return Path(folder, f"step-{step:08d}")


def locate(path) -> Path | None:
    """The folder of the checkpoint at `path`: itself, or the newest of a folder of them or of a run. None for others."""
    path = Path(path)
    folder = path.parent if path.name in (ARRAYS, INFO) else path
    if (folder / INFO).exists():
        return folder
    found = finished(folder) or finished(folder / "checkpoints")
    if not found and (folder / "checkpoints").is_dir():
        raise UsageError(f"checkpoint {path}: the run has no finished checkpoint yet.")
    return found[-1] if found else None


def read(path, model_config: Choice | None = None) -> Checkpoint | None:
    """The checkpoint at `path` (see locate). None for anything else."""
    folder = locate(path)
    if folder is None:
        return None
    info = read_info(folder)
    stored = info.get("encoder")
    encoder = None if stored is None else stored_encoder(stored, str(folder / INFO))
    weights = {name: as_weight(array, name, str(folder)) for name, array in read_arrays(folder, "model/").items()}
    return Checkpoint("native", str(folder), encoder or model_config, weights, {}, info.get("data", {}))
