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
from nlpdata.protobuf import bytes_field, double_field, float_field, int_field
from nlpdata.records.encoding import masked_crc, record_header


class TensorBoardLog:
    """Scalars of one run, as an event file in `folder`.

    A run that resumes at `step` records this, and TensorBoard drops what an earlier file has past it.
    """

    def __init__(self, folder: str | os.PathLike, step: int = 0):
        stamp = f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self.path = Path(folder, f"events.out.tfevents.{stamp}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "wb")  # noqa: SIM115 (closed in close)
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror or error}") from None
        self._event(0, bytes_field(3, b"brain.Event:2"))  # file_version
        if step:
            self._event(step + 1, bytes_field(7, int_field(1, 1)))  # session_log {status: START}

    def write(self, step: int, values: Mapping[str, float]) -> None:
        summary = b"".join(
            bytes_field(1, bytes_field(1, name.encode()) + float_field(2, value))  # value {tag, simple_value}
            for name, value in values.items()
            if isinstance(value, int | float)
        )
        self._event(step, bytes_field(5, summary))

    def _event(self, step: int, what: bytes) -> None:
        event = double_field(1, time.time()) + int_field(2, step) + what
        checksum = struct.pack("<I", masked_crc(event))
        try:
            self._file.write(record_header(len(event)) + event + checksum)
            self._file.flush()
        except OSError as error:
            raise DataError(f"cannot write {self.path}: {error.strerror or error}") from None

    def close(self) -> None:
        self._file.close()
