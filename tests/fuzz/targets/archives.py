"""Tar archives, plain and compressed, with PAX headers and odd members."""

import io
import tarfile

from nlpdata.files.archives import read_tar
from tests.fuzz import mutations
from tests.fuzz.cases import Case, target


def archive(case: Case, members: dict[str, bytes]) -> bytes:
    """An archive of these members and some odd ones."""
    packed = io.BytesIO()
    form = case.draw.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    with tarfile.open(fileobj=packed, mode=case.draw.choice(("w", "w:gz", "w:bz2", "w:xz")), format=form) as writer:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            if case.draw.random() < 0.2:
                info.pax_headers = {
                    case.draw.choice(("path", "size", "mtime", "linkpath", "x")): mutations.number(case.draw)[:60]
                }
            writer.addfile(info, io.BytesIO(content))
            if case.draw.random() < 0.2:
                odd = tarfile.TarInfo(case.draw.choice((name, "x" * 300, "../x", "/x", "a/b/c", "é" * 120)))
                odd.type = case.draw.choice(
                    (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE)
                )
                odd.linkname = case.draw.choice((name, "../x", "/etc/passwd", "x" * 200))
                writer.addfile(odd)
    return packed.getvalue()


@target("archives/tar")
def _tar(case: Case) -> None:
    data = archive(case, {f"folder/{i}.txt": b"A text.\n" * 50 for i in range(6)})
    path = case.write("a.tar.gz", case.damaged(data) if case.draw.random() < 0.8 else data)
    read_tar(path, lambda archive, member: member.isreg() and archive.extractfile(member).read())
