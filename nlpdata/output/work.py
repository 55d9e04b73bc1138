"""The work folder of an output: `.<stem>.work` next to it, for one run at a time, resumed by an equal run.

    lock          held by the run that works in it; a folder without one is not ours
    key           hash of the run's options and inputs
    *.json        results of finished units, with checksums of themselves and of the files that they name
    commit.json   the journal: all else is not needed any more (see nlpdata.output.committing)

Nothing in it is reached through a link. It is removed in an order in which any rest is recognised: the key first, so that
what is left is not taken for finished parts, then the journal, then the lock.
"""

import errno
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.paths import AnyPath, file_checksum, file_size, is_plain_name, is_remote, read_file
from nlpdata.files.temporary import remove_left_in
from nlpdata.files.writing import write_whole
from nlpdata.output.committing import JOURNAL, Decided, digest, read_decided, standing
from nlpdata.output.naming import OutputSet
from nlpdata.records.contract import committing_marker, meta_path

_log = logging.getLogger(__name__)

_KEY, _LOCK = "key", "lock"
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def work_path(target: OutputSet) -> Path:
    """The folder in which the work on an output is done; on this machine, also where the output is not."""
    folder = target.folder
    if not isinstance(folder, Path):
        place = sha256(target.output.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return Path(tempfile.gettempdir(), f"nlpdata-{target.stem}-{place}.work")
    return folder / f".{target.stem}.work"


def shared_path(target: OutputSet, key: str) -> AnyPath:
    """The folder for work that several machines do: the work folder, or one like it next to a remote output."""
    return target.folder / f".{target.stem}.work" / key[:16] if is_remote(target.output) else work_path(target)


class WorkFolder:
    """The work folder of an output; one that was left by an equal run is used again. Only one run at a time has it.

    Args:
      targets: the sets that the run makes; the folder is that of the first.
      key: digest of all that decides about the run's result and how it is divided into units.
      resumable: False for a run that begins anew whatever was left, unless it had come to its commit.

    Attributes:
      decided: the commit that an equal run had begun, which is all that is left to do; None: the parts are to be made.
      resumed: whether finished parts of an equal run are there.
      found: what is in place of the targets as the run begins, for its commit.
    """

    def __init__(self, targets: Sequence[OutputSet], key: str, resumable: bool = True) -> None:
        self.path = work_path(targets[0])
        self._lock: int | None = None
        try:
            self._take(targets[0].output)
            self.found = standing(targets)
            if isinstance(folder := targets[0].folder, Path):
                remove_left_in(folder, f"{targets[0].stem}.")  # also for sets that this run does not make
            self.decided: Decided | None = read_decided(targets, key, self.path)
            self.resumed = self.decided is not None or (resumable and self._stored_key() == key)
            if self.resumed:
                _log.info(f"{self.path} was left by an equal run; its finished parts are used.")
                for path in self.path.glob("*.tmp"):
                    path.unlink()
            elif self._names() != [_LOCK]:
                why = "a run with other options or inputs" if self._stored_key() != key else "the local executor"
                _log.info(f"{self.path} was left by {why}; it is deleted.")
                self._clear()
            if self.decided is None:
                (self.path / JOURNAL).unlink(missing_ok=True)
                if self.resumed:
                    self._drop_damaged()
            write_whole(self.path / _KEY, key.encode(), durable=False)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                odd = error.errno in (errno.ELOOP, errno.EISDIR, errno.ENOTDIR)
                raise DataError(
                    f"cannot use the work folder {self.path}: {error.strerror or error} ({error.filename or self.path})"
                    + (f". Remove the folder, or use another {opt('output')}" if odd else "")
                ) from None
            raise

    def _take(self, output: str) -> None:
        """Makes the folder and locks it. UsageError where it is another's, or not a work folder."""
        while True:
            if self.path.is_symlink():
                raise UsageError(
                    f"{self.path}, where the work would be done, is a link. Remove it, or use another {opt('output')}."
                )
            self.path.mkdir(exist_ok=True)
            if _LOCK not in self._names() and self._names():
                raise UsageError(
                    f"{self.path}, where the work would be done, is not a work folder of nlpdata. Move it elsewhere, or use "
                    f"another {opt('output')}."
                )
            with suppress(FileNotFoundError):  # another run has just removed the folder
                if self._lock_it(output):
                    break
        for path in self.path.iterdir():
            if path.is_symlink():
                path.unlink()

    def _lock_it(self, output: str) -> bool:
        """False if the lock is of a folder that another run has removed since."""
        path = self.path / _LOCK
        lock = os.open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666)
        if fcntl is None:
            os.close(lock)
            return True
        self._lock = lock
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"another run is making {output} now (it holds {self.path}). Wait until it ends, or use another "
                f"{opt('output')}."
            ) from None
        except OSError:  # some network file systems have no locks
            self.close()
            return True
        held, found = os.fstat(lock), os.stat(path, follow_symlinks=False)
        if (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino):
            return True
        self.close()
        return False

    def _stored_key(self) -> str | None:
        path = self.path / _KEY
        return path.read_text(errors="replace") if path.exists() else None

    def _names(self) -> list[str]:
        """What is in the folder, in the order in which it is to be removed."""
        order = {_KEY: 0, JOURNAL: 3, _LOCK: 4}
        names = os.listdir(self.path)
        return sorted(names, key=lambda name: (order.get(name, 1 if name.endswith(".json") else 2), name))

    def _clear(self) -> None:
        for name in self._names():
            if name != _LOCK:
                (self.path / name).unlink()

    def close(self) -> None:
        """Releases the folder to other runs."""
        lock, self._lock = self._lock, None  # first: an interrupt after os.close must not lead to a second one
        if lock is not None:
            os.close(lock)

    def _drop_damaged(self) -> None:
        """Removes the results of units whose files are not as the units left them (after a power cut, say)."""
        for path in sorted(self.path.glob("*.json")):
            for name, crc in (_read_stored(path) or {"files": {}})["files"].items():
                if (self.path / name).exists() and file_checksum(self.path / name) != crc:
                    _log.warning(f"{self.path / name} is damaged; it is made again.")
                    path.unlink(missing_ok=True)

    def result(self, name: str, folder: AnyPath | None = None) -> dict | None:
        """The stored result of a finished unit, or None where its file is not there, or damaged.

        Args:
          name: of the unit; its result may name a file (`file`) and its size (`bytes`).
          folder: where the unit left it, if not here.
        """
        folder = folder or self.path
        stored = _read_stored(folder / f"{name}.json")
        if stored is None:
            return None
        result = stored["result"]
        if "file" not in result:
            return result
        try:
            size = file_size(folder / result["file"])
        except OSError:
            return None
        if size != result["bytes"]:
            _log.warning(
                f"{folder / result['file']} is damaged: {size} bytes instead of {result['bytes']}; it is made again."
            )
            return None
        return result

    @contextmanager
    def removed_on_refusal(self) -> Iterator[None]:
        """Input that is refused is refused again the next time: its finished parts are of no use."""
        try:
            yield
        except DataError:
            self.remove()
            raise

    def remove(self) -> None:
        """Removes the folder and releases it. What cannot be removed stays, and is reported: the result is complete."""
        try:
            self._clear()
            (self.path / _LOCK).unlink(missing_ok=True)
            self.path.rmdir()
        except OSError as error:
            _log.warning(f"{self.path} cannot be removed: {error.strerror or error}. Remove it yourself.")
        self.close()


