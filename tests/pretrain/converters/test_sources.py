"""What is read of a place with several candidates: what the user or the format names; else it is refused."""

import json
import shutil
import tarfile
import zipfile

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.convert import main
from pretrain.converters import native, read_checkpoint, safetensors
from pretrain.converters.convert import convert
from pretrain.converters.tokenizer_files import find_tokenizer
from pretrain.converters.write import write_checkpoint
from pretrain.encoders.model_config import read_model_config
from tests.pretrain.converters.test_round_trips import make

WORDS = "encoder/embeddings/word_embeddings"


def written(folder, format, seed=0):
    """The word embeddings of a new checkpoint."""
    checkpoint = make("bert", "encoder", seed, layers=1)
    write_checkpoint(folder, checkpoint, format)
    return checkpoint.weights[WORDS]


def words(place):
    return read_checkpoint(str(place)).weights[WORDS]


# ---------------------------------------------------------------------------------------------------- the file checkpoint


@pytest.fixture
def two(tmp_path):
    """(folder, its embeddings, another folder with the same names)."""
    own = written(tmp_path / "own", "tf1", 1)
    written(tmp_path / "other", "tf1", 2)
    return tmp_path / "own", own, tmp_path / "other"


@pytest.mark.parametrize(
    "form", ["{other}/bert_model.ckpt", "../other/bert_model.ckpt", "bert_model.ckpt", "gone/bert_model.ckpt"]
)
def test_the_named_folder_is_read_whatever_its_file_checkpoint_says(two, form):
    own, expected, other = two
    (own / "checkpoint").write_text(f'model_checkpoint_path: "{form.format(other=other)}"\n')
    np.testing.assert_array_equal(words(own), expected)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ('model_checkpoint_path: "{other}/model.ckpt-9"', UsageError, r"'.*/model.ckpt-9', which is not in this folder. There"),
        ('model_checkpoint_path: ".."', UsageError, "'..', which is not in this folder"),
        ("", UsageError, "'', which is not in this folder"),
        ("model_checkpoint_path: model.ckpt", DataError, "checkpoint: cannot be read as TensorFlow's list"),
        ("\udcff", DataError, "checkpoint: cannot be read as TensorFlow's list"),
        ("x" * (1 << 20) + "x", DataError, "checkpoint: cannot be read: it has more than 1 MiB"),
    ],
)  # fmt: skip
def test_a_file_checkpoint_that_names_nothing_here(two, text, error, message):
    own, _, other = two
    shutil.copy(other / "bert_model.ckpt.index", other / "model.ckpt-9.index")
    (own / "checkpoint").write_bytes(text.format(other=other).encode("utf-8", "surrogateescape"))
    with pytest.raises(error, match=message):
        read_checkpoint(str(own))


def test_several_prefixes(two):
    own, expected, other = two
    for file in other.glob("bert_model.ckpt.*"):
        shutil.copy(file, own / file.name.replace("bert_model.ckpt", "later.ckpt"))
    np.testing.assert_array_equal(words(own), expected)  # the file `checkpoint` says so
    np.testing.assert_array_equal(words(own / "later.ckpt"), words(other))
    (own / "checkpoint").unlink()
    with pytest.raises(
        UsageError, match=r"holds 2 checkpoints and no file `checkpoint`.*bert_model.ckpt, .*later.ckpt"
    ):
        read_checkpoint(str(own))


# ------------------------------------------------------------------------------------------------------ several formats


@pytest.mark.parametrize("formats", [("hf", "tf1"), ("hf", "native"), ("native", "savedmodel"), ("savedmodel", "tf1")])
def test_formats_side_by_side(tmp_path, formats):
    for seed, format in enumerate(formats):
        written(tmp_path / format, format, seed)
        shutil.copytree(tmp_path / format, tmp_path / "both", dirs_exist_ok=True)
    with pytest.raises(UsageError, match="which is meant"):
        read_checkpoint(str(tmp_path / "both"))
    inner = {
        "hf": "model.safetensors", "tf1": "bert_model.ckpt", "native": native.ARRAYS, "savedmodel": "variables/variables",
    }  # fmt: skip
    if "savedmodel" not in formats:
        for format in formats:
            np.testing.assert_array_equal(words(tmp_path / "both" / inner[format]), words(tmp_path / format))


