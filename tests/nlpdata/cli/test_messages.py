"""The one handler for messages: each line once, on standard error."""

import ast
import contextlib
import io
import logging
import sys
from pathlib import Path

import pytest

import nlpdata
from nlpdata.cli.commands import main
from nlpdata.cli.messages import PACKAGES, on_standard_error, show_error
from nlpdata.errors import Message, as_flag, opt, spelling

ROOT = Path(__file__).resolve().parents[3]
PRINTS = {"nlpdata/cli/messages.py", "nlpdata/cli/program.py", "nlpdata/cli/results.py"}
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


def test_the_line_with_which_a_command_ends_is_shown_whatever_a_users_module_has_disabled(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger("nlpdata.cli.commands"), "disabled", True)
    logging.disable(logging.CRITICAL)
    try:
        with on_standard_error():
            show_error("nlpdata: error: 100% of it")
        assert main(["create-pretraining", "--no-such-option"]) == 2
    finally:
        logging.disable(logging.NOTSET)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "nlpdata: error: 100% of it"
    assert second.startswith("nlpdata: error: no option --no-such-option")


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


def test_options_are_spelled_as_on_the_command_line(capsys):
    with on_standard_error(), spelling(as_flag):
        logging.getLogger("nlpdata").info(Message(f"use {opt('on_bad_row', 'skip')}, 100% sure"))
    assert capsys.readouterr().err == "use --on-bad-row skip, 100% sure\n"


def test_a_warning_of_a_command_appears_once(tmp_path, capsys, caplog):
    """On the command line; in Python it is logged, and stands in the result."""
    (tmp_path / "a.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 20)
    given = {"type": "wordpiece", "vocab_size": 60, "hard_vocab_limit": False}
    result = nlpdata.train_tokenizer(f"{tmp_path}/a.txt@2", tmp_path / "python", **given)
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == result.warnings
    assert "weights (GLOB@2) have no effect" in warned[0]
    options = ["--type", "wordpiece", "--vocab-size", "60", "--no-hard-vocab-limit"]
    assert main(["train-tokenizer", f"{tmp_path}/a.txt@2", "--output", str(tmp_path / "command"), *options]) == 0
    assert capsys.readouterr().err.count(f"warning: {warned[0]}\n") == 1


def test_only_commands_print():
    """They print results on standard output; everything else is logged, and no function takes one to log with."""
    found = []
    for path in (path for package in ("nlpdata", "pipelines") for path in (ROOT / package).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and name not in PRINTS:
                found.append(f"{name}: {ast.unparse(node)}")
            if isinstance(node, ast.arg) and node.arg in ("log", "say"):
                found.append(f"{name}: a function takes {node.arg!r}")
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_log."):
                found += [f"{name}: {ast.unparse(node)}"] if "warning:" in ast.unparse(node).lower() else []
    assert not found, "\n".join(found)


def test_nothing_else_configures_handlers():
    found = []
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in CONFIGURES:
                found.append(str(path.relative_to(ROOT)))
    assert set(found) == {"nlpdata/cli/messages.py"}
