"""Hugging Face folders as people have them: shards, wrappers' prefixes, training code's dictionaries, other files."""

import json
import logging
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pretrain
from nlpdata.errors import DataError, UsageError
from pretrain.converters import read_checkpoint
from pretrain.converters.safetensors import Safetensors
from pretrain.converters.safetensors import write as write_safetensors
from pretrain.converters.write import write_checkpoint
from tests.pretrain.converters.test_convert import NAMES, torch_python
from tests.pretrain.converters.test_round_trips import make
from tests.pretrain.converters.torch_files import as_archive, as_stream, nested


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Family -> (a folder as transformers saves it, its tensors, our weights)."""
    found = {}
    for family in ("bert", "albert", "mobilebert"):
        folder, checkpoint = tmp_path_factory.mktemp(family) / "hf", make(family, "pretraining")
        write_checkpoint(folder, checkpoint, "hf")
        found[family] = folder, dict(Safetensors(folder / "model.safetensors").items()), checkpoint.weights
    return found


def put(tmp_path, models, family="bert"):
    """(a new folder with a config.json only, the tensors, our weights)."""
    folder, tensors, weights = models[family]
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    return tmp_path, tensors, weights


def check(place, weights):
    found = read_checkpoint(str(place)).weights
    assert found.keys() == weights.keys()
    for path, array in weights.items():
        np.testing.assert_array_equal(found[path], array, err_msg=path)


WRAPPERS = ["module.", "_orig_mod.", "model.", "module._orig_mod.", "_orig_mod.module.", "model.module._orig_mod."]


@pytest.mark.parametrize("family", ["bert", "albert", "mobilebert"])
@pytest.mark.parametrize("prefix", WRAPPERS)
def test_prefixes_of_wrappers(family, prefix, models, tmp_path, caplog):
    folder, tensors, weights = put(tmp_path, models, family)
    (folder / "pytorch_model.bin").write_bytes(as_archive({prefix + name: array for name, array in tensors.items()}))
    with caplog.at_level(logging.INFO):
        check(folder, weights)
    stated = caplog.text.partition("left out of the names of its weights: ")[2].splitlines()[0]
    assert stated.replace(", ", "") == prefix


@pytest.mark.parametrize(
    "change",
    [
        lambda name: name.replace("bert.", "bert._orig_mod.", 1),
        lambda name: name.replace("attention.", "attention._checkpoint_wrapped_module.", 1),
        lambda name: f"_fsdp_wrapped_module.{name}",
        lambda name: f"bert.{name}",  # of a class of the user's that calls its BertForPreTraining `bert`
        lambda name: f"model.{name.removeprefix('bert.')}" if name.startswith("bert.") else name,
    ],
)
def test_wrappers_inside_and_bare_models_in_classes(change, models, tmp_path):
    folder, tensors, weights = put(tmp_path, models)
    write_safetensors(folder / "model.safetensors", {change(name): array for name, array in tensors.items()}, {})
    check(folder, weights)


def test_names_of_two_models_and_of_another_family(models, tmp_path):
    folder, tensors, _ = put(tmp_path, models)
    file = folder / "model.safetensors"
    write_safetensors(file, tensors | {f"module.{name}": array for name, array in tensors.items()}, {})
    with pytest.raises(DataError, match=r"both mean .*: is it the file of two models\?"):
        read_checkpoint(str(folder))
    write_safetensors(file, {name.replace("bert.", "roberta.", 1): array for name, array in tensors.items()}, {})
    with pytest.raises(UsageError, match=r"holds no encoder.* names that we do not know: roberta.embeddings"):
        pretrain.load(str(folder))


@pytest.mark.parametrize("bytes_of", [as_archive, as_stream])
@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_what_training_code_saves_around_the_weights(bytes_of, key, models, tmp_path, caplog):
    folder, tensors, weights = put(tmp_path, models)
    stream = bytes_of is as_stream
    (folder / "pytorch_model.bin").write_bytes(bytes_of(tensors, nested(tensors, key, stream)))
    with caplog.at_level(logging.INFO):
        check(folder, weights)
    assert f"the weights are those under {key!r}; what else it holds is not read" in caplog.text


def test_two_dictionaries_of_tensors_are_not_guessed_between(models, tmp_path):
    folder, tensors, _ = put(tmp_path, models)
    file = folder / "pytorch_model.bin"
    file.write_bytes(as_archive(tensors, nested(tensors, "optimizer", False)))
    with pytest.raises(DataError, match="holds more than a dictionary of tensors"):
        read_checkpoint(str(folder))


def in_shards(folder, tensors, kind, files=3):
    """Writes the tensors into several files and an index, as save_pretrained does; returns the index."""
    whole, suffix = {"safetensors": ("model", "safetensors"), "bin": ("pytorch_model", "bin")}[kind]
    names, places = sorted(tensors), {}
    for number in range(files):
        file = f"{whole}-{number + 1:05d}-of-{files:05d}.{suffix}"
        part = {name: tensors[name] for name in names[number::files]}
        if kind == "bin":
            (folder / file).write_bytes(as_archive(part))
        else:
            write_safetensors(folder / file, part, {})
        places |= dict.fromkeys(part, file)
    index = folder / f"{whole}.{suffix}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return index


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_shards_by_folder_and_by_index(kind, models, tmp_path):
    folder, tensors, weights = put(tmp_path, models)
    index = in_shards(folder, {f"module.{name}": array for name, array in tensors.items()}, kind)
    check(folder, weights)
    index.write_bytes(b"\xef\xbb\xbf" + index.read_bytes())
    check(index, weights)
    shard = sorted(folder.glob("*-00002-of-00003.*"))[0]
    with pytest.raises(UsageError, match=rf"{shard.name}: one of several files of a model.*: name .*{index.name}"):
        read_checkpoint(str(shard))
    index.unlink()
    for place in (folder, shard):
        with pytest.raises(UsageError, match=rf"which an index lists: {index.name} is not next to it"):
            read_checkpoint(str(place))


def test_a_shard_that_is_gone_and_an_index_next_to_a_whole_file(models, tmp_path):
    folder, tensors, _ = put(tmp_path, models)
    in_shards(folder, tensors, "bin")
    (folder / "pytorch_model-00002-of-00003.bin").unlink()
    with pytest.raises(DataError, match=r"names files that are not next to it: 'pytorch_model-00002-of-00003.bin'"):
        read_checkpoint(str(folder))
    (folder / "pytorch_model.bin").write_bytes(as_archive(tensors))
    with pytest.raises(UsageError, match=r"holds pytorch_model.bin and pytorch_model.bin.index.json: which is meant"):
        read_checkpoint(str(folder))


@pytest.mark.parametrize(
    "name", ["model.fp16.safetensors", "best.safetensors", "pytorch_model.fp16.bin", "model.pt", "last.ckpt"]
)
def test_files_of_other_names_are_read_where_they_are_named(name, models, tmp_path):
    folder, tensors, weights = put(tmp_path, models)
    if name.endswith(".safetensors"):
        write_safetensors(folder / name, tensors, {})
    else:
        (folder / name).write_bytes((as_stream if name.endswith(".pt") else as_archive)(tensors))
    check(folder / name, weights)
    (folder / "training_args.bin").write_bytes(as_archive(tensors))
    with pytest.raises(
        UsageError, match=rf"{folder}: holds weights under other names than the usual: name one of {name}\."
    ):
        read_checkpoint(str(folder))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tf_model.h5", "of transformers' classes for TensorFlow: .*from_tf=True"),
        ("flax_model.msgpack", "of transformers' classes for Flax: .*from_flax=True"),
        ("adapter_model.safetensors", "of an adapter, not of a model"),
        ("model.onnx", "made from a model for another program"),
    ],
)
def test_weights_of_other_programs(name, words, models, tmp_path):
    folder, _, _ = put(tmp_path, models)
    (folder / name).write_bytes(b"\x89HDF....")
    for place in (folder, folder / name):
        with pytest.raises(UsageError, match=rf"{name}: these weights are {words}.* Read are model.safetensors"):
            read_checkpoint(str(place))


def test_a_trainers_folder_names_its_checkpoints(models, tmp_path):
    for step in (2, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
        folder, tensors, weights = put(tmp_path / f"checkpoint-{step}", models)
        (folder / "optimizer.pt").write_bytes(b"")
        (folder / "trainer_state.json").write_text("{}")
        write_safetensors(folder / "model.safetensors", tensors, {})
    check(folder, weights)
    with pytest.raises(
        UsageError, match=r"no checkpoint in this folder itself. Name one of its folders: checkpoint-2, checkpoint-10\."
    ):
        read_checkpoint(str(tmp_path))


# ------------------------------------------------------------------------------------------------- against transformers

MAKER = """
import json, sys
from pathlib import Path
import numpy as np, torch, transformers as T
torch.manual_seed(0)
inputs = {key: torch.tensor(value).long() for key, value in np.load(sys.argv[1]).items()}
shape = dict(vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
more = {"Bert": {}, "Albert": {"embedding_size": 8}, "MobileBert": {"embedding_size": 8, "intra_bottleneck_size": 8}}
for family, fields in more.items():
    for case in "sharded bin_sharded compiled parallel half all_fields gelu_fast gelu_python gelu_pytorch_tanh".split():
        activation = {"hidden_act": case} if case.startswith("gelu") else {}
        model = getattr(T, family + "ForPreTraining")(getattr(T, family + "Config")(**shape, **fields, **activation)).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * 0.1)
        if case == "half":
            model = model.half()
        folder = Path(sys.argv[2], f"{family}-{case}")
        model.save_pretrained(folder, safe_serialization="bin" not in case, max_shard_size="10KB" if "sharded" in case else "1GB")
        if case in ("compiled", "parallel"):
            wrapped = torch.compile(model) if case == "compiled" else torch.nn.DataParallel(model)
            torch.save(wrapped.state_dict(), folder / "pytorch_model.bin")
            (folder / "model.safetensors").unlink()
        if case == "all_fields":
            model.config.to_json_file(folder / "config.json", use_diff=False)
        with torch.no_grad():
            given = dict(attention_mask=inputs["input_mask"], token_type_ids=inputs["segment_ids"])
            found = model.float()(input_ids=inputs["input_ids"], **given)
        np.savez(folder / "out.npz", **{key: value.numpy() for key, value in found.items()})
