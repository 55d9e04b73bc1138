"""Writing a trained tokenizer: its files are replaced as one, the tokenizer file last.

`tok/spm` names `spm.model`, `spm.vocab` and the sidecar `spm.tokenizer.json`, which holds the tokenizer file's checksum.
From the moment the sidecar is in place until the tokenizer file is, a reader finds no tokenizer file, or one that does not
fit the sidecar, and refuses. `.spm.tokenizer.committing` exists meanwhile, so that an interrupted run can complete them.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files import PathName
from nlpdata.files.disk import why_unwritable, writing
from nlpdata.files.paths import AnyPath, is_remote, path_of, read_file
from nlpdata.files.temporary import temporary
from nlpdata.files.writing import move, sync_folder, write_durably, write_whole
from nlpdata.records.contract import committing_marker
from nlpdata.tokenizers.files import SIDECAR_SUFFIX


def prepare_output(
    output: PathName, suffixes: tuple[str, ...], overwrite: bool, key: str, dry_run: bool = False
) -> list[AnyPath]:
    """The paths to write, the sidecar last. Makes the folder, and checks before hours of work that it can be written.

    Args:
      output: their prefix, with or without one of the suffixes.
      suffixes: of the files, the tokenizer file first.
      overwrite: replace what an earlier run wrote.
      key: hash of what decides about the result; a run of equal key may complete what was interrupted.
      dry_run: make no folder, and do not try to write.

    Raises UsageError, DataError.
    """
    prefix = os.fspath(output)
    for suffix in suffixes:  # "tok/spm.model" means "tok/spm"
        prefix = prefix.removesuffix(suffix)
    if not prefix or prefix.endswith(("/", os.sep)) or path_of(prefix).is_dir():
        raise UsageError(
            f"{opt('output')} must be a path and a file name, as in tok/spm. Received: {os.fspath(output)!r}."
        )
    paths = [path_of(prefix + suffix) for suffix in (*suffixes, SIDECAR_SUFFIX)]
    if _marked_key(_marker(paths)) != key:
        _refuse_existing(paths, overwrite)
    if reason := why_unwritable(paths[0].parent):
        raise DataError(f"{paths[0]}: cannot be written: {reason}. Name another {opt('output')}")
    with writing(paths[0]):
        for path in paths:
            if path.is_dir():
                raise UsageError(f"{path} is a folder; a file is written there. Name another {opt('output')}")
        if not dry_run:
            paths[0].parent.mkdir(parents=True, exist_ok=True)
            _probe(paths)
    return paths


def _refuse_existing(paths: Sequence[AnyPath], overwrite: bool) -> None:
    existing = [str(path) for path in paths if path.exists() or os.path.islink(str(path))]
    if existing and not overwrite:
        raise UsageError(
            f"Already there: {', '.join(existing)}. Use {opt('overwrite', True)}, or another {opt('output')}."
        )
    if existing and not _is_sidecar(paths[-1]):
        raise UsageError(
            f"{opt('overwrite', True)} replaces what an earlier run wrote, and {paths[-1]} does not say that it wrote "
            f"{', '.join(existing)}. Remove these files yourself, or use another {opt('output')}."
        )


def _is_sidecar(path: AnyPath) -> bool:
    try:
        return isinstance(json.loads(read_file(path))["sha256"], str)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _marker(paths: Sequence[AnyPath]) -> AnyPath:
    return committing_marker(paths[-1].with_name(paths[-1].name.removesuffix(".json")))


def _marked_key(marker: AnyPath) -> str | None:
    try:
        return str(json.loads(read_file(marker))["key"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _probe(paths: Sequence[AnyPath]) -> None:
    """OSError where no file can be written. Removes what killed runs left."""
    for path in (*paths, _marker(paths)):
        if isinstance(path, Path):
            with temporary(path):
                pass
    if is_remote(paths[0]):
        probe = paths[0].with_name(f".{paths[0].name}.probe")
        probe.touch()
        probe.unlink()


def write(paths: Sequence[AnyPath], files: Mapping[str, bytes], sidecar: dict, key: str) -> None:
    """Replaces the files as one; see the top of this file.

    Args:
      paths, key: as prepare_output has them.
      files: content of the tokenizer file and the others, in the order of the paths.
      sidecar: JSON-able.

    Raises DataError where the disk refuses.
    """
    text = json.dumps(sidecar, ensure_ascii=False, indent=2) + "\n"
    contents = dict(zip(paths, [*files.values(), text.encode("utf-8", "backslashreplace")], strict=True))
    with ExitStack() as stack:
        staged = {}
        for path in reversed(paths):
            with writing(path):
                staged[path] = _staged(stack, path, contents[path])
        with writing(_marker(paths)):
            write_whole(_marker(paths), json.dumps({"key": key}).encode())
        for path, made in staged.items():
            with writing(path):
                if made is None:
                    path.write_bytes(contents[path])
                else:
                    move(made, path)
        sync_folder(paths[0].parent)
        with writing(_marker(paths)):
            _marker(paths).unlink(missing_ok=True)


def _staged(stack: ExitStack, path: AnyPath, content: bytes) -> AnyPath | None:
    """The file under a temporary name; None for a remote one, which appears in one step anyway."""
    if not isinstance(path, Path):
        return None
    made = stack.enter_context(temporary(path))
    write_durably(made, content)
    return made
