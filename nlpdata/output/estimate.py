"""What a dry run finds out: what a command would read and write, and estimates from a small sample of its input."""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nlpdata.files.paths import AnyPath


@dataclass(frozen=True)
class Estimate:
    """What a command would do. Nothing of it is written.

    Attributes:
      reads: files that would be read -> their bytes on disk.
      writes: files that would be written, the number of shards by the estimate.
      replaces: those of them that exist, which `overwrite` replaces.
      basis: what the estimates are from, in words.
      records: records by split, or lines (vocabulary); estimated unless `basis` says otherwise.
      output_bytes: of the files that would be written.
      work_bytes: disk that the run takes while it lasts, in addition.
      seconds: of the run, with `workers` processes.
      memory_bytes: of all processes together.
      workers: processes.
      warnings: about the input, as they were logged.

    An estimate is None where the sample gave none.
    """

    reads: Mapping[str, int]
    writes: Sequence[str]
    replaces: Sequence[str]
    basis: str
    records: Mapping[str, int] = field(default_factory=dict)
    output_bytes: int | None = None
    work_bytes: int | None = None
    seconds: float | None = None
    memory_bytes: int | None = None
    workers: int = 1
    warnings: Sequence[str] = ()


def sizes(paths: Sequence[AnyPath]) -> dict[str, int]:
    """path -> bytes, of files that exist."""
    return {str(path): path.stat().st_size if isinstance(path, Path) else path.size() or 0 for path in paths}


def existing(paths: Sequence[AnyPath]) -> list[str]:
    """Those of the paths that exist."""
    return [str(path) for path in paths if path.exists()]


def peak_memory() -> int | None:
    """The most memory that this process has held so far, in bytes; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


@contextmanager
def unlogged() -> Iterator[None]:
    """While it lasts, the package logs nothing: what it would say of a sample, it has said of the input."""
    logger = logging.getLogger("nlpdata")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
