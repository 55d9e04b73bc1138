"""Tar archives that are damaged, cut off or followed by something: an error, never a shorter archive."""

import bz2
import gzip
import io
import lzma
import re
import tarfile

import pytest
import zstandard

from nlpdata.errors import DataError
from nlpdata.files.archives import read_tar

MEMBERS = {f"{'d' * 120}/{i}.txt": f"review {i} ".encode() * (1 + 20 * i) for i in range(4)}
PARTS = 2500  # bytes: the compressed formats get two streams, one behind the other

PACKED = {
    "gz": lambda data: gzip.compress(data[:PARTS], mtime=0) + gzip.compress(data[PARTS:], mtime=0),
    "bz2": lambda data: bz2.compress(data[:PARTS]) + bz2.compress(data[PARTS:]),
    "xz": lambda data: lzma.compress(data[:PARTS]) + lzma.compress(data[PARTS:]),
    "zst": lambda data: b"".join(
        zstandard.ZstdCompressor(write_checksum=True).compress(part) for part in (data[:PARTS], data[PARTS:])
    ),
}


def tar(format=tarfile.PAX_FORMAT) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=format) as archive:
        for name, data in MEMBERS.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


@pytest.fixture
def read(tmp_path):
    def of(content: bytes) -> dict[str, bytes] | None:
        """The members; None where the archive is refused with its name and a place in it."""
        (tmp_path / "x.tar").write_bytes(content)
        found = {}
        try:
            read_tar(tmp_path / "x.tar", lambda archive, m: found.__setitem__(m.name, archive.extractfile(m).read()))
        except DataError as error:
            return None if re.match(rf"{tmp_path}/x\.tar: .* byte \d+", str(error)) else {"message": str(error)}
        return found

    return of


@pytest.mark.parametrize("kind", PACKED)
def test_every_flipped_byte_and_every_cut_of_a_compressed_archive(read, kind):
    content = PACKED[kind](tar())
    assert read(content) == MEMBERS
    assert read(content + bytes(512)) == MEMBERS  # padding
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 0x21
        assert read(bytes(flipped)) in (None, MEMBERS), at
    assert [at for at in range(0, len(content), 7) if read(content[:at]) is not None] == []
    assert read(content + b"more") is None


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_headers_and_end_of_a_plain_archive(read, tmp_path, format):
    content = tar(format)
    assert read(content) == MEMBERS
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        headers = [member.offset_data - 512 for member in archive]
        end = archive.offset
    for header in headers:
        for at in range(header, header + 345, 5):  # up to the prefix, which may be unused
            flipped = bytearray(content)
            flipped[at] ^= 0x01
            assert read(bytes(flipped)) in (None, MEMBERS), at
        assert read(content[:header]) is None, "it ends between two members"
    assert read(content[: end + 512]) is None
    assert read(content[: end + 1024]) == MEMBERS
    assert read(content + b"x") is None
    assert read(content + content) is None, "a second archive behind the first would be left out"
