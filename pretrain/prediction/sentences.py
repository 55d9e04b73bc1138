"""Predictions of a fine-tuned sentence model for texts: reading them, running the model, writing what it says."""

import json
import logging
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import write_file
from pretrain.converters.checkpoint import Head
from pretrain.settings.values import closest

_log = logging.getLogger(__name__)

FIRST_COLUMNS = ("text", "text_a", "question", "sentence", "sentence1", "question1", "#1 String", "premise")
SECOND_COLUMNS = ("text_b", "sentence2", "question2", "#2 String", "hypothesis")
FORMATS = ("tsv", "jsonl", "glue")
_OTHER_SUFFIXES = (".json", ".csv", ".parquet", ".gz", ".zip", ".tar")  # whose lines are no texts


@dataclass(frozen=True)
class Texts:
    """What is predicted on: names (of the rows, in order), first and second texts ("" for none)."""

    names: list[str]
    first: list[str]
    second: list[str]


def read_texts(path: str | Path) -> Texts:
    """Texts of a file: .tsv with a header and .jsonl by column names, any other one text a line, white space kept.

    Raises UsageError where columns are missing, DataError, with the line, where the file is not text.
    """
    suffix = Path(path).suffix.lower()
    if suffix in _OTHER_SUFFIXES:
        raise UsageError(f"{path}: texts come as .txt, one a line, .tsv with a header, or .jsonl. Received: {suffix}.")
    lines = _lines(Path(path))
    if suffix not in (".tsv", ".jsonl"):
        return Texts([str(i) for i in range(len(lines))], lines, [""] * len(lines))
    rows = _jsonl(lines, path) if suffix == ".jsonl" else _tsv(lines, path)
    first, second, name = _columns(rows, path)
    for number, row in enumerate(rows, 1 if suffix == ".jsonl" else 2):
        for column in filter(None, (first, second)):
            if not isinstance(row.get(column), str):
                raise DataError(f"{path}:{number}: no text {column!r} in this row. Received: {str(row)[:80]}")
        if not all(_is_unicode(value) for value in row.values() if isinstance(value, str)):
            raise DataError(f"{path}:{number}: half of a surrogate pair, which is no character. Received: {row!a:.80}")
    return Texts(
        [str(row[name]) if name and row.get(name) is not None else str(i) for i, row in enumerate(rows)],
        [row[first] for row in rows],
        [row[second] if second else "" for row in rows],
    )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    try:
        if b"\0" in data:
            raise ValueError(f"byte {data.index(0)} is 0")
        text = data.decode("utf-8-sig")
    except ValueError as error:
        raise DataError(f"{path} is no UTF-8 text: {error}. Give texts, or records of create-finetuning.") from None
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def _jsonl(lines: list[str], path) -> list[dict]:
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number}: expected an object such as {{'text': ...}}. Received: {line[:80]}")
        rows.append(row)
    return rows


def _tsv(lines: list[str], path) -> list[dict]:
    header, *body = [line.split("\t") for line in lines] or [[]]
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise UsageError(
            f"{path}: two columns are called {twice[0]!r}: which one is meant? Rename one in the first line."
        )
    for number, cells in enumerate(body, 2):
        if len(cells) != len(header):
            raise DataError(f"{path}:{number}: {len(cells)} columns, the header has {len(header)}: {', '.join(header)}")
    return [dict(zip(header, cells, strict=True)) for cells in body]


def _columns(rows: Sequence[Mapping], path) -> tuple[str, str | None, str | None]:
    known = list(dict.fromkeys(name for row in rows for name in row))
    first = next((name for name in FIRST_COLUMNS if name in known), None)
    if first is None:
        raise UsageError(
            f"{path}: no column of texts. It needs one of {', '.join(FIRST_COLUMNS)}, and for pairs one of "
            f"{', '.join(SECOND_COLUMNS)}; it has {', '.join(known) or 'no rows'}."
        )
    pair = ("sentence", *SECOND_COLUMNS) if first == "question" else SECOND_COLUMNS
    second = next((name for name in pair if name in known), None)
    return first, second, next((name for name in ("index", "id") if name in known), None)


