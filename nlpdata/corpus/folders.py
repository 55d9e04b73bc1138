"""A folder as a corpus: its text files, in the folders in it, too."""

import glob
import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence

from nlpdata.errors import UsageError, opt
from nlpdata.files.compression import COMPRESSED
from nlpdata.files.disk import reading
from nlpdata.files.paths import is_remote
from nlpdata.files.remote import RemotePath
from nlpdata.files.sets import without_shard

_log = logging.getLogger(__name__)

TEXT, JSON_LINES = (".txt", ".text"), (".jsonl", ".ndjson")
_SHOWN = 5  # names and kinds of files in a message


def text_files(folder: str, wanted: Sequence[str]) -> list[str]:
    """The files in a folder and in those in it whose names have a wanted ending, compressed or not, sorted; they are reported.

    Shards of a set have the ending of the set's name. What begins with a dot is left out. A folder to which several links lead
    is read once. UsageError where there are none.
    """
    found = sorted(_files_in(folder))
    taken = [path for path in found if ending(path) in wanted]
    kinds, others = Counter(map(_kind, taken)), Counter(map(_kind, set(found) - set(taken)))
    if not taken:
        raise UsageError(
            f"{opt('input')}: {folder} holds no {' or '.join(f'*{end}' for end in wanted)}: {_advice(folder, others, wanted)}"
        )
    names = [os.path.relpath(path, folder) if not is_remote(path) else path for path in taken[:_SHOWN]]
    more = f", ... {len(taken)} in all" if len(taken) > _SHOWN else ""
    left_out = f"; left out: {counted(others)}" if others else ""
    _log.info("%s: %s: %s%s%s", folder, counted(kinds), ", ".join(names), more, left_out)
    return taken


def ending(path: str) -> str:
    """The suffix of a file's name in lower case, without compression and number of a shard: ".txt" of a/X.txt-00000-of-00002.gz."""
    name = os.path.basename(path)
    return os.path.splitext(without_shard(name.removesuffix(_compression(name))))[1].lower()


def _advice(folder: str, others: Counter[str], wanted: Sequence[str]) -> str:
    if not others:
        return f"it is empty; expected text files, or a pattern such as {os.path.join(folder, '*.txt')!r}"
    json_lines = [kind for kind in others if any(kind.lower().startswith(f"*{end}") for end in JSON_LINES)]
    key = (
        f" For JSON lines name the key of the text: {opt('text_key', 'text')}." if json_lines and wanted == TEXT else ""
    )
    usual = others.most_common(1)[0][0]
    return f"it holds {counted(others)}; give a pattern, such as {os.path.join(folder, '**', usual)!r}.{key}"


def _files_in(folder: str) -> Iterator[str]:
    """The paths of the files in a folder and in those in it, without those that begin with a dot."""
    if is_remote(folder):
        for path in RemotePath(f"{glob.escape(folder.rstrip('/'))}/**").glob_files():
            if not any(part.startswith(".") for part in path.removeprefix(folder).split("/")):
                yield path
        return
    seen: set[str] = set()
    with reading(folder):
        for place, folders, names in os.walk(folder, onerror=_raise, followlinks=True):
            real = os.path.realpath(place)
            if real in seen:
                folders.clear()
                continue
            seen.add(real)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (os.path.join(place, name) for name in names if not name.startswith("."))


def _raise(error: OSError) -> None:
    with reading(error.filename):
        raise error


def kinds_in(folder: str) -> Counter[str]:
    """Kinds of files in a folder itself, with their numbers; hidden ones left out."""
    with reading(folder), os.scandir(folder) as entries:
        return Counter(_kind(entry.name) for entry in entries if not entry.name.startswith(".") and not entry.is_dir())


def counted(kinds: Counter[str]) -> str:
    """3 *.txt, 1 *.md"""
    shown = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(_SHOWN))
    return f"{shown}, ..." if len(kinds) > _SHOWN else shown


def _compression(path: str) -> str:
    return next((suffix for suffix in COMPRESSED if path.lower().endswith(suffix)), "")


def _kind(path: str) -> str:
    """*.txt, or *.txt.gz where compressed; * where a name has no suffix."""
    stem, suffix = os.path.splitext(without_shard(os.path.basename(path)))
    return f"*{os.path.splitext(stem)[1]}{suffix}" if suffix.lower() in COMPRESSED else f"*{suffix}"
