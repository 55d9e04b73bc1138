"""Disks that refuse: files that may not grow, file systems that are small or only for reading."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """While it lasts, no file of this process grows beyond `size` bytes, as with `ulimit -f`."""
    before, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # Python leaves what it compiled cut off
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiles
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A new folder on a file system of its own, e.g. with the options "ro" or "size=400k"; skips where that is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def in_memory(folder: Path) -> Iterator[Path]:
    """A new folder for thousands of small files: on the file system that Linux has in memory, elsewhere `folder`."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="nlpdata-tests-", dir=shared) as made:
        yield Path(made)


def names(folder: Path) -> list[str]:
    """All files below a folder, hidden ones too."""
    return sorted(os.path.relpath(path, folder) for path in folder.rglob("*") if path.is_file())
