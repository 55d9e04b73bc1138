"""Where results go: refusing what exists, the work folder, and a commit after which the set is whole.

Work goes on in `.<stem>.work` beside the output, keyed by a hash of everything that decides about the result. Finished
shards move into place while a marker makes readers refuse; the meta file comes last.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from nlpdata.errors import DataError, NlpdataError, UsageError
from nlpdata.files import AnyPath, file_checksum, file_size, is_remote, move, path_of, sync_folder, write_whole
from nlpdata.records import (
    committing_marker,
    meta_path,
    read_meta,
    record_stem,
    shard_names,
    split_shard,
    write_meta,
)

SHARD_BYTES = 112 << 20  # records of a shard, unless their number is given


@dataclass(frozen=True)
class OutputSet:
    """One set of records: its name (as given to --output), and its meta file."""

    output: str
    meta: AnyPath

    @property
    def folder(self) -> AnyPath:
        return path_of(self.output).parent

    @property
    def stem(self) -> str:
        return record_stem(self.output).name

    def shards(self, record_bytes: int, given: int | None = None) -> list[str]:
        """Base names of the record files: as many as given, else one for each 112 MiB of records."""
        count = given or max(1, -(-record_bytes // SHARD_BYTES))
        return [Path(name).name for name in shard_names(self.output, count)]


def output_set(output: str, meta: str | None = None) -> OutputSet:
    """The set that `--output` (and `--meta`) names. UsageError for a name that cannot be one."""
    name = os.path.basename(output)
    if not name or name.startswith(".") or any(character in name for character in "*?["):
        raise UsageError(
            f"--output names the record file, e.g. out/train.tfrecord. Received: {output!r}"
            + (", a folder." if not name else ", which readers' patterns would not match.")
        )
    if "," in output:
        raise UsageError(
            f"--output names one set of records. Received: {output!r}. For several files give one name, and "
            "--num-shards."
        )
    if split_shard(output)[2] > 1 or re.search(r"-of-\d{5,}$", name):
        raise UsageError(
            f"--output names the set, not one shard of it. Received: {output!r}. Expected: "
            f"{os.path.join(os.path.dirname(output), split_shard(output)[0].name)!r} and, if wanted, --num-shards."
        )
    if path_of(output).is_dir():
        raise UsageError(f"--output {output} is a folder. Name the record file in it: {output}/train.tfrecord")
    return OutputSet(output, path_of(meta) if meta else meta_path(output))


def set_files(target: OutputSet) -> list[Path]:
    """The record files that lie under the set's name, one file or numbered shards of any count."""
    folder, stem = target.folder, record_stem(target.output)
    if not folder.is_dir():
        return []
    return sorted(
        path for path in folder.iterdir() if path.name.startswith(stem.name + ".") and _is_record_of(path, stem)
    )


def _is_record_of(path: Path, stem: Path) -> bool:
    rest = path.name.removeprefix(stem.name)
    return record_stem(path).name == stem.name and rest.startswith((".tfrecord", ".tf_record"))


def check_output(targets: Sequence[OutputSet], overwrite: bool, key: str = "") -> None:
    """Refuses outputs that exist (UsageError), creates the folder, and finds out early whether it can be written.

    With `overwrite`, exactly the files that the old meta file lists may go; others are refused all the same. Where a
    commit was interrupted, its marker stands for the old meta file, and the run whose `key` it holds may go on.
    """
    marked = _read_marker(targets[0])
    goes_on = bool(marked and key) and marked["key"] == key
    for target in targets:
        existing = set_files(target) + [path for path in (target.meta,) if path.exists()]
        names = ", ".join(path.name for path in existing[:5]) + (" ..." if len(existing) > 5 else "")
        if marked and not goes_on and not overwrite:
            raise UsageError(
                f"{target.folder}/ holds a set that another run left half replaced ({committing_marker(target.output)} "
                f"exists). Run that command again to complete it, or use --overwrite, or another --output."
            )
        if existing and not goes_on and not overwrite:
            raise UsageError(f"{target.folder}/ already holds {names}. Use --overwrite, or another --output.")
        listed = _listed(target) | set(marked["files"] if marked else ())
        unlisted = [path.name for path in set_files(target) if path.name not in listed]
        if unlisted:
            raise UsageError(
                f"--overwrite removes what {target.meta} lists, and it does not list {', '.join(unlisted[:5])} in "
                f"{target.folder}/. Remove these files yourself, or use another --output."
            )
        if existing == [target.meta] and not goes_on and not _is_record_meta(target.meta):
            raise UsageError(
                f"{target.meta} is no meta file of records, and --overwrite would replace it. Remove it yourself, or "
                "use another --output or --meta."
            )
    for folder in {target.folder for target in targets} | {target.meta.parent for target in targets}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".nlpdata-{os.getpid()}.tmp"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise UsageError(f"cannot write to {folder}/: {error.strerror or error}") from None