def is_unfinished(output: str) -> bool:
    """Whether an interrupted command left a set of records half replaced, or its work folder."""
    target = OutputSet(output, meta_path(output))
    return committing_marker(output).exists() or os.path.lexists(work_path(target))


def remove_emptied(path: Path) -> None:
    """Removes a work folder of which a killed run has left nothing, or the lock that nobody holds."""
    with suppress(OSError):
        names = [] if path.is_symlink() else os.listdir(path)
        if names == [_LOCK] and fcntl is not None:
            lock = os.open(path / _LOCK, os.O_RDWR | _NO_FOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (path / _LOCK).unlink()
            finally:
                os.close(lock)
        path.rmdir()  # fails where it holds anything


def store_result(folder: AnyPath, name: str, result: dict, others: Sequence[str] = ()) -> None:
    """Marks a unit as finished, in one step.

    Args:
      folder: the work folder.
      name: of the unit.
      result: JSON-able; names the unit's files under `file` and `runs`.
      others: more files of the unit, for their checksums.
    """
    runs = [run for runs in result.get("runs", {}).values() for run in runs]
    own = [result["file"]] if "file" in result else []
    known = {result["file"]: result["crc32c"]} if "crc32c" in result else {}
    names = [] if is_remote(folder) else [*own, *runs, *others]
    files = {each: known.get(each) or file_checksum(folder / each) for each in names}
    stored = {"result": result, "files": files}
    content = json.dumps({**stored, "check": _check(name, stored)}).encode()
    write_whole(folder / f"{name}.json", content, durable=False)


def _check(name: str, stored: dict) -> str:
    return digest([name, stored["result"], stored["files"]])


def _read_stored(path: AnyPath) -> dict | None:
    """What store_result left; None where it is not there, damaged, or names anything but files next to it."""
    try:
        stored = json.loads(read_file(path))
        result, name = stored["result"], path.name.removesuffix(".json")
        runs = [run for runs in result.get("runs", {}).values() for run in runs]
        named = [*([result["file"]] if "file" in result else []), *runs, *result.get("merged", []), *stored["files"]]
        return stored if stored["check"] == _check(name, stored) and all(map(is_plain_name, named)) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
