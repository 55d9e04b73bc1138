"""Damaged and wrong files: each is refused with the file's name and the fault, and nothing is written."""

import gzip
import io
import json
import pickle
import shutil
import tarfile
from dataclasses import dataclass

import numpy as np
import pytest

from nlpdata.errors import DataError
from pretrain.convert import main
from pretrain.converters import safetensors
from pretrain.converters.graph_facts import read_graph
from pretrain.converters.write import write_checkpoint
from tests.pretrain.converters.damage import cut, entry, fields, flip, h5, header, member, npz, tarred, text, zipped
from tests.pretrain.converters.test_round_trips import make
from tests.pretrain.converters.torch_files import as_archive, as_stream, call

CUTS = {f"cut at {share:.0%}": cut(share) for share in (0.0, 0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)}
NO_JSON = {
    f"JSON {content[:12]!r}": text(content)
    for content in ("", "{", "[]", "null", "3", '"x"', '{"a": }', b"\xff\xfe\x00", "[" * 100_000)
}
HF_CONFIG = {
    **NO_JSON,
    "of gpt2": fields(model_type="gpt2"),
    "of no type": fields(model_type=3),
    "type a list": fields(model_type=["bert"]),
    "no size": fields(vocab_size=...),
    "size null": fields(hidden_size=None),
    "size in words": fields(hidden_size="sixteen"),
    "size negative": fields(hidden_size=-16),
    "size a float": fields(vocab_size=60.5),
    "no heads": fields(num_attention_heads=0),
    "heads do not divide": fields(num_attention_heads=3),
    "dropout in words": fields(hidden_dropout_prob="none"),
    "dropout null": fields(attention_probs_dropout_prob=None),
    "eps in words": fields(layer_norm_eps="1e-12"),
    "eps null": fields(layer_norm_eps=None),
    "eps negative": fields(layer_norm_eps=-1.0),
    "range a list": fields(initializer_range=[1]),
    "activation unknown": fields(hidden_act="swish"),
    "activation a list": fields(hidden_act=["gelu"]),
    "activation null": fields(hidden_act=None),
    "relative positions": fields(position_embedding_type="relative_key"),
    "decoder": fields(is_decoder=True),
    "quantized": fields(quantization_config={"quant_method": "gptq"}),
    "too wide": fields(hidden_size=32),
    "too few words": fields(vocab_size=59),
    "too few layers": fields(num_hidden_layers=1),
    "too many layers": fields(num_hidden_layers=9),
    "segments": fields(type_vocab_size=5),
    "positions": fields(max_position_embeddings=512),
    "other family": fields(model_type="albert"),
}
SAFETENSORS = {
    **CUTS,
    "header longer than the file": lambda data: (10**9).to_bytes(8, "little") + data[8:],
    "header of 2**64 - 1": lambda data: b"\xff" * 8 + data[8:],
    "header of 0": lambda data: bytes(8) + data[8:],
    "header too short": lambda data: (100).to_bytes(8, "little") + data[8:],
    "header a list": header(lambda values: []),
    "header no JSON": header(lambda values: b"{]"),
    "header not UTF-8": header(lambda values: b'{"\xff": 1}'),
    "header nested": header(lambda values: b"[" * 100_000),
    "header empty": header(lambda values: {}),
    "entry a list": header(lambda values: values | {"x": [1]}),
    "entry null": header(lambda values: values | {"x": None}),
    "dtype unknown": entry(dtype="F8"),
    "dtype a number": entry(dtype=32),
    "dtype a list": entry(dtype=["F32"]),
    "dtype other": entry(dtype="F64"),
    "offsets beyond": entry(data_offsets=[10**9, 10**9 + 240]),
    "offsets reversed": entry(data_offsets=[240, 0]),
    "offsets negative": entry(data_offsets=[-240, 0]),
    "offsets in words": entry(data_offsets=["0", "240"]),
    "offsets of three": entry(data_offsets=[0, 1, 2]),
    "offsets null": entry(data_offsets=None),
    "shape in words": entry(shape=["60"]),
    "shape negative": entry(shape=[-60]),
    "shape a number": entry(shape=60),
    "shape huge": entry(shape=[10**12, 10**12]),
    "shape of a float": entry(shape=[60.0]),
    "shape other": entry(shape=[30, 2]),
    "name other": header(lambda values: {name.replace("layer.0", "layers.0"): v for name, v in values.items()}),
    "a text": text("just a text, long enough to be read as a header"),
    "a pickle": text(pickle.dumps({"a": 1})),
    "an archive": zipped(a="b"),
}
INDEX = {
    **NO_JSON,
    "no map": text('{"metadata": {}}'),
    "map a list": text('{"weight_map": ["model.safetensors"]}'),
    "map of numbers": text('{"weight_map": {"a": 3}}'),
    "map null": text('{"weight_map": null}'),
    "map empty": text('{"weight_map": {}}'),
    "file absent": text('{"weight_map": {"a": "model-2.safetensors"}}'),
    "file elsewhere": text('{"weight_map": {"a": "../model.safetensors"}}'),
    "file a folder": text('{"weight_map": {"a": "."}}'),
    "file empty": text('{"weight_map": {"a": ""}}'),
    "file the index": text('{"weight_map": {"a": "model.safetensors.index.json"}}'),
}
WEIGHT = np.zeros((60, 16), np.float32)
NAMED = {"bert.embeddings.word_embeddings.weight": WEIGHT}
TORCH = {
    "a name flipped": lambda data: data.replace(b"word_embeddings", b"word_embeddingt", 1),
    **CUTS,
    "a text": text("no weights"),
    "calls os.system": text(as_archive(NAMED, described=call("posix", "system", "touch /tmp/never"))),
    "calls eval": text(as_archive(NAMED, described=call("builtins", "eval", "1"))),
    "calls exec in a stream": text(as_stream(NAMED, described=call("builtins", "exec", "1"))),
    "calls subprocess": text(as_archive(NAMED, described=call("subprocess", "check_output", "ls"))),
    "calls torch.load": text(as_archive(NAMED, described=call("torch", "load", "x"))),
    "calls getattr": text(as_archive(NAMED, described=call("builtins", "getattr", "x"))),
    "calls numpy": text(as_archive(NAMED, described=call("numpy.core.multiarray", "_reconstruct", "x"))),
    "calls a storage": text(as_archive(NAMED, described=call("torch", "FloatStorage", "x"))),
    "a bare pickle that calls": text(b"cposix\nsystem\n(S'true'\ntR."),
    "a bare pickle": text(pickle.dumps([1, 2, 3])),
    "numbers": text(as_archive(NAMED, described=pickle.dumps({"a": 1}, 2))),
    "a list": text(as_archive(NAMED, described=pickle.dumps([1], 2))),
    "a nested dictionary": text(as_archive(NAMED, described=pickle.dumps({"model": {"a": 1}}, 2))),
    "no pickle in it": text(as_archive(NAMED, described=b"")),
    "an unfinished pickle": text(as_archive(NAMED, described=b"\x80\x02}")),
    "no storages": text(as_archive(NAMED, storages={})),
    "a short storage": text(as_archive(NAMED, storages={"0": b"\0" * 8})),
    "an uneven storage": text(as_archive(NAMED, storages={"0": b"\0" * 7})),
    "strides beyond": text(as_archive(NAMED, strides=(10**6, 1))),
    "strides negative": text(as_archive(NAMED, strides=(-16, 1))),
    "strides of three": text(as_archive(NAMED, strides=(16, 1, 1))),
    "offset beyond": text(as_archive(NAMED, offset=10**6)),
    "offset negative": text(as_archive(NAMED, offset=-1)),
    "shape huge": text(as_archive(NAMED, shape=(10**9, 10**9))),
    "shape in words": text(as_archive(NAMED, shape=("a", "b"))),
    "storage unknown": text(as_archive(NAMED, storage="QInt8Storage")),
    "an archive without data.pkl": zipped(model__weights="x"),
    "an archive with two": zipped(a__data__pkl="x", b__data__pkl="y"),
    "an empty archive": zipped(),
    "other names": text(as_archive({"gpt.wte.weight": WEIGHT})),
    "words only": text(as_archive(NAMED)),
    "a stream cut short": text(as_stream(NAMED)[:-100]),
    "a stream without storages": text(as_stream(NAMED)[:-4000]),
    "another magic": text(as_stream(NAMED, magic=77)),
}
STATE = {
    **NO_JSON,
    "no step": fields(step=...),
    "step in words": fields(step="ten"),
    "later version": fields(format_version=99),
    "version in words": fields(format_version="new"),
    "no encoder": fields(encoder=None),
    "encoder a list": fields(encoder=[1]),
    "encoder in words": fields(encoder="bert"),
    "encoder without options": fields(encoder={"type": "bert"}),
    "encoder unknown": fields(encoder={"type": "bret", "options": {}}),
    "encoder a number": fields(encoder={"type": 3, "options": {}}),
    "encoder a module": fields(encoder={"type": "nowhere.at.all:Encoder", "options": {}}),
    "encoder code": fields(encoder={"type": "os:system", "options": {}}),
    "options unknown": fields(encoder={"type": "bert", "options": {"depth": 3}}),
    "options a list": fields(encoder={"type": "bert", "options": [1]}),
    "options wrong": fields(encoder={"type": "bert", "options": {"hidden_size": "x"}}),
    "options of another size": fields(encoder={"type": "bert", "options": {"hidden_size": 96}}),
    "data a list": fields(data=[1]),
}
NPZ = {
    **CUTS,
    **{f"flipped at {at}": flip(at) for at in (0.1, 0.4, 0.6, 0.8)},
    "a text": text("no archive"),
    "an array": text(b"\x93NUMPY\x01\x00"),
    "an archive": zipped(a="b"),
    "an archive of no arrays": zipped(**{"model__x.npy": "b"}),
    "objects": npz(**{"model/masked_lm/output_bias": np.array([{"a": 1}], object)}),
    "words": npz(**{"model/masked_lm/output_bias": np.array(["a", "b"])}),
    "complex": npz(**{"model/masked_lm/output_bias": np.zeros(60, np.complex64)}),
    "another shape": npz(**{"model/masked_lm/output_bias": np.zeros(61, np.float32)}),
    "a scalar": npz(**{"model/masked_lm/output_bias": np.float32(1)}),
    "a weight missing": npz(**{"model/encoder/layer_0/attention/query/kernel": ...}),
}
LAYER = "albert_model/albert_model/word_embeddings/embeddings:0"
COPY = "cls/albert_model/word_embeddings/embeddings:0"
H5 = {
    **CUTS,
    **{f"flipped at {at}": flip(at) for at in (0, 1, 4, 8, 40)},
    "a text": text("no HDF5"),
    "without groups": h5(lambda file: [file.pop(name) for name in list(file)]),
    "without encoder": h5(lambda file: file.pop("albert_model")),
    "without words": h5(lambda file: (file.pop(LAYER), file.pop(COPY))),
    "words of another shape": h5(lambda file: (file.pop(LAYER), file.create_dataset(LAYER, data=np.zeros((61, 8))))),
    "words a scalar": h5(lambda file: (file.pop(LAYER), file.create_dataset(LAYER, data=1.0))),
    "words in words": h5(lambda file: (file.pop(LAYER), file.create_dataset(LAYER, data="a"))),
    "words empty": h5(lambda file: (file.pop(LAYER), file.create_dataset(LAYER, dtype="f4"))),
    "words a group": h5(lambda file: (file.pop(LAYER), file.create_group(LAYER), file.pop(COPY))),
    "words untied": h5(lambda file: file[COPY].write_direct(np.ones((60, 8), np.float32))),
    "of another library": h5(
        lambda file: (file.move("albert_model/albert_model", "albert_model/bert"), file.pop("cls"))
    ),
}
TF_INDEX = {
    **CUTS,
    **{f"flipped at {at}": flip(at) for at in (0.05, 0.3, 0.6, 0.97)},
    "a text": text("no table"),
}
TF_DATA = {**{name: damage for name, damage in CUTS.items() if "0%" in name}, "gone": lambda data: None}


