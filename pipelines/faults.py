"""Brings a worker's fault to the command line: a user's as its message, one of the program as an exception like the worker's.

Runners wrap what a worker raises: in other exceptions, in texts with tracebacks. So a marker goes along that survives any
wrapping, and is read from the text of the exception that arrives.
"""

import base64
import builtins
import json
import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nlpdata.errors import BEGINS_ANEW, DataError, NlpdataError, UsageError, opt
from nlpdata.output import disk_errors
from pipelines import watching

_MARKER = re.compile(r"\[\[nlpdata (\w+)\|([A-Za-z0-9+/=]*)\]\]")
_USERS = {each.__name__: each for each in (DataError, UsageError)}
_LONGEST = 20_000  # characters of a worker's traceback: runners bound their messages

_LOGGERS = (  # of Beam, that log what a worker raises
    "apache_beam.runners.common",
    "apache_beam.runners.worker.sdk_worker",
    "apache_beam.runners.worker.data_plane",
    "apache_beam.runners.portability.fn_api_runner.worker_handlers",
)


class WorkerError(Exception):
    """A fault in a worker: what people may read of it, then the marker for `fault_in`."""


@contextmanager
def marked_faults(step: str, what: object) -> Iterator[None]:
    """Marks the errors of a step. Those of the disk and the memory become the user's, and name the step and its work."""
    try:
        with watching.step(), disk_errors(step, what, BEGINS_ANEW):
            yield
    except NlpdataError as error:
        kind = UsageError if isinstance(error, UsageError) else DataError
        text = error.message.text
        if isinstance(error.__cause__, MemoryError):
            text = f"{step} ({what}): memory ran out. Use a smaller {opt('chunk_size')}, or larger workers"
        raise WorkerError(f"{error} {_marker(kind.__name__, text)}") from error
    except Exception as error:
        name = type(error).__name__
        about = {"text": str(error), "at": "".join(traceback.format_tb(error.__traceback__))[-_LONGEST:]}
        raise WorkerError(f"{step} ({what}): {name}: {error} {_marker(name, json.dumps(about))}") from error


def _marker(kind: str, text: str) -> str:
    return f"[[nlpdata {kind}|{base64.b64encode(text.encode('utf-8', 'surrogateescape')).decode()}]]"


def fault_in(error: BaseException) -> Exception | None:
    """The fault that a runner's exception carries, if any: the user's; or the program's, the worker's traceback as its note."""
    found = _MARKER.search("".join(traceback.format_exception(error)))
    if not found:
        return None
    kind, text = found[1], base64.b64decode(found[2]).decode("utf-8", "surrogateescape")
    return _USERS[kind](text) if kind in _USERS else _of_the_program(kind, **json.loads(text))


def _of_the_program(kind: str, text: str, at: str) -> Exception:
    builtin = getattr(builtins, kind, None)
    fault: Exception = RuntimeError(f"{kind}: {text}")
    if isinstance(builtin, type) and issubclass(builtin, Exception):
        with suppress(TypeError):  # UnicodeDecodeError and its like are not made of a text
            fault = builtin(text)
    fault.add_note(f"In a worker:\n{at}")
    return fault


def log_no_marked_faults() -> None:
    """Keeps Beam from logging a marked fault with its traceback, from now on: who called reports it.

    For good, since steps of a job that was given up may end after it.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_not_marked)


def _is_not_marked(record: logging.LogRecord) -> bool:
    """Whether a log record is about anything but a marked fault."""
    error = record.exc_info[1] if record.exc_info else None
    text = record.getMessage() + ("".join(traceback.format_exception(error)) if error else "")
    return _MARKER.search(text) is None
