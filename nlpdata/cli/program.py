"""How every command runs and ends: messages, streams, signals, and one exit code for each kind of end.

Exit codes: 0 done; 1 faults in data, on disk or found by `verify`; 2 wrong options, patterns that match nothing, outputs that
exist; 70 a fault of the program; 130 interrupted; 141 nobody reads the output any more (`| head`); 143 terminated.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence

from nlpdata.cli import faults
from nlpdata.cli.inputs import guarded_inputs
from nlpdata.cli.libraries import quiet_libraries
from nlpdata.cli.messages import on_standard_error, show_error
from nlpdata.cli.start import raising_if_signalled
from nlpdata.cli.streams import OutputRefused, standard_streams
from nlpdata.cli.version import version_line
from nlpdata.errors import EXTRAS, HALF, DataError, NlpdataError, Spelling, UsageError, missing_package, spelling
from nlpdata.files.disk import disk_fault

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_NO_ROOM = ("RESOURCE_EXHAUSTED", "ResourceExhaustedError")  # JAX and TensorFlow
NOBODY_READS = 128 + 13  # SIGPIPE, which Windows does not have


def find_modules_here() -> None:
    """Lets a console command import a user's own modules from the current folder, as `python -m` does, after all others."""
    sys.path.append(os.getcwd())


def run_program(
    name: str, argv: Sequence[str], work: Callable[[list[str]], int | None], face: Spelling, left: str = ""
) -> int:
    """Runs a command to its end, with what its packages log on standard error. Returns the exit code.

    Of `--version` alone it prints the version.

    Args:
      name: of the command, for messages, e.g. "pretrain.convert".
      argv: its arguments.
      work: the command; what it returns is the exit code, None is 0.
      face: spells options in messages.
      left: what an interruption leaves, for the message.
    """
    with (
        standard_streams(),
        quiet_libraries(),
        on_standard_error(),
        spelling(face),
        guarded_inputs(),
    ):
        return _exit_code(name, list(argv), work, left)


def _exit_code(name: str, argv: list[str], work: Callable[[list[str]], int | None], left: str) -> int:
    try:
        code = _returned(argv, work)
        sys.stdout.flush()
    except OutputRefused as refused:
        if isinstance(refused.error, BrokenPipeError):
            return NOBODY_READS
        return _shown(name, argv, DataError(f"cannot write to standard output: {refused}"))
    except Exception as error:
        return _shown(name, argv, error)
    if code in (INTERRUPTED, TERMINATED):
        show_error(f"{name}: {'interrupted' if code == INTERRUPTED else 'terminated'}.{left}")
    return code


def _returned(argv: list[str], work: Callable[[list[str]], int | None]) -> int:
    """The exit code that a command returns or exits with."""
    for word in argv:
        if not _is_encodable(word):  # only a caller from Python has such a word: no shell does
            raise UsageError(f"the argument {word!r} has {HALF}. Correct it.")
    try:
        with raising_if_signalled():
            return (print(version_line()) if argv == ["--version"] else work(argv)) or 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except NlpdataError:
        raise
    except Exception as error:
        code = _interruption(error)
        if code is None:
            raise
        return code


def _is_encodable(word: str) -> bool:
    """Whether an argument can be a name of a file: halves of surrogate pairs that stand for bytes of one can."""
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True


def _interruption(error: Exception) -> int | None:
    """The exit code of the interruption that an error hides, e.g. of an archive that was being written; None: it hides none."""
    hidden = error.__context__
    while hidden is not None:
        if isinstance(hidden, KeyboardInterrupt):
            return INTERRUPTED
        if isinstance(hidden, SystemExit) and hidden.code == TERMINATED:
            return TERMINATED
        hidden = hidden.__context__
    return None


def _shown(name: str, argv: list[str], error: Exception) -> int:
    """The exit code of an error, which is shown."""
    message = _for_the_user(name, error)
    if message is None:
        show_error(faults.report(name, argv, error))
        return faults.EXIT_CODE
    show_error(f"{name}: error: {message}")
    return message.exit_code


def _for_the_user(name: str, error: Exception) -> NlpdataError | None:
    """The error as a message for the user; None for a fault of the program."""
    if isinstance(error, NlpdataError):
        return error
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return missing_package(f"`{name}`", error.name)
    if isinstance(error, MemoryError):
        return DataError("memory ran out")
    if any(words in f"{type(error).__name__} {error}" for words in _NO_ROOM):
        return DataError(
            "memory ran out where the model is computed: use smaller batches, shorter sequences or a smaller model"
        )
    reason = disk_fault(error)  # of a place that no step expects to fail
    if reason is None:
        return None
    given = (getattr(error, "filename", None), getattr(error, "filename2", None))
    places = " -> ".join(str(place) for place in given if place is not None)
    return DataError(f"{reason} ({places})" if places else reason)
