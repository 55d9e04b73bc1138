"""Reading and writing safetensors files (github.com/huggingface/safetensors): 8 bytes length, JSON header, raw data.

Read with memory mapping, so that a tensor costs nothing until it is used; bfloat16, which numpy does not know, becomes
float32.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError
from nlpdata.files.disk import writing
from nlpdata.files.json_files import parse_object
from nlpdata.files.pointers import refuse_pointer
from nlpdata.files.temporary import temporary

_DTYPES = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "BOOL": np.bool_},
    **{"I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8},
    **{"U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8},
}
_LONGEST_HEADER = 100_000_000  # bytes, as in the reference implementation


class Safetensors(Mapping):
    """The tensors of one file by name. DataError where the file is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._data = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read: {error}") from None
        refuse_pointer(path, self._data[:32].tobytes())
        self._entries, self.metadata = self._read_header()

    def _read_header(self) -> tuple[dict, dict]:
        size = len(self._data)
        length = int.from_bytes(self._data[:8].tobytes(), "little") if size >= 8 else size
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            raise DataError(f"{self.path}: not a safetensors file, or truncated: {size} bytes, header of {length}")
        header = parse_object(self._data[8 : 8 + length].tobytes(), f"{self.path}: the safetensors header")
        metadata = header.pop("__metadata__", {})
        try:
            entries = {name: self._check(name, entry, size - 8 - length) for name, entry in header.items()}
            self._check_places(entries)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{self.path}: the safetensors header is damaged: {error}") from None
        self._start = 8 + length
        return entries, metadata

    def _check(self, name: str, entry: dict, size: int) -> tuple[int, int, tuple[int, ...], str]:
        begin, end = entry["data_offsets"]
        shape, dtype = tuple(entry["shape"]), entry["dtype"]
        if dtype not in _DTYPES:
            raise DataError(f"{self.path}: tensor {name} has dtype {dtype!r}. Known: {', '.join(_DTYPES)}")
        if any(type(n) is not int or n < 0 for n in (begin, end, *shape)):
            raise ValueError(f"tensor {name} has shape {shape} and offsets {begin} to {end}")
        expected = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
        if end - begin != expected or end > size:
            raise DataError(
                f"{self.path}: tensor {name} {shape} {dtype} needs {expected} bytes; the file has {min(end, size) - begin} "
                "for it. Is it truncated?"
            )
        return begin, end, shape, dtype

    def _check_places(self, entries: dict) -> None:
        """ValueError where two tensors share bytes: what is read could then be larger than the file."""
        at, before = 0, ""
        for begin, end, name in sorted((begin, end, name) for name, (begin, end, *_) in entries.items()):
            if begin < at:
                raise ValueError(f"{before} and {name} share bytes")
            at, before = max(at, end), name

    def __getitem__(self, name: str) -> np.ndarray:
        begin, end, shape, dtype = self._entries[name]
        raw = self._data[self._start + begin : self._start + end]
        array: np.ndarray = np.frombuffer(raw, _DTYPES[dtype]) if len(raw) else np.zeros(0, _DTYPES[dtype])
        if dtype == "BF16":  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        return array.reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def write(path: Path, tensors: Mapping[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Writes float32 tensors in the order of their names, in one step."""
    header: dict[str, dict] = {"__metadata__": metadata}
    at = 0
    names = sorted(tensors)
    for name in names:
        size = tensors[name].size * 4
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with writing(path), temporary(path) as made:
        with open(made, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in names:
                file.write(np.ascontiguousarray(tensors[name], np.float32).tobytes())
        os.replace(made, path)
