"""Input patterns -> corpus files, with messages for everything that can be wrong about them."""

import glob
import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from nlpdata.corpus.folders import JSON_LINES, TEXT, counted, kinds_in, text_files
from nlpdata.corpus.source import Source, reading
from nlpdata.corpus.types import CorpusFile
from nlpdata.errors import UsageError, closest, opt
from nlpdata.files import PathNames
from nlpdata.files.compression import detect_compression, plain_file_name
from nlpdata.files.paths import file_size, is_remote, open_binary, path_of
from nlpdata.files.patterns import as_names, each_named, find_paths
from nlpdata.files.sets import marker_of, refuse_marked, without_shard
from nlpdata.keys import hash_bytes
from nlpdata.text.encoding import HEAD_BYTES, check_is_text

_WEIGHT = re.compile(r"(.+)@([^@/,]*)")
_MOST_WEIGHT = 1000


def find_files(
    patterns: PathNames,
    json_lines: bool = False,
    endings: Sequence[str] = (),
    is_text: Callable[[str], bool] = lambda path: True,
) -> tuple[list[CorpusFile], list[str]]:
    """The files that patterns name, in sorted path order, and warnings. UsageError, DataError where one cannot be read.

    A pattern is a path, a glob (`**` goes into folders) or a comma-separated list of these, each with an optional
    weight (`wiki/*.txt@2`). What exists under the very name wins over commas, weights and globs. A folder stands for its
    text files (nlpdata.corpus.folders), and so does each of a glob that matches nothing but folders.

    Args:
      patterns: one or several.
      json_lines: whether the corpus is JSON lines: which files of a folder are text then.
      endings: of the names of a folder's files that are input, if those are others, e.g. (".txt", ".md").
      is_text: whether a file is text, which is then looked at.
    """
    wanted = tuple(endings) or (JSON_LINES if json_lines else TEXT)
    given = as_names(patterns)
    if not given:
        raise UsageError(f"{opt('input')}: no file or pattern was given")
    matches: list[tuple[str, float]] = []
    for number, pattern in enumerate(given):
        matches += _resolve(pattern, wanted, around=given[max(0, number - 1) : number + 2])
    matches.sort(key=lambda match: _order(match[0]))
    unique, warnings = _without_repetitions(matches)
    files: list[CorpusFile] = []
    seen: Counter[str] = Counter()
    _refuse_half_replaced(path for path, _ in unique)
    for path, weight in unique:
        name = _name(path)
        files.append(_inspect(path, name, seen[name], weight, len(files), is_text(path)))
        seen[name] += 1
    return files, warnings


def _name(path: str) -> str:
    return plain_file_name(os.path.basename(path))


def _order(path: str) -> tuple[str, str]:
    """Sorted path order: neither the spelling of a path (./a, ../x/a) nor compression changes it."""
    path = path if is_remote(path) else os.path.abspath(path)
    return os.path.join(os.path.dirname(path), _name(path)), path


def _refuse_half_replaced(paths: Iterable[str]) -> None:
    """DataError for a file of a set that split-sentences is putting in place, or was while it was interrupted."""
    sets = {without_shard(path): path for path in paths}
    for base, path in sets.items():
        if is_remote(path) and base == path:
            continue  # a store is asked about each; a set of one file appears there in one step
        name = path_of(base)
        if name.name.strip("."):
            refuse_marked(marker_of(name), f"{base}: this set of text")


def _resolve(pattern: str, wanted: Sequence[str], around: list[str]) -> list[tuple[str, float]]:
    """(path, weight) of all files that one argument names. `around`: it and its neighbours, for the message."""
    if not pattern.strip(" ,"):
        raise UsageError(
            f"{opt('input')}: received {pattern!r}, expected a file or a pattern (is a shell variable empty?)"
        )
    found: list[tuple[str, float]] = []
    for part, matches in each_named(pattern, partial(_match, wanted=wanted)):
        if not matches:
            raise _no_match(part, around if part == pattern else [])
        found += matches
    return found


def _match(pattern: str, wanted: Sequence[str]) -> list[tuple[str, float]]:
    """(path, weight) of the files that a path or glob names, with or without a weight; none where nothing matches."""
    pattern = os.path.expanduser(pattern)
    for path, weight in ((pattern, None), _split_weight(pattern)):
        if not path:
            continue
        is_folder = path_of(path).is_dir()
        paths = [] if is_folder else find_paths(path)
        files = [each for each in paths if not os.path.isdir(each)]  # of a remote pattern all are
        if not files:
            files = [file for folder in ([path] if is_folder else paths) for file in text_files(folder, wanted)]
        if files:
            factor = 1.0 if weight is None else _weight(pattern, weight)
            return [(path, factor) for path in files]
    return []


