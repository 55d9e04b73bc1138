"""Random access to record files.

records = open_records("out/train.tfrecord*")
len(records), records[0]["input_ids"].shape, records[100:356]["input_ids"].shape      # (n, (128,), (256, 128))
"""

import gzip
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import google_crc32c
import numpy as np

from nlpdata.errors import DataError, NlpdataError, UsageError, closest
from nlpdata.files import PathName, PathNames
from nlpdata.files.disk import reading
from nlpdata.files.mapping import MappedFile, Spool
from nlpdata.files.paths import AnyPath, file_checksum, file_size, is_device, is_remote, path_of
from nlpdata.files.patterns import as_names, each_named, find_paths
from nlpdata.files.ranges import BlockCache
from nlpdata.files.remote import RemotePath
from nlpdata.records.contract import Feature, find_meta, read_meta, refuse_while_committing
from nlpdata.records.decoding import Column, MalformedExample, decode_examples
from nlpdata.records.encoding import mask_crcs, masked_crc
from nlpdata.records.framing import FOOTER, HEADER, Framing, is_header
from nlpdata.records.remote import CACHE_GIGABYTES, remote_records

_BATCH = 256  # records decoded at a time
_WINDOW = 1 << 26  # bytes that are looked through for records between two notices


def _ignored(count: int) -> None:
    """Takes a notice that nobody wants."""


def find_records(paths: PathNames) -> list[AnyPath]:
    """The record files that paths, patterns or comma-separated lists of them (or one) name, sorted within each.

    UsageError where one matches nothing.
    """
    found: list[AnyPath] = []
    for text in as_names(paths):
        for part, names in each_named(text, find_paths):
            if not names:
                here = "" if is_remote(part) else f" (current folder: {os.getcwd()})"
                raise UsageError(f"no file matches {part!r}{here}.{_closest_file(part)}")
            for name in names:
                path = path_of(name)
                if path.is_dir():
                    raise UsageError(f"{name} is a folder. Name the record files: '{name}/*.tfrecord*'")
                found.append(path)
    return list(dict.fromkeys(found))


def _closest_file(pattern: str) -> str:
    """The end of a message: the closest name in the folder of a path or pattern that matches nothing."""
    folder = os.path.dirname(os.path.expanduser(pattern))
    if is_remote(pattern) or not os.path.isdir(folder or "."):
        return ""
    return closest(os.path.basename(pattern), (name for name in os.listdir(folder or ".") if not name.startswith(".")))


class RecordFile:
    """One TFRecord file, plain or gzip, mapped into memory with an index of its records.

    A remote one is copied first; with a cache for its blocks only if it is compressed.

    Args:
      path: the file.
      spool: where the content of a compressed or remote file goes; default: a new one.
      cache: through which a remote file is read in parts.
      on_bytes: is told of the file's bytes, part by part, as they are read to find its records.

    Attributes:
      path: the file.
      starts, stops: byte range of each record's data, int64 (n,).
      compression: "none" or "gzip".

    Raises DataError, with file and record, where the framing is broken.
    """

    def __init__(
        self,
        path: PathName | AnyPath,
        spool: Spool | None = None,
        cache: BlockCache | None = None,
        on_bytes: Callable[[int], None] = _ignored,
    ) -> None:
        self.path = path_of(path)
        self.part: int | None = None  # its number in the cache, where it is read in parts
        if is_device(self.path):  # it is mapped into memory, and never ends
            raise DataError(f"{self.path}: is a device or a pipe, not a file")
        with reading(self.path):
            if (
                cache is not None
                and isinstance(self.path, RemotePath)
                and self._opens_in_parts(self.path, cache, on_bytes)
            ):
                return
            with self.path.open("rb") as file:
                self.compression = "gzip" if _is_gzip(_head(file)) else "none"
                if self.compression == "gzip" or is_remote(self.path):
                    self._source: Spool | MappedFile = (spool := spool or Spool())
                    self._begin, end = _copied(file, self.path, self.compression, spool, on_bytes)
                    on_bytes = _ignored
                else:
                    self._source, self._begin = MappedFile(str(self.path)), 0
                    end = file.seek(0, os.SEEK_END)
        framing = Framing(self.path)
        size = end - self._begin
        for at in range(0, size, _WINDOW):
            stop = min(at + _WINDOW, size)
            framing.look(self._source.data(), -self._begin, stop)
            on_bytes(stop - at)
        self.starts, self.stops = framing.records(size)

    def _opens_in_parts(self, path: RemotePath, cache: BlockCache, on_bytes: Callable[[int], None]) -> bool:
        """False for a compressed file, which cannot be read so."""
        part = cache.open(path)
        if _is_gzip(cache.read([(part, 0, min(HEADER, cache.state(part)[0]))])[0]):
            return False
        self.compression, self.part, self._cache = "none", part, cache
        self.starts, self.stops = remote_records(path, part, cache, on_bytes)
        return True

    def __len__(self) -> int:
        return len(self.starts)

    def record(self, index: int) -> bytes:
        return self._bytes(self.starts[index], self.stops[index])

    def crc_matches(self, index: int) -> bool:
        """Whether a record's data fits its checksum."""
        return masked_crc(self.record(index)) == struct.unpack("<I", self.stored_crc(index))[0]

    def stored_crc(self, index: int) -> bytes:
        """A record's checksum as stored: 4 bytes, little-endian."""
        stop = int(self.stops[index])
        return self._bytes(stop, stop + FOOTER)

    def _bytes(self, start: int, stop: int) -> bytes:
        if self.part is not None:
            return self._cache.read([(self.part, int(start), int(stop))])[0]
        return self._source.data()[self._begin + start : self._begin + stop]

    def __reduce__(self) -> tuple:
        return RecordFile, (self.path,)


