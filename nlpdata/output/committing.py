"""The commit of finished sets: after it they are in place, whatever interrupts it and however often it is repeated.

The order, which test_committing.py tests operation by operation:

1. The new meta files are written under temporary names, and the journal into the folder where the finished files wait.
2. Each set gets its marker, `.<stem>.committing`. While it exists, readers refuse the set.
3. The old meta files go, then the old set's other files; the finished files move into place; the meta files come last.
4. The markers go. The caller removes the folder with the journal.

All that fails for want of room or rights fails in the first two steps, before anything of the old set is touched.
"""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from nlpdata.errors import DataError, NlpdataError, opt
from nlpdata.files.paths import AnyPath, file_checksum, is_plain_name, read_file
from nlpdata.files.temporary import temporary
from nlpdata.files.writing import move, sync_folder, write_durably, write_whole
from nlpdata.output.naming import OutputSet, is_own, set_files
from nlpdata.records.contract import meta_bytes, read_meta, write_meta

JOURNAL = "commit.json"


@dataclass(frozen=True)
class FinishedSet:
    """A set that is made: its files (shards, tokenizer), waiting under their final base names, and the meta file's content."""

    target: OutputSet
    files: Sequence[AnyPath]
    meta: dict


def commit(
    sets: Sequence[FinishedSet],
    key: str,
    waiting: Path | None = None,
    notes: Sequence[str] = (),
    found: str | None = None,
) -> None:
    """Puts finished sets in place: old sets out, files in, meta files last. May run twice, even at once.

    Args:
      sets: readers refuse all of them until all are in place.
      key: the run's, as for WorkFolder; a run of equal key may repeat a commit that was interrupted.
      waiting: the folder on this machine in which the files wait; it gets the journal, if it has none yet.
      notes: kept in the journal, for the run that completes the commit.
      found: what `standing` gave when the run began. None where attempts of this very commit may run at once, whose sets
        cannot be told from another command's.

    Raises DataError where the disk refuses, and where another command has changed the sets since the run began.
    """
    folder, targets = sets[0].target.folder, [each.target for each in sets]
    if not any(map(read_marker, targets)):
        if _are_in_place(sets):
            return
        if found is not None and standing(targets) != found:
            raise DataError(
                f"another command has written to {folder}/ since this one began; its files are left as they are. This one's "
                f"finished parts are kept: run it again with another {opt('output')}, or with "
                f"{opt('overwrite', True)} to replace those files"
            )
    try:
        with ExitStack() as stack:
            staged = {each.target.meta: _staged(stack, each) for each in sets}
            if waiting is not None and not (waiting / JOURNAL).exists():
                write_whole(waiting / JOURNAL, _journal(sets, key, notes))
                sync_folder(waiting)
            if _mark(sets, key, folder):
                _replace(sets, folder, staged)
            remove_markers(targets)
    except OSError as error:
        raise DataError(
            f"cannot move the finished files into {folder}/: {error.strerror or error}"
            + (f" ({error.filename})" if error.filename else "")
            + ". Run the same command again to complete the set"
        ) from None


def _staged(stack: ExitStack, finished: FinishedSet) -> AnyPath | None:
    """The new meta file under a temporary name; None where it is remote, and appears in one step anyway."""
    content, meta = meta_bytes(finished.meta), finished.target.meta
    if not isinstance(meta, Path):
        return None
    made = stack.enter_context(temporary(meta))
    write_durably(made, content)
    return made


def _mark(sets: Sequence[FinishedSet], key: str, folder: AnyPath) -> bool:
    """Writes the markers, with the names of what may have to go. False if another attempt had put all in place."""
    marked = [read_marker(each.target) for each in sets]
    content = json.dumps({"key": key, "files": sorted(_old(sets) | _new(sets))}).encode()
    for each in sets:
        for marker in each.target.markers:
            write_whole(marker, content)
    sync_folder(folder)
    return any(marked) or not _are_in_place(sets)


def _replace(sets: Sequence[FinishedSet], folder: AnyPath, staged: dict) -> None:
    old = _old(sets)
    for meta in staged:
        meta.unlink(missing_ok=True)
    for name in sorted(old - _new(sets)):
        (folder / name).unlink(missing_ok=True)
    for each in sets:
        for path in each.files:
            _move(path, folder / path.name, _checksums(each.meta).get(path.name))
    sync_folder(folder)
    metas = {each.target.meta: each.meta for each in sets}
    for meta, made in staged.items():
        if made is None:
            write_meta(meta, metas[meta])
        else:
            os.replace(made, meta)
        sync_folder(meta.parent)


def _old(sets: Sequence[FinishedSet]) -> set[str]:
    """The files of the sets that are replaced, and of those of an interrupted commit."""
    return set().union(*(listed(each.target) | marked_files(each.target) for each in sets))


def _new(sets: Sequence[FinishedSet]) -> set[str]:
    return {path.name for each in sets for path in each.files}


def _move(path: AnyPath, place: AnyPath, expected: str | None) -> None:
    """Moves a file of the set; one that another attempt of the same step has moved is left where it is."""
    try:
        move(path, place)
    except FileNotFoundError:
        if not place.exists() or (expected and file_checksum(place) != expected):
            raise


def _checksums(meta: dict) -> dict[str, str]:
    return {shard["file"]: shard["crc32c"] for shard in meta["shards"]}


