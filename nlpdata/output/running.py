"""A command's run in its work folder: what comes before its units of work, and after them."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from nlpdata.errors import BEGINS_ANEW, RESUMES
from nlpdata.files.paths import AnyPath
from nlpdata.output.committing import FinishedSet, commit
from nlpdata.output.interruption import disk_errors
from nlpdata.output.naming import OutputSet
from nlpdata.output.refusal import check_output
from nlpdata.output.work import WorkFolder


class OutputRun:
    """A run, as a context in which what the disk refuses becomes a DataError; at its end the work folder is closed.

    Args:
      command: for messages.
      targets: the sets that it makes.
      overwrite, key, others: see check_output.
      folder: where units find and leave their files, if that is not the work folder: of a Beam job, which makes all units anew.

    Attributes:
      work: the work folder.
      folder: where units find and leave their files.
      left: what a failure leaves, for messages.

    Raises UsageError where outputs exist or another run is at work.
    """

    def __init__(
        self,
        command: str,
        targets: Sequence[OutputSet],
        overwrite: bool,
        key: str,
        others: Mapping[str, bytes | None] | None = None,
        folder: AnyPath | None = None,
    ) -> None:
        check_output(targets, overwrite, key, others)
        self._key = key
        self.work = WorkFolder(targets, key, resumable=folder is None)
        self.folder = folder or self.work.path
        self.left = RESUMES if folder is None else BEGINS_ANEW
        self._disk = disk_errors(command, self.folder, self.left)

    def __enter__(self) -> Self:
        self._disk.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.work.close()
        self._disk.__exit__(kind, error, traceback)

    @property
    def is_made(self) -> bool:
        """Whether an equal run was interrupted while it put its files in place: that is all that is left to do."""
        return self.work.decided is not None

    def commit(self, sets: Sequence[FinishedSet], warnings: Sequence[str]) -> None:
        """Puts the sets in place, in this process, also of a Beam job; removes the work folder."""
        waiting = self.work.path if self.folder == self.work.path else None
        commit(sets, self._key, waiting, warnings, self.work.found)
        self.work.remove()
