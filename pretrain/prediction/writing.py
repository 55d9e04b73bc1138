"""Where predictions go: checked before the work, written as they come, in place once they are complete."""

import errno
import json
import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from nlpdata.errors import DataError, UsageError, closest, opt
from nlpdata.files import PathName
from nlpdata.files.json_files import json_bytes
from nlpdata.files.paths import is_device
from nlpdata.files.temporary import temporary
from nlpdata.files.writing import new_file, sync_folder, write_durably
from pretrain.prediction.predictor import Predictor
from pretrain.prediction.sentences import SentencePredictor

_log = logging.getLogger(__name__)

_SECONDS, _SAYS_AFTER = 10.0, 1.0  # to wait for a reader of a FIFO
_OTHER_FILES = (".bz2", ".gz", ".parquet", ".xz", ".zip", ".zst")
"""Endings of the names of files that are not text: predictions are."""
FORMATS = ("tsv", "jsonl", "glue", "squad")
_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


class AnswerFiles(NamedTuple):
    """What the files of answers hold, in the order in which they are written: question id -> value.

    Attributes:
      null_odds: how much better no answer scores than the best one; None where every question has an answer.
      nbest_predictions: the best answers with their probabilities.
      predictions: the text of the answer.
    """

    null_odds: dict[str, float] | None
    nbest_predictions: dict[str, list[Mapping]]
    predictions: dict[str, str]


ANSWER_FILES = tuple(f"{name}.json" for name in AnswerFiles._fields)


def format_of_name(output: PathName) -> str:
    """The format of a file of predictions by its name: jsonl, else tsv."""
    return "jsonl" if str(output).lower().endswith((".jsonl", ".ndjson")) else "tsv"


def check_format(format: str, head: str) -> None:
    """UsageError for a format of predictions that there is not, or that has no place for what a head predicts."""
    if format not in FORMATS:
        raise UsageError(
            f"{opt('format')} must be one of {', '.join(FORMATS)}. Received: {format!r}.{closest(format, FORMATS)}"
        )
    wanted = {"glue": "classifier", "squad": "span"}.get(format, head)
    if wanted != head:
        what = {"classifier": "classes", "span": "answers", "choice": "choices", "masked_lm": "masked pieces"}[head]
        raise UsageError(
            f"{opt('format', format)} has no place for {what}, which this model predicts. Use tsv or jsonl."
        )


def is_standard_output(output: Path) -> bool:
    """Whether an output is standard output, under any of its names, which may be redirected to a file."""
    return str(output) in _STANDARD_OUTPUT


def check_output(input: Path, output: Path, is_folder: bool, overwrite: bool, dry_run: bool = False) -> None:
    """UsageError where predictions cannot be written: found before the work, not after it. Makes the folder that they go to.

    Args:
      input: file that is predicted for.
      output: file of predictions, or folder of answers.
      is_folder: whether answers are written as a folder.
      overwrite: whether earlier predictions may be replaced.
      dry_run: do not try to write.
    """
    if (is_device(output) or is_standard_output(output)) and not is_folder:
        return
    if not is_folder and output.suffix.lower() in _OTHER_FILES:
        raise UsageError(
            f"{opt('output')} {output}: predictions are written as text, not as {output.suffix}. Name a .tsv or .jsonl file, and "
            "compress or convert it."
        )
    expected = "a folder" if is_folder else "a file"
    if output.exists() and output.is_dir() != is_folder:
        raise UsageError(
            f"{opt('output')} {output}: expected {expected}, found {'a file' if is_folder else 'a folder'}."
        )
    if output.exists() and input.exists() and output.samefile(input):
        raise UsageError(f"{opt('output')} {output} is the input: it would be lost. Name another file.")
    # Of answers, predictions.json comes last: without it the others are what an interrupted run left.
    main = output / ANSWER_FILES[-1] if is_folder else output
    if os.path.lexists(main):
        _refuse_existing(main, is_folder, overwrite)
    if dry_run:
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with temporary(main if output.is_dir() else output):
            pass
    except OSError as error:
        raise UsageError(f"{opt('output')} {output}: cannot be written: {error.strerror or error}.") from None


