"""Dropout without hidden state: what is dropped follows from the key of the forward pass.

    with dropout_scope(key):                     # key: int32 or uint32 tensor (2,), e.g. (seed, step)
        outputs = model(inputs, training=True)

The n-th dropout of a pass mixes n into the key, so layers, and the uses of one shared layer, draw independent masks; and
a resumed step needs nothing but its key. Bits come from the generator that is cheapest where it runs: Philox on
TensorFlow, the device's own on JAX, and on JAX's CPU a hash of the counter (lowbias32 of C. Wellons' hash-prospector).
"""

import contextlib
import contextvars
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from pretrain.layers.tensors import Tensor

_scope: contextvars.ContextVar["_Scope | None"] = contextvars.ContextVar("dropout_scope", default=None)
_PHILOX = 1  # TensorFlow's number of the algorithm
_SEED_KEY = 0x02461E293EC8F720  # with which TensorFlow mixes seeds
_SALTS = (0x9E3779B1, 0x85EBCA6B)  # odd: multiples by different counts differ modulo 2**32


@dataclass
class _Scope:
    key: Tensor
    count: int = 0  # dropouts drawn so far


@contextlib.contextmanager
def dropout_scope(key: Tensor) -> Iterator[None]:
    """Everything inside draws its dropout from `key`, int32 or uint32 (2,)."""
    with _inside(_Scope(key)):
        yield


@contextlib.contextmanager
def _inside(scope: _Scope) -> Iterator[None]:
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def redrawn(function: Callable) -> Callable:
    """The function, which drops the same whenever it is called again, as where its gradient computes it anew.

    What comes after it draws as if it had been called once.
    """
    scope = _scope.get()
    if scope is None:
        return function
    begun = scope.count

    def call(*arguments: Any) -> Any:
        own = _Scope(scope.key, begun)
        with _inside(own):
            result = function(*arguments)
        scope.count = max(scope.count, own.count)
        return result

    return call


class Dropout(keras.layers.Layer):
    """Zeroes a share `rate` of the inputs and divides the rest by what is kept; the identity unless training.

    The rate holds to 1 / 65536. Raises RuntimeError when training outside a dropout_scope.
    """

    def __init__(self, rate: float, name: str = "dropout"):
        super().__init__(name=name)
        self.rate = rate

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        key, salt = next_key()
        kept = _GENERATORS[keras.backend.backend()](ops.shape(inputs), key, salt) >= _dropped(self.rate)
        return inputs * (ops.cast(kept, inputs.dtype) * keep_factor(self.rate))


def next_key() -> tuple[Tensor, np.ndarray]:
    """(the scope's key, uint32 (2,) that makes it this dropout's own when added). RuntimeError outside a dropout_scope."""
    scope = _scope.get()
    if scope is None:
        raise RuntimeError("training with dropout needs a dropout_scope(key) around the forward pass")
    scope.count += 1
    return scope.key, np.array([scope.count * each % 2**32 for each in _SALTS], np.uint32)


def _tensorflow_bits(shape: Any, key: Tensor, salt: np.ndarray) -> Tensor:
    import tensorflow as tf

    size = tf.reduce_prod(shape)
    words = _philox_words((size + 1) // 2, tf.bitcast(key, tf.int32) + salt.view(np.int32))
    halves = tf.reshape(tf.bitcast(words, tf.uint16), [-1])
    return tf.cast(tf.reshape(halves[:size], shape), tf.int32)


def _philox_words(count: Any, seed: Tensor) -> Tensor:
    """What tf.random.stateless_uniform draws on the CPU, under XLA too: uint32 (count,) from a seed, int32 (2,).

    Its first step turns the seed into a key and a counter, and extends the sign of a negative word, which XLA's own does
    not. Here both steps are Philox with all 64 bits given.
    """
    import tensorflow as tf

    def draw(count: Any, key: Any, counter: Any) -> Tensor:
        return tf.raw_ops.StatelessRandomUniformFullIntV2(
            shape=[count], key=key, counter=counter, alg=_PHILOX, dtype=tf.uint32
        )

    mixed = draw(4, np.array([_SEED_KEY], np.uint64), tf.cast(tf.cast(seed, tf.int64), tf.uint64))
    key, counter = tf.split(tf.bitcast(tf.reshape(mixed, [2, 2]), tf.uint64), 2)
    return draw(count, key, tf.concat([tf.zeros([1], tf.uint64), counter], 0))


def _jax_bits(shape: Any, key: Tensor, salt: np.ndarray) -> Tensor:
    import jax
    import jax.numpy as jnp

    first, second = jnp.asarray(key).astype(jnp.uint32) + salt
    if jax.default_backend() != "cpu":
        state = jnp.stack([first, second, first ^ second, first + second])
        return jax.lax.rng_bit_generator(state, shape, dtype=jnp.uint16)[1].astype(jnp.int32)
    columns = shape[-1] if shape else 1
    row = jax.lax.iota(jnp.uint32, math.prod(shape[:-1]))
    bits = row_bits(row[:, None], jax.lax.iota(jnp.uint32, columns)[None], first, second)
    return (bits >> 16).astype(jnp.int32).reshape(shape)


def row_bits(row: Tensor, column: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Uniform uint32 for every row and column (uint32, shapes that broadcast) of an array: a hash of the counters.

    What is mixed for a row, with both parts of the key, is the start of a sequence over its columns.
    """
    return _mix(row_start(row, first, second) + column * np.uint32(_SALTS[0]))


def row_start(row: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The part of row_bits that depends on the row alone: uint32."""
    return _mix(_mix(row ^ _mix(first)) + second)


def keeps(start: Tensor, column: Tensor, rate: float) -> Tensor:
    """Whether dropout keeps each column of the rows of row_start, on JAX: bool; uint32 shapes that broadcast.

    Only the upper half of row_bits decides, which the last step of the mixing leaves as it is.
    """
    return _mixed_above(start + column * np.uint32(_SALTS[0])) >= np.uint32(_dropped(rate) << 16)


def keep_factor(rate: float) -> float:
    """What dropout multiplies with what it keeps: about 1 / (1 - rate)."""
    return 65536 / (65536 - _dropped(rate))


def row_factors(row: Tensor, column: Tensor, key: Tensor, rate: float) -> Tensor:
    """What dropout multiplies with at every row and column of an array, on JAX: float32, 0 or about 1 / (1 - rate).

    Args:
      row, column: uint32, of shapes that broadcast.
      key: (2,).
    """
    import jax.numpy as jnp

    kept = keeps(row_start(row, key[0], key[1]), column, rate)
    return jnp.where(kept, np.float32(keep_factor(rate)), np.float32(0))


def _dropped(rate: float) -> int:
    return round(rate * 65536)


def _mix(x: Tensor) -> Tensor:
    """lowbias32 on uint32."""
    x = _mixed_above(x)
    return x ^ (x >> np.uint32(16))


def _mixed_above(x: Tensor) -> Tensor:
    """_mix without its last step: the upper 16 bits are the same."""
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    return (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)


_GENERATORS = {"tensorflow": _tensorflow_bits, "jax": _jax_bits}
