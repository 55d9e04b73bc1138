"""Examples of all lengths to batches of one length each, and their results back in the order of the examples.

The length that an example is padded to follows from its own length alone. So its result does not depend on the examples
around it: predictions are the same in any order, and at any size of the batches but for the rounding of sums.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nlpdata.options import check_range

WINDOW = 32
"""Batches read ahead at most, to fill them with equal lengths: what bounds the memory, whatever the length of the input."""

Report = Callable[[int, int], None]
"""Called after each batch: the examples computed, and those taken, so far."""

Outputs = dict[str, np.ndarray]
Compute = Callable[[dict[str, np.ndarray]], Outputs]
"""A batch, arrays (b, L) and (b, P), -> its outputs, arrays (b, ...)."""


class Example(NamedTuple):
    """What a model takes for one text, pair or window.

    ids, segments: int32 (n,), without padding. owner: whose it is, for the caller. positions: int32 (p,), the masked ones.
    """

    ids: np.ndarray
    segments: np.ndarray
    owner: Any
    positions: np.ndarray | None = None


class _Waiting:
    """An example on its way, with its outputs once they are computed."""

    def __init__(self, example: Example) -> None:
        self.example = example
        self.outputs: Outputs | None = None


@dataclass(frozen=True)
class Batching:
    """How examples become batches.

    Attributes:
      compute: the model. Each shape of a batch may be compiled for itself.
      batch_size: examples computed at a time.
      longest: the greatest length of an example, in tokens.
      report: called after each batch.
    """

    compute: Compute
    batch_size: int
    longest: int
    report: Report = lambda done, taken: None

    def __post_init__(self) -> None:
        check_range("batch_size", self.batch_size, 1, 65536)

    def outputs(self, examples: Iterable[Example]) -> Iterator[tuple[Example, Outputs]]:
        """(example, its outputs) in the order of the examples, which are taken only as far as batches need them."""
        by_shape: dict[tuple[int, int], list[_Waiting]] = {}
        in_order: deque[_Waiting] = deque()
        done = taken = 0

        def compute(shape: tuple[int, int]) -> None:
            nonlocal done
            batch = by_shape.pop(shape)
            self._compute(batch, shape)
            done += len(batch)
            self.report(done, taken)

        for example in examples:
            item = _Waiting(example)
            in_order.append(item)
            taken += 1
            shape = self._shape(example)
            by_shape.setdefault(shape, []).append(item)
            if len(by_shape[shape]) == self.batch_size:
                compute(shape)
            elif len(in_order) == WINDOW * self.batch_size:
                compute(self._shape(in_order[0].example))
            yield from _finished(in_order)
        for shape in sorted(by_shape):
            compute(shape)
        yield from _finished(in_order)

    def _shape(self, example: Example) -> tuple[int, int]:
        """Length and number of masked positions of its batch."""
        masked = 0 if example.positions is None else _power_of_two(len(example.positions))
        return padded_length(len(example.ids), self.longest), masked

    def _compute(self, items: list[_Waiting], shape: tuple[int, int]) -> None:
        """Computes a batch; one that is not full is filled up to a power of two."""
        rows, (length, masked) = min(_power_of_two(len(items)), self.batch_size), shape
        batch = {name: np.zeros((rows, length), np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
        if masked:
            batch["masked_lm_positions"] = np.zeros((rows, masked), np.int32)
        batch["input_mask"][:, 0] = 1  # also of rows that fill up: they have something to attend to
        for row, item in enumerate(items):
            ids, segments, _, positions = item.example
            batch["input_ids"][row, : len(ids)] = ids
            batch["input_mask"][row, : len(ids)] = 1
            batch["segment_ids"][row, : len(segments)] = segments
            if positions is not None:
                batch["masked_lm_positions"][row, : len(positions)] = positions
        outputs = self.compute(batch)
        for row, item in enumerate(items):
            item.outputs = {name: values[row] for name, values in outputs.items()}


def padded_length(length: int, longest: int) -> int:
    """The length that `length` tokens are padded to: one of few, a quarter more at most (from 32 on)."""
    step = max(8, _power_of_two(length) // 8)
    return min(-(-length // step) * step, longest)


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _finished(in_order: deque[_Waiting]) -> Iterator[tuple[Example, Outputs]]:
    while in_order and (outputs := in_order[0].outputs) is not None:
        yield in_order.popleft().example, outputs