def test_a_pickle_next_to_safetensors_is_not_read(tmp_path):
    expected = written(tmp_path / "hf", "hf")
    (tmp_path / "hf" / "pytorch_model.bin").write_bytes(b"not read")
    np.testing.assert_array_equal(words(tmp_path / "hf"), expected)
    (tmp_path / "hf" / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(UsageError, match=r"holds model.safetensors and model.safetensors.index.json: which is meant"):
        read_checkpoint(str(tmp_path / "hf"))
    np.testing.assert_array_equal(words(tmp_path / "hf" / "model.safetensors"), expected)


def test_an_archive_of_several_checkpoints_and_its_own_name(two, tmp_path):
    own, expected, other = two
    (own / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]) + "\n")
    with tarfile.open(tmp_path / "one.tar.gz", "w:gz") as archive:
        archive.add(own, "model")
    checkpoint = read_checkpoint(str(tmp_path / "one.tar.gz"))
    assert checkpoint.source == str(tmp_path / "one.tar.gz")
    np.testing.assert_array_equal(checkpoint.weights[WORDS], expected)
    convert(checkpoint, str(tmp_path / "out"), "native")
    assert (tmp_path / "out" / "vocab.txt").read_text() == (own / "vocab.txt").read_text()
    with tarfile.open(tmp_path / "two.tar.gz", "w:gz") as archive:
        archive.add(own / "bert_config.json", "bert_config.json")
        for place, name in ((own, "a.ckpt"), (other, "b.ckpt")):
            for file in place.glob("bert_model.ckpt.*"):
                archive.add(file, file.name.replace("bert_model.ckpt", name))
    with pytest.raises(UsageError, match=r"^(?!.*nlpdata-archive).*/two.tar.gz: holds 2 checkpoints"):
        read_checkpoint(str(tmp_path / "two.tar.gz"))


# -------------------------------------------------------------------------------------------------- names of one checkpoint


def test_every_file_of_a_tensorflow_checkpoint_means_it(tmp_path):
    expected = written(tmp_path / "tf1", "tf1")
    (tmp_path / "tf1" / "bert_model.ckpt.meta").write_bytes(b"the graph, which is not read")
    names = [
        "bert_model.ckpt",
        "checkpoint",
        *(f"bert_model.ckpt.{end}" for end in ("index", "meta", "data-00000-of-00001")),
    ]
    for place in (tmp_path / "tf1", *(tmp_path / "tf1" / name for name in names)):
        np.testing.assert_array_equal(words(place), expected, err_msg=str(place))
    for name in ("checkpoint", "bert_model.ckpt.index"):
        (tmp_path / "tf1" / name).unlink()
    for place in ("", "bert_model.ckpt", "bert_model.ckpt.meta", "bert_model.ckpt.data-00000-of-00001"):
        with pytest.raises(
            UsageError, match=r"part of a TensorFlow checkpoint whose bert_model.ckpt.index is not next to it"
        ):
            read_checkpoint(str(tmp_path / "tf1" / place))


ODD = ("best[x] a,b", "s* 1?\\ {a,b}=c")
NAMES = [
    *((format, name) for format in ("native", "hf", "tf1", "h5") for name in ODD),
    *(pytest.param(format, ODD[0], marks=pytest.mark.slow) for format in ("savedmodel", "hub")),
]


@pytest.mark.parametrize(("format", "name"), NAMES)
def test_names_of_folders_are_not_patterns(format, name, tmp_path):
    checkpoint = make("albert", "encoder", layers=1)
    (tmp_path / "bestx").mkdir()  # what the pattern best[x] would match
    convert(checkpoint, str(tmp_path / name / "out[1]"), format)
    place = tmp_path / name / "out[1]"
    np.testing.assert_array_equal(words(place / "tf2_model.h5" if format == "h5" else place), checkpoint.weights[WORDS])


def archive_of(folder, path):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("__MACOSX/._model", b"")
            for file in folder.iterdir():
                archive.write(file, f"uncased/model/{file.name}")
        return
    with tarfile.open(path, {"": "w", ".gz": "w:gz", ".xz": "w:xz", ".bz2": "w:bz2"}[path.suffix]) as archive:
        archive.add(folder, "uncased/model")


@pytest.mark.parametrize("name", ["one.zip", "one.tar.bz2", "one.tar.xz", "one"])
def test_archives_of_every_kind(name, two, tmp_path, capsys):
    own, expected, _ = two
    (own / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]) + "\n")
    archive_of(own, tmp_path / name)
    np.testing.assert_array_equal(words(tmp_path / name), expected)
    assert main([str(tmp_path / name), str(tmp_path / "out"), "--format", "native"]) == 0
    said = capsys.readouterr().err
    assert f"{tmp_path / name} (tf1): " in said
    assert f"the tokenizer {tmp_path / name}/uncased/model/vocab.txt has 6 entries" in said
    assert "nlpdata-archive" not in said


