"""Several short examples in one row: which go together, and the arrays of such rows.

Best-fit decreasing: the longest example first, each into the row that it leaves the least room in. The rows of a step hold exactly
the examples that its batch would hold, so losses and gradients are those of the batch without packing, up to rounding.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

PER_TOKEN = ("input_ids", "input_mask", "segment_ids", "paragraph_mask")
PER_PREDICTION = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_FEW = 16  # numbers of rows between one power of two and the next, where each number is compiled for itself


@dataclass(frozen=True)
class Plan:
    """Where each example goes: row, number among the examples of its row, first column; int64 (n,) each. `rows`: how many."""

    row: np.ndarray
    slot: np.ndarray
    start: np.ndarray
    rows: int


def max_sequences(length: int) -> int:
    """Most examples that a row of that many tokens may hold."""
    return min(32, max(1, length // 8))


def max_row_predictions(predictions: int, length: int) -> int:
    """Most predictions of a row, where an example has at most `predictions`: numbers of short examples are rounded up."""
    return -(-(predictions + length // 64) // 8) * 8


def plan_rows(
    lengths: np.ndarray,
    capacity: int,
    most: int,
    predictions: np.ndarray | None = None,
    most_predictions: int = 0,
) -> Plan:
    """Puts examples into as few rows as best-fit decreasing finds.

    Args:
      lengths: tokens of each example, integers (n,) from 1 to capacity.
      capacity: tokens of a row.
      most: examples that a row may hold.
      predictions, most_predictions: predictions of each example, integers (n,), and how many a row may hold.

    A row's examples are in the order in which they were put there: the longest first, equal ones by number.
    """
    count = len(lengths)
    sizes = np.asarray(lengths).tolist()
    needs = [0] * count if predictions is None else np.asarray(predictions).tolist()
    row, slot, start = [0] * count, [0] * count, [0] * count
    used: list[int] = []  # of each row: tokens, examples, predictions
    held: list[int] = []
    predicted: list[int] = []
    by_room: list[list[int]] = [[] for _ in range(capacity + 1)]
    rooms = 0  # bit r is set where by_room[r] has a row
    for example in np.argsort(-np.asarray(lengths), kind="stable").tolist():
        size, need = sizes[example], needs[example]
        left = rooms >> size  # rows with room for it; the lowest bit is the tightest
        chosen = -1
        while left:
            lowest = left & -left
            room = size + lowest.bit_length() - 1
            candidate = by_room[room][-1]
            if predicted[candidate] + need <= most_predictions:
                chosen = candidate
                by_room[room].pop()
                if not by_room[room]:
                    rooms ^= 1 << room
                break
            left ^= lowest
        if chosen < 0:
            chosen = len(used)
            used.append(0)
            held.append(0)
            predicted.append(0)
        row[example], slot[example], start[example] = chosen, held[chosen], used[chosen]
        used[chosen] += size
        held[chosen] += 1
        predicted[chosen] += need
        room = capacity - used[chosen]
        if room and held[chosen] < most:
            by_room[room].append(chosen)
            rooms |= 1 << room
    return Plan(np.array(row, np.int64), np.array(slot, np.int64), np.array(start, np.int64), len(used))


def rounded_rows(rows: int, multiple: int, few: bool) -> int:
    """How many rows a batch gets that needs `rows`: a multiple of `multiple`.

    few: at most 16 numbers from a power of two to the next, of which a run meets one to three; at most 6% of the rows stay empty.
    """
    step = max(1, (1 << (rows.bit_length() - 1)) // _FEW) if few else 1
    step = -(-step // multiple) * multiple
    return -(-rows // step) * step


def used_lengths(mask: np.ndarray) -> np.ndarray:
    """Tokens of each row of a mask (n, L), up to the last real one; at least 1. int64 (n,)."""
    return np.where(mask.any(axis=1), mask.shape[1] - np.argmax(mask[:, ::-1] != 0, axis=1), 1)


def packed(batch: Mapping[str, np.ndarray], multiple: int = 1, few: bool = False) -> dict[str, np.ndarray]:
    """The examples of a batch in as few rows as planned. Examples whose "is_real_example" is 0 are left out.

    Args:
      batch: arrays of n examples: per token (n, L), per prediction (n, P), and others (n, ...).
      multiple, few: see rounded_rows.

    Returns arrays of R rows with S places for examples, in the dtypes of the batch:
      per token: (R, L), zeros behind the last example;
      position_ids: int32 (R, L), from 0 in each example;
      sequence_ids: int32 (R, L), 1, 2, ... on the real tokens of a row's examples, 0 elsewhere;
      sequence_starts: int32 (R, S), the first token of each example;
      per prediction: (R, Q) with masked_lm_positions in the row;
      is_real_example: int32 (R, S), 1 where a place holds an example; others: (R, S, ...).
    """
    if "is_real_example" in batch:
        real = np.flatnonzero(batch["is_real_example"])
        batch = {name: values[real] for name, values in batch.items()}
    mask = batch["input_mask"]
    count, length = mask.shape
    lengths = used_lengths(mask)
    most, weights = max_sequences(length), batch.get("masked_lm_weights")
    made, room = (None, 0) if weights is None else ((weights != 0).sum(axis=1), weights.shape[1])
    room = max_row_predictions(room, length)
    plan = plan_rows(lengths, length, most, made, room)
    rows = rounded_rows(max(plan.rows, 1), multiple, few)
    result = _tokens(batch, plan, lengths, (rows, length))
    if weights is not None:
        result |= _predictions(batch, plan, (rows, room))
    places = {"sequence_starts": plan.start.astype(np.int32), "is_real_example": np.ones(count, np.int32)}
    others = {name: batch[name] for name in batch if name not in (*PER_TOKEN, *PER_PREDICTION)}
    for name, values in (others | places).items():
        result[name] = np.zeros((rows, most, *values.shape[1:]), values.dtype)
        result[name][plan.row, plan.slot] = values
    return result


def _tokens(batch: Mapping, plan: Plan, lengths: np.ndarray, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """What belongs to tokens, in rows of that shape."""
    example = np.repeat(np.arange(len(lengths)), lengths)
    column = np.arange(len(example)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    at = plan.row[example], plan.start[example] + column
    numbers = (plan.slot[example] + 1) * (batch["input_mask"][example, column] != 0)
    columns = {name: batch[name][example, column] for name in PER_TOKEN if name in batch}
    columns |= {"position_ids": column.astype(np.int32), "sequence_ids": numbers.astype(np.int32)}
    result = {name: np.zeros(shape, values.dtype) for name, values in columns.items()}
    for name, values in columns.items():
        result[name][at] = values
    return result


def _predictions(batch: Mapping, plan: Plan, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """What belongs to predictions, in rows of that shape."""
    example, column = np.nonzero(batch["masked_lm_weights"])
    order = np.lexsort((column, plan.slot[example], plan.row[example]))
    example, column = example[order], column[order]
    row = plan.row[example]
    place = np.arange(len(row)) - np.searchsorted(row, row)  # number among the predictions of its row
    result = {name: np.zeros(shape, batch[name].dtype) for name in PER_PREDICTION}
    for name, values in result.items():
        values[row, place] = batch[name][example, column]
    result["masked_lm_positions"][row, place] += plan.start[example].astype(np.int32)
    return result
