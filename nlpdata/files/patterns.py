"""What a user's text names: a path, a pattern, or several of them separated by commas. What exists under the very name wins."""

import glob
import os
from collections.abc import Callable
from typing import TypeVar

from nlpdata.files import PathNames
from nlpdata.files.paths import is_remote, path_of
from nlpdata.files.remote import RemotePath

T = TypeVar("T")
_MOST_COMMAS = 8  # parts between commas that may be one name: a long list that fails is not tried in every way


def as_names(given: PathNames) -> list[str]:
    """What was given, one name or several, as a list of texts."""
    return [os.fspath(each) for each in ([given] if isinstance(given, str | os.PathLike) else given)]


def find_paths(pattern: str) -> list[str]:
    """What a path or a pattern names (`**` goes into folders, `~` is the home folder), sorted; a file of the very name goes first.

    A folder of the very name wins, too: in `runs[1]/train*` where `runs[1]` is one, only the star is a pattern. Of a remote
    file system only files. Empty where there is nothing.
    """
    if not is_remote(pattern):
        pattern = os.path.expanduser(pattern)
        if os.path.lexists(pattern):
            return [pattern]
        return sorted(set(glob.glob(_with_literal_folder(pattern), recursive=True)))
    path = RemotePath(pattern)
    if path.exists():
        return [str(path)]
    return RemotePath(_with_literal_folder(pattern)).glob_files() if glob.has_magic(pattern) else []


def _with_literal_folder(pattern: str) -> str:
    """The pattern, in which the longest folder that exists under its very name is not a pattern."""
    folder = os.path.dirname(pattern)
    while glob.has_magic(folder):
        if path_of(folder).is_dir():
            return glob.escape(folder) + pattern[len(folder) :]
        folder = os.path.dirname(folder)
    return pattern


def each_named(text: str, find: Callable[[str], list[T]]) -> list[tuple[str, list[T]]]:
    """The parts of a text and what `find` finds for each: the text as a whole, or, where that is nothing, its parts between commas.

    A comma may be part of a name: a part is as short as it can be, with all that follows found as well. Spaces around a part do
    not count where only that makes it a name. Where there is no such division: the part that ends the longest attempt, with [].
    """
    whole = find(text)
    items = text.split(",")
    if whole or len(items) == 1:
        return [(text, whole)]
    chosen: list[tuple[int, str, list[T]]] = []  # (where the part begins, the part, what it names)
    dead: set[int] = set()  # where no division begins
    at, length = 0, 1
    while at < len(items):
        part = ",".join(items[at : at + length])
        if length == 1 and not part.strip():
            at += 1
        elif at not in dead and length <= _MOST_COMMAS and at + length <= len(items):
            found = find(part) or find(part.strip())
            if found:
                chosen.append((at, part, found))
                at, length = at + length, 1
            else:
                length += 1
        else:  # nothing begins here: the part before must be longer
            dead.add(at)
            if not chosen:
                return [(items[max(dead)].strip(), [])]
            at, part, _ = chosen.pop()
            length = part.count(",") + 2
    return [(part, found) for _, part, found in chosen]
