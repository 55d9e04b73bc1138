"""Batches by step number, their digest, and a thread that makes them ahead."""

import copy
import hashlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from nlpdata.errors import UsageError
from pretrain.data.order import grouped, shuffled
from pretrain.data.packing import PER_TOKEN, packed, used_lengths
from pretrain.settings.data_section import DataConfig

_READ_AT_ONCE = 256  # records: decoding is vectorised over them
_LENGTHS_AT_ONCE = 4096
_WINDOW = 32  # steps whose examples are grouped by length
_log = logging.getLogger(__name__)

Transform = Callable[[dict[str, np.ndarray], np.ndarray, int], dict[str, np.ndarray]]


class Batches:
    """The examples of every step: all, or the first config.max_examples.

    Training goes through all examples once an epoch, each time in another order; evaluation through the first
    `steps_per_epoch` batches in file order. A last batch that is not full is left out, or filled up with copies whose
    "is_real_example" is 0 (int32 (batch,)), so that all batches have one shape, but for their length with trim_padding, and
    their number of rows with pack_sequences.

    Args:
      records: len() and records[int64 array] -> name -> array (n, width), e.g. nlpdata.open_records(...).
      config: see DataConfig.
      transform: (rows, example numbers int64 (n,), epoch) -> the arrays of a batch, row by row.
      name: name of the data, for messages.
      facts: see below.
      packs: whether the task can read rows of several examples.
      sequences: of an example, in arrays (b, sequences, L) in place of (b, L); a record has them next to each other.

    Attributes:
      num_examples: of an epoch; those of the last, smaller batch included.
      steps_per_epoch: batches of an epoch.
      batch_size: examples a batch, those of all hosts.
      facts: what a checkpoint keeps about the data, e.g. the checksum of its tokenizer.

    Raises UsageError where there are fewer examples than a batch, and for packing or grouping that cannot be done.
    """

    def __init__(
        self,
        records: Any,
        config: DataConfig,
        transform: Transform,
        name: str = "data",
        facts: Mapping | None = None,
        packs: bool = False,
        sequences: int = 1,
    ):
        self.name, self.facts, self.batch_size = name, dict(facts or {}), config.global_batch_size
        self.num_examples = len(records) if config.max_examples is None else min(len(records), config.max_examples)
        if self.num_examples < len(records):
            _log.info(f"{name}: the first {self.num_examples:,} of {len(records):,} examples (max_examples)")
        self._records, self._config, self._transform = records, config, transform
        self._host: tuple[int, int] = (0, 1)
        self._max_lengths: int | None = None
        self._parts, self._sequences = 1, sequences
        self._block: tuple[tuple[int, int], dict] | None = None
        whole, rest = divmod(self.num_examples, self.batch_size)
        self._fills_up = not config.drop_remainder
        self.steps_per_epoch = whole + (1 if rest and self._fills_up else 0)
        if not self.steps_per_epoch:
            raise UsageError(
                f"{name}: {self.num_examples} examples are fewer than one batch of {self.batch_size}. "
                f"{'Make more records' if self.num_examples == len(records) else f'Raise {name}.max_examples'}, or set "
                f"global_batch_size to {self.num_examples} or less."
                if self.num_examples
                else f"{name}: the record files hold no examples."
            )
        self._refuse_options(packs)
        self._lengths = self._read_lengths() if config.group_by_length else None

    def _refuse_options(self, packs: bool) -> None:
        config, name = self._config, self.name
        if config.pack_sequences and not packs:
            raise UsageError(
                f"{name}.pack_sequences is true, but this task reads one example a row. Set it to false; group_by_length also "
                "saves padding."
            )
        if config.pack_sequences and config.group_by_length:
            raise UsageError(
                f"{name}: pack_sequences and group_by_length are both true. Packed rows are full whatever the order: set "
                "group_by_length to false."
            )
        if config.group_by_length and not config.is_training:
            raise UsageError(f"{name}.group_by_length is true, but an evaluation reads in file order. Set it to false.")

    def for_host(self, index: int, count: int, max_lengths: int | None = None, parts: int = 1) -> "Batches":
        """The same batches, of which `batch` returns the part of host `index` of `count`.

        Args:
          index, count: of the hosts.
          max_lengths: given where each shape is compiled for itself: with trim_padding or group_by_length there are at most
            so many lengths, with pack_sequences few numbers of rows.
          parts: number of equal parts that a batch is cut into over all hosts (replicas times micro-steps).
        """
        if self.batch_size % count:
            raise UsageError(
                f"{self.name}: global_batch_size {self.batch_size} cannot be split over {count} hosts. "
                f"Use a multiple of {count}."
            )
        part = copy.copy(self)
        part._host, part._max_lengths, part._block = (index, count), max_lengths, None
        part._parts = max(parts, count)
        return part

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """The batch of a step (from 0): name -> array (batch_size / hosts, ...); integers are int32, others float32.

        With pack_sequences its first axis counts rows of several examples (pretrain.data.packing.packed).
        """
        epoch, in_epoch = divmod(step, self.steps_per_epoch)
        index, count = (0, 1) if self._config.pack_sequences else self._host
        steps = max(1, _READ_AT_ONCE * count // self.batch_size)
        first = in_epoch - in_epoch % steps
        block = self._block
        if block is None or block[0] != (epoch, first):
            stop = min(first + steps, self.steps_per_epoch)
            block = self._block = ((epoch, first), self._read(epoch, first, stop, index, count))
        rows = self.batch_size // count
        at = (in_epoch - first) * rows
        batch = {name: values[at : at + rows] for name, values in block[1].items()}
        if self._config.pack_sequences:
            return self._packed(batch)
        trims = self._config.trim_padding or self._config.group_by_length
        return trimmed(batch, self._max_lengths) if trims else batch

    def _packed(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """This host's rows of a step: every host packs the whole batch, so that all have equally many rows."""
        index, count = self._host
        result = packed(batch, multiple=self._parts, few=self._max_lengths is not None)
        rows = len(result["input_ids"]) // count
        return {name: values[index * rows : (index + 1) * rows] for name, values in result.items()}

    def _read(self, epoch: int, start: int, stop: int, index: int, count: int) -> dict[str, np.ndarray]:
        """The examples of steps from start to stop, of host `index` of `count`."""
        rows = self.batch_size // count
        mine = np.arange(index * rows, (index + 1) * rows)
        positions = (np.arange(start, stop)[:, None] * self.batch_size + mine).reshape(-1)
        real = positions < self.num_examples
        examples = np.where(real, positions, 0)
        if self._config.is_training:
            examples = self._in_order(examples, epoch)
        batch = self._transform(self._records[examples], examples, epoch)
        if self._fills_up:
            batch["is_real_example"] = real.astype(np.int32) * batch.get("is_real_example", np.int32(1))
        return batch

    def _in_order(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        """The examples at positions of an epoch."""
        seed = self._config.seed
        if self._lengths is not None:
            whole = self.num_examples // self.batch_size  # a last batch that is filled up stays the last
            return grouped(positions, self._lengths, whole, self.batch_size, _WINDOW, seed, epoch)
        return shuffled(positions, self.num_examples, seed, epoch)

    def _read_lengths(self) -> np.ndarray:
        """Tokens of every example, int32 (n,): read once, so that steps can be grouped in any order."""
        begun = time.perf_counter()
        wanted = 0 if self._config.invert_mask else 1
        lengths = np.empty(self.num_examples, np.int32)
        for first in range(0, self.num_examples, _LENGTHS_AT_ONCE):
            at = np.arange(first, min(first + _LENGTHS_AT_ONCE, self.num_examples))
            mask = self._records[at]["input_mask"] == wanted
            lengths[at] = used_lengths(mask.reshape(len(at), self._sequences, -1).any(axis=1))
        _log.info(
            f"{self.name}: lengths of {self.num_examples:,} examples read in {time.perf_counter() - begun:.1f} s: "
            f"{lengths.mean():.0f} tokens on average, {lengths.max()} at most"
        )
        return lengths


def trimmed(batch: dict[str, np.ndarray], max_lengths: int | None = None) -> dict[str, np.ndarray]:
    """The batch without columns of padding: its length becomes a multiple of 8, or stays where it is less than that.

    Args:
      batch: arrays (b, L), or (b, sequences, L), and others.
      max_lengths: at most this many lengths exist over all batches: the multiples are of a larger number.
    """
    mask = batch["input_mask"]
    full = mask.shape[-1]
    width = 8 if max_lengths is None else -(-full // (8 * max_lengths)) * 8
    used = np.flatnonzero(mask.reshape(-1, full).any(axis=0))
    length = -(-(int(used[-1]) + 1 if len(used) else 1) // width) * width
    return {name: values[..., :length] if name in PER_TOKEN else values for name, values in batch.items()}


def example_digest(batch: Mapping[str, np.ndarray]) -> str:
    """16 hexadecimal digits that identify the arrays of a batch: names, types, shapes and values."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(batch):
        values = np.ascontiguousarray(batch[name])
        digest.update(f"{name} {values.dtype.str} {values.shape};".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def prefetch(
    function: Callable[[int], Any], steps: Sequence[int], ahead: int
) -> Generator[tuple[int, Any], None, None]:
    """Yields (step, function(step)), computed in a thread up to `ahead` steps before they are asked for.

    What the function raises is raised here, at the step that it belongs to. Closing the generator ends the thread.
    """
    ready: queue.Queue = queue.Queue(max(1, ahead))
    ended = threading.Event()

    def put(item: Any) -> bool:
        while not ended.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        for step in steps:
            try:
                item = (step, function(step), None)
            except BaseException as error:
                put((step, None, error))
                return
            if not put(item):
                return

    thread = threading.Thread(target=work, name="prefetch", daemon=True)
    thread.start()
    try:
        for _ in steps:
            step, result, error = ready.get()
            if error is not None:
                raise error
            yield step, result
    finally:
        ended.set()
        thread.join()
