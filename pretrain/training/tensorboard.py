"""TensorBoard event files, written without TensorFlow: on every backend the same.

Formats: tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto, framed as TFRecords.
"""

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from nlpdata.errors import DataError
from nlpdata.protobuf import varint
from nlpdata.records.encoding import masked_crc, record_header

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # wire types


class TensorBoardLog:
    """Scalars of one run, as an event file in `folder`.

    A run that goes on at `step` says so, and TensorBoard drops what an earlier file has past it.
    """

    def __init__(self, folder, step: int = 0):
        stamp = f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self.path = Path(folder, f"events.out.tfevents.{stamp}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "wb")  # noqa: SIM115 (closed in close)
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror or error}") from None
        self._event(0, _field(3, _BYTES, b"brain.Event:2"))  # file_version
        if step:
            self._event(step + 1, _field(7, _BYTES, _field(1, _VARINT, 1)))  # session_log {status: START}

    def write(self, step: int, values: Mapping[str, float]) -> None:
        summary = b"".join(
            _field(1, _BYTES, _field(1, _BYTES, name.encode()) + _field(2, _FLOAT, value))  # value {tag, simple_value}
            for name, value in values.items()
            if isinstance(value, int | float)
        )
        self._event(step, _field(5, _BYTES, summary))

    def _event(self, step: int, what: bytes) -> None:
        event = _field(1, _DOUBLE, time.time()) + _field(2, _VARINT, step) + what
        checksum = struct.pack("<I", masked_crc(event))
        try:
            self._file.write(record_header(len(event)) + event + checksum)
            self._file.flush()
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror or error}") from None

    def close(self) -> None:
        self._file.close()


def _field(number: int, wire: int, value) -> bytes:
    """One field of a protobuf message."""
    if wire == _BYTES:
        body = varint(len(value)) + value
    elif wire == _VARINT:
        body = varint(value)
    else:
        body = struct.pack("<d" if wire == _DOUBLE else "<f", value)
    return varint(number << 3 | wire) + body
