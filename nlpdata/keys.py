"""Counter-based randomness: every draw is a hash of what it is for, so no result depends on the order of work.

A key is a uint64 that stands for a tuple, such as (seed, file id, document offset, duplicate, example, purpose).
`fold` extends a key by one element, `draw` gives the i-th 64-bit draw under a key, `below` maps draws to integers
in [0, n). All are vectorised over numpy arrays and wrap around modulo 2**64.

    document = fold(fold(fold(ROOT, seed), file_id), offset)
    coin = below(draw(fold(document, PURPOSE), np.arange(10)), 2)     # ten fair coins

The mixing function is the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
generators", OOPSLA 2014); the constants are that paper's.
"""

from enum import IntEnum

import numpy as np

_GAMMA = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_MASK = (1 << 64) - 1

ROOT = 0x6E6C7064617461  # "nlpdata"


Draws = int | np.integer | np.ndarray


class Purpose(IntEnum):
    """What a draw is for: the last element of a key, or the counter under it. Values are part of the output's bytes."""

    # under a document's key
    EVAL_SPLIT = 1
    WEIGHT = 2
    BUCKET = 3
    # under the key of (document, duplicate)
    SHORT_SEQUENCE = 10
    PAIR = 11
    CANDIDATE = 12
    # under an example's key
    ORDER = 20
    SPLIT = 21
    SWAP = 22
    TRUNCATE_A = 23
    TRUNCATE_B = 24
    OTHER_DOCUMENT = 25
    OTHER_START = 26
    MASKING = 27
    # under an example's masking key
    MASK_ORDER = 30
    MASK_REPLACE = 31


def _mix(z: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser over a uint64 array (a new array; may overwrite `z`)."""
    z ^= z >> np.uint64(30)
    z *= np.uint64(_MIX_1)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_MIX_2)
    z ^= z >> np.uint64(31)
    return z


def draw(key: Draws, counter: Draws) -> np.ndarray:
    """The draws of `key` at `counter`: uint64, broadcast over both (arrays or ints in [0, 2**64))."""
    key = np.asarray(key, dtype=np.uint64)
    counter = np.asarray(counter, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return _mix(np.atleast_1d(key + (counter + np.uint64(1)) * np.uint64(_GAMMA))).reshape(
            np.broadcast_shapes(key.shape, counter.shape)
        )


def fold(key: Draws, element: Draws) -> np.ndarray:
    """The key of the tuple (*key, element): uint64, broadcast over both."""
    return draw(draw(key, 0), element)


def fold_int(key: int, element: int) -> int:
    """`fold` for two Python ints, without numpy's overhead for scalars."""
    return draw_int(draw_int(key, 0), element)


def draw_int(key: int, counter: int) -> int:
    """`draw` for two Python ints."""
    z = (key + (counter + 1) * _GAMMA) & _MASK
    z = ((z ^ (z >> 30)) * _MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * _MIX_2) & _MASK
    return z ^ (z >> 31)


def below(draws: np.ndarray, n: int | np.ndarray) -> np.ndarray:
    """Maps uint64 draws to int64 in [0, n), n < 2**32: the high product of the upper 32 bits, no floating point."""
    return (((draws >> np.uint64(32)) * np.asarray(n, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def hash_bytes(data: bytes) -> int:
    """A stable 64-bit hash of a byte string (BLAKE2b), for file ids."""
    from hashlib import blake2b

    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
