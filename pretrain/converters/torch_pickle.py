"""Legacy pytorch_model.bin files, read without running what they contain.

A pickle describes tensors as pieces of raw storages; the storages are next to it in a zip archive (PyTorch 1.6 and later)
or behind it in the same file (earlier). A pickle may name any function to call; this reader knows the few that a plain
file of weights needs and refuses every other.
"""

import io
import logging
import math
import os
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeGuard

import numpy as np

from nlpdata.errors import DataError
from nlpdata.files.disk import reading
from nlpdata.files.pointers import refuse_pointer
from nlpdata.files.unpacking import shown

_log = logging.getLogger(__name__)

_MOST_SHARED = 4
_MODEL_KEYS = (
    "state_dict",
    "model_state_dict",
    "model",
    "module",
)  # Lightning, PyTorch's tutorials, fairseq, DeepSpeed
_MAGIC = 0x1950A86A20F9469CFC6C  # first pickle of the earlier format
_STORAGES = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": np.uint16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


class _Storage(NamedTuple):
    key: str
    kind: str
    size: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple
    strides: tuple


# What torch.save writes. Others ask for memory of a size that the file only claims (BYTEARRAY8), or for what no weights need.
_OPCODES = set(
    "PROTO STOP EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 MARK SETITEM SETITEMS APPEND APPENDS BINUNICODE "
    "SHORT_BINUNICODE BINUNICODE8 BINPUT LONG_BINPUT BINGET LONG_BINGET MEMOIZE GLOBAL STACK_GLOBAL REDUCE BUILD BINPERSID BININT "
    "BININT1 BININT2 INT LONG LONG1 BINFLOAT NEWTRUE NEWFALSE NONE BINSTRING SHORT_BINSTRING FRAME".split()
)


class _Unpickler(pickle.Unpickler):
    """Unpickles descriptions of tensors only."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: _Tensor(storage, offset, tuple(shape), tuple(strides))
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _STORAGES:
            return name
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which weights do not need")

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, _, size, *_ = pid
        return _Storage(str(key), str(kind), int(size))


def _load(file: IO[bytes]) -> Any:
    """The object that the pickle at the file's position describes; leaves the position after it."""
    start = file.tell()
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if opcode.name not in _OPCODES:
            raise pickle.UnpicklingError(f"it has {opcode.name}, which weights do not need")
        if opcode.name.endswith("PUT") and (argument or 0) > count:
            raise pickle.UnpicklingError(f"it numbers {argument} objects, and has {count}")
    file.seek(start)
    return _Unpickler(file).load()


def is_torch_file(path: Path) -> bool:
    """Whether a file begins as one of PyTorch's does, in either layout."""
    try:
        with open(path, "rb") as file:
            if zipfile.is_zipfile(file):
                return len(_pickles(zipfile.ZipFile(file))) == 1
            file.seek(0)
            return _load(file) == _MAGIC
    except (OSError, *_FAULTS):
        return False


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a pytorch_model.bin by name, also where training code stored them under one key of several.

    DataError where it is damaged or holds no such tensors.
    """
    try:
        with reading(path), open(path, "rb") as file:
            _refuse_part(path, file.read(32))
            file.seek(0)
            stored, raw = (_read_archive if zipfile.is_zipfile(file) else _read_stream)(file)
            described = _model_of(stored, path)
            _check_total(described.values(), os.fstat(file.fileno()).st_size)
            return {str(name): _build(tensor, raw) for name, tensor in described.items()}
    except _FAULTS as error:
        raise DataError(
            f"{path}: not a file of PyTorch weights, damaged, or refused: {error or 'it ends too early'}. Only plain "
            "tensors are read; save the model with safe_serialization=True."
        ) from None


# What pickle, zipfile and the unpacking of what they return raise for files that are not what they should be.
_FAULTS = (
    *(pickle.UnpicklingError, zipfile.BadZipFile, EOFError, ValueError, TypeError, KeyError, IndexError),
    *(AttributeError, OverflowError, MemoryError, NotImplementedError, RuntimeError),
)


def _refuse_part(path: Path, head: bytes) -> None:
    """DataError for what is in place of a file that was not fetched as a whole, by its first bytes."""
    refuse_pointer(path, head)
    if not head:
        raise DataError(f"{path}: is empty: fetch it again")
    if head.startswith(b"PK\x03\x04") and not zipfile.is_zipfile(path):
        raise DataError(f"{path}: is cut off: its end, which lists what it holds, is not there. Fetch it again")


def _read_archive(file: IO[bytes]) -> tuple[object, Callable[[str], bytes]]:
    archive = zipfile.ZipFile(file)
    pickles = _pickles(archive)
    if len(pickles) != 1:
        raise pickle.UnpicklingError("a zip archive without a data.pkl")
    root = pickles[0].removesuffix("/data.pkl")
    claimed, there = sum(member.file_size for member in archive.infolist()), os.fstat(file.fileno()).st_size
    if claimed > there:
        raise pickle.UnpicklingError(f"its parts claim {claimed} bytes, the file has {there}")
    content = io.BytesIO(archive.read(pickles[0]))  # all of it: its checksum is looked at where it ends
    return _load(content), lambda key: archive.read(f"{root}/data/{key}")


def _pickles(archive: zipfile.ZipFile) -> list[str]:
    return [name for name in archive.namelist() if name.endswith("/data.pkl")]


def _model_of(stored: object, path: Path) -> dict[str, _Tensor]:
    """The descriptions of the weights in what a file holds: all of it, or what training code calls the model's."""
    if _are_tensors(stored):
        return stored
    inner = stored if isinstance(stored, dict) else {}
    models = {key: inner[key] for key in _MODEL_KEYS if _are_tensors(inner.get(key))}
    if len(models) != 1:
        raise pickle.UnpicklingError("it holds more than a dictionary of tensors")
    ((key, model),) = models.items()
    _log.info("%s: the weights are those under %r; what else it holds is not read", shown(str(path)), key)
    return model


