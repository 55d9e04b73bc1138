"""Records in words, for people."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nlpdata.errors import NlpdataError, UsageError, opt
from nlpdata.files import PathName, PathNames
from nlpdata.files.paths import AnyPath
from nlpdata.records.contract import V2_NAMES, choices_of_meta, find_meta, odd_features
from nlpdata.records.reader import Records, open_records
from nlpdata.tokenizers import Tokenizer, load_tokenizer

_WIDTH = 100


def inspect_records(
    paths: PathNames,
    *,
    tokenizer: PathName | None = None,
    limit: int = 3,
    first: int = 0,
    on_bytes: Callable[[int], None] = lambda count: None,
) -> str:
    """A few records decoded to words: segments, masks with the true word, labels, padding.

    A masked piece reads `[MASK:true]`, a replaced one `[wrong:true]`, one that was chosen but kept `[=true]`.

    Args:
      paths: record files, as in open_records.
      tokenizer: path of the tokenizer; default: the one that the meta file names. Without any, ids are shown.
      limit, first: number of records to show, and the number of the first.
      on_bytes: as in open_records.
    """
    if limit < 1 or first < 0:
        raise UsageError(
            f"{opt('limit')} must be at least 1 and {opt('first')} at least 0. Received: {limit}, {first}."
        )
    records = open_records(paths, on_bytes)
    if first >= len(records):
        raise UsageError(f"{opt('first', first)}: there are {len(records)} records, numbered from 0.")
    loaded, note = tokenizer_of(records, tokenizer)
    parts = [_summary(records, note)]
    for i in range(first, min(first + limit, len(records))):
        parts.append(describe(records, i, loaded))
    return "\n\n".join(parts)


def describe(records: Records, number: int, tokenizer: Tokenizer | None) -> str:
    """A record in words; without a tokenizer, in ids."""
    names, record = (records.meta or {}).get("label_names"), records[number]
    odd = {feature.name for feature in odd_features(records.features)}
    told = {name: values for name, values in record.items() if name not in odd}
    if odd & {"input_mask", "segment_ids", "input_type_ids"}:
        told = {}
    choices = choices_of_meta(records.meta)
    if choices > 1 and (sequences := _split(told, choices)):
        words = _describe_choices(number, records.where(number), told, sequences, tokenizer)
    else:
        words = _describe(number, records.where(number), told, tokenizer, names)
    return "\n".join([words, *(f"  {name}: {values}" for name, values in record.items() if name not in told)])


def tokenizer_of(records: Records, path: PathName | None) -> tuple[Tokenizer | None, str]:
    """The tokenizer at a path, else the one that the meta file names; None where there is none, and why."""
    if path:
        return load_tokenizer(path), ""
    entry = (records.meta or {}).get("tokenizer")
    if not entry or "file" not in entry:
        return None, "No meta file names a tokenizer: ids are shown. Give a tokenizer to see words."
    try:
        return load_tokenizer(entry, folder=_folder(records)), ""
    except NlpdataError as error:
        return None, f"Ids are shown: {error}"


def _folder(records: Records) -> AnyPath:
    """The folder of the meta file of records that have one."""
    found = find_meta(records.paths[0])
    assert found is not None
    return found.parent


def _summary(records: Records, note: str) -> str:
    meta = records.meta or {}
    lines = [f"{len(records):,} records in {len(records.paths):,} file{'s' * (len(records.paths) != 1)}"]
    if "objective" in meta:
        lines[0] += f", objective {meta['objective']}"
    lines.append("features: " + ", ".join(f"{f.name} {f.dtype}[{f.width}]" for f in records.features))
    if note:
        lines.append(note)
    return "\n".join(_fill(line, "", "  ") for line in lines)


def _describe(
    number: int, where: str, record: dict, tokenizer: Tokenizer | None, label_names: Sequence[str] | None
) -> str:
    get: Any = record.get
    ids = get("input_ids", get("input_word_ids"))
    mask, segment = get("input_mask"), get("segment_ids", get("input_type_ids"))
    if ids is None or not len(ids) or any(other is not None and len(other) != len(ids) for other in (mask, segment)):
        return "\n".join([f"#{number} ({where})", *(f"  {name}: {values}" for name, values in record.items())])
    words, segment = _sequence(ids, mask, segment, record, tokenizer)
    length = len(words)
    head = f"#{number} ({where})  {length} tokens, {len(ids) - length} padding ({1 - length / len(ids):.0%})"
    weights = get("masked_lm_weights")
    if weights is not None:
        head += f", {int((weights > 0).sum())} masked"
    for label in (get("next_sentence_labels"), get("label_ids")):
        if label is not None and len(label):
            head += f", label {_label(label, label_names)}"
    lines = [head]
    for name, text in _segments(words, segment):
        lines.append(_fill(text, f"  {name}: ", " " * 5))
    if get("start_positions") is not None and get("end_positions") is not None:
        start, end = int(get("start_positions")[0]), int(get("end_positions")[0])
        lines.append(
            f"  answer: {' '.join(words[start : end + 1])} ({start} to {end})" if start else "  answer: none here"
        )
    return "\n".join(lines)


def _sequence(
    ids: np.ndarray, mask: np.ndarray | None, segment: np.ndarray | None, record: Mapping, tokenizer: Tokenizer | None
) -> tuple[list[str], np.ndarray]:
    """The words of a sequence without its padding, and the segment of each."""
    length = int((mask == 1).sum()) if mask is not None else len(ids)
    words = _words(ids[:length], record, tokenizer)
    return words, segment[:length] if segment is not None else np.zeros(length, int)


def _segments(words: Sequence[str], segment: np.ndarray) -> list[tuple[str, str]]:
    """(A or B, its words) of each segment that there is."""
    return [
        (name, " ".join(word for word, own in zip(words, segment == value, strict=True) if own))
        for value, name in ((0, "A"), (1, "B"))
        if (segment == value).any()
    ]


def _split(record: Mapping[str, np.ndarray], choices: int) -> list[np.ndarray | None]:
    """input_ids, input_mask and segment_ids of each choice, (choices, L); [] where a record has no such features."""
    found = [
        record.get(name, record.get(V2_NAMES.get(name, ""))) for name in ("input_ids", "input_mask", "segment_ids")
    ]
    ids = found[0]
    widths = {len(values) for values in found if values is not None}
    if ids is None or not len(ids) or len(widths) > 1 or len(ids) % choices:
        return []
    return [None if values is None else values.reshape(choices, -1) for values in found]


def _describe_choices(
    number: int, where: str, record: Mapping, sequences: Sequence[Any], tokenizer: Tokenizer | None
) -> str:
    ids, mask, segment = sequences
    choices, width = ids.shape
    tokens = int((mask == 1).sum()) if mask is not None else ids.size
    label = record.get("label_ids")
    right = int(label[0]) if label is not None and len(label) else None
    head = f"#{number} ({where})  {choices} choices of {width}, {tokens} tokens, {ids.size - tokens} padding "
    lines = [f"{head}({1 - tokens / ids.size:.0%})" + ("" if right is None else f", label {right}")]
    before = ""
    for choice in range(choices):
        own = [None if part is None else part[choice] for part in (mask, segment)]
        words, segments = _sequence(ids[choice], own[0], own[1], {}, tokenizer)
        lines.append(f"  choice {choice}{' (right)' if choice == right else ''}")
        for name, text in _segments(words, segments):
            lines.append(_fill("as above" if name == "A" and text == before else text, f"    {name}: ", " " * 7))
            before = text if name == "A" else before
    return "\n".join(lines)


def _label(label: np.ndarray, label_names: Sequence[str] | None) -> str:
    """A label with its name; a number; the names of a row of several labels."""
    names = label_names or ()
    if label.dtype.kind == "f":
        return f"{label[0]:g}"
    if len(label) > 1:
        chosen = [names[i] if i < len(names) else str(i) for i in np.flatnonzero(label).tolist()]
        return ", ".join(chosen) or "none"
    return label_in_words(int(label[0]), names)


def label_in_words(value: int, names: Sequence[str]) -> str:
    """A class with its name, where it has one that is another than its number: "1 (random)"."""
    name = str(names[value]) if 0 <= value < len(names) else str(value)
    return f"{value} ({name})" if name != str(value) else name


def _fill(text: str, first: str, rest: str) -> str:
    """Lines of at most _WIDTH; words (pieces of the vocabulary, paths) stay whole."""
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _words(ids: np.ndarray, record: Mapping[str, np.ndarray], tokenizer: Tokenizer | None) -> list[str]:
    def pieces(given: np.ndarray) -> list[str]:
        values = [int(value) for value in given]
        if tokenizer is None:
            return [str(value) for value in values]
        inside = [value if 0 <= value < tokenizer.vocab_size else tokenizer.unk_id for value in values]
        return [
            piece if v == i else f"?{v}" for piece, v, i in zip(tokenizer.pieces(inside), values, inside, strict=True)
        ]

    words = pieces(ids)
    columns = [record.get(f"masked_lm_{name}") for name in ("positions", "ids", "weights")]
    widths = {None if column is None else len(column) for column in columns}
    if None in widths or len(widths) > 1:
        return words
    chosen = np.flatnonzero(record["masked_lm_weights"] > 0)
    truths = pieces(record["masked_lm_ids"][chosen])
    for position, truth in zip(record["masked_lm_positions"][chosen].tolist(), truths, strict=True):
        if not 0 <= position < len(words):
            continue
        shown = words[position].strip("[]")
        words[position] = f"[={truth}]" if words[position] == truth else f"[{shown}:{truth}]"
    return words
