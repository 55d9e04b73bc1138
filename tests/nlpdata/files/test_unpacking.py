"""Archives that stand for a folder: what their members may be called."""

import io
import tarfile
import zipfile

import pytest

from nlpdata.errors import DataError
from nlpdata.files.unpacking import unpacked

NAMES = {  # of a member -> what is said of it
    "m/" + "x" * 300: "has a name that a file cannot have",
    "m/" + "x/" * 3000 + "y": "has a name that a file cannot have",
    "../y": r"\.\./y is outside of the archive",
    "/tmp/y": "/tmp/y is outside of the archive",
}


def tar(path, name):
    with tarfile.open(path, "w:gz") as archive:
        for each in ("m/a.txt", name):
            archive.addfile(tarfile.TarInfo(each), io.BytesIO())


def zipped(path, name):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/a.txt", "")
        archive.writestr(name, "")


@pytest.mark.parametrize(("file", "write"), [("a.tar.gz", tar), ("a.zip", zipped)])
def test_names_of_members(file, write, tmp_path):
    write(tmp_path / file, "m/" + "é" * 127)
    assert sorted(path.name for path in unpacked(tmp_path / file).iterdir()) == ["a.txt", "é" * 127]
    for number, (name, words) in enumerate(NAMES.items()):
        path = tmp_path / f"{number}{file}"
        write(path, name)
        with pytest.raises(DataError, match=rf"{number}{file}: not a whole \S+ archive: .*{words}") as raised:
            unpacked(path)
        assert "nlpdata-archive" not in str(raised.value)
        assert len(str(raised.value)) < 400


def test_an_encrypted_member(tmp_path):
    path = tmp_path / "a.zip"
    zipped(path, "m/b.txt")
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # the flags of each member, twice in the file
        at = content.find(mark)
        while at >= 0:
            content[at + place] |= 1
            at = content.find(mark, at + 4)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.zip: m/a\.txt in it is encrypted: make an archive without a password"):
        unpacked(path)
