"""The one handler for messages: each line once, on standard error."""

import ast
import contextlib
import io
import logging
import sys
from pathlib import Path

import pytest

from nlpdata.cli.messages import PACKAGES, on_standard_error

ROOT = Path(__file__).resolve().parents[3]
CONFIGURES = {"basicConfig", "addHandler", "StreamHandler", "dictConfig", "fileConfig"}


@pytest.mark.parametrize("package", PACKAGES)
def test_info_is_the_bare_line_and_a_warning_says_so_once(package, capsys, caplog):
    logger = logging.getLogger(f"{package}.somewhere")
    with on_standard_error(), on_standard_error():
        logger.debug("not shown")
        logger.info("read %d lines", 3)
        logger.warning("two are empty")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "read 3 lines\nwarning: two are empty\n")
    assert not caplog.records  # the root logger repeats nothing


def test_the_loggers_are_left_as_they_were():
    def state():
        return [(log.level, log.propagate, list(log.handlers)) for log in map(logging.getLogger, PACKAGES)]

    before = state()
    with contextlib.suppress(KeyError), on_standard_error():
        assert state() != before
        raise KeyError
    assert state() == before


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_name_that_cannot_be_encoded_is_escaped(encoding, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stderr", stream)
    with on_standard_error():
        logging.getLogger("nlpdata").info("read a\udcff.txt")
    assert stream.buffer.getvalue() == b"read a\\udcff.txt\n"


def test_nothing_else_configures_handlers():
    found = []
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in CONFIGURES:
                found.append(str(path.relative_to(ROOT)))
    assert set(found) == {"nlpdata/cli/messages.py"}