def _is_record_meta(path: Path) -> bool:
    try:
        return "task_type" in read_meta(path)
    except NlpdataError:
        return False


def _read_marker(target: OutputSet) -> dict | None:
    """What an interrupted commit wrote into its marker: its key, and the files of the old set and the new."""
    try:
        marked = json.loads(committing_marker(target.output).read_text())
        return {"key": str(marked["key"]), "files": [str(name) for name in marked["files"]]}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError):  # not one of ours, or damaged
        return {"key": "", "files": []}


def _listed(target: OutputSet) -> set[str]:
    if not target.meta.exists():
        return set()
    try:
        meta = read_meta(target.meta)
        files = {shard["file"] for shard in meta.get("shards", [])}
        files |= {split["examples"] for split in meta.get("splits", {}).values() if "examples" in split}
        tokenizer = meta.get("tokenizer", {}).get("file", "")
    except (NlpdataError, TypeError, KeyError, AttributeError):  # no meta file of ours: it lists nothing
        return set()
    copies = ("tokenizer.", *(f"{stem}.tokenizer." for stem in (target.stem, target.meta.stem)))
    return files | ({tokenizer} if tokenizer.startswith(copies) else set())


def work_key(key: dict) -> str:
    """Hash of everything that decides about a result and how it is divided into tasks; `key` is JSON-able."""
    return sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def work_path(target: OutputSet) -> Path:
    """The folder in which the work on an output goes on; on this machine, also where the output is not."""
    if is_remote(target.output):
        place = sha256(target.output.encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir(), f"nlpdata-{target.stem}-{place}.work")
    return target.folder / f".{target.stem}.work"


def shared_path(target: OutputSet, key: str) -> AnyPath:
    """The folder for work that goes on on several machines: the work folder, or its like beside a remote output."""
    return target.folder / f".{target.stem}.work" / key[:16] if is_remote(target.output) else work_path(target)


class WorkFolder:
    """The work folder of an output; one that was left by an equal run is used further. Only one run at a time has it.

    Args:
      target: the output.
      key: the run's `work_key`.
      log: receives what the user should know.
      resumable: False for a run that begins anew whatever was left.
    """

    def __init__(self, target: OutputSet, key: str, log, resumable: bool = True):
        self.path = work_path(target)
        self._log, self._lock = log, None
        try:
            self._take(target)
            stored = (self.path / "key").read_text() if (self.path / "key").exists() else None
            self.resumed = resumable and stored == key
            if not self.resumed and any(path.name != "lock" for path in self.path.iterdir()):
                why = "a run with other options or inputs" if stored != key else "the local executor"
                log(f"{self.path} was left by {why}; it is deleted.")
                self._clear()
            if self.resumed:
                log(f"{self.path} was left by an equal run; its finished parts are used.")
                for path in self.path.glob("*.tmp"):
                    path.unlink()
            (self.path / "key").write_text(key)
        except OSError as error:
            raise DataError(f"cannot use the work folder {self.path}: {error.strerror or error}") from None

    def _take(self, target: OutputSet) -> None:
        self.path.mkdir(exist_ok=True)
        if fcntl is None:
            return
        self._lock = open(self.path / "lock", "a")  # noqa: SIM115 (held until close, or the end of the process)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UsageError(
                f"another run is making {target.output} now (it holds {self.path}). Wait until it ends, or use another "
                "--output."
            ) from None
        except OSError:  # some network file systems have no locks
            self.close()

    def _clear(self) -> None:
        for path in self.path.iterdir():
            if path.name != "lock":
                path.unlink()

    def close(self) -> None:
        """Lets another run have the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def result(self, name: str, folder: AnyPath | None = None) -> dict | None:
        """The stored result of a finished task, if the file that it names under `file` lies there, of so many `bytes`.

        `folder`: where the task left it, if not here.
        """
        folder = folder or self.path
        try:
            result = json.loads((folder / f"{name}.json").read_text())
            if "file" not in result:
                return result
            size = file_size(folder / result["file"])  # unless it was moved into place before an interruption
        except (OSError, ValueError):
            return None
        if size != result["bytes"]:
            self._log(
                f"{folder / result['file']} is damaged: {size} bytes instead of {result['bytes']}; it is made again."
            )
            return None
        return result

    def remove(self) -> None:
        """Removes the folder, and lets it go."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.close()


