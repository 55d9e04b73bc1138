"""Brings a user's fault from a worker to the command line.

Runners wrap what a worker raises: in other exceptions, in texts with tracebacks. So the message is put into a marker
that survives any wrapping, and is read from the text of the exception that arrives.
"""

import base64
import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from nlpdata.errors import DataError, NlpdataError, UsageError, opt

_MARKER = re.compile(r"\[\[nlpdata ([12])\|([A-Za-z0-9+/=]*)\]\]")

_LOGGERS = (  # of Beam, that log what a worker raises
    "apache_beam.runners.common",
    "apache_beam.runners.worker.sdk_worker",
    "apache_beam.runners.worker.data_plane",
    "apache_beam.runners.portability.fn_api_runner.worker_handlers",
)


class WorkerError(Exception):
    """A fault that a user can cause, raised in a worker: the message for people, then the marker for `fault_in`."""


@contextmanager
def marked_faults(step: str, what: object) -> Iterator[None]:
    """Marks the errors of a step that are for the user; OSError and MemoryError become such, and all name the step."""
    try:
        yield
    except NlpdataError as error:
        raise _marked(error) from error
    except MemoryError as error:
        raise _marked(
            DataError(f"{step} ({what}): memory ran out. Use a smaller {opt('chunk_size')}, or larger workers")
        ) from error
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise _marked(DataError(f"{step} ({what}): {error.strerror or error}{where}")) from error
    except Exception as error:
        raise RuntimeError(f"{step} ({what}): {type(error).__name__}: {error}") from error


def _marked(error: NlpdataError) -> WorkerError:
    code = base64.b64encode(error.message.text.encode("utf-8", "surrogateescape")).decode()
    return WorkerError(f"{error} [[nlpdata {error.exit_code}|{code}]]")


def fault_in(error: BaseException) -> NlpdataError | None:
    """The fault that a runner's exception carries, if any."""
    found = _MARKER.search("".join(traceback.format_exception(error)))
    if not found:
        return None
    text = base64.b64decode(found[2]).decode("utf-8", "surrogateescape")
    return (DataError if found[1] == "1" else UsageError)(text)


@contextmanager
def without_tracebacks() -> Iterator[None]:
    """Keeps Beam from logging a user's fault with its traceback: the command reports it in one line."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(_is_not_a_users)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_not_a_users)


def _is_not_a_users(record: logging.LogRecord) -> bool:
    """Whether a log record is about anything but a user's fault."""
    error = record.exc_info[1] if record.exc_info else None
    text = record.getMessage() + ("".join(traceback.format_exception(error)) if error else "")
    return _MARKER.search(text) is None
