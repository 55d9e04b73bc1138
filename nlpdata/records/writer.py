"""TFRecord files: the shard writer."""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

from nlpdata.errors import DataError, UsageError
from nlpdata.files import PathName

COMPRESSIONS = ("none", "gzip")


@dataclass(frozen=True)
class ShardInfo:
    """A shard, as the meta file describes it."""

    file: str  # base name
    records: int
    bytes: int  # of the file as stored
    crc32c: str  # of the file as stored: 8 hexadecimal digits


class ShardWriter:
    """Streams framed records into one file and takes its checksum on the way; holds no records.

        with ShardWriter("out/train.tfrecord") as writer:
            writer.write(framed, count)
        writer.info        # ShardInfo, the same that close() returns

    The file is removed where the block ends with an error. Equal records give an equal file: the gzip header holds neither
    time nor name. Raises UsageError for an unknown compression, DataError where the disk refuses.
    """

    def __init__(self, path: PathName, compression: str = "none") -> None:
        if compression not in COMPRESSIONS:
            raise UsageError(f"compression: received {compression!r}, expected one of {', '.join(COMPRESSIONS)}")
        self.path = Path(path)
        self.info: ShardInfo | None = None
        self._records = self._bytes = self._crc = 0
        # 31: the gzip container, whose header zlib fills with time 0 and no name.
        self._compressor = zlib.compressobj(6, zlib.DEFLATED, 31) if compression == "gzip" else None
        try:
            self._file = open(self.path, "wb", buffering=1 << 20)  # noqa: SIM115 (closed in close and abort)
        except OSError as error:
            raise DataError(f"{self.path}: cannot create the file: {error.strerror or error}") from error

    def write(self, framed: bytes | memoryview, count: int) -> None:
        """Appends `count` framed records, as `encode_examples` returns them."""
        if self._file.closed:
            raise ValueError(f"{self.path}: written to after close")
        self._store(self._compressor.compress(framed) if self._compressor else bytes(framed))
        self._records += count

    def _store(self, data: bytes) -> None:
        self._crc = google_crc32c.extend(self._crc, data)
        self._bytes += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise DataError(f"{self.path}: cannot write: {error.strerror or error}") from error

    def close(self) -> ShardInfo:
        """Finishes the file and makes it durable. A second call returns the same."""
        if self.info is None:
            if self._file.closed:
                raise ValueError(f"{self.path}: closed after abort")
            if self._compressor:
                self._store(self._compressor.flush())
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
            except OSError as error:
                raise DataError(f"{self.path}: cannot write: {error.strerror or error}") from error
            self.info = ShardInfo(self.path.name, self._records, self._bytes, f"{self._crc:08x}")
        return self.info

    def abort(self) -> None:
        """Removes the file."""
        try:
            self._file.close()
        except OSError:  # the disk that refused the data refuses the flush too; the file goes all the same
            pass
        finally:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()
            return
        try:
            self.close()
        except BaseException:
            self.abort()
            raise
