"""What is found out before the work: outputs that exist, files that are not ours to replace, folders that cannot be written."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from nlpdata.errors import NlpdataError, UsageError, opt
from nlpdata.files.disk import why_unwritable
from nlpdata.files.paths import AnyPath
from nlpdata.files.temporary import temporary
from nlpdata.output.committing import listed, listed_records, marked_files, read_decided, read_marker
from nlpdata.output.naming import OutputSet, is_own, set_files
from nlpdata.output.work import remove_emptied, work_path
from nlpdata.records.contract import read_meta


def check_output(
    targets: Sequence[OutputSet],
    overwrite: bool,
    key: str = "",
    others: Mapping[str, bytes | None] | None = None,
) -> None:
    """Refuses outputs that exist, as refuse_output does; then creates the folder, and finds out early whether it can be written."""
    remove_emptied(work_path(targets[0]))
    refuse_output(targets, overwrite, key, others)
    for target in targets:
        longest = target.folder / f"{target.stem}.tfrecord-00000-of-00000.json"  # of the names in the work folder
        for place in (*target.markers, target.meta, longest):
            _probe(place)


def refuse_output(
    targets: Sequence[OutputSet],
    overwrite: bool,
    key: str = "",
    others: Mapping[str, bytes | None] | None = None,
) -> None:
    """UsageError where outputs exist, or no file can be made. Writes nothing.

    With `overwrite`, exactly the files that the old meta file lists may go; others are refused all the same. Where a
    commit was interrupted, its marker stands for the old meta file, and the run whose `key` it holds may complete it.

    Args:
      others: base names of the files that the run writes next to records and meta file, with their content if known.
    """
    for target in targets:
        if reason := why_unwritable(target.folder):
            raise UsageError(f"cannot write to {target.folder}/: {reason}. Use another {opt('output')}.")
    decided = read_decided(targets, key, work_path(targets[0])) if key else None
    if decided is None or not decided.in_place:
        keys = [marked["key"] for marked in map(read_marker, targets) if marked]
        for target in targets:
            _refuse_existing(target, overwrite, may_complete=bool(key) and key in keys)
        if overwrite:
            _refuse_leaving_files(targets)
        _refuse_others(targets, others or {})


def _refuse_existing(target: OutputSet, overwrite: bool, may_complete: bool) -> None:
    marked = read_marker(target)
    own = set_files(target)
    existing = own + [path for path in (target.meta,) if _is_there(path)]
    names = ", ".join(path.name for path in existing[:5]) + (" ..." if len(existing) > 5 else "")
    if marked and not may_complete and not overwrite:
        raise UsageError(
            f"{target.folder}/ holds a set that another run left half replaced ({target.markers[0]} "
            f"exists). Run that command again to complete it, or use {opt('overwrite', True)}, or another {opt('output')}."
        )
    if existing and not may_complete and not overwrite:
        raise UsageError(
            f"{target.folder}/ already holds {names}. Use {opt('overwrite', True)}, or another {opt('output')}."
        )
    for path in existing:
        _refuse_folder(path)
    may_go = listed(target) | marked_files(target)
    unlisted = [path.name for path in own if path.name not in may_go]
    if unlisted:
        raise UsageError(
            f"{opt('overwrite', True)} removes what {target.meta} lists, and it does not list {', '.join(unlisted[:5])} in "
            f"{target.folder}/. Remove these files yourself, or use another {opt('output')}."
        )
    if existing == [target.meta] and not may_complete and not _is_record_meta(target.meta):
        raise UsageError(
            f"{target.meta} is not a meta file of records, and {opt('overwrite', True)} would replace it. Remove it yourself, or "
            f"use another {opt('output')} or {opt('meta')}."
        )


def _refuse_leaving_files(targets: Sequence[OutputSet]) -> None:
    """UsageError where listed files would stay behind without the meta file: of a set named one by one, or of text by two names."""
    for target in targets:
        mine = [name for name in sorted(listed_records(target)) if not any(is_own(each, name) for each in targets)]
        left = [name for name in mine if (target.folder / name).exists()] if target.names or target.is_text else []
        if left:
            other = opt("output") if target.is_text else f"{opt('output')} or {opt('meta')}"
            raise UsageError(
                f"{target.meta} lists {', '.join(left[:5])} too, which would stay behind. Remove them and it yourself, or use "
                f"another {other}."
            )


def _refuse_others(targets: Sequence[OutputSet], others: Mapping[str, bytes | None]) -> None:
    """UsageError where a tokenizer or the like would replace a file that no earlier run wrote."""
    folder = targets[0].folder
    may_go = set().union(*(listed(target) | marked_files(target) for target in targets))
    for name, content in others.items():
        path = folder / name
        if not _is_there(path):
            continue
        _refuse_folder(path)
        if name not in may_go and not (content is not None and path.exists() and path.read_bytes() == content):
            raise UsageError(
                f"{path} exists, no meta file there says that an earlier run wrote it, and this run would replace it. "
                f"Move it elsewhere, or use another {opt('output')}."
            )


def _refuse_folder(path: AnyPath) -> None:
    if path.is_dir() and not (isinstance(path, Path) and path.is_symlink()):
        raise UsageError(
            f"{path} is a folder; a file is written there. Move it elsewhere, or use another {opt('output')}."
        )


def _is_there(path: AnyPath) -> bool:
    return os.path.lexists(path) if isinstance(path, Path) else path.exists()


def _probe(place: AnyPath) -> None:
    """UsageError where no file can be written next to `place`; makes the folder."""
    folder = place.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not isinstance(place, Path):
            probe = place.with_name(f".{place.name.lstrip('.')}.probe")
            probe.touch()
            probe.unlink()
            return
        with temporary(place):
            pass
    except OSError as error:
        raise UsageError(f"cannot write to {folder}/: {error.strerror or error}") from None


def _is_record_meta(path: AnyPath) -> bool:
    try:
        return "task_type" in read_meta(path)
    except NlpdataError:
        return False
