"""What a runner, its libraries and its worker processes write about themselves stays off the screen of a command."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nlpdata.cli.libraries import are_held_back
from nlpdata.cli.streams import standard_error_to


@contextmanager
def held_back() -> Iterator[Callable[[], str]]:
    """While it lasts, standard error goes to a file, and messages of ours to the screen: in commands, without --verbose.

    Yields a function that keeps the file, for a fault that only the file explains, and returns a sentence that names it.
    """
    if not are_held_back():
        yield lambda: ""
        return
    descriptor, path = tempfile.mkstemp(prefix="nlpdata-runner-", suffix=".log")
    kept = False

    def keep() -> str:
        nonlocal kept
        sys.stderr.flush()
        kept = os.path.getsize(path) > 0
        return f". What it wrote is in {path}" if kept else ""

    try:
        with open(descriptor, "wb") as file, standard_error_to(file):
            yield keep
    finally:
        if not kept:
            os.unlink(path)
