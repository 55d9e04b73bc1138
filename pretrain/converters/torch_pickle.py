"""Legacy pytorch_model.bin files, read without running what they contain.

Such a file is a zip archive: a pickle that describes tensors, and their raw storages. The pickle may name any function
to call; this reader knows the four that a plain file of weights needs and refuses every other.
"""

import math
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlpdata.errors import DataError

_STORAGES = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": np.uint16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


class _Storage(NamedTuple):
    name: str
    dtype: type
    bfloat16: bool
    size: int


class _Unpickler(pickle.Unpickler):
    """Unpickles tensors only."""

    def __init__(self, file, archive: zipfile.ZipFile, root: str):
        super().__init__(file)
        self._archive, self._root = archive, root

    def find_class(self, module, name):
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return self._tensor
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _STORAGES:
            return name
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which weights do not need")

    def persistent_load(self, pid):
        _, storage, key, _, size = pid
        return _Storage(f"{self._root}/data/{key}", _STORAGES[storage], storage == "BFloat16Storage", size)

    def _tensor(self, storage: _Storage, offset, shape, strides, *_):
        raw = np.frombuffer(self._archive.read(storage.name), storage.dtype)
        if storage.bfloat16:
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        last = (
            offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) if math.prod(shape) else offset
        )
        if min(offset, *strides, *shape, 0) < 0 or last >= max(len(raw), 1):
            raise pickle.UnpicklingError(f"a tensor of shape {tuple(shape)} lies outside its storage of {len(raw)}")
        steps = tuple(step * raw.itemsize for step in strides)
        return np.lib.stride_tricks.as_strided(raw[offset:], shape, steps).copy()


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a pytorch_model.bin by name. DataError where it is damaged or holds anything but tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise DataError(f"{path}: a zip archive, but not of PyTorch weights: it holds no data.pkl")
            with archive.open(pickles[0]) as file:
                content = _Unpickler(file, archive, pickles[0].removesuffix("/data.pkl")).load()
    except zipfile.BadZipFile:
        raise DataError(
            f"{path}: not a PyTorch file of version 1.6 or later, or damaged. Convert it where it was made: "
            "model.save_pretrained(folder, safe_serialization=True)."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (pickle.UnpicklingError, ValueError, TypeError, KeyError, EOFError, IndexError, AttributeError) as error:
        raise DataError(
            f"{path}: refused: {error}. Only files of plain tensors are read; save the model with "
            "safe_serialization=True."
        ) from None
    tensors = content if isinstance(content, dict) else {}
    if not tensors or not all(isinstance(value, np.ndarray) for value in tensors.values()):
        raise DataError(f"{path}: holds no dictionary of tensors")
    return dict(tensors)
