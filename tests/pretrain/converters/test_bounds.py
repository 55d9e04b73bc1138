"""Sizes and places that files of checkpoints claim: never memory for what is not there, never another file."""

import io
import json
import pickle
import struct
import zipfile
from dataclasses import asdict

import h5py
import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import parse_object
from nlpdata.protobuf import varint
from nlpdata.records.encoding import masked_crc
from pretrain.converters import keras_h5, native, read_checkpoint, read_encoder, safetensors, torch_pickle
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.load import build_model
from pretrain.converters.tensorflow_index import check_index
from pretrain.converters.weights import names_of, take
from pretrain.export import find_checkpoint
from tests.pretrain.models import bert

HUGE = 1 << 40


def npy(shape, data: bytes) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue() + data


@pytest.mark.parametrize(
    ("members", "compression", "message"),
    [
        ({"model/a.npy": npy((HUGE,), bytes(8))}, zipfile.ZIP_STORED, "has the shape (1099511627776,) of float32, and 8 bytes"),
        ({"model/a.npy": npy((1 << 24,), bytes(1 << 26))}, zipfile.ZIP_DEFLATED, "it is compressed, which checkpoints never are"),
        ({"model/a.npy": b"\x93NUMPY\x03\x00"}, zipfile.ZIP_STORED, "version (3, 0)"),
        ({"model/a.npy": b"\x93NUMPY\x01\x00\x09\x00{'descr':"}, zipfile.ZIP_STORED, "is damaged: state.npz: "),
    ],
)  # fmt: skip
def test_arrays_of_a_checkpoint(tmp_path, members, compression, message):
    with zipfile.ZipFile(tmp_path / native.ARRAYS, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(DataError) as caught:
        native.read_arrays(tmp_path, "model/")
    assert message in str(caught.value)


def table(*entries: tuple[bytes, bytes], packed: int = 0) -> bytes:
    """A table of LevelDB's form, of one block, with the checksums that TensorFlow wants."""

    def block(*entries: tuple[bytes, bytes]) -> bytes:
        parts = (b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in entries)
        content = b"".join(parts) + struct.pack("<II", 0, 1) + bytes([packed])
        return content + struct.pack("<I", masked_crc(content))

    def place(begin: int, content: bytes) -> bytes:
        return varint(begin) + varint(len(content) - 5)

    data = block(*entries)
    index = block((b"~", place(0, data)))
    return (
        data
        + index
        + (place(0, data) + place(len(data), index)).ljust(40, b"\0")
        + struct.pack("<Q", 0xDB4775248B80FB57)
    )


def test_an_index_at_which_tensorflow_would_end_the_process(tmp_path):
    head, entry = (b"", b"\x08\x01"), (b"a", b"\x08\x01\x12\x04\x12\x02\x08\x03")  # one shard; float32 of shape (3,)
    check_index(table(head, entry))
    negative = b"\x08\x01\x12\x0d\x12\x0b\x08" + b"\xff" * 9 + b"\x01"
    for damaged, message in (
        (table(head, (b"a", b"\x08\x01\x12\x09")), "the entry of b'a' is damaged"),
        (table(head, (b"a", negative)), r"b'a' has the shape \[-1\]"),
        (table(head, entry, entry), "b'a' is there twice"),
        (table(head, entry, packed=1), "the index is compressed"),
        (b"\xff" * 40 + struct.pack("<Q", 0xDB4775248B80FB57), "a varint of more than 10 bytes"),
        (b"", "does not end as a table does"),
    ):
        with pytest.raises((ValueError, IndexError), match=message):
            check_index(damaged)
    (tmp_path / "bert_model.ckpt.index").write_bytes(table(head, (b"a", b"\x08\x01\x12\x09")))
    with pytest.raises(
        DataError, match=r"ckpt: cannot be read as a TensorFlow checkpoint: the entry of b'a' is damaged"
    ):
        read_checkpoint(str(tmp_path / "bert_model.ckpt"), bert())


def test_arrays_that_are_no_archive_or_have_one_name(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "a.npy").rename(tmp_path / native.ARRAYS)
    with pytest.raises(DataError, match="not a zip file"):
        native.read_arrays(tmp_path)
    with zipfile.ZipFile(tmp_path / native.ARRAYS, "w") as archive:
        archive.writestr("a.npy", npy((1,), struct.pack("<f", 1)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", npy((1,), struct.pack("<f", 2)))
    with pytest.raises(DataError, match=r"holds a\.npy twice"):
        native.read_arrays(tmp_path)


def test_safetensors_whose_header_is_damaged(tmp_path):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for header, message in (
        ({"a": entry, "b": entry}, "a and b share bytes"),
        ({"a": entry, "b": entry | {"data_offsets": [4, 12]}}, "a and b share bytes"),
        (
            {"a": entry | {"shape": [True, 2]}},
            r"tensor a has shape \(True, 2\)",
        ),  # a number for Python, not for a shape
    ):
        text = json.dumps(header).encode()
        (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(12))
        with pytest.raises(DataError, match=message):
            safetensors.Safetensors(tmp_path / "a.safetensors")


def test_names_with_two_values():
    assert parse_object(b'{"a": 1, "a": 1}', "x") == {"a": 1}
    with pytest.raises(DataError, match="x: not JSON: 'a' has two values"):
        parse_object(b'{"b": [{"a": 1, "a": 2}]}', "x")


def archive_of(path, data: bytes):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02}r\xff\xff\xff\x7f.", "it numbers 2147483647 objects"),
        (b"\x80\x05\x96" + struct.pack("<Q", 1 << 33) + b".", "it ends too early|BYTEARRAY8|bytes"),
        (pickle.dumps({"a": bytearray(b"x")}, 5), "BYTEARRAY8"),
        (pickle.dumps({1, 2}, 4), "EMPTY_SET"),
    ],
)
def test_pickles_that_ask_for_memory(tmp_path, data, message):
    with pytest.raises(DataError, match=message):
        torch_pickle.read_tensors(archive_of(tmp_path / "pytorch_model.bin", data))


