"""The weights of a Hugging Face folder: which file they are in, its shards, and the prefixes that wrappers leave in their names."""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import read_object
from nlpdata.files.json_kinds import as_written
from nlpdata.files.unpacking import shown
from pretrain.converters import safetensors, torch_pickle
from pretrain.encoders.weight_names import WORD_EMBEDDINGS, WeightNames

_log = logging.getLogger(__name__)

_INDEX = ".index.json"
_ANY_INDEX = re.compile(r"\.index(?:\.(\w+))?\.json$")  # also that of a variant: model.safetensors.index.fp16.json
# One file or the index of several, those that transformers takes first.
_FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
# Weights that we do not read -> what they are, and how they become a folder that is read.
_SAVED = ".save_pretrained(FOLDER)"
_OTHERS = {
    "tf_model.h5": f"of transformers' classes for TensorFlow: AutoModel.from_pretrained(..., from_tf=True){_SAVED}",
    "flax_model.msgpack": f"of transformers' classes for Flax: AutoModel.from_pretrained(..., from_flax=True){_SAVED}",
    **dict.fromkeys(
        ("adapter_model.safetensors", "adapter_model.bin"),
        f"of an adapter, not of a model: load it with peft and its model, then .merge_and_unload(){_SAVED}",
    ),
    **dict.fromkeys(("model.onnx", "openvino_model.bin", "rust_model.ot"), "made from a model for another program"),
}
_SHARD = re.compile(r"(model|pytorch_model).*-\d+-of-\d+\.(safetensors|bin)")
_OF_TRAINING = re.compile(
    r"(optimizer|scheduler|scaler|rng_state.*|.*_args)\.(pt|pth|bin)"
)  # a Trainer's, without weights
# What torch's wrappers put into the names of the weights of what they wrap, wherever it is in a model.
_WRAPPERS = r"(?<![^.])(?:module|_orig_mod|_forward_module|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."


def has_hugging_face_weights(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _FILES)


def is_weights_file(path: Path) -> bool:
    """Whether a path is a file of weights, or an index of several, of any name."""
    if not path.is_file() or path.name in _OTHERS:
        return False
    name = _ANY_INDEX.sub("", path.name)
    if path.name in _FILES or not name.endswith(_SUFFIXES) or _SHARD.fullmatch(name):
        return path.name in _FILES
    return name != path.name or name.endswith(".safetensors") or torch_pickle.is_torch_file(path)


def explain(place: Path) -> None:
    """UsageError for weights of Hugging Face's libraries that are not read, or not without their name."""
    folder = place if place.is_dir() else place.parent
    names = sorted(file.name for file in place.iterdir()) if place.is_dir() else [place.name] if place.is_file() else []
    for name in (name for name in _FILES if name in names and place.is_dir()):
        _explain_not_a_file(folder / name)
    for name in names:
        if name in _OTHERS:
            raise UsageError(f"{folder / name}: these weights are {_OTHERS[name]}. Read are {weights_files()}.")
    named = [name for name in names if is_weights_file(folder / name) and not _OF_TRAINING.fullmatch(name)]
    if named:
        raise UsageError(
            f"{folder}: holds weights under other names than the usual: name one of {', '.join(named[:6])}."
        )
    if shards := [name for name in names if _SHARD.fullmatch(name)]:
        index = _SHARD.sub(rf"\1.\2{_INDEX}", shards[0])
        where = f"name {folder / index}" if (folder / index).is_file() else f"{index} is not next to it"
        raise UsageError(f"{folder / shards[0]}: one of several files of a model, which an index lists: {where}.")


def _explain_not_a_file(path: Path) -> None:
    """DataError for what has the name of weights and is not a file."""
    if path.is_symlink() and not path.exists():
        raise DataError(
            f"{path}: is a link to {os.readlink(path)}, where nothing is (a cached model, removed or not fetched?). Download the "
            "model again"
        )
    if not path.is_file():
        raise DataError(f"{path}: is a folder, a device or a pipe, expected a file of weights")


def weights_files() -> str:
    """The usual names, for messages."""
    return ", ".join(_FILES)


def weights_file(folder: Path) -> Path:
    """The file of weights in a folder that has one: safetensors before pytorch_model.bin, which repeats them.

    UsageError where there is one file and an index of several: they are not of one model.
    """
    found = [name for name in _FILES if (folder / name).is_file()]
    if found[0] + _INDEX in found:
        raise UsageError(f"{folder}: holds {found[0]} and {found[1]}: which is meant? Name the path of one of them.")
    return folder / found[0]


