"""Names in a set of files: one file `X`, or the shards `X-00000-of-00003`, ...; and the marker while it is being replaced."""

import re
from pathlib import PurePath

from nlpdata.errors import DataError
from nlpdata.files import PathName
from nlpdata.files.paths import AnyPath, path_of

SHARD_SUFFIX = r"-\d{5,}-of-\d{5,}"
"""Pattern of what follows the set's name in that of a shard."""

_SHARD = re.compile(r"^(?P<base>.+)-(?P<index>\d{5,})-of-(?P<count>\d{5,})$")


def split_shard(path: PathName | AnyPath) -> tuple[AnyPath, int, int]:
    """(the set's name, shard index, count): `X.tfrecord-00001-of-00003` -> (X.tfrecord, 1, 3); others (path, 0, 1)."""
    path = path_of(path)
    match = _SHARD.match(path.name)
    if not match:
        return path, 0, 1
    return path.with_name(match["base"]), int(match["index"]), int(match["count"])


def without_shard(name: str) -> str:
    """The set's name: `X.txt-00001-of-00003` -> `X.txt`; others as they are."""
    match = _SHARD.match(name)
    return match["base"] if match else name


def set_stem(path: str) -> str:
    """What the files of a set are called, by the path or pattern of one: dev_middle of `out/dev_middle.tfrecord-00000-of-00004`."""
    return PurePath(path).name.partition(".")[0]


def shards_of(name: str, count: int) -> list[str]:
    """The files of a set: [`X.txt`] for one shard, else `X.txt-00000-of-00003`, ... in order."""
    return [name] if count == 1 else [f"{name}-{index:05d}-of-{count:05d}" for index in range(count)]


def marker_of(stem: AnyPath) -> AnyPath:
    """The marker that exists while a set is being replaced: `a/X` -> `a/.X.committing`.

    stem: the set's name, of records without suffix.
    """
    return stem.with_name(f".{stem.name}.committing")


def refuse_marked(marker: AnyPath, what: object) -> None:
    """DataError where the marker exists: the files of the set, called `what`, are then partly old, partly new."""
    if marker.exists():
        raise DataError(
            f"{what} is being replaced, or its replacement was interrupted ({marker} exists). "
            "Wait for the command that writes it; if none runs any more, run it again to complete the set"
        )
