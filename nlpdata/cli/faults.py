"""Faults of the program itself: one line on the screen, and the traceback in a file that holds nothing of the user's data."""

import os
import platform
import re
import sysconfig
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from nlpdata.cli.messages import PACKAGES
from nlpdata.cli.version import version_line

EXIT_CODE = 70
FOLDER_VARIABLE = "NLPDATA_FAULTS"
"""Environment variable: the folder for tracebacks; default: the system's temporary folder."""
PREFIX = "nlpdata-fault-"

_ROOT = Path(__file__).resolve().parents[2]
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
# Their messages speak of code. Those of other exceptions may quote what was read, and are left out.
_OF_CODE = (AttributeError, ImportError, NameError, NotImplementedError, RecursionError, TypeError, ZeroDivisionError)
_QUOTED = re.compile(r"""(['"])(?:(?!\1).)*\1?""")
_NAME = re.compile(r"""(['"])[\w.]{1,60}(?:\(\))?\1""")
_FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)$', re.MULTILINE)
_MOST_FRAMES = 60


def report(name: str, argv: Sequence[str], error: BaseException) -> str:
    """Writes the traceback of an exception that nobody expected; returns the line for the screen.

    Args:
      name: of the command.
      argv: its arguments, of which the names of options are kept.
      error: the exception.
    """
    frame = _last_of_interest(error)
    place = f"{_short(frame.filename)}, line {frame.lineno}" if frame else "an unknown place"
    kind = type(error).__name__
    if frame and not _is_ours(frame.filename):
        text = " ".join(str(error).split())[:200]
        what = f"a fault of a module of yours ({place}): {kind}: {text}. "
        end = ""
    else:
        what = f"this is a fault of the program, not of your data or options: {kind} in {place}. "
        end = " Please report it with that file."
    try:
        where = _write(_text(name, argv, error))
    except OSError as refused:
        return f"{name}: {what}The traceback could not be written: {refused.strerror or refused}."
    return f"{name}: {what}The traceback, without anything of your data, is in {where}.{end}"


def _write(text: str) -> str:
    folder = os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()
    descriptor, path = tempfile.mkstemp(prefix=PREFIX, suffix=".txt", dir=folder)
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path


def _text(name: str, argv: Sequence[str], error: BaseException) -> str:
    options = [word.partition("=")[0] for word in argv if re.match(r"--?[A-Za-z]", word)]
    lines = [
        f"{version_line()}, {platform.platform()}",
        f"{name}, with the options {' '.join(options) or '(none)'}",
        *_lines(error, set()),
    ]
    return "\n".join(lines) + "\n"


def _lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    """An exception, those before it first: its class, what its message says of code, and the places in the code."""
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _lines(before, seen)
    yield f"\n{type(error).__module__}.{type(error).__name__}: {_message(error)}"
    frames = traceback.extract_tb(error.__traceback__)
    half = _MOST_FRAMES // 2
    for at, frame in enumerate(frames):
        if half <= at < len(frames) - half:
            continue
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
        if frame.line:
            yield f"    {frame.line}"
    yield from (f'  there: File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in _noted(error))


def _noted(error: BaseException) -> list[traceback.FrameSummary]:
    """The places in the notes of an exception: a worker's traceback, as text."""
    found = [place for note in getattr(error, "__notes__", ()) for place in _FRAME.findall(note)]
    return [traceback.FrameSummary(file, int(line), name, lookup_line=False) for file, line, name in found]


def _message(error: BaseException) -> str:
    if not isinstance(error, _OF_CODE):
        return "(the message is left out: it may quote data)"
    text = _QUOTED.sub(lambda found: found[0] if _NAME.fullmatch(found[0]) else "'...'", str(error))
    return " ".join(text.split())[:200]


def _last_of_interest(error: BaseException) -> traceback.FrameSummary | None:
    """The last place in our code or a user's, not in a library that they call; of a worker's fault, the place there."""
    frames = [*traceback.extract_tb(error.__traceback__), *_noted(error)]
    return next((frame for frame in reversed(frames) if _is_ours(frame.filename) or _is_users(frame.filename)), None)


def _is_ours(file: str) -> bool:
    return any(file.startswith(f"{_ROOT / package}{os.sep}") for package in PACKAGES)


def _is_users(file: str) -> bool:
    return not file.startswith("<") and not any(file.startswith(f"{folder}{os.sep}") for folder in _LIBRARIES)


def _short(file: str) -> str:
    return str(Path(file).relative_to(_ROOT)) if _is_ours(file) else file