def second_header(data):
    """A byte of the second member's header flipped, and packed again."""
    content = bytearray(gzip.decompress(data))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        content[archive.getmembers()[1].offset] ^= 1
    return gzip.compress(content)


TAR = {
    **CUTS,
    "the second header flipped": second_header,
    **{f"flipped at {at}": flip(at) for at in (0, 3, 0.3, 0.6, -6)},
    "a text": text("no archive"),
    "an archive of another kind": zipped(a="b"),
    "empty": tarred(lambda archive: None),
    "a file elsewhere": member("../outside"),
    "an absolute link": member("link", tarfile.SYMTYPE, "/etc/passwd"),
    "a link elsewhere": member("link", tarfile.SYMTYPE, "../../x"),
    "a device": member("device", tarfile.CHRTYPE),
    "a pipe": member("pipe", tarfile.FIFOTYPE),
    "no checkpoint": member("notes.txt"),
}
# checkpoint, its damaged file, damages
TABLE = [
    ("hf", "config.json", HF_CONFIG),
    ("hf", "model.safetensors", SAFETENSORS),
    ("sharded", "model.safetensors.index.json", INDEX),
    ("sharded", "model-1.safetensors", {"cut": cut(0.5), "gone": lambda data: None}),
    ("torch", "pytorch_model.bin", TORCH),
    ("native", "state.json", STATE),
    ("native", "state.npz", NPZ),
    ("h5", "tf2_model_full.h5", H5),
    ("tf1", "bert_model.ckpt.index", TF_INDEX),
    ("tf1", "bert_model.ckpt.data-00000-of-00001", TF_DATA),
    ("tf1", "bert_config.json", {"gone": lambda data: None, "layers": fields(num_hidden_layers=1)}),
    ("tar", "module.tar.gz", TAR),
]


