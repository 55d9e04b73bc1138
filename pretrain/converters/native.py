"""Our own checkpoints: a folder with `state.npz` (arrays) and `state.json` (all else).

    model_dir/checkpoints/step-00001000/state.npz     model/<path> weights, optimizer/<path>, average/<path>, engine/<name>
                                        state.json    step, data facts, encoder, configuration, versions, ...

A folder of that name is whole: it is written under another name, synced and then renamed. state.npz carries a checksum of
every array.
"""

import json
import logging
import math
import os
import re
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import read_object
from nlpdata.files.json_kinds import as_written
from nlpdata.files.pointers import refuse_pointer_at
from nlpdata.files.writing import new_folder, sync_folder
from nlpdata.reports.run_facts import CHECKPOINTS, STATE_FILE
from pretrain.converters.checkpoint import Checkpoint, encoder_fields, stored_encoder
from pretrain.converters.facts import FACTS
from pretrain.converters.format import CheckpointFormat
from pretrain.converters.heads import check_facts
from pretrain.converters.usage import in_pretrain
from pretrain.converters.weights import as_weight
from pretrain.settings.fields import MOST, Choice

ARRAYS, INFO = "state.npz", STATE_FILE
FORMAT_VERSION = 1
_AVERAGE = "average/"
_WORDS_OF_TRAINER = ("best_checkpoint_export_subdir", "best_checkpoint_eval_metric", "best_checkpoint_metric_comp")
# What reading a damaged archive raises; NotImplementedError where it names an unknown method of compression, the last of numpy's
# reader of headers.
_DAMAGE = (
    *(OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError),
    *(tokenize.TokenError, SyntaxError, RecursionError),
)
T = TypeVar("T")

_log = logging.getLogger(__name__)


class LaterFormatError(DataError):
    """A whole checkpoint, which a later version of this package has written."""