def _are_tensors(stored: object) -> TypeGuard[dict[str, _Tensor]]:
    return isinstance(stored, dict) and bool(stored) and all(isinstance(each, _Tensor) for each in stored.values())


def _read_stream(file: IO[bytes]) -> tuple[object, Callable[[str], bytes]]:
    file.seek(0)
    if _load(file) != _MAGIC:
        raise pickle.UnpicklingError("its first bytes are not PyTorch's")
    _load(file), _load(file)  # version, and facts about the machine
    described = _load(file)
    kinds = {each.storage.key: each.storage.kind for each in _tensors_in(described)}
    storages = {}
    for key in _load(file):
        count = int.from_bytes(file.read(8), "little")
        width = np.dtype(_STORAGES[kinds[key]]).itemsize if key in kinds else 4
        left = os.fstat(file.fileno()).st_size - file.tell()
        if count * width > left:
            raise pickle.UnpicklingError(f"storage {key} of {count} values ends after the file")
        storages[str(key)] = file.read(count * width)
    return described, storages.__getitem__


def _tensors_in(stored: object) -> Iterator[_Tensor]:
    """The tensors in nested containers; the length of a storage in the file depends on its kind."""
    if isinstance(stored, _Tensor):
        yield stored
    elif isinstance(stored, dict | list | tuple):
        for each in stored.values() if isinstance(stored, dict) else stored:
            yield from _tensors_in(each)


def _check_total(tensors: Iterable[_Tensor], size: int) -> None:
    """Tensors may share storages (tied weights do), but not so that they take many times the memory of the file."""
    total = sum(math.prod(t.shape) * np.dtype(_STORAGES[t.storage.kind]).itemsize for t in tensors)
    if total > _MOST_SHARED * size:
        raise pickle.UnpicklingError(f"its tensors take {total} bytes, the file has {size}")


def _build(tensor: _Tensor, raw: Callable[[str], bytes]) -> np.ndarray:
    values: np.ndarray = np.frombuffer(raw(tensor.storage.key), _STORAGES[tensor.storage.kind])
    if tensor.storage.kind == "BFloat16Storage":  # the upper half of a float32
        values = (values.astype(np.uint32) << 16).view(np.float32)
    extent = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True))
    last = tensor.offset + (extent if math.prod(tensor.shape) else -1)
    if min(tensor.offset, *tensor.strides, *tensor.shape, 0) < 0 or last >= len(values):
        raise pickle.UnpicklingError(f"a tensor of shape {tensor.shape} is outside its storage of {len(values)} values")
    steps = tuple(step * values.itemsize for step in tensor.strides)
    return np.lib.stride_tricks.as_strided(values[tensor.offset :], tensor.shape, steps).copy()