def _head(file: Any) -> bytes:
    """The first bytes of an open file, which is then at its beginning again."""
    head = file.read(HEADER)
    file.seek(0)
    return head


def _is_gzip(head: bytes) -> bool:
    # A record of 0x..8b1f bytes begins the same; its length checksum decides.
    return head[:2] == b"\x1f\x8b" and not is_header(head)


def is_record_file(path: PathName | AnyPath) -> bool:
    """Whether a file begins as TFRecords do, plain or gzip. DataError where it cannot be read."""
    with reading(path), path_of(path).open("rb") as file:
        if not _is_gzip(_head(file)):
            return is_header(file.read(HEADER))
        try:
            with gzip.GzipFile(fileobj=file) as source:
                return is_header(source.read(HEADER))
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return False


def _copied(
    file: Any, path: AnyPath, compression: str, spool: Spool, on_bytes: Callable[[int], None]
) -> tuple[int, int]:
    """Where the decompressed content of an open file begins and ends in the spool."""
    told = 0

    def tell() -> None:
        nonlocal told
        on_bytes(file.tell() - told)
        told = file.tell()

    if compression == "none":
        return spool.add(file, tell)
    try:
        with gzip.GzipFile(fileobj=file) as source:
            return spool.add(source, tell)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: damaged gzip file ({error})") from None