def _refuse_existing(path: Path, is_folder: bool, overwrite: bool) -> None:
    if not overwrite:
        raise UsageError(f"{path} exists. Use {opt('overwrite', True)}, or another {opt('output')}.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; a file is written there. Name another {opt('output')}.")
    if not is_folder and not looks_predicted(path):
        raise UsageError(
            f"{opt('overwrite')} replaces earlier predictions, and {path} holds something else. Remove it yourself, or name "
            f"another {opt('output')}."
        )


def looks_predicted(path: Path) -> bool:
    """Whether a file begins as predictions do, in any format, or is empty; a link to nothing and a device do not."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return not head or head.startswith((b"index\tprediction", b"index\tanswer\t", b'{"index": '))


@contextmanager
def opened(output: Path) -> Iterator[Callable[[str], None]]:
    """Gives what writes lines, which are in place when the block ends without an error: nobody reads half of them.

    To standard output and devices they go at once. DataError where the disk refuses; what standard output refuses comes as it is.
    """
    if is_standard_output(output):
        with suppress(AttributeError, ValueError):  # of a stream of the caller's own
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]

        def show(line: str) -> None:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

        yield show
        return
    live = is_device(output)
    try:
        with ExitStack() as stack:
            place = _awaited(output) if live else stack.enter_context(new_file(output))
            file = stack.enter_context(open(place, "wb"))

            def write(line: str) -> None:
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")
                if live:
                    file.flush()

            yield write
    except OSError as error:
        raise DataError(f"cannot write {output}: {error.strerror or error}") from None


def _awaited(output: Path) -> Path | int:
    """What is opened to write to a device: itself, or a descriptor of a FIFO that somebody reads. DataError where nobody does."""
    if not output.is_fifo():
        return output
    started, told = time.monotonic(), False
    while (waited := time.monotonic() - started) < _SECONDS:
        try:
            descriptor = os.open(output, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody has opened it for reading
                raise
        else:
            os.set_blocking(descriptor, True)
            return descriptor
        if waited > _SAYS_AFTER and not told:
            _log.info(f"{output} is a FIFO; waiting for somebody who reads it")
            told = True
        time.sleep(0.1)
    raise DataError(f"{output}: is a FIFO (a named pipe), and nobody read from it in {_SECONDS:.0f} seconds")


def row_lines(predictor: Predictor, format: str) -> tuple[str | None, Callable[[str, dict], Iterator[str]]]:
    """(the header or None, what gives the lines of a row from its index and its prediction).

    Args:
      predictor: whose predictions they are.
      format: tsv (with scores), jsonl, or glue (index and prediction, as its server takes them).

    UsageError, when it is called, for a row that the format has no place for.
    """
    if format == "jsonl":
        return None, lambda name, result: iter([json.dumps({"index": name, **result}, ensure_ascii=False)])
    columns: tuple[str, ...]
    if format == "glue":
        assert isinstance(predictor, SentencePredictor)
        columns, cells = ("index", "prediction"), predictor.glue_cells
    else:
        columns, cells = ("index", *predictor.columns), predictor.cells
    for name in predictor.columns:
        _refuse_breaks("class", name)

    def lines(name: str, result: dict) -> Iterator[str]:
        _refuse_breaks("id", name)
        if format == "glue" and result["prediction"] is None:
            raise UsageError(f"a GLUE submission needs a prediction for every row; row {name} has an empty text.")
        return ("\t".join([name, *values]) for values in cells(result))

    return "\t".join(columns), lines


def _refuse_breaks(what: str, name: str) -> None:
    if any(c in name for c in "\t\r\n"):
        raise UsageError(
            f"the {what} {name!r} has tabs or line breaks, which a table cannot hold. Use {opt('format', 'jsonl')}."
        )


def write_answers(folder: Path, answers: AnswerFiles) -> None:
    """Replaces the files of answers whole: old ones are gone before the first new one comes. DataError where the disk refuses."""
    paths = [folder / name for name in ANSWER_FILES]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            staged = {}
            for path, content in zip(paths, answers, strict=True):
                if content is not None:
                    staged[path] = stack.enter_context(temporary(path))
                    write_durably(staged[path], json_bytes(content))
            for path in reversed(paths):
                path.unlink(missing_ok=True)
            for path, made in staged.items():
                os.replace(made, path)
            sync_folder(folder)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error.strerror or error}") from None
