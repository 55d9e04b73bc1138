"""pytorch_model.bin files in both of PyTorch's layouts, written without PyTorch, whole or with faults."""

import io
import pickle
import struct
import zipfile

import numpy as np

_MAGIC = 0x1950A86A20F9469CFC6C


def _word(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def _item(value) -> bytes:
    if isinstance(value, str):
        return _word(value)
    return b"L" + str(value).encode() + b"L\n"


def _tuple(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def call(module: str, name: str, argument: str) -> bytes:
    """A pickle that calls a function when it is loaded."""
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + _tuple(_word(argument)) + b"R."


def _described(tensors, stream: bool, storage="FloatStorage", **facts) -> bytes:
    """The pickle of a dictionary of tensors; `facts` (offset, shape, strides) replace those of every tensor."""
    return b"\x80\x02" + _dictionary(tensors, stream, storage, **facts) + b"."


def nested(tensors, key: str, stream: bool) -> bytes:
    """The pickle that training code makes: {key: the tensors, "epoch": 3, "losses": [0.5], "best": True}."""
    other = (
        _word("epoch") + b"K\x03" + _word("losses") + b"](G" + struct.pack(">d", 0.5) + b"e" + _word("best") + b"\x88"
    )
    return b"\x80\x02}(" + _word(key) + _dictionary(tensors, stream) + other + b"u."


def _dictionary(tensors, stream: bool, storage="FloatStorage", **facts) -> bytes:
    items = b""
    for key, (name, array) in enumerate(tensors.items()):
        strides = [step // array.itemsize for step in array.strides]
        view = (b"N",) if stream else ()
        pid = _tuple(
            _word("storage"), f"ctorch\n{storage}\n".encode(), _word(str(key)), _word("cpu"), _item(array.size), *view
        )
        arguments = _tuple(
            pid + b"Q",
            _item(facts.get("offset", 0)),
            _tuple(*map(_item, facts.get("shape", array.shape))),
            _tuple(*map(_item, facts.get("strides", strides))),
            b"\x89",
            b"ccollections\nOrderedDict\n)R",
        )
        items += _word(name) + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R"
    return b"ccollections\nOrderedDict\n)R(" + items + b"u"


def _raw(tensors) -> dict[str, bytes]:
    return {str(key): np.ascontiguousarray(array).tobytes() for key, array in enumerate(tensors.values())}


def as_archive(tensors, described: bytes | None = None, storages: dict[str, bytes] | None = None, **facts) -> bytes:
    """The layout since PyTorch 1.6: a zip archive of the pickle and one file a storage."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model/data.pkl", _described(tensors, False, **facts) if described is None else described)
        for key, raw in (_raw(tensors) if storages is None else storages).items():
            archive.writestr(f"model/data/{key}", raw)
    return file.getvalue()


def as_stream(tensors, described: bytes | None = None, magic: int = _MAGIC, **facts) -> bytes:
    """The earlier layout: pickles one after the other, then the storages."""
    pickles = [pickle.dumps(magic, 2), pickle.dumps(1001, 2), pickle.dumps({"little_endian": True}, 2)]
    pickles.append(_described(tensors, True, **facts) if described is None else described)
    raw = _raw(tensors)
    pickles.append(pickle.dumps(list(raw), 2))
    sizes = [array.size for array in tensors.values()]
    return b"".join(pickles) + b"".join(struct.pack("<q", size) + raw[str(i)] for i, size in enumerate(sizes))
