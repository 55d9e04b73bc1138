"""How records are framed in a TFRecord file: before each its length and the length's CRC, after it the data's CRC."""

import struct
from mmap import mmap

import numpy as np

from nlpdata.errors import DataError
from nlpdata.files.paths import AnyPath
from nlpdata.files.pointers import refuse_pointer
from nlpdata.records.encoding import masked_crc

_HEAD = struct.Struct("<QI")  # length, CRC
HEADER, FOOTER = _HEAD.size, 4


def is_header(head: bytes) -> bool:
    """Whether bytes are the header of a record."""
    return len(head) == HEADER and masked_crc(head[:8]) == _HEAD.unpack(head)[1]


def _is_text(head: bytes) -> bool:
    """Whether the first bytes of a file are UTF-8 text; the last character may be cut."""
    text = head.decode(errors="ignore")
    return len(text.encode()) > len(head) - 4 and all(each.isprintable() or each.isspace() for each in text)


class Framing:
    """Finds the records of a file that is looked at in windows, one after the other.

    Args:
      path: of the file, for messages.
    """

    def __init__(self, path: AnyPath) -> None:
        self._path = path
        self._starts: list[int] = []
        self._lengths: list[int] = []
        self._known: dict[bytes, int] = {}  # header -> length; a file has few distinct ones
        self._at = 0  # where the next record begins

    @property
    def position(self) -> int:
        """The first byte that the next window must have, if the file has it."""
        return self._at

    def look(self, data: mmap | bytes, begin: int, end: int) -> None:
        """Takes the records whose headers are in a window. DataError where one is damaged.

        Args:
          data: the window, and perhaps more.
          begin: byte of the file that data[0] is; negative where something else comes first.
          end: byte of the file at which the window ends.
        """
        at, starts, lengths, known = self._at, self._starts, self._lengths, self._known
        while at + HEADER <= end:
            header = data[at - begin : at - begin + HEADER]
            length = known.get(header)
            if length is None:
                length = known[header] = self._length(header, len(starts), at)
            starts.append(at + HEADER)
            lengths.append(length)
            at += HEADER + length + FOOTER
        self._at = at

    def _length(self, header: bytes, record: int, at: int) -> int:
        if is_header(header):
            return _HEAD.unpack(header)[0]
        refuse_pointer(self._path, header)
        if record == 0 and _is_text(header):
            raise DataError(
                f"{self._path} is not a TFRecord file: it begins with text, {header.decode(errors='ignore')!r}. Records are made "
                "of text by nlpdata create-pretraining, of texts with labels or questions by nlpdata create-finetuning"
            )
        what = "is not a TFRecord file" if record == 0 else f"is damaged at record {record}, byte {at}"
        raise DataError(f"{self._path} {what}: the length there fails its checksum (bytes {header.hex(' ')})")

    def records(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the data of each record starts and stops, int64 (n,) each, in a file of `size` bytes.

        To be called when all windows were looked at. DataError where the file is cut off.
        """
        last = len(self._starts) - 1
        if self._at > size:
            raise DataError(
                f"{self._path}: record {last} at byte {self._starts[-1] - HEADER} is cut off: {self._at - size} of its bytes are "
                "missing"
            )
        if self._at < size:
            what = "is not a TFRecord file" if last < 0 else f"is cut off in record {last + 1} at byte {self._at}"
            raise DataError(f"{self._path} {what}: it ends after {size} bytes")
        starts = np.array(self._starts, np.int64)
        return starts, starts + np.array(self._lengths, np.int64)