def read_tensors(path: Path) -> Mapping[str, np.ndarray]:
    """The tensors of a file of weights, or of the files that an index names. DataError where they are damaged."""
    return _Sharded(path) if _ANY_INDEX.search(path.name) else _read_file(path)


def _read_file(path: Path) -> Mapping[str, np.ndarray]:
    return safetensors.Safetensors(path) if path.suffix == ".safetensors" else torch_pickle.read_tensors(path)


class _Sharded(Mapping):
    """Tensors of several files: each is read from the file that the index names for it.

    DataError where index and files contradict each other.
    """

    def __init__(self, path: Path) -> None:
        places = read_object(path).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
            raise DataError(f"{path}: not an index of files of weights: weight_map is {as_written(places)[:40]}")
        folder, files = path.parent, sorted(set(places.values()))
        there = {file.name for file in folder.iterdir() if file.is_file()}
        absent = [file for file in files if file not in there]
        if absent:
            raise DataError(f"{path}: names files that are not next to it: {', '.join(absent)[:200]!r}")
        extra = sorted(
            file.name for file in folder.iterdir() if _is_shard(file.name, path.name) and file.name not in files
        )
        if extra:
            raise DataError(f"{path}: does not name {', '.join(extra)[:200]}, which the folder holds")
        shards = {file: _read_file(folder / file) for file in files}
        for name, file in places.items():
            if name not in shards[file]:
                raise DataError(f"{path}: says that {name} is in {file}, which has no such tensor")
        for file, tensors in shards.items():
            unnamed = sorted(tensors.keys() - places.keys())
            if unnamed:
                raise DataError(f"{path}: does not name {unnamed[0]}, which is in {file}")
        self._shards = {name: shards[file] for name, file in places.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._shards[name][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)


def _is_shard(name: str, index: str) -> bool:
    """Whether a name is that of a shard of an index: of model.safetensors.index.json, model-00001-of-00002.safetensors."""
    whole, variant = Path(_ANY_INDEX.sub("", index)), _ANY_INDEX.search(index)
    stem = f"{whole.stem}.{variant[1]}" if variant and variant[1] else whole.stem
    return re.fullmatch(rf"{re.escape(stem)}-\d+-of-\d+{re.escape(whole.suffix)}", name) is not None


class _Renamed(Mapping):
    """Tensors under other names, still read only when used: {their new name: old name}."""

    def __init__(self, tensors: Mapping[str, np.ndarray], names: dict[str, str]) -> None:
        self._tensors, self._names = tensors, names

    def __getitem__(self, name: str) -> np.ndarray:
        return self._tensors[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def with_task_names(
    tensors: Mapping[str, np.ndarray], names: WeightNames, prefix: str, source: str
) -> Mapping[str, np.ndarray]:
    """The tensors under a task model's names: without what wrappers put before them, with the prefix that a bare model lacks.

    Args:
      tensors: name in the file -> array.
      names: those of a task model.
      prefix: the first word of the names of its encoder, e.g. "bert".
      source: the file, for messages.

    What is left out is reported. DataError where two tensors come to have one name.
    """
    unwrapped = {name: re.sub(_WRAPPERS, "", name) for name in tensors}
    front, bare = _front(unwrapped.values(), names, prefix)
    encoder = re.compile(rf"{re.escape(front)}(embeddings|encoder|pooler)\.")
    renamed: dict[str, str] = {}
    for name, plain in unwrapped.items():
        full = plain.removeprefix(front)
        full = f"{prefix}.{full}" if bare and encoder.match(plain) else full
        full = full.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if full in renamed:
            raise DataError(f"{source}: {renamed[full]} and {name} both mean {full}: is it the file of two models?")
        renamed[full] = name
    left_out = {"".join(re.findall(_WRAPPERS, name)) for name in tensors} | {front}
    if prefixes := sorted(left_out - {""}):
        _log.info("%s: left out of the names of its weights: %s", shown(source), ", ".join(prefixes))
    return _Renamed(tensors, renamed)


def _front(found: Iterable[str], names: WeightNames, prefix: str) -> tuple[str, bool]:
    """(what is before the names of a task model, e.g. "model.", whether they are those of a bare model), by the embeddings."""
    embeddings = (names.name_of(WORD_EMBEDDINGS) or "").removeprefix(f"{prefix}.")
    own = re.escape(f"{prefix}.")
    shape = re.compile(rf"((?:model\.|{own})*?)({own})?{re.escape(embeddings)}")
    for name in found:
        if match := shape.fullmatch(name):
            return match[1], match[2] is None
    return "", False
