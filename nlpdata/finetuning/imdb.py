"""IMDB reviews (Maas et al. 2011): the aclImdb folder, or its tar file as it is downloaded.

The 25,000 labelled reviews of the folder `test` become the dev split, as in the TensorFlow Model Garden. Order: neg
before pos, reviews by number. `<br />` becomes a space.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tarfile import TarFile, TarInfo

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.archives import read_tar
from nlpdata.files.disk import reading
from nlpdata.files.paths import read_file
from nlpdata.files.unpacking import unpacked
from nlpdata.finetuning.datasets import BadRow, Dataset, Row, Split, one_input, refuse_pipe
from nlpdata.finetuning.options import FinetuningOptions

LABELS = ("neg", "pos")
SPLITS = {"train": "train", "dev": "test"}
_REVIEW = re.compile(r"(?:^|.*/)(?P<folder>train|test)/(?P<label>neg|pos)/(?P<number>\d+)_\d+\.txt$")


def open_imdb(name: str, inputs: Sequence[str], options: FinetuningOptions) -> Dataset:
    """The aclImdb folder, a folder that holds it, or aclImdb_v1.tar.gz."""
    path = one_input(inputs, "the aclImdb folder or its tar file")
    path = unpacked(path) if path.suffix == ".zip" else path  # a tar file is read as it is
    refuse_pipe(path)
    names: Iterable[str]
    read: Callable[[str], bytes]
    if path.is_dir():
        folder = path / "aclImdb" if (path / "aclImdb").is_dir() else path
        names, read = map(str, sorted(folder.glob("*/*/*.txt"))), _read_review
    else:
        members = _read_archive(path)
        names, read = members, members.__getitem__
    found = [(match, name) for name in names if (match := _REVIEW.match(Path(name).as_posix()))]
    if not found:
        archives = sorted(map(str, path.glob("*.tar*"))) if path.is_dir() else []
        hint = f" Did you mean {archives[0]}?" if archives else ""
        raise UsageError(
            f"{opt('input')}: {path} holds no reviews; expected train/neg/0_3.txt and so on, as in aclImdb.{hint}"
        )
    reviews = sorted(found, key=lambda item: (item[0]["label"], int(item[0]["number"]), item[0]["folder"]))
    splits = []
    for split, theirs in SPLITS.items():
        own = [(name, match["label"]) for match, name in reviews if match["folder"] == theirs]
        if own:
            files = (path,) if path.is_file() else tuple(Path(name) for name, _ in own)
            splits.append(Split(split, files, partial(_rows, path, own, read)))
    return Dataset("IMDB", "classification", tuple(splits), LABELS)


def _read_archive(path: Path) -> dict[str, bytes]:
    """The reviews of the tar file by name. DataError where it is not whole."""
    members: dict[str, bytes] = {}

    def take(archive: TarFile, member: TarInfo) -> None:
        if member.isreg() and _REVIEW.match(member.name):
            members[member.name] = archive.extractfile(member).read()  # type: ignore[union-attr]

    try:
        read_tar(path, take)
    except DataError as error:
        raise DataError(f"{error}. Expected aclImdb_v1.tar.gz; download it again") from None
    return members


def _read_review(path: str) -> bytes:
    with reading(path):
        return read_file(path)


def _rows(source: Path, reviews: Sequence[tuple[str, str]], read: Callable[[str], bytes]) -> Iterator[Row | BadRow]:
    for name, label in reviews:
        where = name if source.is_dir() else f"{source}:{name}"
        try:
            text = read(name).decode("utf-8")
        except UnicodeDecodeError as error:
            yield BadRow(
                "invalid_utf8",
                f"{where}: byte {error.start} is not UTF-8. Convert the file",
            )
            continue
        yield Row(text.replace("<br />", " "), None, label, where)
