"""Local and remote paths: what is reported of those that cannot be used. tests/pipelines/test_remote.py has a real store."""

import importlib.util
import pickle
import tracemalloc
from pathlib import Path

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.files import remote
from nlpdata.files.json_files import read_object
from nlpdata.files.paths import is_remote, path_of, read_file
from nlpdata.files.patterns import find_paths
from nlpdata.files.remote import RemotePath
from nlpdata.files.writing import move, write_whole
from nlpdata.records.contract import read_meta
from nlpdata.records.verification import verify
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.commands import create_arguments, run_command


def test_a_remote_path_has_the_parts_of_a_path():
    path = path_of("s3://bucket/a/b.tfrecord")
    assert (path.name, path.stem, str(path.parent)) == ("b.tfrecord", "b", "s3://bucket/a")
    assert str(path.parent.parent) == str(path.parent.parent.parent) == "s3://bucket"
    assert path.with_name("c") == path.parent / "c" == RemotePath("s3://bucket/a/c/")
    assert sorted([path, path.parent]) == [path.parent, path]
    assert pickle.loads(pickle.dumps(path)) == path
    assert is_remote(path)
    assert not is_remote("a/b.txt")
    assert path_of("a/b.txt") == Path("a/b.txt")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s4://bucket/a", "Did you mean s3://?"),
        ("http://host/a", "expected a path of this machine, or one of gs://, s3://, hdfs://"),
        ("s3://", "expected s3://NAME/PATH"),
    ],
)
def test_urls_that_are_none(url, message):
    with pytest.raises(UsageError, match="expected") as error:
        path_of(url)
    assert message in str(error.value)


@pytest.mark.parametrize(("scheme", "package", "extra"), [(s, *names) for s, names in remote.BACKENDS.items()])
def test_missing_package_names_the_command(scheme, package, extra, tmp_path, tiny_model, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(remote, "find_spec", lambda name: None if name == package else find(name))
    for inputs, output in ((f"{scheme}://name/a.txt", tmp_path / "t"), (tiny_model, f"{scheme}://name/t")):
        outcome = run_command(capsys, *create_arguments(inputs, output, tiny_model))
        assert outcome.code == 2
        assert f"a {scheme}:// path needs {package}, which is not installed" in outcome.err
        assert f"pip install '.[{extra}]'" in outcome.err


def test_hdfs_without_java_says_what_it_needs(monkeypatch):
    if importlib.util.find_spec("pyarrow") is None:
        pytest.skip("needs pyarrow (pip install '.[hdfs]')")
    for name in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="CLASSPATH") as error:
        path_of("hdfs://user@127.0.0.1:9/a").exists()
    assert len(str(error.value).splitlines()) == 1


def test_local_files(tmp_path):
    write_whole(tmp_path / "a[1].txt", b"one")
    write_whole(tmp_path / "b.txt", b"two")
    assert find_paths(f"{tmp_path}/a[1].txt") == [f"{tmp_path}/a[1].txt"]  # the very name goes before the pattern
    assert find_paths(f"{tmp_path}/*.txt") == [f"{tmp_path}/a[1].txt", f"{tmp_path}/b.txt"]
    move(tmp_path / "a[1].txt", tmp_path / "b.txt")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"one"]
    with pytest.raises(FileNotFoundError):
        move(tmp_path / "a[1].txt", tmp_path / "b.txt")


def test_what_is_read_whole_has_a_bound(tmp_path):
    for name in ("a.meta.json", "vocab.txt", "a.model", "tokenizer.json"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(1 << 40)  # a hole: it takes no disk, and would take the memory
        for read in (read_meta, read_object, load_tokenizer):
            with pytest.raises(
                DataError, match=rf"{name}: cannot be read: it has more than 256 MiB, .* Is it another file\?$"
            ):
                read(tmp_path / name)
    (tmp_path / "a.tfrecord").touch()
    assert "more than 256 MiB" in verify([tmp_path / "a.tfrecord"]).faults[0]
    (tmp_path / "few").write_bytes(b"1234")
    assert read_file(tmp_path / "few", 4) == b"1234"
    with pytest.raises(OSError, match="more than 3 bytes"):
        read_file(tmp_path / "few", 3)
    tracemalloc.start()  # the bound takes no memory
    assert len(read_file(tmp_path / "few", 1 << 40)) == 4
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