def test_archives_that_lead_elsewhere_or_are_damaged(two, tmp_path):
    own, _, _ = two
    archive_of(own, tmp_path / "whole.zip")
    data = (tmp_path / "whole.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[: len(data) // 2])
    middle = data.index(b"bert_model.ckpt.data") + 2000
    (tmp_path / "changed.zip").write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    with zipfile.ZipFile(tmp_path / "outside.zip", "w") as archive:
        archive.writestr("../outside.txt", b"x")
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    for name, words_of in {
        "cut": "not a whole .zip archive",
        "changed": "not a whole .zip archive",
        "outside": r"\.\./outside.txt is outside of the archive",
        "link": "link is neither a file nor a folder",
    }.items():
        with pytest.raises(DataError, match=rf"{name}.zip: .*{words_of}"):
            read_checkpoint(str(tmp_path / f"{name}.zip"))
    assert not (tmp_path / "outside.txt").exists()


# ------------------------------------------------------------------------------------------------------------ shards


@pytest.fixture
def sharded(tmp_path):
    """(folder, name of a tensor that is in both shards, with other values in the second)."""
    written(tmp_path / "whole", "hf")
    tensors = dict(safetensors.Safetensors(tmp_path / "whole" / "model.safetensors"))
    names = sorted(tensors)
    folder = tmp_path / "sharded"
    folder.mkdir()
    shutil.copy(tmp_path / "whole" / "config.json", folder)
    files = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    first = {name: tensors[name] for name in names[:9]}
    second = {name: tensors[name] for name in names[9:]} | {names[0]: tensors[names[0]] + 1}
    safetensors.write(folder / files[0], first, {})
    safetensors.write(folder / files[1], second, {})
    places = {name: files[0] if name in first else files[1] for name in names}
    return folder, names, files, places, tensors


def index(folder, places):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def test_the_weight_map_says_which_shard_a_tensor_is_read_from(sharded):
    folder, names, files, places, tensors = sharded
    for file, more in zip(files, (0, 1), strict=True):
        index(folder, places | {names[0]: file})
        found = read_checkpoint(str(folder)).weights
        assert any(
            array.shape in (tensors[names[0]].shape, tensors[names[0]].shape[::-1])
            and np.array_equal(np.sort(array, axis=None), np.sort(tensors[names[0]] + more, axis=None))
            for array in found.values()
        )


def test_shards_that_contradict_their_index(sharded):
    folder, names, files, places, _ = sharded
    for wrong, message in (
        (places | {names[1]: files[1]}, f"says that {names[1]} is in {files[1]}, which has no such tensor"),
        ({name: file for name, file in places.items() if name != names[3]}, f"does not name {names[3]}, which is in"),
        (
            {name: file for name, file in places.items() if file == files[0]},
            f"does not name {files[1]}, which the folder holds",
        ),
        (places | {names[1]: f"../sharded/{files[0]}"}, "names files that are not next to it"),
        (places | {names[1]: 3}, "weight_map is"),
    ):
        index(folder, wrong)
        with pytest.raises(DataError, match=message.replace(".", r"\.")):
            read_checkpoint(str(folder))


# ----------------------------------------------------------------------------------------- configurations, tokenizers


def test_two_configurations(tmp_path):
    """The format's own file decides what gelu means; different numbers are refused."""
    written(tmp_path / "hf", "hf")
    written(tmp_path / "tf1", "tf1")
    google = json.loads((tmp_path / "tf1" / "bert_config.json").read_text())
    theirs = json.loads((tmp_path / "hf" / "config.json").read_text()) | {"hidden_act": "gelu"}
    for folder in ("hf", "tf1"):
        (tmp_path / folder / "bert_config.json").write_text(json.dumps(google))
        (tmp_path / folder / "config.json").write_text(json.dumps(theirs))
    assert read_checkpoint(str(tmp_path / "hf")).encoder.options.hidden_act == "gelu"
    assert read_checkpoint(str(tmp_path / "tf1")).encoder.options.hidden_act == "gelu_tanh"
    with pytest.raises(UsageError, match=r"bert_config.json says hidden_act 'gelu_tanh', config.json says 'gelu'"):
        read_model_config(str(tmp_path / "hf"))
    for folder, files in (
        ("hf", "config.json says .* bert_config.json says"),
        ("tf1", "bert_config.json says .* config.json says"),
    ):
        (tmp_path / folder / "bert_config.json").write_text(json.dumps(google | {"num_attention_heads": 4}))
        with pytest.raises(UsageError, match=files):
            read_checkpoint(str(tmp_path / folder))


def test_several_tokenizers(tmp_path):
    assert find_tokenizer(tmp_path) is None
    (tmp_path / "assets").mkdir()
    for place in ("vocab.txt", "assets/vocab.txt", "tokenizer.json"):
        (tmp_path / place).write_text("[PAD]\n[UNK]\n")
        assert find_tokenizer(str(tmp_path)) == tmp_path / "vocab.txt"
    for other in ("spiece.model", "assets/other.model"):
        (tmp_path / other).write_bytes(b"another")
        with pytest.raises(UsageError, match=rf"several tokenizers: .*vocab.txt, .*{other}.*--tokenizer"):
            find_tokenizer(tmp_path)
        (tmp_path / other).unlink()
