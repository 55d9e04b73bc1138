"""A run of several hosts of which one is gone: what the others say, and how they end."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nlpdata.errors import DataError, NlpdataError
from pretrain.settings.schema import RuntimeConfig
from pretrain.training.engines.cluster import has_several_hosts

# In errors of Gloo, NCCL, the coordination service and gRPC, with JAX and with TensorFlow.
_SIGNS = ("Gloo", "ncclRemoteError", "UNAVAILABLE", "UnavailableError", "heartbeat", "Collective ops is aborted")

_is_alone = False


@contextmanager
def told_of_lost_hosts(runtime: RuntimeConfig) -> Iterator[None]:
    """DataError in place of a library's error that says that another host of the run is gone."""
    global _is_alone
    try:
        yield
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        lost = has_several_hosts(runtime) and any(sign in said for sign in _SIGNS)
        if isinstance(error, NlpdataError) or not lost:
            raise
        _is_alone = True
        raise DataError(
            f"another host of this run has ended, or cannot be reached ({_reason(error)}). See what it said, and run the same "
            "command on all hosts again: the run resumes from its newest checkpoint."
        ) from None


def _reason(error: Exception) -> str:
    """A library's words on what happened, without the calls that TensorFlow lists before them and the advice after them."""
    after_calls = re.split(r'^\s*File ".*$', str(error), flags=re.MULTILINE)[-1]
    sentence = " ".join(after_calls.split()).partition(". ")[0]
    return sentence[:300] or type(error).__name__


def leave_if_alone() -> None:
    """At exit, before JAX: it would wait for a host that is gone, a minute or more, and abort."""
    if _is_alone:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(DataError.exit_code)