def store_result(folder: AnyPath, name: str, result: dict) -> None:
    """Marks a task as finished, in one step."""
    store(folder / f"{name}.json", json.dumps(result).encode())


def store(path: AnyPath, content: bytes) -> None:
    """Writes a file of the work folder in one step; unlike write_whole, without waiting for the disk."""
    if is_remote(path):
        path.write_bytes(content)
        return
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def commit(sets: Sequence[tuple[OutputSet, Sequence[Path], Sequence[Path], dict]], key: str) -> None:
    """Moves finished files into place: old sets out, shards in, meta files last. May run twice, even at once.

    Args:
      sets: each set with its shards under their final base names in the work folder, other files of the set (the
        tokenizer) likewise, and the meta file's content. Readers refuse all sets until all are in place.
      key: the run's `work_key`; a run of equal key may repeat a commit that was interrupted.
    """
    folder = sets[0][0].folder
    marked = _read_marker(sets[0][0])
    if marked is None and all(_stands(*each) for each in sets):
        return
    old = set(marked["files"] if marked else ()).union(*(_listed(target) for target, *_ in sets))
    new = {path.name for _, finished, extra, _ in sets for path in [*finished, *extra]}
    markers = [committing_marker(target.output) for target, *_ in sets]
    content = json.dumps({"key": key, "files": sorted(old | new)})
    try:
        for marker in markers:
            write_whole(marker, content.encode())
        sync_folder(folder)
        if marked is None and all(_stands(*each) for each in sets):  # another attempt was done before the marker
            _remove_markers([target for target, *_ in sets])
            return
        for target, *_ in sets:
            target.meta.unlink(missing_ok=True)
        for name in sorted(old - new):
            (folder / name).unlink(missing_ok=True)
        for _, finished, extra, meta in sets:
            for path in [*finished, *extra]:
                _move(path, folder / path.name, meta)
        sync_folder(folder)
        for target, _, _, meta in sets:
            write_meta(target.meta, meta)
        _remove_markers([target for target, *_ in sets])
    except OSError as error:
        raise DataError(
            f"cannot move the finished files into {folder}/: {error.strerror or error}"
            + (f" ({error.filename})" if error.filename else "")
            + ". Run the same command again to complete the set"
        ) from None


def _remove_markers(targets: Sequence[OutputSet]) -> None:
    for target in reversed(targets):  # the first one goes last: it speaks for all
        committing_marker(target.output).unlink(missing_ok=True)


def complete(targets: Sequence[OutputSet], key: str) -> None:
    """Ends a commit of which a late second attempt died after the first one was done: its marker goes.

    To be called when all attempts of the commit are over. DataError where the sets are not whole.
    """
    marked = _read_marker(targets[0])
    if marked is None or marked["key"] != key:
        return
    for target in targets:
        files = _listed(target)
        if not files or not all((target.folder / name).exists() for name in files):
            raise DataError(
                f"{target.output}: the last step ended while it put the shards in place. Run the same command again "
                "to complete the set"
            )
    _remove_markers(targets)


def _stands(target: OutputSet, finished: Sequence[Path], extra: Sequence[Path], meta: dict) -> bool:
    """True if this very set is in place already: a second, late attempt of a step that ran must not take it apart."""
    moved = not any(path.exists() for path in [*finished, *extra])
    return moved and target.meta.exists() and read_meta(target.meta) == meta


def _move(path: Path, place: Path, meta: dict) -> None:
    """Moves a file of the set; one that another attempt of the same step has moved is left where it is."""
    try:
        move(path, place)
    except FileNotFoundError:
        expected = {shard["file"]: shard["crc32c"] for shard in meta["shards"]}.get(place.name)
        if not place.exists() or (expected and file_checksum(place) != expected):
            raise
