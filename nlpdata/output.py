"""Where results go: refusing what exists, the work folder, and a commit after which the set is whole.

Work goes on in `.<stem>.work` beside the output, keyed by a hash of everything that decides about the result. Finished
shards move into place while a marker makes readers refuse; the meta file comes last.
"""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from nlpdata.errors import DataError, NlpdataError, UsageError
from nlpdata.records import committing_marker, meta_path, read_meta, record_stem, sync_folder, write_meta


@dataclass(frozen=True)
class OutputSet:
    """One set of records: its name (as given to --output), and its meta file."""

    output: str
    meta: Path

    @property
    def folder(self) -> Path:
        return Path(self.output).parent

    @property
    def stem(self) -> str:
        return record_stem(self.output).name


def output_set(output: str, meta: str | None = None) -> OutputSet:
    """The set that `--output` (and `--meta`) names. UsageError for a name that cannot be one."""
    name = os.path.basename(output)
    if not name or name.startswith(".") or any(character in name for character in "*?["):
        raise UsageError(
            f"--output names the record file, e.g. out/train.tfrecord. Received: {output!r}"
            + (", a folder." if not name else ", which readers' patterns would not match.")
        )
    if os.path.isdir(output):
        raise UsageError(f"--output {output} is a folder. Name the record file in it: {output}/train.tfrecord")
    return OutputSet(output, Path(meta) if meta else meta_path(output))


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


def check_output(targets: Sequence[OutputSet], overwrite: bool) -> None:
    """Refuses outputs that exist (UsageError), creates the folder, and finds out early whether it can be written.

    With `overwrite`, exactly the files that the old meta file lists may go; others are refused all the same.
    """
    for target in targets:
        existing = set_files(target) + [path for path in (target.meta,) if path.exists()]
        if not existing:
            continue
        names = ", ".join(path.name for path in existing[:5]) + (" ..." if len(existing) > 5 else "")
        if not overwrite:
            raise UsageError(f"{target.folder}/ already holds {names}. Use --overwrite, or another --output.")
        unlisted = [path.name for path in set_files(target) if path.name not in _listed(target)]
        if unlisted:
            raise UsageError(
                f"--overwrite removes what {target.meta} lists, and it does not list {', '.join(unlisted[:5])} in "
                f"{target.folder}/. Remove these files yourself, or use another --output."
            )
    for folder in {target.folder for target in targets} | {target.meta.parent for target in targets}:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".nlpdata-{os.getpid()}.tmp"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise UsageError(f"cannot write to {folder}/: {error.strerror}") from None


def _listed(target: OutputSet) -> set[str]:
    if not target.meta.exists():
        return set()
    try:
        return {shard["file"] for shard in read_meta(target.meta).get("shards", [])}
    except NlpdataError:  # no meta file of ours: it lists nothing
        return set()


class WorkFolder:
    """The work folder of an output; one that was left by an equal run is used further.

    Args:
      target: the output.
      key: JSON-able, everything that decides about the result and how it is divided into tasks.
      log: receives what the user should know.
    """

    def __init__(self, target: OutputSet, key: dict, log):
        self.path = target.folder / f".{target.stem}.work"
        digest = sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        try:
            stored = (self.path / "key").read_text() if (self.path / "key").exists() else None
            if self.path.exists() and stored != digest:
                log(f"{self.path} was left by a run with other options or inputs; it is deleted.")
                shutil.rmtree(self.path)
            self.resumed = self.path.exists()
            if self.resumed:
                log(f"{self.path} was left by an equal run; its finished parts are used.")
            self.path.mkdir(exist_ok=True)
            (self.path / "key").write_text(digest)
        except OSError as error:
            raise DataError(f"cannot use the work folder {self.path}: {error.strerror or error}") from None

    def result(self, name: str) -> dict | None:
        """The stored result of a finished task."""
        try:
            return json.loads((self.path / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def store_result(folder: Path, name: str, result: dict) -> None:
    """Marks a task as finished, in one step."""
    temporary = folder / f"{name}.json.tmp"
    temporary.write_text(json.dumps(result))
    os.replace(temporary, folder / f"{name}.json")


def commit(target: OutputSet, finished: Sequence[Path], extra: Sequence[Path], meta: dict) -> None:
    """Moves finished files into place: old set out, shards in, meta file last.

    Args:
      target: the set.
      finished: shards under their final base names, in the work folder.
      extra: other files of the set (the tokenizer), likewise.
      meta: the meta file's content.
    """
    marker = committing_marker(target.output)
    listed = _listed(target)
    try:
        marker.touch()
        sync_folder(target.folder)
        target.meta.unlink(missing_ok=True)
        for path in set_files(target):
            if path.name in listed:
                path.unlink()
        for path in [*finished, *extra]:
            os.replace(path, target.folder / path.name)
        sync_folder(target.folder)
        write_meta(target.meta, meta)
        marker.unlink()
    except OSError as error:
        raise DataError(f"cannot move the finished files into {target.folder}/: {error.strerror or error}") from None
