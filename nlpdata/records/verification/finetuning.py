"""What every fine-tuning record must hold, for `nlpdata verify`: labels in range, masks and spans that fit."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

Broken = tuple[str, np.ndarray, Callable[[int], str]]
"""A rule of verification: kind of fault, which records break it bool (n,), and the text for one of them, by its row."""


def finetuning_faults(rows: Mapping[str, np.ndarray], meta: Mapping) -> Iterator[Broken]:
    """Each rule, with the records that break it.

    rows: feature -> values (n, width), under ALBERT's names or ours. meta: the set's meta file; {} where there is none.
    """
    if "label_ids" in rows:
        yield from _labels(rows["label_ids"], meta)
    if "start_positions" in rows and "end_positions" in rows:
        yield from _span(rows)
    if "token_char_start" in rows and "token_char_end" in rows:
        start, end = rows["token_char_start"], rows["token_char_end"]
        yield (
            "token_char",
            np.any((start < 0) | (end < start), axis=1),
            lambda at: "token_char_end is before token_char_start",
        )


def _labels(labels: np.ndarray, meta: Mapping) -> Iterator[Broken]:
    if labels.dtype.kind == "f":
        yield "label", ~np.isfinite(labels).all(axis=1), lambda at: f"label_ids is {labels[at, 0]}, expected a number"
        return
    if labels.shape[1] > 1 or meta.get("task_type", "").endswith("multilabel"):
        yield "label", ((labels != 0) & (labels != 1)).any(axis=1), lambda at: "label_ids are not 0 or 1 each"
        return
    limit = meta.get("num_labels")
    outside = (labels[:, 0] < 0) | (labels[:, 0] >= (limit or np.iinfo(np.int64).max))
    expected = f"0 to {limit - 1}" if limit else "0 or more"
    yield "label", outside, lambda at: f"label_ids is {labels[at, 0]}, expected {expected}"


def _paragraph(rows: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """paragraph_mask, whatever it is called."""
    if "paragraph_mask" in rows:
        return rows["paragraph_mask"]
    return 1 - rows["p_mask"] if "p_mask" in rows else None


def _span(rows: Mapping[str, np.ndarray]) -> Iterator[Broken]:
    start, end = rows["start_positions"][:, 0], rows["end_positions"][:, 0]
    wrong = (start < 0) | (end < start)
    yield "answer span", wrong, lambda at: f"the answer goes from {start[at]} to {end[at]}"
    if "is_impossible" in rows:
        impossible = rows["is_impossible"][:, 0]
        yield (
            "is_impossible",
            (impossible != 0) & (impossible != 1),
            lambda at: f"is_impossible is {impossible[at]}, expected 0 or 1",
        )
        yield (
            "answer span",
            (impossible == 1) != (start == 0),
            lambda at: f"is_impossible is {impossible[at]}, and the answer starts at {start[at]}",
        )
    mask = _paragraph(rows)
    if mask is None:
        return
    row, width = np.arange(len(start)), mask.shape[1]
    ends_there = (mask[row, np.clip(start, 0, width - 1)] == 1) & (mask[row, np.clip(end, 0, width - 1)] == 1)
    yield (
        "answer span",
        ~ends_there | (end >= width),
        lambda at: f"the answer, {start[at]} to {end[at]}, is not inside the paragraph",
    )