def predict_logits(model, tokenizer, texts: Texts, length: int, batch_size: int) -> np.ndarray:
    """The logits float32 (texts, classes) of a model for texts; longer ones are cut, which is said."""
    from nlpdata.finetuning.encode import lay_out

    columns, cut = lay_out(tokenizer, length, tokenizer.encode(texts.first), tokenizer.encode(texts.second))
    truncated = int((cut > 0).sum())
    if truncated:
        _log.info(
            f"{truncated} of {len(cut)} texts are longer than {length} tokens: their ends were cut ({int(cut.sum())} tokens)"
        )
    return np.concatenate(list(_logits(model, {k: v.astype(np.int32) for k, v in columns.items()}, batch_size)))


def _logits(model, columns: Mapping[str, np.ndarray], batch_size: int) -> Iterator[np.ndarray]:
    from keras import ops

    from pretrain.data.batches import trimmed

    for at in range(0, len(columns["input_ids"]), batch_size):
        batch = trimmed({name: values[at : at + batch_size] for name, values in columns.items()})
        logits = np.asarray(ops.convert_to_numpy(model(batch)["logits"]), np.float32)
        if not np.isfinite(logits).all():
            raise DataError(
                "the model's scores are not numbers (nan or inf): its weights are damaged, or training diverged."
            )
        yield logits


def rows_of(head: Head, texts: Texts, logits: np.ndarray) -> list[dict]:
    """{"index", "prediction", "scores"} for each text: the class name, the number or the labels; scores by class name.

    An empty text gets the prediction None and no scores: there is nothing to judge.
    """
    rows = []
    for name, first, second, row in zip(texts.names, texts.first, texts.second, logits.astype(np.float64), strict=True):
        if not (first.strip() or second.strip()):
            rows.append({"index": name, "prediction": None, "scores": {}})
            continue
        prediction, scores = _judge(head, row)
        rows.append({"index": name, "prediction": prediction, "scores": scores})
    return rows


def _judge(head: Head, logits: np.ndarray):
    if head.kind == "regression":
        return float(logits[0]), {}
    if head.kind == "multilabel":
        scores = 1 / (1 + np.exp(-logits))
        chosen = [name for name, value in zip(head.names, logits, strict=True) if value > 0]
        return chosen, dict(zip(head.names, scores.tolist(), strict=True))
    weights = np.exp(logits - logits.max())
    return head.names[int(logits.argmax())], dict(zip(head.names, (weights / weights.sum()).tolist(), strict=True))


def write_rows(path: str | Path, rows: Sequence[Mapping], format: str) -> None:
    """Writes predictions: tsv (with scores), jsonl, or glue (index and prediction, as its server takes them).

    Raises UsageError for another format, or where it has no place for what there is; DataError where the disk refuses.
    """
    if format not in FORMATS:
        raise UsageError(
            f"--format must be one of {', '.join(FORMATS)}. Received: {format!r}.{closest(format, FORMATS)}"
        )
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
                f"the id {row['index']!r} has tabs or line breaks, which a table cannot hold. Use --format jsonl."
            )
        scores = [f"{row['scores'][name]:.6f}" if row["scores"] else "" for name in names]
        prediction = row["prediction"]
        if format == "glue" and isinstance(prediction, float):
            prediction = min(max(prediction, 0.0), 5.0)  # STS-B's scale: its server takes nothing else
        lines.append("\t".join([row["index"], _cell(prediction), *scores]))
    return lines


def _cell(prediction) -> str:
    if prediction is None:
        return ""
    if isinstance(prediction, float):
        return f"{prediction:.3f}"
    return ",".join(prediction) if isinstance(prediction, list) else prediction