def _are_in_place(sets: Sequence[FinishedSet]) -> bool:
    """True if these very sets are in place: a second, late attempt of a step that ran must not take them apart."""
    return all(
        not any(path.exists() for path in each.files)
        and each.target.meta.exists()
        and each.target.meta.read_bytes() == meta_bytes(each.meta)
        for each in sets
    )


# ------------------------------------------------------------------------------------------------------ marker, old set


def read_marker(target: OutputSet) -> dict | None:
    """What an interrupted commit wrote into its marker: its key, and files of the old set and the new."""
    for marker in target.markers:
        if found := _read_marker(marker):
            return found
    return None


def _read_marker(marker: AnyPath) -> dict | None:
    try:
        marked = json.loads(read_file(marker))
        return {"key": str(marked["key"]), "files": [str(name) for name in marked["files"]]}
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # not one of ours, or damaged
        return {"key": "", "files": []}


def marked_files(target: OutputSet) -> set[str]:
    """The files that the marker names, as far as they may be the set's own."""
    return {name for name in (read_marker(target) or {"files": ()})["files"] if is_own(target, name)}


def listed(target: OutputSet) -> set[str]:
    """The files that the meta file in place lists, as far as they may be the set's own."""
    return {
        name
        for name in _in_meta(target, lambda meta: [meta.get("tokenizer", {}).get("file", "")])
        if is_own(target, name)
    }


def listed_records(target: OutputSet) -> set[str]:
    """The base names of record files that the meta file in place lists, whosever they are."""
    return {name for name in _in_meta(target) if is_plain_name(name)}


def _in_meta(target: OutputSet, more: Callable[[dict], list[str]] = lambda meta: []) -> set[str]:
    """The names of records and questions in the meta file in place, and more of its content; none where it is not ours."""
    if not target.meta.exists():
        return set()
    try:
        meta = read_meta(target.meta)
        files = {shard["file"] for shard in meta.get("shards", [])}
        files |= {split["examples"] for split in meta.get("splits", {}).values() if "examples" in split}
        return files | set(more(meta))
    except (NlpdataError, TypeError, KeyError, AttributeError):
        return set()


def standing(targets: Sequence[OutputSet]) -> str:
    """A digest of what is in place: the names of the sets' files, and their meta files."""
    return digest([[[path.name for path in set_files(target)], _meta_digest(target)] for target in targets])


def _meta_digest(target: OutputSet) -> str | None:
    try:
        return sha256(read_file(target.meta)).hexdigest()
    except OSError:  # there is none
        return None


def remove_markers(targets: Sequence[OutputSet]) -> None:
    for target in reversed(targets):
        for marker in reversed(target.markers):
            marker.unlink(missing_ok=True)


def complete(targets: Sequence[OutputSet], key: str) -> None:
    """Ends a commit of which a late second attempt died after the first one was done: removes its marker.

    To be called when all attempts of the commit are over. DataError where the sets are not whole.
    """
    marked = read_marker(targets[0])
    if marked is None or marked["key"] != key:
        return
    for target in targets:
        files = listed(target)
        if not files or not all((target.folder / name).exists() for name in files):
            raise DataError(
                f"{target.output}: the last step ended while it put the shards in place. Run the same command again "
                "to complete the set"
            )
    remove_markers(targets)


# -------------------------------------------------------------------------------------------------------------- journal


@dataclass(frozen=True)
class Decided:
    """A commit that a run of equal key had begun; in_place: whether only the work folder is left to remove."""

    sets: list[FinishedSet]
    notes: list[str]
    in_place: bool


def _journal(sets: Sequence[FinishedSet], key: str, notes: Sequence[str]) -> bytes:
    """All that it takes to complete the commit: no other file of the work folder is needed any more."""
    described = [
        {
            "output": each.target.output,
            "files": {path.name: _checksums(each.meta).get(path.name) or file_checksum(path) for path in each.files},
            "meta": json.loads(meta_bytes(each.meta)),
        }
        for each in sets
    ]
    journal = {"key": key, "notes": list(notes), "sets": described}
    return json.dumps({**journal, "check": digest(journal)}).encode()


def digest(content: object) -> str:
    """A digest of JSON-able content: 64 hexadecimal digits."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_decided(targets: Sequence[OutputSet], key: str, waiting: Path) -> Decided | None:
    """The commit that an equal run had begun, if each of its files waits there or is in place, unharmed."""
    try:
        journal = json.loads(read_file(waiting / JOURNAL))
        if journal.pop("check") != digest(journal) or journal["key"] != key:
            return None
        if [each["output"] for each in journal["sets"]] != [t.output for t in targets]:
            return None
        sets = []
        for target, each in zip(targets, journal["sets"], strict=True):
            if not all(_is_unharmed(target, waiting, name, crc) for name, crc in each["files"].items()):
                return None
            sets.append(FinishedSet(target, [waiting / name for name in each["files"]], each["meta"]))
        in_place = not any(read_marker(target) for target in targets) and _are_in_place(sets)
        return Decided(sets, list(journal["notes"]), in_place)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_unharmed(target: OutputSet, waiting: Path, name: str, crc: str) -> bool:
    paths = (waiting / name, target.folder / name)
    return is_own(target, name) and any(path.exists() and file_checksum(path) == crc for path in paths)
