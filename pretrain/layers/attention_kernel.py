"""Attention with dropout in one kernel (Pallas on Triton, JAX only): scores and probabilities never reach memory.

FlashAttention (Dao et al., 2022, arXiv 2205.14135). Dropout is drawn inside, from the key and the place of a score, and again in
the backward pass. In rows of several examples, blocks of queries and keys that have no example in common are not computed.

Probabilities are powers of 2, so that scores are scaled once: by log2(e) / sqrt(width). What dropout divides by, and what
the gradients of scores are scaled by, is left out of the loops and multiplied with their sums.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from pretrain.layers.dropout import keep_factor, keeps, row_start
from pretrain.layers.tensors import Tensor

MASKED = -10000.0  # the score of keys that a query does not attend to, in rows of several examples
BLOCK = 64  # lengths are multiples of it
_LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class Tile:
    """What a program holds at a time: `own` of the rows that it is for, and `other` of those that it goes through; its warps and
    stages of Triton's pipeline."""

    own: int
    other: int
    warps: int
    stages: int

    def at(self, length: int, width: int) -> "Tile":
        """The tile for sequences of that length and heads of that width: of BLOCK own rows where they do not fit."""
        return replace(self, own=BLOCK) if length % self.own or width > BLOCK else self


# Measured on an H200 at length 512, in rows of several examples.
_FORWARD = Tile(128, 64, 4, 4)
_TO_QUERY = Tile(64, 64, 4, 3)
_TO_KEY_AND_VALUE = Tile(128, 32, 4, 4)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    dropout_key: Tensor,
    rate: float,
    interpret: bool = False,
) -> Tensor:
    """dropout(softmax(query key^T / sqrt(width) + mask)) value, for each head.

    Args:
      query, key, value: inputs (b, L, heads, width) of one dtype, L a multiple of BLOCK, width a power of two.
      mask: number added to the scores of each key, float32 (b, L); or number of each token's example, int32 (b, L): tokens attend
        to their own example.
      dropout_key: key of the dropout, int32 or uint32 (2,) (pretrain.layers.dropout.row_factors).
      rate: share of the probabilities that is dropped.
      interpret: whether to run on the CPU, for tests.

    Returns (b, L, heads, width) in the dtype of the inputs.
    """
    return _forward(query, key, value, mask, dropout_key, rate, interpret)[0]


def _forward(query, key, value, mask, dropout_key, rate, interpret):
    _, length, _, width = query.shape
    call = _Call(_FORWARD.at(length, width), mask, query.shape, rate, interpret)
    out, logs = call(
        _forward_kernel,
        (dropout_key, query, key, value, mask),
        [call.own, call.all, call.all, call.tokens],
        [(call.own, query.dtype), (call.own_rows, jnp.float32)],
        "attention",
    )
    return out, (query, key, value, mask, dropout_key, out, logs)


def _backward(rate, interpret, saved, upstream):
    query, key, value, mask, dropout_key, out, logs = saved
    _, length, _, width = query.shape
    # Sum over keys of probability x its gradient: the same as the product of output and upstream.
    inner = jnp.einsum("blhw,blhw->bhl", out, upstream, preferred_element_type=jnp.float32) / keep_factor(rate)
    arrays = (dropout_key, query, key, value, mask, upstream, logs, inner)
    call = _Call(_TO_QUERY.at(length, width), mask, query.shape, rate, interpret)
    (to_q,) = call(
        _query_gradient,
        arrays,
        [call.own, call.all, call.all, call.tokens, call.own, call.own_rows, call.own_rows],
        [(call.own, query.dtype)],
        "attention_to_query",
    )
    call = _Call(_TO_KEY_AND_VALUE.at(length, width), mask, query.shape, rate, interpret)
    to_k, to_v = call(
        _key_and_value_gradients,
        arrays,
        [call.all, call.own, call.own, call.tokens, call.all, call.all_rows, call.all_rows],
        [(call.own, key.dtype), (call.own, value.dtype)],
        "attention_to_key_and_value",
    )
    to_mask = np.zeros(mask.shape, jax.dtypes.float0) if _is_packed(mask) else jnp.zeros_like(mask)
    return to_q, to_k, to_v, to_mask, np.zeros(dropout_key.shape, jax.dtypes.float0)


attention.defvjp(_forward, _backward)


# ------------------------------------------------------------------------------------------------------------- programs


