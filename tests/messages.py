"""What the packages log, as lists of lines."""

import contextlib
import logging
from collections.abc import Iterator

from nlpdata.cli.messages import PACKAGES


class _Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "warning: " if record.levelno == logging.WARNING else ""
        self.lines.append(prefix + record.getMessage())


@contextlib.contextmanager
def messages() -> Iterator[list[str]]:
    """The messages of the packages while it is open, from level INFO, as the command lines show them."""
    handler = _Lines()
    before = [(logger, logger.level) for logger in map(logging.getLogger, PACKAGES)]
    for logger, _ in before:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield handler.lines
    finally:
        for logger, level in before:
            logger.removeHandler(handler)
            logger.setLevel(level)
