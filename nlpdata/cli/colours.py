"""Colours of messages and help screens, on a terminal alone."""

import os
from typing import Any

_CODES = {"bold": 1, "red": 31, "yellow": 33}


def coloured(text: str, style: str, stream: Any) -> str:
    """The text in a style, "bold", "red" or "yellow", for a stream; as it is where the stream shows no colours.

    A stream shows none unless it is a terminal, and none where NO_COLOR is set (https://no-color.org) or TERM is dumb.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal(stream):
        return text
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def is_terminal(stream: Any) -> bool:
    """Whether what a stream is given appears on a screen."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # a stream of the caller's own; a closed one
        return False
