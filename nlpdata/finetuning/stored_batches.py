"""Batches of rows and windows as files of the work folder: pickles of which only our own classes and arrays are read.

A pickle may name any function to call. A work folder is next to an output, where others may have put it, so what it
names is looked at first.
"""

import io
import pickle
from typing import Any, TypeVar

from nlpdata.errors import DataError
from nlpdata.files.paths import AnyPath
from nlpdata.files.writing import write_whole

Stored = TypeVar("Stored")

_OURS = {
    ("nlpdata.finetuning.encode", "Batch"),
    ("nlpdata.finetuning.squad", "Paragraphs"),
    ("nlpdata.finetuning.windows", "Windows"),
    ("nlpdata.tokenizers.offsets", "Tokens"),
}
_ARRAYS = {("numpy", "dtype"), ("numpy", "ndarray")} | {
    (f"numpy.{core}.{module}", name)  # numpy 1 and 2
    for core in ("core", "_core")
    for module, name in (("multiarray", "_reconstruct"), ("multiarray", "scalar"), ("numeric", "_frombuffer"))
}
_DAMAGE = (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _OURS | _ARRAYS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def store_content(path: AnyPath, value: object) -> int:
    """Writes a batch or windows whole; returns the bytes."""
    content = pickle.dumps(value, 5)
    write_whole(path, content, durable=False)
    return len(content)


def read_content(path: AnyPath, kind: type[Stored]) -> Stored:
    """What store_content wrote. DataError where it is damaged, or is anything but an instance of `kind`."""
    try:
        value = _Unpickler(io.BytesIO(path.read_bytes())).load()
        if not isinstance(value, kind):
            raise pickle.UnpicklingError(f"it holds a {type(value).__name__}")
    except _DAMAGE as error:
        raise DataError(
            f"{path} is not what this command left there: {error or 'it ends too early'}. Remove {path.parent} and run the "
            "command again."
        ) from None
    return value
