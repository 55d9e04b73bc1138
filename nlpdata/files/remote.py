"""Paths on remote file systems (gs://, s3://, hdfs://), through fsspec.

fsspec is the library through which pandas and Dask reach remote files, with one backend for each store; settings such as
credentials and endpoints are those of the store's own tools. It is loaded when a remote path is first used.

On object stores (gs, s3) an object appears in one step, when all of it is there, and nothing can be renamed: `rename`
copies within the store, then removes. Every error other than "there is no such file" is a DataError with the path.
"""

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

from nlpdata.errors import DataError, NlpdataError, UsageError, closest, missing_package

BACKENDS = {"gs": ("gcsfs", "gcp"), "s3": ("s3fs", "s3"), "hdfs": ("pyarrow", "hdfs")}  # scheme -> package, extra
_MARKS = ("generation", "ETag", "etag", "mtime")  # of a file's content: the names that the backends have for it
BLOCK_BYTES = 1 << 20  # read at a time: more would be read in vain where only the start of a file is needed


@functools.total_ordering
class RemotePath:
    """A path on a remote file system; picklable."""

    def __init__(self, url: object) -> None:
        scheme, _, rest = str(url).partition("://")
        if scheme not in BACKENDS:
            known = [f"{name}://" for name in BACKENDS]
            hint = closest(f"{scheme}://", known)
            raise UsageError(f"{url}: expected a path of this machine, or one of {', '.join(known)}.{hint}")
        if not rest.strip("/"):
            raise UsageError(f"{url}: expected {scheme}://NAME/PATH")
        self._scheme, self._url = scheme, str(url).rstrip("/")

    def __str__(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"RemotePath({self._url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self._url == other._url

    def __lt__(self, other: "RemotePath") -> bool:
        return self._url < other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __truediv__(self, name: str) -> "RemotePath":
        return RemotePath(f"{self._url}/{name}")

    @property
    def name(self) -> str:
        return self._url.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0] or self.name

    @property
    def suffix(self) -> str:
        return self.name[len(self.stem) :]

    @property
    def parent(self) -> "RemotePath":
        above = self._url.rpartition("/")[0]
        return self if above.endswith("/") else RemotePath(above)

    def with_name(self, name: str) -> "RemotePath":
        return self.parent / name

    def exists(self) -> bool:
        return self._info() is not None

    def is_dir(self) -> bool:
        return (self._info() or {}).get("type") == "directory"

    def size(self) -> int | None:
        """Bytes of the file; None where there is none."""
        info = self._info()
        return None if info is None else info["size"]

    def state(self) -> tuple[int, str]:
        """(bytes, the store's mark of the content) of the file: what differs once it is written again.

        FileNotFoundError where there is none.
        """
        info = self._info()
        if info is None or info.get("type") == "directory":
            raise FileNotFoundError(f"{self}: no such file")
        marks = (str(info[name]) for name in _MARKS if info.get(name))
        return info["size"], next(marks, "")

    def _info(self) -> dict | None:
        with self._system() as (system, path):
            try:
                return system.info(path)
            except FileNotFoundError:
                return None

    def iterdir(self) -> Iterator["RemotePath"]:
        with self._system() as (system, path):
            names = system.ls(path, detail=False)
        return (self / name.rstrip("/").rpartition("/")[2] for name in names)

    def glob_files(self) -> list[str]:
        """The URLs of the files that match, this path being a pattern; sorted."""
        with self._system() as (system, path):
            found = system.glob(path, detail=True)
            start = self._url.removesuffix(path)  # the scheme, and of HDFS the server
            return sorted(f"{start}{name}" for name, info in found.items() if info["type"] == "file")

    def open(self, mode: str = "rb") -> "RemoteFile":
        """Opens the file for reading; read, seek and tell are there."""
        with self._system() as (system, path):
            return RemoteFile(self, system.open(path, mode, block_size=BLOCK_BYTES))

    def read_bytes(self) -> bytes:
        with self._system() as (system, path):
            return system.cat_file(path)

    def read_start(self, most: int) -> bytes:
        """The first `most` bytes, fewer only where the file ends: one request, where read_bytes asks for the size first."""
        with self._system() as (system, path):
            try:
                return system.cat_file(path, start=0, end=most)
            except FileNotFoundError:
                raise
            except Exception:  # stores refuse a range of an empty file, each in a way of its own
                if system.info(path)["size"]:
                    raise
                return b""

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def copy_to(self, target: Path) -> None:
        """Downloads the file to a path of this machine."""
        with self._system() as (system, path):
            system.get_file(path, str(target))

    def write_bytes(self, data: bytes) -> None:
        with self._system() as (system, path):
            system.pipe_file(path, data)

    def touch(self) -> None:
        self.write_bytes(b"")

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Does nothing: folders come with their files."""

    def unlink(self, missing_ok: bool = False) -> None:
        with self._system() as (system, path):
            try:
                system.rm_file(path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def remove_tree(self) -> None:
        with self._system() as (system, path), suppress(FileNotFoundError):
            system.rm(path, recursive=True)

    def receive(self, source: Path) -> None:
        """Uploads a local file to this path, in one step for those who look."""
        with self._system() as (system, path):
            if self._scheme == "hdfs":  # where a file is seen while it grows
                folder, _, name = path.rpartition("/")
                growing = f"{folder}/.{name}.{uuid4().hex}.tmp"  # which no pattern of record files matches
                system.put_file(str(source), growing)
                system.mv(growing, path)
            else:
                system.put_file(str(source), path)

    def rename(self, target: "RemotePath") -> None:
        """Moves the file to another path of the same file system. FileNotFoundError where it is not there."""
        with self._system() as (system, path), target._system() as (_, place):
            if self._scheme == "hdfs":
                system.mv(path, place)
            else:
                system.cp_file(path, place)
                system.rm_file(path)

    @contextmanager
    def _system(self) -> Iterator[tuple[Any, str]]:
        """The file system and the path on it, for a block whose errors become DataErrors with the path."""
        with _faults_of(self):
            yield _file_system(self._scheme, self._url)


def read_ranges(ranges: Sequence[tuple[RemotePath, int, int]]) -> list[bytes]:
    """The bytes [start, stop) of files, (path, start, stop) each, fetched side by side.

    DataError, with the path, where one cannot be read, or has fewer bytes.
    """
    found = [b""] * len(ranges)
    by_system: dict[int, tuple[Any, list[tuple[int, str]]]] = {}
    for number, (path, _, _) in enumerate(ranges):
        with path._system() as (system, place):
            by_system.setdefault(id(system), (system, []))[1].append((number, place))
    for system, places in by_system.values():
        numbers = [number for number, _ in places]
        starts, stops = ([ranges[number][i] for number in numbers] for i in (1, 2))
        with _faults_of(ranges[numbers[0]][0]):
            parts = system.cat_ranges([place for _, place in places], starts, stops, on_error="return")
        for number, part in zip(numbers, parts, strict=True):
            found[number] = _whole(part, *ranges[number])
    return found


def _whole(part: bytes | Exception, path: RemotePath, start: int, stop: int) -> bytes:
    """What was fetched of a file. DataError for an error, or fewer bytes than asked for."""
    if isinstance(part, FileNotFoundError):
        raise DataError(f"{path}: no such file")
    if isinstance(part, Exception):
        with _faults_of(path):
            raise part
    if len(part) != stop - start:
        raise DataError(f"{path}: received {len(part)} of the {stop - start} bytes from byte {start} on")
    return part


@contextmanager
def _faults_of(path: object) -> Iterator[None]:
    """Turns what a backend raises into a DataError; "no such file" stays as it is."""
    try:
        yield
    except (FileNotFoundError, NlpdataError):
        raise
    except Exception as error:  # each backend has classes of its own
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{path}: {reason}") from error


def _file_system(scheme: str, url: str) -> tuple[Any, str]:
    package, extra = BACKENDS[scheme]
    if find_spec("fsspec") is None or find_spec(package) is None:
        raise missing_package(f"{url}: a {scheme}:// path", package, extra)
    from fsspec.core import url_to_fs

    try:  # without a cache of listings: other processes write as well
        return url_to_fs(url, use_listings_cache=False)
    except OSError as error:
        if scheme != "hdfs":
            raise
        raise UsageError(
            f"{url}: {str(error).splitlines()[0]}. hdfs:// needs Java and Hadoop's libhdfs: set JAVA_HOME, HADOOP_HOME, and "
            "CLASSPATH to what `hadoop classpath --glob` prints"
        ) from error


class RemoteFile:
    """An open remote file whose errors name it."""

    def __init__(self, path: RemotePath, file: Any) -> None:
        self._path, self._file = path, file

    def read(self, size: int = -1) -> bytes:
        with _faults_of(self._path):
            return self._file.read(size)

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(position, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "RemoteFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
