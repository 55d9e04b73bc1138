"""Plain text in Markdown."""

import re

_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([\\\[\]*_<])")


def escaped(text: str) -> str:
    """A text in which nothing but code in backticks means something to Markdown."""
    return "".join(part if i % 2 else _SPECIAL.sub(r"\\\1", part) for i, part in enumerate(_CODE.split(text)))