class _Call:
    """A kernel's programs (example, head, tile of its own rows), and the parts of the arrays that each is given.

    Attributes:
      own, all: one tile of an array (b, L, heads, width), and all of its rows.
      own_rows, all_rows: the same of an array (b, heads, L).
      tokens: all of an array (b, L).
    """

    def __init__(self, tile: Tile, mask: Tensor, shape: tuple[int, ...], rate: float, interpret: bool):
        _, length, _, width = shape
        self._tile, self._shape, self._rate, self._interpret = tile, shape, rate, interpret
        self._spans = _spans(mask, tile)
        self.own = pl.BlockSpec((None, tile.own, None, width), lambda b, h, i: (b, i, h, 0))
        self.all = pl.BlockSpec((None, length, None, width), lambda b, h, i: (b, 0, h, 0))
        self.own_rows = pl.BlockSpec((None, None, tile.own), lambda b, h, i: (b, h, i))
        self.all_rows = pl.BlockSpec((None, None, length), lambda b, h, i: (b, h, 0))
        self.tokens = pl.BlockSpec((None, length), lambda b, h, i: (b, 0))

    def __call__(self, kernel: Callable, arrays: tuple, parts: list, results: list, name: str) -> Any:
        """The results of the kernel: `parts` of the arrays behind the dropout's key, (part, dtype) of each result."""
        (batch, length, heads, _), tile = self._shape, self._tile
        shapes = {id(self.own): self._shape, id(self.own_rows): (batch, heads, length)}
        spans = [pl.BlockSpec((None, each.shape[1]), lambda b, h, i: (b, 0)) for each in self._spans]

        def body(*refs):
            block = pl.program_id(2)
            turns = (refs[0][block], refs[1][block]) if spans else (0, length // tile.other)
            row = (pl.program_id(0) * heads + pl.program_id(1)) * length
            place = _Place(tile, row, block * tile.own, turns, self._rate)
            kernel(place, *refs[len(spans) :])

        return pl.pallas_call(
            body,
            grid=(batch, heads, length // tile.own),
            in_specs=[*spans, pl.BlockSpec((2,), lambda b, h, i: (0,)), *parts],
            out_specs=[part for part, _ in results],
            out_shape=[jax.ShapeDtypeStruct(shapes[id(part)], dtype) for part, dtype in results],
            interpret=self._interpret,
            compiler_params=None
            if self._interpret
            else triton.CompilerParams(num_warps=tile.warps, num_stages=tile.stages),
            name=name,
        )(*self._spans, *arrays)


@dataclass(frozen=True)
class _Place:
    """Where a program is: the first of its own rows, counted over all examples and heads (`row` is that of its head, `first` from
    there), and the tiles of other rows that it goes through, from the first of `turns` to the second."""

    tile: Tile
    row: Any
    first: Any
    turns: tuple[Any, Any]
    rate: float

    def sum_over(self, turn: Callable, start: Any) -> Any:
        """`start`, to which turn(total, first row of a tile, its slice) has been applied for every tile of other rows."""
        size = self.tile.other
        return jax.lax.fori_loop(*self.turns, lambda j, total: turn(total, j * size, pl.ds(j * size, size)), start)

    def queries(self, key_ref: Any, first: Any, count: int) -> Tensor:
        """Where dropout starts in each row of scores, uint32 (count,); None without dropout."""
        row = (self.row + first).astype(jnp.uint32) + jnp.arange(count, dtype=jnp.uint32)
        return row_start(row, key_ref[0], key_ref[1]) if self.rate else None

    def kept(self, starts: Tensor, first_key: Any, count: int, transposed: bool = False) -> Tensor | None:
        """Which scores dropout keeps, bool (queries, keys) or, transposed, (keys, queries); None without dropout."""
        if not self.rate:
            return None
        keys = first_key.astype(jnp.uint32) + jnp.arange(count, dtype=jnp.uint32)
        starts, keys = (starts[None], keys[:, None]) if transposed else (starts[:, None], keys[None])
        return keeps(starts, keys, self.rate)


def _spans(mask: Tensor, tile: Tile) -> tuple[Tensor, ...]:
    """(first, stop) of the tiles of other rows with which each tile of own rows has an example in common, int32 (b, tiles of own
    rows); () where mask is of keys alone."""
    if not _is_packed(mask):
        return ()
    batch, length = mask.shape
    same = mask[:, :, None] == mask[:, None, :]
    count = length // tile.other
    common = same.reshape(batch, length // tile.own, tile.own, count, tile.other).any((2, 4))
    first, last = jnp.argmax(common, axis=2), jnp.argmax(common[:, :, ::-1], axis=2)
    return first.astype(jnp.int32), (count - last).astype(jnp.int32)


def _is_packed(mask: Any) -> bool:
    return jnp.issubdtype(mask.dtype, jnp.integer)


def _product(a: Tensor, b: Tensor, axis_a: int, axis_b: int) -> Tensor:
    """The product of two matrices, summed over these axes, in float32."""
    return jax.lax.dot_general(a, b, (((axis_a,), (axis_b,)), ((), ())), preferred_element_type=jnp.float32)


def _where(kept: Tensor | None, values: Tensor) -> Tensor:
    """The values that are kept, zeros elsewhere; all for None."""
    return values if kept is None else jnp.where(kept, values, 0.0)


def _scale(x: Tensor) -> float:
    """The factor of the scores of queries or keys (..., width)."""
    return 1 / math.sqrt(x.shape[-1])


def _scores(q: Tensor, k: Tensor, mask_ref: Any, first_query: Any, first_key: Any, transposed: bool = False) -> Tensor:
    """log2(e) times the masked scores, (queries, keys) or, transposed, (keys, queries)."""
    queries, keys = len(q), len(k)
    scores = (_product(k, q, 1, 1) if transposed else _product(q, k, 1, 1)) * (_scale(q) * _LOG2_E)
    of_keys = mask_ref[pl.ds(first_key, keys)]
    of_keys = of_keys[:, None] if transposed else of_keys[None]
    if not _is_packed(mask_ref):
        return scores + of_keys * _LOG2_E
    of_queries = mask_ref[pl.ds(first_query, queries)]
    return jnp.where((of_queries[None] if transposed else of_queries[:, None]) == of_keys, scores, MASKED)


# -------------------------------------------------------------------------------------------------------------- kernels


def _forward_kernel(place: _Place, key_ref, q_ref, k_ref, v_ref, mask_ref, out_ref, log_ref):
    """out and, for the backward pass, log2 of the sums of the probabilities' numerators."""
    q = q_ref[...]
    starts = place.queries(key_ref, place.first, len(q))

    def turn(carry, first_key, at):
        out, best, total = carry
        scores = _scores(q, k_ref[at, :], mask_ref, place.first, first_key)
        highest = jnp.maximum(best, jnp.max(scores, axis=1))
        probs = jnp.exp2(scores - highest[:, None])
        shrink = jnp.exp2(best - highest)
        total = total * shrink + jnp.sum(probs, axis=1)
        v = v_ref[at, :]
        probs = _where(place.kept(starts, first_key, len(v)), probs).astype(v.dtype)
        return out * shrink[:, None] + _product(probs, v, 1, 0), highest, total

    rows = (len(q),)
    start = jnp.zeros(q.shape, jnp.float32), jnp.full(rows, -1e30, jnp.float32), jnp.zeros(rows, jnp.float32)
    out, best, total = place.sum_over(turn, start)
    out_ref[...] = (out * (keep_factor(place.rate) / total)[:, None]).astype(out_ref.dtype)
    log_ref[...] = best + jnp.log2(total)


def _query_gradient(place: _Place, key_ref, q_ref, k_ref, v_ref, mask_ref, up_ref, log_ref, inner_ref, out_ref):
    """The gradient of the program's queries."""
    q, up, log, inner = q_ref[...], up_ref[...], log_ref[...], inner_ref[...]
    starts = place.queries(key_ref, place.first, len(q))

    def turn(total, first_key, at):
        k = k_ref[at, :]
        probs = jnp.exp2(_scores(q, k, mask_ref, place.first, first_key) - log[:, None])
        to_probs = _where(place.kept(starts, first_key, len(k)), _product(up, v_ref[at, :], 1, 1))
        to_scores = probs * (to_probs - inner[:, None])
        return total + _product(to_scores.astype(k.dtype), k, 1, 0)

    total = place.sum_over(turn, jnp.zeros(q.shape, jnp.float32))
    out_ref[...] = (total * (_scale(q) * keep_factor(place.rate))).astype(out_ref.dtype)


def _key_and_value_gradients(
    place: _Place, key_ref, q_ref, k_ref, v_ref, mask_ref, up_ref, log_ref, inner_ref, to_k_ref, to_v_ref
):
    """The gradients of the program's keys and of their values. Scores are (keys, queries), as the products take them."""
    k, v = k_ref[...], v_ref[...]

    def turn(totals, first_query, at):
        to_k, to_v = totals
        q, up = q_ref[at, :], up_ref[at, :]
        starts = place.queries(key_ref, first_query, len(q))
        probs = jnp.exp2(_scores(q, k, mask_ref, first_query, place.first, transposed=True) - log_ref[at][None])
        kept = place.kept(starts, place.first, len(k), transposed=True)
        to_v = to_v + _product(_where(kept, probs).astype(up.dtype), up, 1, 0)
        to_probs = _where(kept, _product(v, up, 1, 1))
        to_scores = probs * (to_probs - inner_ref[at][None])
        return to_k + _product(to_scores.astype(q.dtype), q, 1, 0), to_v

    zeros = jnp.zeros(k.shape, jnp.float32)
    to_k, to_v = place.sum_over(turn, (zeros, zeros))
    factor = keep_factor(place.rate)
    to_k_ref[...] = (to_k * (_scale(k) * factor)).astype(to_k_ref.dtype)
    to_v_ref[...] = (to_v * factor).astype(to_v_ref.dtype)
