"""The shard writer: what it stores, what it reports, what it leaves behind on errors."""

import gzip
from dataclasses import asdict

import google_crc32c
import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.records.writer import ShardInfo, ShardWriter


def test_plain(tmp_path):
    with ShardWriter(tmp_path / "x.tfrecord") as writer:
        writer.write(b"abc", 1)
        writer.write(memoryview(b"defg"), 2)
    assert (tmp_path / "x.tfrecord").read_bytes() == b"abcdefg"
    assert writer.info == ShardInfo("x.tfrecord", 3, 7, f"{google_crc32c.value(b'abcdefg'):08x}")
    assert writer.close() == writer.info
    assert list(asdict(writer.info)) == ["file", "records", "bytes", "crc32c"]
    with pytest.raises(ValueError, match="after close"):
        writer.write(b"", 0)


def test_gzip_is_reproducible(tmp_path):
    for name in ("a", "b"):
        writer = ShardWriter(tmp_path / name, "gzip")
        writer.write(b"abc" * 1000, 3)
        info = writer.close()
    data = (tmp_path / "a").read_bytes()
    assert data == (tmp_path / "b").read_bytes()
    assert data[3:8] == bytes(5)  # no flags (so no name), time 0
    assert gzip.decompress(data) == b"abc" * 1000
    assert (info.bytes, info.crc32c) == (len(data), f"{google_crc32c.value(data):08x}")


def test_file_is_removed_on_error(tmp_path):
    with pytest.raises(RuntimeError), ShardWriter(tmp_path / "x") as writer:  # noqa: PT012
        writer.write(b"abc", 1)
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="after abort"):
        writer.close()


def test_errors(tmp_path):
    with pytest.raises(UsageError, match="'zip', expected one of none, gzip"):
        ShardWriter(tmp_path / "x", "zip")
    with pytest.raises(DataError, match="cannot create the file"):
        ShardWriter(tmp_path / "nowhere" / "x")


def test_full_disk_is_a_data_error():
    try:
        writer = ShardWriter("/dev/full")
    except DataError:
        pytest.skip("no /dev/full")
    with pytest.raises(DataError, match="cannot write"):
        writer.write(bytes(1 << 22), 1)
    writer._file.raw.close()  # abort would remove the device