@dataclass(frozen=True)
class Case:
    source: str
    file: str
    damage: object


CASES = {
    f"{source} {file}: {name}": Case(source, file, damage)
    for source, file, damages in TABLE
    for name, damage in damages.items()
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """One whole checkpoint of each format."""
    place = tmp_path_factory.mktemp("sources")
    bert = make("bert", "pretraining")
    for format in ("hf", "native", "tf1"):
        write_checkpoint(place / format, bert, format)
    write_checkpoint(place / "h5", make("albert", "pretraining"), "h5")
    tensors = safetensors.Safetensors(place / "hf" / "model.safetensors")
    for name in ("sharded", "torch", "tar"):
        (place / name).mkdir()
        shutil.copyfile(place / "hf" / "config.json", place / name / "config.json")
    halves = {f"model-{i}.safetensors": dict(sorted(tensors.items())[i::2]) for i in (0, 1)}
    for name, half in halves.items():
        safetensors.write(place / "sharded" / name, half, {})
    index = {"weight_map": {name: file for file, half in halves.items() for name in half}}
    (place / "sharded" / "model.safetensors.index.json").write_text(json.dumps(index))
    (place / "torch" / "pytorch_model.bin").write_bytes(as_archive(dict(tensors)))
    with tarfile.open(place / "tar" / "module.tar.gz", "w:gz") as archive:
        archive.add(place / "tf1", "module")
    return place


def place_of(source, folder):
    """What a user would name."""
    return {"h5": folder / "tf2_model_full.h5", "tar": folder / "module.tar.gz"}.get(source, folder)


@pytest.mark.parametrize("source", sorted({source for source, *_ in TABLE}))
def test_the_whole_files_are_read(source, sources, tmp_path):
    assert main([str(place_of(source, sources / source)), str(tmp_path / "out"), "--format", "native"]) == 0


def refused(place, tmp_path, capsys):
    """The message with which the command refuses a source; nothing may be left of it."""
    before = sorted(tmp_path.iterdir())
    code = main([str(place), str(tmp_path / "out"), "--format", "native"])
    said = capsys.readouterr().err
    assert code in (1, 2), said
    notes, prefix, error = said.rpartition("pretrain convert: error: ")
    assert prefix
    assert error.count("\n") == 1
    assert "Traceback" not in notes
    assert sorted(tmp_path.iterdir()) == before
    return error


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_damaged_files_are_refused(case, sources, tmp_path, capsys):
    folder = tmp_path / "source"
    shutil.copytree(sources / case.source, folder)
    file = folder / case.file
    damaged = case.damage(file.read_bytes())
    file.unlink() if damaged is None else file.write_bytes(damaged)
    assert str(folder) in refused(place_of(case.source, folder), tmp_path, capsys)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 440473133\n"


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("tf1", "bert_model.ckpt.index"),
        ("tf1", "bert_model.ckpt.data-00000-of-00001"),
        ("tf1", "checkpoint"),
        ("native", "state.npz"),
    ],
)
def test_pointers_of_git_lfs_are_named(source, file, sources, tmp_path, capsys):
    folder = tmp_path / "source"
    shutil.copytree(sources / source, folder)
    (folder / file).write_bytes(POINTER)
    assert f"{folder / file}: is a pointer of Git LFS" in refused(folder, tmp_path, capsys)


def test_a_pointer_in_place_of_a_graph(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(POINTER)
    with pytest.raises(DataError, match=r"saved_model\.pb: is a pointer of Git LFS"):
        read_graph(tmp_path / "saved_model.pb")


OTHERS = {
    "model.onnx": b"\x08\x07\x12\x07pytorch",
    "model.gguf": b"GGUF\x03\x00\x00\x00",
    "flax_model.msgpack": b"\x81\xa6params\x80",
    "model.keras": b"PK\x05\x06" + bytes(18),
    "model.ckpt": b"",
    "weights.npz": b"PK\x05\x06" + bytes(18),
    "model.mdl": b"\x89HDF\r\n\x1a\n",
    "vocab.txt": b"[PAD]\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_are_refused(name, tmp_path, capsys):
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / name).write_bytes(OTHERS[name])
    assert name in refused(tmp_path / "file" / name, tmp_path, capsys)
    assert name in refused(tmp_path / "file", tmp_path, capsys)


def test_there_are_enough_cases():
    assert len(CASES) + 2 * len(OTHERS) >= 200
