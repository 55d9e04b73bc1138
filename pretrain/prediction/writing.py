"""Where predictions go: checked before the work, written whole after it."""

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from nlpdata.errors import DataError, UsageError, closest, opt
from nlpdata.files import PathName
from nlpdata.files.json_files import json_bytes, write_file
from nlpdata.files.paths import is_device
from nlpdata.files.temporary import temporary
from nlpdata.files.writing import sync_folder, write_durably

FORMATS = ("tsv", "jsonl", "glue")


class Answers(NamedTuple):
    """What the files of answers hold, in the order in which they are written: question id -> value.

    Attributes:
      null_odds: how much better no answer scores than the best one; None where every question has an answer.
      nbest_predictions: the best answers with their probabilities.
      predictions: the text of the answer.
    """

    null_odds: dict[str, float] | None
    nbest_predictions: dict[str, list[Mapping]]
    predictions: dict[str, str]


ANSWER_FILES = tuple(f"{name}.json" for name in Answers._fields)


def check_format(format: str) -> None:
    """UsageError for a format of predictions that there is not."""
    if format not in FORMATS:
        raise UsageError(
            f"{opt('format')} must be one of {', '.join(FORMATS)}. Received: {format!r}.{closest(format, FORMATS)}"
        )


def check_output(input: Path, output: Path, is_folder: bool, overwrite: bool) -> None:
    """UsageError where predictions cannot be written: found before the work, not after it.

    Args:
      input: file that is predicted for.
      output: file of predictions, or folder of answers.
      is_folder: whether answers are written.
      overwrite: whether earlier predictions may be replaced.
    """
    if is_device(output) and not is_folder:
        return
    expected = "a folder" if is_folder else "a file"
    if output.exists() and output.is_dir() != is_folder:
        raise UsageError(
            f"{opt('output')} {output}: expected {expected}, found {'a file' if is_folder else 'a folder'}."
        )
    if output.exists() and input.exists() and output.samefile(input):
        raise UsageError(f"{opt('output')} {output} is the input: it would be lost. Name another file.")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"{opt('output')} {output}: there is no folder {output.parent}. Make it first.")
    # Of answers, predictions.json comes last: without it the others are what an interrupted run left.
    main = output / ANSWER_FILES[-1] if is_folder else output
    if os.path.lexists(main):
        _refuse_existing(main, is_folder, overwrite)
    try:
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


def write_rows(path: PathName, rows: Sequence[Mapping], format: str) -> None:
    """Writes the predictions of texts.

    Args:
      path: file to write.
      rows: as pretrain.prediction.sentences.rows_of returns them.
      format: tsv (with scores), jsonl, or glue (index and prediction, as its server takes them).

    Raises UsageError for another format, or where it has no place for what there is; DataError where the disk refuses.
    """
    check_format(format)
    empty = [row["index"] for row in rows if row["prediction"] is None]
    if format == "glue" and empty:
        raise UsageError(f"a GLUE submission needs a prediction for every row; row {empty[0]} has an empty text.")
    lines = [json.dumps(row, ensure_ascii=False) for row in rows] if format == "jsonl" else _table(rows, format)
    write_file(Path(path), "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))


def looks_predicted(path: Path) -> bool:
    """Whether a file begins as predictions do, in any format, or is empty; a link to nothing and a device do not."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return not head or head.startswith((b"index\tprediction", b'{"index": '))


def _table(rows: Sequence[Mapping], format: str) -> list[str]:
    names = list(next((row["scores"] for row in rows if row["scores"]), {})) if format == "tsv" else []
    lines = ["\t".join(["index", "prediction", *names])]
    for row in rows:
        if any(c in row["index"] for c in "\t\r\n"):
            raise UsageError(
                f"the id {row['index']!r} has tabs or line breaks, which a table cannot hold. Use {opt('format', 'jsonl')}."
            )
        scores = [f"{row['scores'][name]:.6f}" if row["scores"] else "" for name in names]
        prediction = row["prediction"]
        if format == "glue" and isinstance(prediction, float):
            prediction = min(max(prediction, 0.0), 5.0)  # STS-B's scale: its server takes nothing else
        lines.append("\t".join([row["index"], _cell(prediction), *scores]))
    return lines


def _cell(prediction: str | float | list[str] | None) -> str:
    if prediction is None:
        return ""
    if isinstance(prediction, float):
        return f"{prediction:.3f}"
    return ",".join(prediction) if isinstance(prediction, list) else prediction


def write_answers(folder: Path, answers: Answers) -> None:
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
