"""Paths on remote file systems: read and written where they can be, shown as they were given, never a folder `gs:` here."""

import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest

import nlpdata
import pretrain
from nlpdata.errors import UsageError
from nlpdata.files import remote
from pretrain.convert import main as convert
from pretrain.converters import read_checkpoint, read_encoder
from pretrain.converters.write import write_checkpoint
from pretrain.data.tokenizers import tokenizer_of
from pretrain.encoders.model_config import read_model_config
from pretrain.export import main as export
from pretrain.glue import main as glue
from pretrain.predict import main as predict
from pretrain.run import find_model_dir
from pretrain.run import main as run
from pretrain.settings.data_section import DataConfig
from pretrain.settings.schema import registered
from pretrain.settings.yaml_files import read_yaml
from pretrain.training import run_experiment
from tests.messages import messages
from tests.object_store import running_store
from tests.pretrain.converters.test_round_trips import make

pytestmark = pytest.mark.heavy

URL = "gs://bucket/dir//x"
NEEDS = r"a gs:// path needs gcsfs, which is not installed\. In the folder of nlpdata: pip install '\.\[gcp\]'"
HUB = "https://tfhub.dev/x/y/1"
RUN = "--experiment=bert/local --model_dir=run"


@pytest.fixture
def no_gcsfs(monkeypatch, tmp_path):
    """A current folder that is empty, and no package for gs://."""
    find = remote.find_spec
    monkeypatch.setattr(remote, "find_spec", lambda name: None if name == "gcsfs" else find(name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFHUB_CACHE_DIR", raising=False)
    write_checkpoint(tmp_path / "own", make("bert", "classifier"), "hf")
    (tmp_path / "texts.tsv").write_text("text\na fox\n")


@pytest.mark.parametrize(
    ("main", "line"),
    [
        (run, f"{RUN} --init_checkpoint={URL}"),
        (run, f"{RUN} --params_override=task.hub_module_url={URL}"),
        (run, f"{RUN} --init_checkpoint={HUB} --tfhub_cache_dir={URL}"),
        (run, f"{RUN} --config_file={URL}/a.yaml"),
        (run, f"{RUN} --params={URL}/params.yaml"),
        (run, f"{RUN} --model_config={URL}/bert_config.json"),
        (run, f"--experiment=bert/pretraining --model_dir=run --input_files={URL}/a.tfrecord"),
        (
            run,
            f"--experiment=bert/squad --model_dir=run --input_files={URL}/a.json "
            "--params_override=task.train_data.vocab_file=v.txt",
        ),
        (convert, f"{URL} out --format hf"),
        (convert, f"own {URL} --format hf"),
        (convert, f"own out --format hf --tokenizer {URL}/vocab.txt"),
        (convert, f"own out --format hf --model_config {URL}/c.json"),
        (export, f"{URL} out"),
        (predict, f"--model_dir {URL} --input texts.tsv --output out.tsv"),
        (predict, f"--model_dir own --input {URL}/a.tsv --output out.tsv"),
        (predict, f"--model_dir own --input {URL}/a.tfrecord --output out.tsv"),
        (predict, f"--model_dir own --input texts.tsv --output out.tsv --tokenizer {URL}/vocab.txt"),
        (glue, f"--init_checkpoint {URL} --input in --output out"),
        (glue, f"--init_checkpoint own --input in --output out --max_seq_length 16 --tokenizer {URL}/vocab.txt"),
    ],
    ids=lambda value: getattr(value, "__module__", value),
)
def test_a_missing_package_is_named_with_the_path_as_given(main, line, no_gcsfs, capsys):
    assert main(line.split()) == 2
    error = capsys.readouterr().err
    assert re.search(NEEDS, error), error
    assert URL in error
    assert "gs:/b" not in error.replace("gs://b", "")
    assert not Path("gs:").exists()


@pytest.mark.parametrize("scheme", ["s3", "hdfs", "s3n", "ftp"])
def test_a_run_writes_to_this_machine(scheme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = f"{scheme}://bucket/run"
    with pytest.raises(
        UsageError, match=rf"--model_dir {place}: expected a path of this machine\. Train into a local folder"
    ):
        find_model_dir(place, {})
    with pytest.raises(UsageError, match=rf"model_dir {place}: expected a path of this machine"):
        run_experiment(registered("bert/local"), place)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("main", "line"), [(glue, "--init_checkpoint own --input in"), (predict, "--model_dir own --input texts.tsv")]
)
def test_results_are_written_to_this_machine(main, line, no_gcsfs, capsys):
    assert main([*line.split(), "--output", URL]) == 2
    assert f"--output {URL}: expected a path of this machine" in capsys.readouterr().err
    assert not Path("gs:").exists()


def test_a_prepared_set_is_read_from_this_machine():
    with pytest.raises(
        UsageError, match=rf"tfds_data_dir {URL}: expected a path of this machine\. Copy the prepared set"
    ):
        nlpdata.create_finetuning(output="out", tokenizer="vocab.txt", tfds="glue/sst2", tfds_data_dir=URL)


def test_an_unknown_scheme_names_the_known_ones():
    with pytest.raises(
        UsageError, match=r"s3n://b/x: expected a path of this machine, or one of gs://, s3://, hdfs://\."
    ):
        read_checkpoint("s3n://b/x")


@pytest.fixture(scope="module")
def store():
    with running_store() as store:
        yield store


def put_folder(store, folder: Path, key: str) -> str:
    for path in folder.rglob("*"):
        if path.is_file():
            store.put(f"{key}/{path.relative_to(folder)}", path.read_bytes())
    return f"s3://bucket/{key}"


@pytest.mark.parametrize("format", ["hf", "native", "tf1"])
def test_checkpoints_are_read_and_written(format, store, tmp_path):
    checkpoint = make("bert", "encoder")
    write_checkpoint(tmp_path / "own", checkpoint, format)
    place = put_folder(store, tmp_path / "own", f"{format}/own")
    found = read_checkpoint(place)
    assert (found.source.removesuffix("/"), found.encoder) == (place, read_checkpoint(str(tmp_path / "own")).encoder)
    assert read_encoder(place) == found.encoder
    for name, weight in checkpoint.weights.items():
        np.testing.assert_array_equal(found.weights[name], weight)
    write_checkpoint(f"s3://bucket/{format}/again", checkpoint, format)
    assert store.contents(f"{format}/again/").keys() == store.contents(f"{format}/own/").keys()
    with pytest.raises(UsageError, match=rf"^s3://bucket/{format}/again already exists"):
        write_checkpoint(f"s3://bucket/{format}/again", checkpoint, format)


def test_a_prefix_comes_with_its_configuration(store, tmp_path):
    write_checkpoint(tmp_path, make("bert", "encoder"), "tf1")
    put_folder(store, tmp_path, "prefix")
    assert pretrain.load("s3://bucket/prefix/bert_model.ckpt").encoder.hidden_size
    store.put("prefix/bert_config.json", b"{")
    store.put("other/bert_model.ckpt.index", b"damaged")
    with pytest.raises(Exception, match=r"^s3://bucket/other/bert_model\.ckpt: cannot be read"):
        read_checkpoint("s3://bucket/other/bert_model.ckpt")
    with pytest.raises(UsageError, match=r"^s3://bucket/none: no such file, folder or checkpoint prefix"):
        read_checkpoint("s3://bucket/none")


def test_configurations_and_cached_modules(store, tmp_path, monkeypatch):
    write_checkpoint(tmp_path / "own", make("bert", "encoder"), "tf1")
    digest = hashlib.sha1(HUB.encode()).hexdigest()
    put_folder(store, tmp_path / "own", f"hub/{digest}")
    monkeypatch.setenv("TFHUB_CACHE_DIR", "s3://bucket/hub")
    assert read_checkpoint(HUB).encoder == read_checkpoint(str(tmp_path / "own")).encoder
    with pytest.raises(UsageError, match=r"this module is not in s3://bucket/hub, .* unpack it into s3://bucket/hub/"):
        read_checkpoint(HUB.replace("y/1", "y/2"))
    assert read_model_config(f"s3://bucket/hub/{digest}/bert_config.json") == read_checkpoint(HUB).encoder
    store.put("a.yaml", b"trainer: {train_steps: 7}")
    assert read_yaml("s3://bucket/a.yaml") == {"trainer": {"train_steps": "7"}}
    store.put("bad.json", b"{")
    with pytest.raises(Exception, match=r"^s3://bucket/bad\.json"):
        read_model_config("s3://bucket/bad.json")


def test_the_tokenizer_of_remote_records(store, tmp_path):
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"the fox sat".split()])
    )
    text = store.put("text.txt", b"the fox sat\nthe fox sat\n\nfox the sat\nsat the fox\n" * 5)
    nlpdata.create_pretraining(
        text, "s3://bucket/records/train.tfrecord", str(tmp_path / "vocab.txt"), max_seq_length=16, workers=1
    )
    path, use = tokenizer_of(DataConfig(input_path="s3://bucket/records/train.tfrecord"), "task.train_data")
    assert path.read_bytes() == (tmp_path / "vocab.txt").read_bytes()
    assert use["vocab_size"] == 8


def test_nothing_of_a_copy_is_left_in_messages(store, tmp_path):
    write_checkpoint(tmp_path, make("bert", "encoder"), "hf")
    place = put_folder(store, tmp_path, "messages")
    with messages() as said:
        pretrain.load(place)
        convert([place, str(tmp_path / "out"), "--format", "tf1"])
    assert not [line for line in said if os.fspath(tmp_path.parent.parent) in line and "nlpdata-remote" in line]
    assert any(line.startswith(place) for line in said)