class Records:
    """Records of several files as one sequence.

    records[i] -> name -> array (width,); records[a:b] or records[array of ints] -> name -> array (n, width). int64,
    float32, or object (bytes). Pickles as its paths.

    Remote files are read in parts (nlpdata.files.ranges), compressed ones copied first.

    Args:
      paths: the files.
      cache_gigabytes: of remote files that stay on this machine's disk, 2**30 bytes each.
      on_bytes: is told of the files' bytes, part by part, as they are opened.

    Attributes:
      paths: the files.
      meta: the meta file's content, or None.
      features: of the first record, in its order.
    """

    def __init__(
        self,
        paths: Sequence[AnyPath],
        cache_gigabytes: float = CACHE_GIGABYTES,
        on_bytes: Callable[[int], None] = _ignored,
    ) -> None:
        self.paths = list(paths)
        self._cache_gigabytes = cache_gigabytes
        for path in self.paths:
            refuse_while_committing(path)
        meta = find_meta(self.paths[0])
        self.meta = read_meta(meta) if meta else None
        spool, self._cache = Spool(), BlockCache(int(cache_gigabytes * (1 << 30)))
        self._files = [RecordFile(path, spool, self._cache, on_bytes) for path in self.paths]
        self._refuse_other_meta(meta)
        self._offsets = np.cumsum([0, *(len(file) for file in self._files)])
        self._first: dict[str, tuple[str, int]] = {}
        self.features: tuple[Feature, ...] = ()
        if len(self):
            columns = self._decode(np.array([0]))
            self.features = tuple(Feature(name, c.dtype, int(c.counts[0])) for name, c in columns.items())
            self._first = {feature.name: (feature.dtype, feature.width) for feature in self.features}

    def _refuse_other_meta(self, meta: AnyPath | None) -> None:
        """DataError where the set was replaced between the reading of its meta file and the opening of its files."""
        for path in self.paths:
            refuse_while_committing(path)
        now = find_meta(self.paths[0])
        if now != meta or (now and read_meta(now) != self.meta):
            raise DataError(f"{self.paths[0]}: this set of records was replaced while it was opened. Open it again")

    def __len__(self) -> int:
        return int(self._offsets[-1])

    @property
    def counts(self) -> list[int]:
        """Records of each file, in the order of `paths`."""
        return np.diff(self._offsets).tolist()

    def __getitem__(self, index: int | np.integer | slice | Sequence[int] | np.ndarray) -> dict[str, np.ndarray]:
        if isinstance(index, int | np.integer):
            if not -len(self) <= index < len(self):
                raise IndexError(f"record {index} of {len(self)}")
            return {name: rows[0] for name, rows in self._batch(np.array([index % len(self)])).items()}
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        index = np.asarray(index)
        if index.ndim != 1 or (len(index) and index.dtype.kind not in "iu"):
            raise TypeError(f"records are indexed by whole numbers, received {index.dtype} of shape {index.shape}")
        index = index.astype(np.int64)
        if len(index) and (index.min() < -len(self) or index.max() >= len(self)):
            raise IndexError(f"records {index.min()}..{index.max()} of {len(self)}")
        return self._batch(np.where(index < 0, index + len(self), index))

    def _batch(self, index: np.ndarray) -> dict[str, np.ndarray]:
        parts = [self._rows(index[at : at + _BATCH]) for at in range(0, len(index), _BATCH)]
        if not parts:
            return {f.name: np.zeros((0, f.width), object if f.dtype == "bytes" else f.dtype) for f in self.features}
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _rows(self, index: np.ndarray) -> dict[str, np.ndarray]:
        columns = self._decode(index)
        rows: dict[str, np.ndarray] = {}
        for name, (dtype, width) in self._first.items():
            column = columns.get(name)
            if column is None or column.dtype != dtype or (column.counts != width).any():
                self._refuse(index, name, dtype, width, column)
            rows[name] = column.rows()
        return rows

    def _refuse(self, index: np.ndarray, name: str, dtype: str, width: int, column: Column | None) -> NoReturn:
        at, found = 0, "nothing"
        if column is not None:
            at = int(np.argmax(column.counts != width)) if column.dtype == dtype else 0
            found = f"{column.counts[at]} values of {column.dtype}"
        raise DataError(
            f"{self.where(int(index[at]))}: feature {name!r} holds {found}; the first record, in {self.paths[0]}, "
            f"holds {width} of {dtype}. All records of a set must be of one shape"
        )

    def where(self, index: int) -> str:
        """File and number of a record, for messages."""
        file = int(np.searchsorted(self._offsets, index, "right")) - 1
        return f"{self.paths[file]}, record {index - self._offsets[file]}"

    def _decode(self, index: np.ndarray) -> dict[str, Column]:
        file = np.searchsorted(self._offsets, index, "right") - 1
        local = index - self._offsets[file]
        files = [self._files[f] for f in file.tolist()]
        parts, crcs = self._read(files, local.tolist())
        self._check(parts, crcs, files, index)
        stops = np.cumsum([len(part) for part in parts])
        starts = np.concatenate([[0], stops[:-1]])
        try:
            return decode_examples(b"".join(parts), starts, stops)
        except MalformedExample as error:
            raise DataError(f"{self.where(int(index[error.record]))}: {error.reason}") from None

    def _read(self, files: list[RecordFile], rows: list[int]) -> tuple[list[bytes], list[bytes]]:
        """The data of records and their checksums as stored; of remote files in few requests."""
        remote = [n for n, file in enumerate(files) if file.part is not None]
        if not remote:
            pairs = [(file.record(row), file.stored_crc(row)) for file, row in zip(files, rows, strict=True)]
            return [data for data, _ in pairs], [crc for _, crc in pairs]
        found: list[bytes] = [b""] * len(rows)
        ranges = [
            (files[n].part or 0, int(files[n].starts[rows[n]]), int(files[n].stops[rows[n]]) + FOOTER) for n in remote
        ]
        for n, raw in zip(remote, self._cache.read(ranges), strict=True):
            found[n] = raw
        for n, (file, row) in enumerate(zip(files, rows, strict=True)):
            if file.part is None:
                found[n] = file.record(row) + file.stored_crc(row)
        return [raw[:-FOOTER] for raw in found], [raw[-FOOTER:] for raw in found]

    def _check(self, parts: list[bytes], crcs: list[bytes], files: list[RecordFile], index: np.ndarray) -> None:
        """DataError for the first record whose data fails its checksum."""
        found = mask_crcs(np.array([google_crc32c.value(part) for part in parts], np.uint32))
        wrong = np.flatnonzero(found != np.frombuffer(b"".join(crcs), "<u4"))
        if len(wrong):
            part = files[int(wrong[0])].part
            if part is not None:
                self._cache.check(part)  # a better reason, if it is one
            raise DataError(
                f"{self.where(int(index[wrong[0]]))}: the data fails its checksum: the file is damaged. Copy or make it again"
            )

    def __reduce__(self) -> tuple:
        return Records, (self.paths, self._cache_gigabytes)


def open_records(paths: PathNames, on_bytes: Callable[[int], None] = _ignored) -> Records:
    """Opens record files for random access.

    Args:
      paths: a path or pattern, or a list of them. A meta file next to the first one is read if it is there.
      on_bytes: is told of the files' bytes, part by part, as they are read to find the records, for progress.

    Raises UsageError where a pattern matches nothing, DataError where a file is damaged.
    """
    return Records(find_records(paths), on_bytes=on_bytes)


def stored_bytes(paths: Iterable[AnyPath]) -> int:
    """Bytes of files, for progress: one that cannot be read counts none."""
    total = 0
    for path in paths:
        with suppress(OSError, NlpdataError):
            total += file_size(path)
    return total


def file_crc(path: PathName | AnyPath, on_bytes: Callable[[int], None] = _ignored) -> str:
    """crc32c of a file as stored, 8 hexadecimal digits. DataError where it cannot be read. on_bytes: see file_checksum."""
    with reading(path):
        return file_checksum(path, on_bytes)