def test_a_tensor_repeated_without_end(tmp_path):
    """Strides of 0 make a tensor of any size of one value."""
    storage = torch_pickle._Storage("0", "FloatStorage", 1)
    tensor = torch_pickle._Tensor(storage, 0, (1 << 20, 1 << 20), (0, 0))
    with pytest.raises(pickle.UnpicklingError, match="its tensors take 4398046511104 bytes, the file has 100"):
        torch_pickle._check_total([tensor], 100)


def test_hdf5_that_names_other_files_or_claims_more_than_it_has(tmp_path):
    (tmp_path / "secret").write_bytes(bytes(64))
    for number, options in enumerate(
        (
            {"shape": (16,), "dtype": "f4", "external": [(str(tmp_path / "secret"), 0, 64)]},
            {"shape": (HUGE,), "dtype": "f4", "chunks": (1024,)},
            {"shape": (1,), "dtype": h5py.string_dtype()},
        )
    ):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("albert_model/a:0", **options)
        with pytest.raises(DataError, match=r"is in another file|for which the file has \d+ bytes"):
            keras_h5._read_tensors(path)


@pytest.mark.parametrize("place", ["../other", "/tmp/other"])
def test_the_best_checkpoint_is_in_the_run(tmp_path, place):
    native.write(tmp_path / "other" / "step-00000001", {}, {"step": 1})
    config = {"trainer": {"best_checkpoint_export_subdir": place}}
    native.write(tmp_path / "run" / "checkpoints" / "step-00000001", {}, {"step": 1, "config": config})
    with pytest.raises(UsageError, match=r"says that its best checkpoint is in .*, outside of it"):
        find_checkpoint(tmp_path / "run", best=True)


@pytest.mark.parametrize(
    "options",
    [
        {"vocab_size": 10_000_000}, {"hidden_size": 1 << 20}, {"intermediate_size": 1 << 20}, {"num_hidden_layers": 1024},
        {"max_position_embeddings": 1 << 20},
    ],
)  # fmt: skip
def test_a_configuration_of_a_model_that_is_not_there(options):
    encoder = bert(**options)
    weights = {
        "encoder/embeddings/word_embeddings": np.zeros((60, 16), np.float32),
        "encoder/b": np.zeros(400, np.float32),
    }
    (name,) = options
    with pytest.raises(
        DataError, match=rf"x: its configuration has {name} {options[name]}, .* its 2 weights of 1360 numbers"
    ):
        build_model(Checkpoint("native", "x", encoder, weights))


@pytest.mark.parametrize("field", ["num_hidden_layers"])
def test_more_layers_than_tensors_are_refused_before_their_names_are_listed(field):
    with pytest.raises(
        DataError, match=rf"x: its configuration \({field} 1024\) has 1024 layers, for which its 1 tensors"
    ):
        take({"a": np.zeros(1)}, names_of(bert(), "hf", "x"), bert(**{field: 1024}), "x")


def test_a_run_does_not_take_its_model_from_a_file_that_cannot_hold_it(tmp_path):
    encoder = bert(vocab_size=10_000_000)
    stored = {"type": "bert", "options": asdict(encoder.options)}
    native.write(tmp_path / "step-00000001", {"model/a": np.zeros(9, np.float32)}, {"step": 1, "encoder": stored})
    with pytest.raises(
        DataError, match=r"step-00000001: its configuration has vocab_size 10000000, .* state\.npz of \d+ bytes"
    ):
        read_encoder(str(tmp_path))
