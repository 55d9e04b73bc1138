"""The text of a portion in the work folder: documents, each with a blank line behind it, and the bytes of each."""

from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from nlpdata.errors import DataError
from nlpdata.files.paths import AnyPath
from nlpdata.files.writing import local_folder, move
from nlpdata.output import store_result

_READ_BYTES = 4 << 20


class TextWriter:
    """Writes the documents of a unit: `<name>.text` and `<name>.lengths`, and what else is known of each document."""

    def __init__(self, stack: ExitStack, folder: AnyPath, name: str) -> None:
        self._name, self._target = name, folder
        self._folder = stack.enter_context(local_folder(folder))
        file = open(self._folder / self._text, "wb+", buffering=1 << 20)  # noqa: SIM115 (closed by the stack)
        self._file = stack.enter_context(file)
        self._start = self._at = 0
        self._lengths = array("q")
        self.sentences = 0
        self._of_document = 0

    @property
    def _text(self) -> str:
        return f"{self._name}.text"

    def add(self, data: bytes) -> None:
        """Sentences of the present document."""
        self._file.write(data)
        self._at += len(data)
        self._of_document += data.count(b"\n")

    def keep(self) -> None:
        """Ends the document."""
        self._file.write(b"\n")
        self._at += 1
        self._lengths.append(self._at - self._start)
        self.sentences += self._of_document
        self._start, self._of_document = self._at, 0

    def drop(self) -> None:
        """Takes the document back."""
        if self._at > self._start:
            self._file.seek(self._start)
            self._file.truncate()
        self._at, self._of_document = self._start, 0

    def finish(self, **more: Any) -> dict:
        """Ends the files, and moves them to where all units leave theirs; the unit's result, which is stored."""
        self._file.close()
        lengths = f"{self._name}.lengths"
        (self._folder / lengths).write_bytes(np.array(self._lengths, "<i8").tobytes())
        for name in (self._text, lengths):
            if self._folder != self._target:
                move(self._folder / name, self._target / name)
        result = {"file": self._text, "bytes": self._at, "documents": len(self._lengths), "sentences": self.sentences}
        runs = more.pop("runs", {})
        result |= {"runs": {"lengths": [lengths], **runs}, **more}
        store_result(self._target, self._name, result)
        return result


def lines_of(path: AnyPath, left: str) -> Iterator[list[bytes]]:
    """The lines of a text, a blank one behind each document, block by block.

    DataError, which ends with `left`, where it is cut off.
    """
    with path.open("rb") as file:
        rest = b""
        while data := file.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            yield lines
    if rest:
        raise DataError(f"{path} is damaged: its last line has no end. {left}")
