"""Records on an object store are read in parts, as if they were here."""

import errno
import gzip
import pickle
import tempfile

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.files import ranges
from nlpdata.files.paths import read_file
from nlpdata.files.remote import BLOCK_BYTES
from nlpdata.records import remote as remote_files
from nlpdata.records.contract import Feature
from nlpdata.records.encoding import encode_examples
from nlpdata.records.reader import Records, find_records, open_records
from nlpdata.records.writer import ShardWriter
from tests.messages import messages
from tests.object_store import running_store

COUNTS = (1000, 1, 299)
BLOCK = 512
ONE = BLOCK / (1 << 30)  # gigabytes: one block


@pytest.fixture(scope="module")
def store():
    with running_store() as found:
        yield found


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Three files of records of many lengths, 450 KB in all."""
    folder = tmp_path_factory.mktemp("records")
    for name, rows in zip("abc", COUNTS, strict=True):
        write(folder / f"{name}.tfrecord", rows)
    return folder


@pytest.fixture(scope="module")
def remote(store, local):
    for path in local.iterdir():
        store.put(f"set/{path.name}", path.read_bytes())
    return "s3://bucket/set/*.tfrecord"


def write(path, rows, seed=0):
    ids = np.random.default_rng([seed, rows]).integers(0, 30000, (rows, 128))
    with ShardWriter(path) as writer:
        writer.write(encode_examples([Feature("ids", "int64", 128)], {"ids": ids})[0], rows)
    return path


@pytest.fixture
def traffic(monkeypatch, tmp_path):
    """The numbers of bytes of the requests to the store. Blocks are small, and the folder of indexes a new one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ranges, "BLOCK", BLOCK)
    fetched, read = [], ranges.read_ranges

    def counted(wanted):
        fetched.extend(stop - start for _, start, stop in wanted)
        return read(wanted)

    monkeypatch.setattr(ranges, "read_ranges", counted)
    return fetched


def taken(traffic) -> int:
    total = sum(traffic)
    traffic.clear()
    return total


def test_any_rows_are_those_of_a_copy_and_each_byte_comes_once(local, remote, traffic, monkeypatch):
    monkeypatch.setattr(remote_files, "REPORTED_BYTES", 200_000)
    with messages() as said:
        here, there = open_records(str(local / "*.tfrecord")), open_records(remote)
    assert said == ["s3://bucket/set/a.tfrecord: is read once, to find where its records begin (0 MiB)"]
    size = sum(path.stat().st_size for path in local.iterdir())
    assert size <= taken(traffic) <= size + 3 * BLOCK  # where the records begin is found
    order = np.random.default_rng(1).permutation(sum(COUNTS))
    np.testing.assert_array_equal(there[order]["ids"], here[order]["ids"])
    assert (there.counts, there.features, there.where(1001)) == (
        list(COUNTS), here.features, "s3://bucket/set/c.tfrecord, record 0"
    )  # fmt: skip
    assert taken(traffic) == 0  # all of it was kept
    again = pickle.loads(pickle.dumps(there))
    assert taken(traffic) <= 3 * BLOCK  # where the records begin is known
    np.testing.assert_array_equal(again[order[:9]]["ids"], here[order[:9]]["ids"])
    assert 0 < taken(traffic) <= 27 * BLOCK


def test_few_blocks_stay_where_few_may(local, remote, traffic, monkeypatch):
    made = []

    def temporary():
        made.append(tempfile.NamedTemporaryFile())  # noqa: SIM115 (closed with the records)
        return made[0]

    monkeypatch.setattr(ranges.tempfile, "TemporaryFile", temporary)
    here = open_records(str(local / "*.tfrecord"))
    there = Records(find_records(remote), cache_gigabytes=20 * ONE)
    order = np.random.default_rng(2).permutation(sum(COUNTS))[:100]
    np.testing.assert_array_equal(there[order]["ids"], here[order]["ids"])
    taken(traffic)
    np.testing.assert_array_equal(there[order[:2]]["ids"], here[order[:2]]["ids"])
    assert taken(traffic) > 0
    np.testing.assert_array_equal(there[order[:2]]["ids"], here[order[:2]]["ids"])
    assert taken(traffic) == 0  # those used last
    assert len(made) == 1
    assert made[0].seek(0, 2) <= 20 * BLOCK


