"""Pointers of Git LFS in place of the files, as a clone without Git LFS has them: every reader says what to do."""

import pytest

from nlpdata import open_records
from nlpdata.errors import DataError
from nlpdata.files.archives import is_tar, read_tar, read_zip
from nlpdata.files.json_files import read_object
from nlpdata.files.pointers import refuse_pointer
from nlpdata.text.encoding import check_is_text
from nlpdata.tokenizers import load_tokenizer

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 440473133\n"

READERS = {
    "a.txt": lambda path: check_is_text(str(path), path.read_bytes()),
    "a.json": read_object,
    "vocab.txt": lambda path: load_tokenizer(str(path)),
    "spiece.model": lambda path: load_tokenizer(str(path)),
    "tokenizer.json": lambda path: load_tokenizer(str(path)),
    "a.tfrecord": lambda path: open_records(str(path)),
    "a.zip": lambda path: read_zip(path, print),
    "a.tar.gz": lambda path: read_tar(path, print),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_says_what_it_is(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(POINTER)
    with pytest.raises(
        DataError, match=rf"{name}: .*pointer of Git LFS, not the file itself: fetch it with `git lfs pull`"
    ):
        READERS[name](path)


def test_what_only_begins_alike(tmp_path):
    for head in (b"", b"version 1\nhttps://git-lfs", b"version htt"):
        refuse_pointer("a", head)
    (tmp_path / "a").write_bytes(POINTER)
    assert not is_tar(tmp_path / "a")
