"""IMDB from its folder and from its tar file."""

import re
import tarfile

import pytest

import nlpdata
from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import read_meta
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.finetuning.texts import segments
from tests.shared import shared

REVIEWS = {
    "train/neg/10_2.txt": "bad movie<br /><br />not good",
    "train/neg/9_1.txt": "a bad dog",
    "train/pos/0_9.txt": "good movie",
    "train/unsup/5_0.txt": "of no label",
    "test/neg/1_3.txt": "not good",
    "test/pos/2_8.txt": "a fox jumped",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in REVIEWS.items():
        path = tmp_path / "aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "aclImdb"


def test_folder_and_tar_give_the_same_records(tmp_path, folder, make, records, vocab):
    with tarfile.open(tmp_path / "aclImdb_v1.tar.gz", "w:gz") as archive:
        for name in reversed(REVIEWS):
            archive.add(folder / name, f"aclImdb/{name}")
    for output, source in (("folder", folder), ("above", tmp_path), ("tar", tmp_path / "aclImdb_v1.tar.gz")):
        make(source, output=output, task="imdb", max_seq_length=32)
    for split in ("train", "dev"):
        files = [(tmp_path / output / f"{split}.tfrecord").read_bytes() for output in ("folder", "above", "tar")]
        assert files[0] == files[1] == files[2]
    tokenizer = load_tokenizer(vocab, do_lower_case=True)
    texts = [segments(records(output="tar")[i], tokenizer)[0] for i in range(3)]
    expected = ["a bad dog", "bad movie  not good", "good movie"]  # by number, and the line breaks are spaces
    assert texts == [tokenizer.encode([text])[0].tolist() for text in expected]
    assert records(output="tar")[:]["label_ids"][:, 0].tolist() == [0, 0, 1]
    assert read_meta(tmp_path / "tar" / "meta.json")["label_names"] == ["neg", "pos"]


@pytest.mark.heavy
@pytest.mark.slow
def test_the_real_reviews(tmp_path):
    path = shared("data", "imdb", "aclImdb_v1.mini.tar.gz")
    vocab = shared("data", "models", "vocab", "bert_base_uncased_vocab.txt")
    tokenizer = load_tokenizer(vocab, do_lower_case=True)
    result = nlpdata.create_finetuning(
        path, str(tmp_path / "out"), vocab, task="imdb", do_lower_case=True, max_seq_length=128, workers=1
    )
    with tarfile.open(path) as archive:
        members = {m.name: archive.extractfile(m).read().decode() for m in archive if m.name.endswith(".txt")}
    for split, folder in (("train", "train"), ("dev", "test")):
        batch = nlpdata.open_records(result.files[split])[:]
        assert batch["label_ids"][:, 0].tolist() == [0] * 1500 + [1] * 1500
        names = [name for label in ("neg", "pos") for name in _sorted(members, f"/{folder}/{label}/")]
        for i in range(0, 3000, 37):
            ids = tokenizer.encode([members[names[i]].replace("<br />", " ")])[0].tolist()
            assert segments({name: values[i] for name, values in batch.items()}, tokenizer)[0] == ids[:126]


def _sorted(members, part):
    return sorted(
        (name for name in members if part in name), key=lambda name: int(re.search(r"(\d+)_\d+\.txt", name)[1])
    )


def test_what_is_not_imdb(tmp_path, make):
    (tmp_path / "x.tar.gz").write_bytes(b"not a tar file")
    with pytest.raises(DataError, match=r"x\.tar\.gz: not a whole tar archive.*download it again"):
        make(tmp_path / "x.tar.gz", task="imdb")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no reviews"):
        make(tmp_path / "empty", task="imdb")
    with pytest.raises(UsageError, match=r"Did you mean .*/x\.tar\.gz\?"):
        make(tmp_path, task="imdb")


def test_a_review_that_is_not_utf8(folder, make):
    (folder / "train" / "neg" / "9_1.txt").write_bytes(b"b\xe4d")
    with pytest.raises(DataError, match=r"9_1\.txt: byte 1 is not UTF-8"):
        make(folder, task="imdb")
    result = make(folder, task="imdb", max_seq_length=32, on_bad_row="skip")
    assert result.counters["train"]["counters"]["dropped"] == {"invalid_utf8": 1}


def test_a_damaged_header_is_not_a_shorter_archive(tmp_path, folder, make):
    path = tmp_path / "aclImdb_v1.tar"
    with tarfile.open(path, "w") as archive:
        for name in REVIEWS:
            archive.add(folder / name, f"aclImdb/{name}")
    with tarfile.open(path) as archive:
        offset = archive.getmembers()[-2].offset
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"aclImdb_v1\.tar: .*the header at byte {offset} is damaged"):
        make(path, task="imdb")
    assert not (tmp_path / "out").exists()
