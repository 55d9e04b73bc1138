"""Where files lie: on this machine, or on a remote file system (gs://, s3://, hdfs://) through fsspec.

    path_of("out/train.tfrecord")          # a pathlib.Path
    path_of("s3://bucket/train.tfrecord")  # a RemotePath, with the part of Path's interface that is used here

fsspec is the library through which pandas and Dask reach remote files, with one backend a store, whose settings
(credentials, endpoints) are those of the store's own tools. It is loaded where a remote path is first met.

On object stores (gs, s3) an object appears in one step, when all of it is there, and nothing can be renamed: `move`
copies within the store, then removes. Every error other than "there is no such file" is a DataError with the path.
"""

import functools
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import google_crc32c

from nlpdata.errors import DataError, NlpdataError, UsageError, closest, missing_package
from nlpdata.files.temporary import temporary

BACKENDS = {"gs": ("gcsfs", "gcp"), "s3": ("s3fs", "s3"), "hdfs": ("pyarrow", "hdfs")}  # scheme -> package, extra
BLOCK_BYTES = 1 << 20  # read at a time: more would be read in vain where a file is only looked at
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_remote(path) -> bool:
    """True for a URL, of a known scheme or not."""
    return _URL.match(str(path)) is not None


def path_of(path) -> "AnyPath":
    """A path with pathlib's interface, local or remote. UsageError for a scheme that is not known."""
    return RemotePath(path) if is_remote(path) else Path(path)


@functools.total_ordering
class RemotePath:
    """A path on a remote file system; picklable."""

    def __init__(self, url):
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

    def __eq__(self, other) -> bool:
        return isinstance(other, RemotePath) and self._url == other._url

    def __lt__(self, other) -> bool:
        return self._url < other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __truediv__(self, name) -> "RemotePath":
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

    def open(self, mode: str = "rb") -> "_RemoteFile":
        """Opens the file for reading; read, seek and tell are there."""
        with self._system() as (system, path):
            return _RemoteFile(self, system.open(path, mode, block_size=BLOCK_BYTES))

    def read_bytes(self) -> bytes:
        with self._system() as (system, path):
            return system.cat_file(path)

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        with self._system() as (system, path):
            system.pipe_file(path, data)

    def touch(self) -> None:
        self.write_bytes(b"")

    def mkdir(self, **_) -> None:
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
    def _system(self):
        """The file system and the path on it, for a block whose errors become DataErrors with the path."""
        with _said_of(self):
            yield _file_system(self._scheme, self._url)


AnyPath = Path | RemotePath


@contextmanager
def _said_of(path):
    """Turns what a backend raises into a DataError; "no such file" stays as it is."""
    try:
        yield
    except (FileNotFoundError, NlpdataError):
        raise
    except Exception as error:  # each backend has classes of its own
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{path}: {reason}") from error


def _file_system(scheme: str, url: str):
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


class _RemoteFile:
    """An open remote file whose errors name it."""

    def __init__(self, path: RemotePath, file):
        self._path, self._file = path, file

    def read(self, size: int = -1) -> bytes:
        with _said_of(self._path):
            return self._file.read(size)

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(position, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "_RemoteFile":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def open_binary(path):
    """Opens a file for reading; read, seek, tell and close are there. For many small files, faster than path_of."""
    return path_of(path).open("rb") if is_remote(path) else open(path, "rb")


def file_size(path) -> int:
    """Bytes of a file. FileNotFoundError where there is none."""
    if not is_remote(path):
        return os.path.getsize(path)
    info = path_of(path)._info()
    if info is None:
        raise FileNotFoundError(f"{path}: no such file")
    return info["size"]


def file_checksum(path) -> str:
    """CRC-32C of a file as stored: 8 hexadecimal digits."""
    crc = 0
    with path_of(path).open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            crc = google_crc32c.extend(crc, block)
    return f"{crc:08x}"


def find_paths(pattern: str) -> list[str]:
    """What a path or a pattern names (`**` goes into folders), sorted; a file of the very name goes first.

    Of a remote file system only files. Empty where there is nothing.
    """
    if not is_remote(pattern):
        return [pattern] if os.path.lexists(pattern) else sorted(set(glob.glob(pattern, recursive=True)))
    path = path_of(pattern)
    if path.exists():
        return [str(path)]
    return path.glob_files() if glob.has_magic(pattern) else []


def is_device(path) -> bool:
    """Whether a path leads to what takes data but is not a file, such as /dev/null: it is written to, never replaced."""
    return not is_remote(path) and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def write_whole(path, data: bytes) -> None:
    """Writes a file in one step and makes it durable: nobody ever reads half of it."""
    path = path_of(path)
    if isinstance(path, RemotePath) or is_device(path):
        path.write_bytes(data)
        return
    with temporary(path) as made:
        write_durably(made, data)
        os.replace(made, path)


def write_durably(path: Path, data: bytes) -> None:
    """Writes a local file, and returns when it is on the disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def move(source, target) -> None:
    """Moves a file to where `target` appears in one step; a local one also to a remote file system.

    FileNotFoundError where there is no source.
    """
    source, target = path_of(source), path_of(target)
    if isinstance(source, RemotePath):
        source.rename(target)
    elif isinstance(target, RemotePath):
        target.receive(source)
        source.unlink()
    else:
        os.replace(source, target)


@contextmanager
def local_folder(folder):
    """A folder of this machine for a file on its way to `folder`: itself, or one for the time where that is remote."""
    if not is_remote(folder):
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="nlpdata-") as scratch:
        yield Path(scratch)


def remove_tree(folder) -> None:
    """Removes a folder that is no longer needed, with all below it; what cannot be removed stays.

    Of a link to a folder the link goes, and what it leads to stays.
    """
    folder = path_of(folder)
    if isinstance(folder, RemotePath):
        with suppress(NlpdataError):
            folder.remove_tree()
    elif folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def is_plain_name(name) -> bool:
    """Whether a name that stands in a file names a file next to it: no path, no folder, nothing but text."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and not re.search(r"[/\0]", name)
        and name == os.path.basename(name)
    )


def shown_name(name: str) -> str:
    """A file's name as text: bytes of it that are not UTF-8 are shown as \\xff, each."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def sync_folder(folder) -> None:
    """Makes renames in `folder` durable, where the system can do that."""
    if is_remote(folder):
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows cannot open folders
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse
        pass
    finally:
        os.close(descriptor)