def write(folder: Path, arrays: Mapping[str, np.ndarray], info: Mapping) -> None:
    """Writes a checkpoint in one step: whatever happens, `folder` is whole or is not there.

    Raises DataError where the disk refuses (full, read only).
    """
    folder = Path(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(folder, replace=True) as made:
            _write_files(made, arrays, info)
    except OSError as error:
        raise DataError(
            f"cannot write the checkpoint {folder}: {error.strerror or error}. Earlier checkpoints are whole; make room "
            "and run the same command again to resume from the newest."
        ) from None


def _write_files(folder: Path, arrays: Mapping[str, np.ndarray], info: Mapping) -> None:
    with open(folder / ARRAYS, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its flag allow_pickle is not among the names
        _sync(file)
    with open(folder / INFO, "w", encoding="utf-8") as file:
        json.dump({"format_version": FORMAT_VERSION, **info}, file, indent=1, sort_keys=True)
        _sync(file)
    sync_folder(folder)


def _sync(file: IO) -> None:
    file.flush()
    os.fsync(file.fileno())


def read_info(folder: Path) -> dict:
    """The content of state.json. DataError where it is missing or damaged."""
    info = read_object(Path(folder) / INFO)
    version, trainer = info.get("format_version", 0), stored_trainer(info)
    interval, recoveries = info.get("interval", []), info.get("recoveries", [])
    for name, value, kind in (
        ("step", info.get("step"), int),
        ("format_version", version, int),
        ("data", info.get("data", {}), dict),
        ("config", info.get("config", {}), dict),
        ("schedule", info.get("schedule"), dict | None),
        ("interval", interval, list),
        *((f"interval[{at}]", each, dict) for at, each in enumerate(interval if isinstance(interval, list) else ())),
        ("recoveries", recoveries, list),
        *((f"config.trainer.{name}", trainer.get(name), str | None) for name in _WORDS_OF_TRAINER),
    ):
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DataError(f"{folder} is damaged: {INFO}: {name} is {as_written(value)[:40]}")
    for at, each in enumerate(recoveries):
        if not _is_recovery(each):
            raise DataError(f"{folder} is damaged: {INFO}: recoveries[{at}] is {as_written(each)[:40]}")
    check_facts(info.get("data", {}), str(folder / INFO))
    if step_of(Path(folder)) not in (None, info["step"]):
        raise DataError(f"{folder} is damaged: {INFO} is of step {info['step']}")
    if version > FORMAT_VERSION:
        raise LaterFormatError(f"{folder} was written by a later version (format {version}): update nlpdata")
    return info


def _is_recovery(value: object) -> bool:
    """Whether a value is {"step": a, "diverged_at": b}, whole numbers with 0 <= a < b."""
    if not isinstance(value, dict) or value.keys() != {"step", "diverged_at"}:
        return False
    start, end = value["step"], value["diverged_at"]
    return all(type(number) is int for number in (start, end)) and 0 <= start < end <= MOST


def stored_trainer(info: Mapping) -> dict:
    """The trainer section of the configuration that a checkpoint stores; {} where it stores none."""
    config = info.get("config")
    trainer = config.get("trainer") if isinstance(config, dict) else None
    return trainer if isinstance(trainer, dict) else {}


def uses_average(info: Mapping) -> bool:
    """Whether what a checkpoint is evaluated with is the average of its weights, by its configuration."""
    optimization = stored_trainer(info).get("optimizer_config")
    ema = optimization.get("ema") if isinstance(optimization, dict) else None
    return isinstance(ema, dict) and ema.get("evaluate") is True


def with_average(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint with the averages, where it has them, in place of the weights."""
    averages = {name: array for name, array in arrays.items() if name.startswith(_AVERAGE)}
    kept = {name: array for name, array in arrays.items() if name not in averages}
    return kept | {f"model/{name.removeprefix(_AVERAGE)}": array for name, array in averages.items()}


def read_arrays(folder: Path, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays whose name starts with `prefix`, which is cut off. DataError where the file is missing or damaged."""
    path = Path(folder) / ARRAYS
    try:
        refuse_pointer_at(path)
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_sizes(members, path.stat().st_size)
            names = [member.filename.removesuffix(".npy") for member in members]
            return {
                name[len(prefix) :]: _read_array(archive, member)
                for name, member in zip(names, members, strict=True)
                if name.startswith(prefix)
            }
    except _DAMAGE as error:
        raise DataError(f"{folder} is damaged: {ARRAYS}: {error}") from None


def _check_sizes(members: list[zipfile.ZipInfo], size: int) -> None:
    """ValueError where the archive is not as np.savez writes it: what it holds could then be larger than the file."""
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("it is compressed, which checkpoints never are")
    total = sum(member.file_size for member in members)
    if total > size:
        raise ValueError(f"it names {total} bytes of arrays, and has {size} in all")
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise ValueError(f"it holds {max(names, key=names.count)} twice")


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array. ValueError where its header does not fit its length: before memory is taken for it."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{member.filename} has version {version} of numpy's format, expected 1.0 or 2.0")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        there = member.file_size - file.tell()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != there:
        raise ValueError(f"{member.filename} has the shape {shape} of {dtype}, and {there} bytes")
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


# ------------------------------------------------------------------------------------------------------ which one is meant


def finished(folder: str | os.PathLike) -> list[Path]:
    """The checkpoints step-... in a folder, oldest first."""
    found = [path for path in Path(folder).glob("step-*") if step_of(path) is not None and path.is_dir()]
    return sorted(found, key=lambda path: (step_of(path), path.name))


def step_folder(folder: str | os.PathLike, step: int) -> Path:
    return Path(folder, f"step-{step:08d}")


def step_of(folder: Path) -> int | None:
    """The step that a checkpoint's folder is named after; None for another name."""
    match = re.fullmatch(r"step-([0-9]+)", folder.name)
    return int(match[1]) if match else None


def candidates(path: str | os.PathLike) -> list[Path] | None:
    """The checkpoints that a path means, oldest first: one, those of a folder, or those of a run. None for other things.

    UsageError for a run that has none yet.
    """
    path = Path(path)
    folder = _folder_of(path)
    if any((folder / name).exists() for name in (ARRAYS, INFO)):
        return [folder]
    found = finished(folder) or finished(folder / CHECKPOINTS)
    if not found and (folder / CHECKPOINTS).is_dir():
        raise UsageError(f"checkpoint {path}: the run has no finished checkpoint yet.")
    return found or None


def _folder_of(path: Path) -> Path:
    """The folder itself, or that of one of a checkpoint's files."""
    return path.parent if path.name in (ARRAYS, INFO) else path


def read_newest(folders: list[Path], read: Callable[[Path], T]) -> T:
    """The result of `read` for the newest checkpoint that it can read; it reports newer ones, for which `read` raises DataError.

    Args:
      folders: checkpoints, oldest first; at least one.

    DataError where all are damaged, with what is wrong with each.
    """
    faults: list[str] = []
    for folder in reversed(folders):
        try:
            result = read(folder)
        except LaterFormatError:
            raise
        except DataError as error:
            faults.append(str(error))
            continue
        for fault in faults:
            _log.warning("%s; it is skipped, the one before is used", fault)
        return result
    if len(folders) == 1 and step_of(folders[0]) is None:
        raise DataError(faults[0])
    raise DataError(
        f"no checkpoint in {folders[0].parent} is whole; nothing was changed there. "
        + "; ".join(faults)
        + ". Restore one from a copy. To start anew, use another model_dir, or remove these folders."
    )


def verify(folder: Path) -> Path:
    """The folder, after reading all of it. DataError where it is damaged."""
    read_info(folder)
    try:
        with zipfile.ZipFile(folder / ARRAYS) as archive:
            bad = archive.testzip()
    except _DAMAGE as error:
        raise DataError(f"{folder} is damaged: {ARRAYS}: {error}") from None
    if bad:
        raise DataError(f"{folder} is damaged: {ARRAYS}: {bad} fails its checksum")
    return folder


def locate(path: str | os.PathLike) -> Path | None:
    """The newest whole checkpoint that `path` means (see candidates, read_newest). None for other things."""
    folders = candidates(path)
    return read_newest(folders, verify) if folders else None


def locate_info(path: str | os.PathLike) -> tuple[Path, dict] | None:
    """Folder and content of state.json of the newest checkpoint that `path` means and whose state.json is whole."""
    folders = candidates(path)
    return read_newest(folders, lambda folder: (folder, read_info(folder))) if folders else None


class NativeFormat(CheckpointFormat):
    """Runs and checkpoints of ours. Of a run, the newest whole checkpoint is read."""

    place = "a run or checkpoint of ours (state.npz)"
    places = "our own run folders and checkpoints"
    writes = "ours: `state.npz`, `state.json`"
    library = "nlpdata"
    any_encoder = True
    holds = FACTS

    def recognises(self, place: Path) -> bool:
        folder = _folder_of(place)
        return bool((folder / ARRAYS).exists() or finished(folder) or finished(folder / CHECKPOINTS))

    def explain(self, place: Path) -> None:
        if folders := candidates(place):
            read_newest(folders, read_arrays)

    def read(self, place: Path, model_config: Choice | None) -> Checkpoint:
        return read_newest(candidates(place) or [place], lambda folder: _read(folder, model_config))

    def write(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        arrays = {f"model/{path}": array for path, array in checkpoint.weights.items()}
        _write_files(
            folder, arrays, {"step": 0, "encoder": encoder_fields(checkpoint.known_encoder), "data": checkpoint.extras}
        )
        return []

    def usage(self, folder: Path, checkpoint: Checkpoint, notes: Sequence[str]) -> str:
        return in_pretrain(checkpoint)


def _read(folder: Path, model_config: Choice | None) -> Checkpoint:
    info = read_info(folder)
    stored = info.get("encoder")
    encoder = None if stored is None else stored_encoder(stored, str(folder / INFO))
    averages = read_arrays(folder, _AVERAGE) if uses_average(info) else {}
    arrays = read_arrays(folder, "model/") | averages
    notes = ("the average of its weights is read (trainer.optimizer_config.ema.evaluate)",) if averages else ()
    weights = {name: as_weight(array, name, str(folder)) for name, array in arrays.items()}
    return Checkpoint("native", str(folder), encoder or model_config, weights, {}, info.get("data", {}), notes=notes)
