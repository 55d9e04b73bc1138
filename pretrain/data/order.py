"""The order of an epoch's examples, without ever listing it.

A Feistel network over the smallest 2^(2b) >= n is a permutation of it; walking on from a value that is n or more until
one below n comes ("cycle walking", Black and Rogaway, "Ciphers with arbitrary finite domains", 2002) makes it one of
[0, n). So the place of one example costs the same for a thousand examples as for a billion, and needs no memory.
"""

import numpy as np

from nlpdata import keys

_ROUNDS = 8
_SHUFFLE = 0x73687566666C65  # "shuffle": keeps these draws apart from those of masking


def shuffled(positions: np.ndarray, n: int, seed: int, epoch: int) -> np.ndarray:
    """The examples that stand at `positions` of an epoch.

    Args:
      positions: integers in [0, n), any shape.
      n: number of examples.
      seed, epoch: what the order depends on.

    Returns int64 of the same shape; over all positions, every example in [0, n) once.
    """
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    key = keys.fold_int(keys.fold_int(keys.fold_int(keys.ROOT, _SHUFFLE), seed), epoch)
    round_keys = [np.uint64(keys.draw_int(key, turn)) for turn in range(_ROUNDS)]
    values = np.array(positions, np.uint64).reshape(-1)
    _permute(values, half, round_keys)
    while len(outside := np.flatnonzero(values >= n)):
        again = values[outside]
        _permute(again, half, round_keys)
        values[outside] = again
    return values.astype(np.int64).reshape(np.shape(positions))


def _permute(values: np.ndarray, half: int, round_keys) -> None:
    """Replaces values in [0, 2 ** (2 * half)) by their images."""
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = values >> shift, values & mask
    for key in round_keys:
        left, right = right, left ^ (keys.draw(key, right) & mask)
    np.bitwise_or(left << shift, right, out=values)
