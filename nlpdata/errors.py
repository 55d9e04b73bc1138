"""Errors that a user can cause, and how their messages name options and suggest names.

The command line prints a message and exits with the error's code; there is never a traceback.

Options have a spelling on each face: --max-seq-length on the command line, max_seq_length in Python,
task.train_data.seq_length in a configuration. A message therefore names an option by its field, and the face that shows
the message spells it:

    error = UsageError(f"{opt('max_seq_length')} must be at least 8. Received: 3. Or use {opt('on_bad_row', 'skip')}.")
    str(error)                 # max_seq_length must be at least 8. Received: 3. Or use on_bad_row='skip'.
    with spelling(as_flag):
        str(error)             # --max-seq-length must be at least 8. Received: 3. Or use --on-bad-row skip.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from functools import partial

RESUMES = "Finished parts are kept: the same command resumes from them"
BEGINS_ANEW = "A run on Beam keeps no finished parts: the same command begins anew"
"""What an error leaves of a command that works in parts, for the end of messages."""

HALF = "half of a surrogate pair, which is not a character"

# Control characters that no message has otherwise: field, or field and value as JSON.
_OPTION = re.compile(r"\x1e([A-Za-z]\w*)(?:=([^\x1e\x1f]*))?\x1f")
_CLOSE = 0.5

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LONGEST = 3000  # characters of a message; what it quotes may be of any length

Spelling = Callable[[str, object], str]
"""(field, value or None) -> the option as one face spells it."""


def opt(field: str, value: object = None) -> str:
    """An option in the text of an error or a Message; `value` (JSON-able) makes it a setting, such as on_bad_row='skip'."""
    return f"\x1e{field}\x1f" if value is None else f"\x1e{field}={json.dumps(value, default=str)}\x1f"


def as_flag(field: str, value: object = None) -> str:
    """The command line's spelling: --max-seq-length 128, --no-whole-word."""
    name = field.replace("_", "-")
    if value is None or value is True:
        return f"--{name}"
    if value is False:
        return f"--no-{name}"
    return f"--{name}={value}" if str(value).startswith("-") else f"--{name} {value}"


def as_argument(field: str, value: object = None) -> str:
    """Python's spelling: max_seq_length=128, whole_word=False."""
    return field if value is None else f"{field}={value!r}"


_spelling: ContextVar[Spelling] = ContextVar("how messages spell options", default=as_argument)


@contextmanager
def spelling(face: Spelling) -> Iterator[None]:
    """While the context lasts, `str` of errors and messages spells options as this face does."""
    token = _spelling.set(face)
    try:
        yield
    finally:
        _spelling.reset(token)


@contextmanager
def spelled_as(face: Spelling) -> Iterator[None]:
    """`spelling`, which errors that leave the context keep."""
    with spelling(face):
        try:
            yield
        except NlpdataError as error:
            raise type(error)(str(error)) from error


class Message:
    """A message whose options (see `opt`) each face spells its own way; `str` takes the face of the context."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.spelled(_spelling.get())

    def spelled(self, face: Spelling) -> str:
        """The message in the spelling of a face, e.g. `as_flag`."""
        return printable(_OPTION.sub(partial(_spelled, face), self.text))

    def renamed(self, names: Mapping[str, str]) -> str:
        """The text of a message about the options of a function that has other names for some: field -> name."""
        return _OPTION.sub(lambda found: found[0].replace(found[1], names.get(found[1], found[1]), 1), self.text)


def _spelled(face: Spelling, found: re.Match[str]) -> str:
    try:
        return face(found[1], json.loads(found[2]) if found[2] else None)
    except ValueError:  # these characters are in the data that the message quotes
        return found[0]


def printable(text: str) -> str:
    """A message as one line of valid text, whatever it quotes.

    Control characters and halves of surrogate pairs are escaped, and the middle of a very long one is cut.
    """
    text = _shortened(text)  # before the escapes: a library may quote a file of any size
    return _shortened(_CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text))


def _shortened(text: str) -> str:
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


EXTRAS = {
    "apache_beam": "beam",
    "datasketch": "minhash",
    "distributed": "dask",
    "gcsfs": "gcp",
    "gin": "gin",
    "google.cloud.storage": "gcp",
    "jax": "jax",
    "keras": "train",
    "markdown_it": "split",
    "matplotlib": "plot",
    "py3langid": "split",
    "pyarrow": "parquet",
    "s3fs": "s3",
    "sentencex": "split",
    "tensorflow": "train",
    "tensorflow_datasets": "tfds",
    "trafilatura": "html",
    "zstandard": "zstd",
}
"""Package that part of the toolkit needs -> the extra of ours that installs it."""


class NlpdataError(Exception):
    """A message for the user: what is wrong, what was received, what was expected, what to do.

    Args:
      text: the message; options in it are named with `opt`.
    """

    exit_code = 1

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.message = Message(text)

    def __str__(self) -> str:
        return str(self.message)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def spelled(self, face: Spelling) -> str:
        """The message in the spelling of a face, e.g. `as_flag`."""
        return self.message.spelled(face)


class DataError(NlpdataError):
    """The data, the disk or a verification is at fault (exit code 1)."""


class UsageError(NlpdataError):
    """An option is wrong, a pattern matches nothing, or an output already exists (exit code 2)."""

    exit_code = 2


def closest(name: object, known: Iterable[object], most: int = 1, cutoff: float = _CLOSE) -> str:
    """The end of a message about an unknown name: " Did you mean a, b or c?", or nothing where no known name is close.

    Args:
      name: what was received. Upper and lower case are alike.
      known: the names there are.
      most: names to suggest at most.
      cutoff: how alike two names must be, from 0 to 1 (equal).
    """
    by_core = {_core(each): str(each) for each in known}
    near = [by_core[each] for each in get_close_matches(_core(name), by_core, most, cutoff)]
    if not near:
        return ""
    *others, last = near
    return f" Did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def _core(name: object) -> str:
    """What is compared: dashes of flags and the end of a URL's scheme would make all names alike."""
    return str(name).casefold().strip("-:/")


def missing_package(what: str, package: str, extra: str | None = None) -> UsageError:
    """The error for a package that is not installed.

    Args:
      what: what needs it, e.g. "--runner".
      package: its name in an import.
      extra: the extra that installs it; None: the one in EXTRAS.
    """
    name = package.replace("_", "-")
    return UsageError(
        f"{what} needs {name}, which is not installed. In the folder of nlpdata: {install_command(extra or EXTRAS[package])}"
    )


def install_command(extra: str) -> str:
    """How an extra is installed, while nlpdata is installed from its source folder."""
    return f"pip install '.[{extra}]'"
