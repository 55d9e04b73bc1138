"""Messages of the command lines: what the packages log appears on standard error.

Library code logs with `logging.getLogger(__name__)`: info is what happens, warning is what a user should look at. Used from
Python without a handler, warnings appear (logging's last resort), info does not; `logging.basicConfig(level=logging.INFO)`,
or `with on_standard_error():`, shows both.
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence

from nlpdata.cli.colours import coloured, is_terminal
from nlpdata.cli.streams import screen
from nlpdata.errors import printable
from nlpdata.files.unpacking import shown

PACKAGES = ("nlpdata", "pipelines", "pretrain")
_INSTEAD = "\r\033[K"  # of a line of progress, which has no end yet


class _StandardError(logging.Handler):
    """Writes info and errors as the bare line and a warning as `warning: ...`, to what the screen is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        line = printable(shown(record.getMessage()))
        stream = screen()
        encoding = getattr(stream, "encoding", None) or "utf-8"
        # A file's name may hold bytes that are not UTF-8, and the terminal may not know every letter.
        line = line.encode(encoding, "backslashreplace").decode(encoding)
        if record.levelno == logging.WARNING:
            line = f"{coloured('warning:', 'yellow', stream)} {line}"
        elif record.levelno == logging.ERROR:
            line = line.replace(" error: ", f" {coloured('error:', 'red', stream)} ", 1)
        if is_terminal(stream):
            line = f"{_INSTEAD}{line}"
        with contextlib.suppress(BrokenPipeError):  # nobody reads
            print(line, file=stream, flush=True)


def show_error(text: str) -> None:
    """Shows the line with which a command ends. It reaches standard error also where a user's module has disabled our loggers,
    as logging.config.dictConfig and fileConfig do unless told otherwise."""
    _StandardError().handle(logging.makeLogRecord({"msg": text, "levelno": logging.ERROR}))


def hide_progress() -> None:
    """Within on_standard_error, shows warnings and errors alone (--quiet). See nlpdata.execution.executor.progress_is_hidden."""
    for name in PACKAGES:
        logging.getLogger(name).setLevel(logging.WARNING)


@contextlib.contextmanager
def warnings_alone(package: str, but: Sequence[str]) -> Iterator[None]:
    """In it a package logs warnings and errors alone, but for some of its modules, which log as they did."""
    common, others = logging.getLogger(package), [logging.getLogger(name) for name in but]
    before = [(logger, logger.level) for logger in (common, *others)]
    for logger in others:
        logger.setLevel(common.getEffectiveLevel())
    common.setLevel(max(common.getEffectiveLevel(), logging.WARNING))
    try:
        yield
    finally:
        for logger, level in before:
            logger.setLevel(level)


@contextlib.contextmanager
def on_standard_error() -> Iterator[None]:
    """Shows what the packages log, from level INFO, once each: no handler of the root logger repeats it.

    Nested, the outer one does the work. The loggers are left as they were.
    """
    loggers = [logging.getLogger(name) for name in PACKAGES]
    if any(isinstance(handler, _StandardError) for handler in loggers[0].handlers):
        yield
        return
    before = [(logger, logger.level, logger.propagate) for logger in loggers]
    handler = _StandardError()
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