def _split_weight(pattern: str) -> tuple[str, str | None]:
    found = _WEIGHT.fullmatch(pattern)
    return (found[1], found[2]) if found else ("", None)


def _weight(pattern: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= _MOST_WEIGHT:
        raise UsageError(
            f"{opt('input')}: {pattern!r} has the weight {text!r}; expected a number above 0 and up to {_MOST_WEIGHT}, such as @2 "
            "or @0.5"
        )
    return weight


def _without_repetitions(matches: list[tuple[str, float]]) -> tuple[list[tuple[str, float]], list[str]]:
    """Keeps the first of the paths that lead to one file; a warning names such files."""
    kept: dict[str, tuple[str, float]] = {}
    repeated: dict[str, str] = {}
    folders: dict[str, str] = {}  # as they are spelled -> without links
    for path, weight in matches:
        real = path if is_remote(path) else _real(path, folders)
        if real not in kept:
            kept[real] = (path, weight)
            continue
        first, first_weight = kept[real]
        again = "" if path == first else f" (also as {path})"
        if weight != first_weight:
            raise UsageError(
                f"{opt('input')}: {first}{again} is given with the weights {first_weight:g} and {weight:g}: give each file "
                "once, with one weight (no @ means 1)"
            )
        repeated.setdefault(real, first + again)
    if not repeated:
        return list(kept.values()), []
    names = list(repeated.values())
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return list(kept.values()), [f"given more than once, read once: {', '.join(names[:3])}{more}"]


def _real(path: str, folders: dict[str, str]) -> str:
    """os.path.realpath, with what is known of folders kept in `folders`: files are many, their folders few."""
    if os.path.islink(path):
        return os.path.realpath(path)
    folder, name = os.path.split(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def _inspect(path: str, name: str, occurrence: int, weight: float, number: int, is_text: bool) -> CorpusFile:
    """Opens a file as far as it takes to know that it can be read as a corpus."""
    with reading(path):
        size = file_size(path)
    if not is_remote(path) and not os.path.isfile(path):
        raise UsageError(
            f"{opt('input')}: {path} is not a regular file (a pipe or device?): write its contents to a file first"
        )
    with reading(path), open_binary(path) as raw:
        head = raw.read(HEAD_BYTES)
    compression = detect_compression(head)
    identity = f"{name}\0{occurrence}".encode("utf-8", "surrogateescape")
    file = CorpusFile(path, name, hash_bytes(identity), size, compression, weight, number)
    if not is_text:
        return file
    if compression == "none":
        check_is_text(path, head)
        return file
    with Source(file):  # its head must come out of the decompressor
        return file


def _no_match(pattern: str, around: list[str]) -> UsageError:
    path = os.path.expanduser(pattern)
    if is_remote(pattern):
        return UsageError(f"{opt('input')}: {pattern!r} matches no file there")
    found = _split_weight(pattern)[0] or path
    folder = os.path.dirname(os.path.expanduser(found))
    close, hints = "", [] if os.path.isabs(path) else [f"the current directory is {os.getcwd()}"]
    for first, second in itertools.pairwise(around):
        if os.path.exists(os.path.expanduser(f"{first} {second}")):
            hints.append(f"did you mean the one path '{first} {second}'? Quote a path that holds spaces")
    if "{" in pattern:
        hints.append("{a,b} works only where the shell expands it: leave the quotes out, or list both patterns")
    if not glob.has_magic(folder) and not os.path.isdir(folder or "."):
        hints.append(f"there is no directory {folder!r}")
    elif not glob.has_magic(folder):
        close = closest(os.path.basename(found), _names(folder or "."), 3)
        if not close and glob.has_magic(found) and (kinds := kinds_in(folder or ".")):
            hints.append(f"{folder or 'it'} holds {counted(kinds)}")
    reasons = "; ".join([f"{opt('input')}: {pattern!r} matches no file", *hints])
    return UsageError(f"{reasons}.{close}" if close else reasons)


def _names(folder: str) -> list[str]:
    """The first names in a folder; none where it cannot be read."""
    try:
        return sorted(entry for entry in os.listdir(folder) if not entry.startswith("."))[:10_000]
    except OSError:
        return []
