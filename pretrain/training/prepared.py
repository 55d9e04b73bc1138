"""What a step takes in, as the prefetching thread makes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pretrain.data.batches import example_digest


@dataclass(frozen=True)
class Prepared:
    """A step's input, made in the prefetching thread.

    Attributes:
      batch: this host's part of it, on its way to the devices.
      denominators: see Task.denominators.
      digest: of the batch, where the configuration wants it.
      tokens, places: numbers of real tokens and of positions (0 where a batch has no input_mask).
    """

    batch: Mapping
    denominators: Mapping[str, Any]
    digest: str | None
    tokens: int
    places: int

    @classmethod
    def of(cls, batch: Mapping, placed: Mapping, denominators: Mapping[str, Any], digests: bool) -> "Prepared":
        """That of a batch, where it is on its way to the devices as `placed`; with its digest where those are wanted."""
        mask = batch.get("input_mask")
        tokens, places = (0, 0) if mask is None else (int(mask.sum()), mask.size)
        return cls(placed, denominators, example_digest(batch) if digests else None, tokens, places)
