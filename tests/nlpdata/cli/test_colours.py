"""Colours on a terminal alone, and not where the user wants none."""

import io

import pytest

from nlpdata.cli import screens
from nlpdata.cli.colours import coloured
from nlpdata.cli.messages import on_standard_error, show_error


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "stream", "expected"),
    [
        ({}, Terminal(), "\x1b[31mtext\x1b[0m"),
        ({"TERM": "dumb"}, Terminal(), "text"),
        ({"NO_COLOR": "1"}, Terminal(), "text"),
        ({"NO_COLOR": ""}, Terminal(), "\x1b[31mtext\x1b[0m"),  # empty is as if it were not set
        ({}, io.StringIO(), "text"),
        ({}, object(), "text"),
    ],
)
def test_coloured(environment, stream, expected, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert coloured("text", "red", stream) == expected


def test_words_that_matter_are_coloured_on_a_terminal(monkeypatch):
    import logging

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with on_standard_error():
        logging.getLogger("nlpdata.x").warning("an error: of the data")
        logging.getLogger("nlpdata.x").info("an error: of the data")
    screen.write("\rreading:  50%")  # progress, which the next message takes off the screen
    show_error("nlpdata: error: --x is missing. Received: error: y")
    assert screen.getvalue().split("\n") == [
        "\r\x1b[K\x1b[33mwarning:\x1b[0m an error: of the data",
        "\r\x1b[Kan error: of the data",
        "\rreading:  50%\r\x1b[Knlpdata: \x1b[31merror:\x1b[0m --x is missing. Received: error: y",
        "",
    ]
    monkeypatch.setattr("sys.stdout", screen)
    assert screens._heading("Input") == "\x1b[1mInput:\x1b[0m"