def test_an_index_that_does_not_fit_is_made_anew(local, remote, traffic, tmp_path):
    here = open_records(str(local / "*.tfrecord"))[::40]["ids"]
    open_records(remote)
    files = sorted((tmp_path / "cache" / "nlpdata" / "records").iterdir())
    assert len(files) == 3
    for content in (b"damaged", files[0].read_bytes()[:-3], files[0].read_bytes()):
        for path in files:
            path.write_bytes(content)
        np.testing.assert_array_equal(open_records(remote)[::40]["ids"], here)
    assert sorted(path.stat().st_size for path in files)[0] > 8


def test_a_full_disk_is_named(remote, traffic, monkeypatch):
    class Full:
        def close(self):
            pass

        def seek(self, position):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ranges.tempfile, "TemporaryFile", Full)
    with pytest.raises(
        DataError, match=r"s3://bucket/set/a.tfrecord: blocks of it cannot be kept in .*: No space left.* TMPDIR"
    ):
        open_records(remote)


def test_compressed_files_are_copied(local, store, traffic):
    url = store.put("packed.tfrecord", gzip.compress((local / "c.tfrecord").read_bytes()))
    here = open_records(str(local / "c.tfrecord"))
    np.testing.assert_array_equal(open_records(url)[:]["ids"], here[:]["ids"])
    assert taken(traffic) == BLOCK  # the rest is a stream


@pytest.mark.parametrize("change", ["other", "shorter", "removed", "damaged"])
def test_a_file_that_changes_meanwhile_is_named(change, store, traffic, tmp_path, monkeypatch):
    content = write(tmp_path / "x.tfrecord", 300).read_bytes()
    url = store.put("x.tfrecord", content)
    there = Records(find_records(url), cache_gigabytes=ONE)
    if change == "removed":
        store.client.delete_object(Bucket="bucket", Key="x.tfrecord")
        message = "x.tfrecord: was removed while it was read"
    elif change == "shorter":
        store.put("x.tfrecord", content[:2000])
        message = rf"x.tfrecord: has changed since it was opened \({len(content)} bytes before, 2000 now\)"
    elif change == "damaged":  # another one, whose records have other checksums
        store.put("x.tfrecord", content[:-600] + bytes(600))
        message = r"x.tfrecord: has changed since it was opened \(its content is another\)"
    else:  # equal where it is read: found by its mark
        monkeypatch.setattr(ranges, "RECHECK_SECONDS", 0)
        store.put("x.tfrecord", content[:20] + b"?" + content[21:])
        message = r"x.tfrecord: has changed since it was opened \(its content is another\)"
    with pytest.raises(DataError, match=rf"^s3://bucket/{message}"):
        there[[299]]


def test_damaged_files_are_named_as_given(store, local, traffic):
    content = (local / "c.tfrecord").read_bytes()
    for damage, message in (
        (content[:-7], "c.tfrecord: record 298 at byte .* is cut off: 7 of its bytes are missing"),
        (content[:-700] + bytes(700), "c.tfrecord is damaged at record"),
        (b"text", "c.tfrecord is not a TFRecord file: it ends after 4 bytes"),
        (content[:100] + b"?" + content[101:], "c.tfrecord, record 0: the data fails its checksum"),
    ):
        url = store.put("other/c.tfrecord", damage)
        with pytest.raises(DataError, match=f"^s3://bucket/other/{message}"):
            open_records(url)[0]
    assert len(open_records(store.put("empty.tfrecord", b""))) == 0
    with pytest.raises(UsageError) as missing:
        find_records("s3://bucket/none*")
    assert str(missing.value) == "no file matches 's3://bucket/none*'."


def test_a_file_that_is_read_whole_takes_one_request_and_has_a_bound(store, monkeypatch):
    s3fs = pytest.importorskip("s3fs")
    requests, call = [], s3fs.S3FileSystem._call_s3

    def noted(self, method, *arguments, **more):
        requests.append(method)
        return call(self, method, *arguments, **more)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", noted)
    for name, content in {
        "small": b"{}",
        "empty": b"",
        "block": b"a" * BLOCK_BYTES,
        "large": b"b" * (BLOCK_BYTES + 1),
    }.items():
        url = store.put(f"whole/{name}", content)
        requests.clear()
        assert read_file(url) == read_file(url, len(content)) == content
        assert name != "small" or requests == ["get_object"] * 2
        if content:
            with pytest.raises(OSError, match="more than"):
                read_file(url, len(content) - 1)
    with pytest.raises(FileNotFoundError):
        read_file("s3://bucket/whole/none")
