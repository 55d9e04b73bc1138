"""Checkpoints named by a URL of TF-Hub or an id of Hugging Face, as their caches hold them."""

import hashlib
import shutil

import pytest

from nlpdata.errors import UsageError
from pretrain.converters import places, read_checkpoint
from pretrain.converters.write import write_checkpoint
from tests.pretrain.converters.test_round_trips import make

URL = "https://tfhub.dev/google/albert_base/3"


@pytest.fixture
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf"))
    return tmp_path


@pytest.mark.parametrize("form", [URL, f"{URL}/", f"{URL}?tf-hub-format=compressed"])
def test_a_cached_module(form, caches):
    place = caches / "hub" / hashlib.sha1(URL.encode()).hexdigest()
    place.mkdir(parents=True)
    assert places.find(form) == place


def test_a_module_that_is_not_there(caches):
    with pytest.raises(UsageError) as error:
        read_checkpoint(URL)
    digest = hashlib.sha1(URL.encode()).hexdigest()
    for word in (f"{URL}?tf-hub-format=compressed", str(caches / "hub" / digest), "TFHUB_CACHE_DIR"):
        assert word in str(error.value)


def snapshot(caches, name, revision):
    place = caches / "hf" / name / "snapshots" / revision
    place.parent.mkdir(parents=True, exist_ok=True)
    write_checkpoint(place, make("bert", "encoder"), "hf")
    return place


def test_a_cached_hugging_face_model(caches):
    """refs/main decides; without it the only snapshot with weights; nothing is guessed."""
    model = caches / "hf" / "models--google--tiny"
    old = snapshot(caches, model.name, "a" * 40)
    empty = model / "snapshots" / ("f" * 40)  # only its configuration was ever asked for
    empty.mkdir()
    shutil.copy(old / "config.json", empty)
    assert places.find("google/tiny") == old
    assert places.find(str(model)) == old
    new = snapshot(caches, model.name, "b" * 40)
    with pytest.raises(UsageError, match=f"several snapshots and no refs/main .*: {'a' * 40}, {'b' * 40}"):
        places.find("google/tiny")
    (model / "refs").mkdir()
    main = model / "refs" / "main"
    for revision, place in (("a" * 40, old), ("b" * 40, new)):
        main.write_text(f"{revision}\n")
        assert places.find("google/tiny") == place
        assert read_checkpoint("google/tiny").source == str(place)
    main.write_text("a" * 40)
    shutil.rmtree(old)
    for gone in ("a" * 40, "f" * 40, "../../.."):
        main.write_text(gone)
        with pytest.raises(UsageError, match=rf"refs/main .* is {gone}, of which no weights are there.*: {'b' * 40}"):
            places.find("google/tiny")
    shutil.rmtree(new)
    main.unlink()
    with pytest.raises(UsageError, match=r"no snapshot in .* has weights"):
        places.find(str(model))


def test_an_id_that_is_not_cached(caches):
    with pytest.raises(UsageError, match=r"bert-base-uncased: no such file.*library's cache only: download the model"):
        read_checkpoint("bert-base-uncased")


def test_paths_stay_paths(caches):
    (caches / "google").mkdir()
    assert places.find(str(caches / "google")) == caches / "google"
    assert str(places.find("no/such/place")) == "no/such/place"
