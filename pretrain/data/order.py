"""The order of an epoch's examples, without ever listing it.

A Feistel network over pairs (left, right) with left < a and right < b permutes [0, a * b) (Black and Rogaway, "Ciphers with
arbitrary finite domains", 2002, the generalised Feistel cipher); with a * b just above n, walking on from a value that is n
or more until one below n comes makes it a permutation of [0, n). So the place of one example costs the same for a thousand
examples as for a billion, and needs no memory.
"""

import math
from typing import Any

import numpy as np

from nlpdata import keys

_ROUNDS = 8
_SHUFFLE = 0x73687566666C65  # "shuffle": keeps these draws apart from those of masking
_GROUP = 0x67726F7570  # "group"


def shuffled(positions: np.ndarray, n: int, seed: int, epoch: int) -> np.ndarray:
    """The examples at `positions` of an epoch.

    Args:
      positions: integers in [0, n), any shape.
      n: number of examples, at most 2 ** 62.
      seed, epoch: what the order depends on.

    Returns int64 of the same shape; over all positions, every example in [0, n) once.
    """
    a = math.isqrt(n - 1) + 1
    b = -(-n // a)
    key = keys.fold_int(keys.fold_int(keys.fold_int(keys.ROOT, _SHUFFLE), seed), epoch)
    round_keys = [keys.draw_int(key, turn) for turn in range(_ROUNDS)]
    values = _permuted(np.array(positions, np.int64).reshape(-1), a, b, round_keys)
    while len(outside := np.flatnonzero(values >= n)):
        values[outside] = _permuted(values[outside], a, b, round_keys)
    return values.reshape(np.shape(positions))


def grouped(
    positions: np.ndarray, lengths: np.ndarray, steps: int, size: int, window: int, seed: int, epoch: int
) -> np.ndarray:
    """The examples at `positions` of an epoch whose batches hold examples of about one length.

    The shuffled examples of `window` steps are sorted by length and dealt to as many batches, which come in an order of their own.

    Args:
      positions: int64 (k,), in [0, n).
      lengths: of all n examples, integers (n,).
      steps, size: whole batches of an epoch and examples of a batch; examples behind the whole batches stay where they are.
      window: steps that are sorted together.
      seed, epoch: what the order depends on.

    Returns int64 (k,); over all positions, every example in [0, n) once.
    """
    n, result = len(lengths), np.empty(len(positions), np.int64)
    step = positions // size
    rest = step >= steps
    result[rest] = shuffled(positions[rest], n, seed, epoch)
    number = step // window
    key = keys.fold_int(keys.fold_int(keys.ROOT, _GROUP), epoch)
    for each in np.unique(number[~rest]).tolist():
        first, count = each * window, min(window, steps - each * window)
        examples = shuffled(np.arange(first * size, (first + count) * size), n, seed, epoch)
        batches = examples[np.argsort(lengths[examples], kind="stable")].reshape(count, size)
        order = shuffled(np.arange(count), count, seed, keys.draw_int(key, each) % 2**31)
        here = ~rest & (number == each)
        result[here] = batches[order[step[here] - first], positions[here] % size]
    return result


def _permuted(values: np.ndarray, a: int, b: int, round_keys: Any) -> np.ndarray:
    """The images of values in [0, a * b), int64."""
    left, right = np.divmod(values, b)
    for turn, key in enumerate(round_keys):
        if turn % 2:
            left = (left + keys.below(keys.draw(np.uint64(key), right), a)) % a
        else:
            right = (right + keys.below(keys.draw(np.uint64(key), left), b)) % b
    return left * b + right