"""


def test_folders_that_transformers_saves(tmp_path):
    ids = np.random.default_rng(0).integers(5, 60, (2, 12)).astype(np.int32)
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.arange(24).reshape(2, 12) % 12 // 6}
    np.savez(tmp_path / "inputs.npz", **inputs)
    command = [torch_python(), "-c", MAKER, str(tmp_path / "inputs.npz"), str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": ""}, capture_output=True)
    folders = sorted(file.parent for file in tmp_path.glob("*/out.npz"))
    assert len(folders) == 27
    for folder in folders:
        outputs = pretrain.load(str(folder))(inputs)
        for theirs, wanted in np.load(Path(folder, "out.npz")).items():
            np.testing.assert_allclose(outputs[NAMES[theirs]], wanted, atol=1e-5, err_msg=f"{folder.name} {theirs}")


def test_what_is_read_of_an_archive_is_named_by_it_in_python_too(models, tmp_path, caplog):
    (tmp_path / "inner").mkdir()
    folder, tensors, weights = put(tmp_path / "inner", models)
    (folder / "pytorch_model.bin").write_bytes(
        as_archive(tensors, nested({f"module.{n}": t for n, t in tensors.items()}, "model", False))
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"my_note": 1}))
    archive = shutil.make_archive(str(tmp_path / "model"), "zip", tmp_path, "inner")
    with caplog.at_level(logging.INFO):
        check(archive, weights)
    lines = [line for line in caplog.messages if "inner" in line]
    assert [line.partition(": ")[0] for line in lines] == [
        f"{archive}/inner/config.json",
        f"{archive}/inner/pytorch_model.bin",
        f"{archive}/inner/pytorch_model.bin",
    ]


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 440473133\n"


def test_files_that_were_not_fetched_say_so(models, tmp_path):
    folder, tensors, _ = put(tmp_path, models)
    for name, content, words in (
        ("model.safetensors", POINTER, "is a pointer of Git LFS, not the file itself: fetch it with `git lfs pull`"),
        ("pytorch_model.bin", POINTER, "is a pointer of Git LFS, not the file itself: fetch it with `git lfs pull`"),
        ("pytorch_model.bin", b"", "is empty: fetch it again"),
        ("pytorch_model.bin", as_archive(tensors)[:-2000], "is cut off: its end, .* is not there. Fetch it again"),
    ):
        (folder / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{name}: {words}"):
            read_checkpoint(str(folder))
        (folder / name).unlink()
    (folder / "model.safetensors").symlink_to("../../blobs/0123")
    with pytest.raises(
        DataError, match=r"model\.safetensors: is a link to \.\./\.\./blobs/0123, where nothing is .*Download"
    ):
        read_checkpoint(str(folder))
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()
    with pytest.raises(DataError, match=r"model\.safetensors: is a folder, a device or a pipe, expected a file"):
        read_checkpoint(str(folder))


def test_an_index_that_names_what_no_file_is_called(models, tmp_path):
    folder, *_ = put(tmp_path, models)
    for name in ("x" * 300, "../model.safetensors", "a\0b", "", "."):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(DataError, match=r"index\.json: names files that are not next to it: "):
            read_checkpoint(str(folder))


@pytest.mark.parametrize("dtype", ["I8", "BOOL"])
def test_quantised_weights_are_refused(dtype, models, tmp_path):
    folder, tensors, _ = put(tmp_path, models)
    name = "bert.encoder.layer.0.attention.self.query.weight"
    write_safetensors(folder / "model.safetensors", {name: tensors[name]}, {})
    content = (folder / "model.safetensors").read_bytes()
    size = tensors[name].size
    header = json.dumps(
        {name: {"dtype": dtype, "shape": list(tensors[name].shape), "data_offsets": [0, size]}}
    ).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + content[-size:])
    with pytest.raises(
        DataError, match=rf"{name} holds (int8|bool), expected floating-point numbers. Of a quantised model"
    ):
        read_checkpoint(str(folder))
