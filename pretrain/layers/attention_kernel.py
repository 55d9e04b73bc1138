"""Attention with dropout in one kernel (Pallas on Triton, JAX only): scores and probabilities never reach memory.

FlashAttention (Dao et al., 2022, arXiv 2205.14135). Dropout is drawn inside, from the key and the place of a score, and again in
the backward pass.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from pretrain.layers.dropout import row_factors
from pretrain.layers.tensors import Tensor

# Measured on an H200 at lengths 128 and 512: blocks of 128, or more warps, are slower.
WARPS, STAGES = 4, 2
BLOCK = 64  # queries and keys that a program holds at a time; lengths are multiples of it


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask_adder: Tensor,
    dropout_key: Tensor,
    rate: float,
    interpret: bool = False,
) -> Tensor:
    """dropout(softmax(query key^T / sqrt(width) + mask_adder)) value, for each head.

    Args:
      query, key, value: inputs (b, L, heads, width) of one dtype, L a multiple of BLOCK, width a power of two.
      mask_adder: number added to the scores of each key, float32 (b, L).
      dropout_key: key of the dropout, int32 or uint32 (2,) (pretrain.layers.dropout.row_factors).
      rate: share of the probabilities that is dropped.
      interpret: whether to run on the CPU, for tests.

    Returns (b, L, heads, width) in the dtype of the inputs.
    """
    return _forward(query, key, value, mask_adder, dropout_key, rate, interpret)[0]


def _specs(length: int, width: int) -> tuple[pl.BlockSpec, pl.BlockSpec]:
    """(one block of an array (b, L, heads, width), all of it) for a grid (b, heads, blocks)."""
    block = pl.BlockSpec((None, BLOCK, None, width), lambda b, h, i: (b, i, h, 0))
    whole = pl.BlockSpec((None, length, None, width), lambda b, h, i: (b, 0, h, 0))
    return block, whole


def _rows(length: int) -> tuple[pl.BlockSpec, pl.BlockSpec]:
    """(one block of an array (b, heads, L), all of it)."""
    block = pl.BlockSpec((None, None, BLOCK), lambda b, h, i: (b, h, i))
    whole = pl.BlockSpec((None, None, length), lambda b, h, i: (b, h, 0))
    return block, whole


def _mask(length: int) -> pl.BlockSpec:
    """All keys of an array (b, L)."""
    return pl.BlockSpec((None, length), lambda b, h, i: (b, 0))


_KEY = pl.BlockSpec((2,), lambda b, h, i: (0,))


def _scale(x: Tensor) -> float:
    """The factor of the scores of queries or keys (..., width)."""
    return 1 / math.sqrt(x.shape[-1])


def _product(a: Tensor, b: Tensor, axis_a: int, axis_b: int) -> Tensor:
    """The product of two matrices, summed over these axes, in float32."""
    return jax.lax.dot_general(a, b, (((axis_a,), (axis_b,)), ((), ())), preferred_element_type=jnp.float32)


def _kept(key_ref, rate, first_query, first_key):
    """The factors of the probabilities (BLOCK queries, BLOCK keys); first_query counts over examples and heads."""
    index = jnp.arange(BLOCK, dtype=jnp.uint32)
    row = first_query.astype(jnp.uint32) + index
    column = first_key.astype(jnp.uint32) + index
    return row_factors(row[:, None], column[None], key_ref, rate)


def _first_query(heads: int, length: int) -> Tensor:
    """Number of this program's first row in an array of scores (b, heads, L, L), before its block."""
    return (pl.program_id(0) * heads + pl.program_id(1)) * length


def _call(
    kernel: Callable, *, shape: tuple[int, ...], in_specs: list, out_specs: Any, out: Any, interpret: bool, name: str
) -> Callable:
    batch, length, heads, _ = shape
    return pl.pallas_call(
        kernel,
        grid=(batch, heads, length // BLOCK),
        in_specs=in_specs,
        out_specs=out_specs,
        out_shape=out,
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(num_warps=WARPS, num_stages=STAGES),
        name=name,
    )


def _forward(query, key, value, mask_adder, dropout_key, rate, interpret):
    _, length, heads, width = query.shape
    scale = _scale(query)

    def kernel(key_ref, q_ref, k_ref, v_ref, mask_ref, out_ref, log_ref):
        q = q_ref[...]
        block = pl.program_id(2)
        first = _first_query(heads, length) + block * BLOCK

        def turn(j, carry):
            out, best, total = carry
            at = pl.ds(j * BLOCK, BLOCK)
            scores = _product(q, k_ref[at, :], 1, 1) * scale + mask_ref[at][None]
            highest = jnp.maximum(best, jnp.max(scores, axis=1))
            probs = jnp.exp(scores - highest[:, None])
            shrink = jnp.exp(best - highest)
            total = total * shrink + jnp.sum(probs, axis=1)
            probs = probs * _kept(key_ref, rate, first, j * BLOCK)
            v = v_ref[at, :]
            return out * shrink[:, None] + _product(probs.astype(v.dtype), v, 1, 0), highest, total

        start = (
            jnp.zeros((BLOCK, width), jnp.float32),
            jnp.full((BLOCK,), -1e30, jnp.float32),
            jnp.zeros((BLOCK,), jnp.float32),
        )
        out, best, total = jax.lax.fori_loop(0, length // BLOCK, turn, start)
        out_ref[...] = (out / total[:, None]).astype(out_ref.dtype)
        log_ref[...] = best + jnp.log(total)

    block, whole = _specs(length, width)
    out, logs = _call(
        kernel,
        shape=query.shape,
        in_specs=[_KEY, block, whole, whole, _mask(length)],
        out_specs=[block, _rows(length)[0]],
        out=[
            jax.ShapeDtypeStruct(query.shape, query.dtype),
            jax.ShapeDtypeStruct((query.shape[0], heads, length), jnp.float32),
        ],
        interpret=interpret,
        name="attention",
    )(dropout_key, query, key, value, mask_adder)
    return out, (query, key, value, mask_adder, dropout_key, out, logs)


def _backward(rate, interpret, saved, upstream):
    query, key, value, mask_adder, dropout_key, out, logs = saved
    _, length, heads, width = query.shape
    # Sum over keys of probability x its gradient: the same as the product of output and upstream.
    inner = jnp.einsum("blhw,blhw->bhl", out, upstream, preferred_element_type=jnp.float32)
    arrays = (dropout_key, query, key, value, mask_adder, upstream, logs, inner)
    block, whole = _specs(length, width)
    row, rows = _rows(length)
    mask_block = pl.BlockSpec((None, BLOCK), lambda b, h, i: (b, i))
    like = jax.ShapeDtypeStruct(query.shape, query.dtype)
    to_q = _call(
        functools.partial(_query_gradient, heads=heads, length=length, rate=rate),
        shape=query.shape,
        in_specs=[_KEY, block, whole, whole, _mask(length), block, row, row],
        out_specs=block,
        out=like,
        interpret=interpret,
        name="attention_to_query",
    )(*arrays)
    to_k, to_v = _call(
        functools.partial(_key_and_value_gradients, heads=heads, length=length, rate=rate),
        shape=query.shape,
        in_specs=[_KEY, whole, block, block, mask_block, whole, rows, rows],
        out_specs=[block, block],
        out=[like, like],
        interpret=interpret,
        name="attention_to_key_and_value",
    )(*arrays)
    return to_q, to_k, to_v, jnp.zeros_like(mask_adder), np.zeros(dropout_key.shape, jax.dtypes.float0)


def _probs_of(q, k, mask, logs):
    """The probabilities (queries, keys), from the logarithms of their sums, float32 (queries,)."""
    return jnp.exp(_product(q, k, 1, 1) * _scale(q) + mask[None] - logs[:, None])


def _query_gradient(
    key_ref, q_ref, k_ref, v_ref, mask_ref, up_ref, log_ref, inner_ref, out_ref, *, heads: int, length: int, rate: float
):
    """A kernel: the gradient of a block of queries."""
    q, up, log, inner = q_ref[...], up_ref[...], log_ref[...], inner_ref[...]
    first = _first_query(heads, length) + pl.program_id(2) * BLOCK

    def turn(j, total):
        at = pl.ds(j * BLOCK, BLOCK)
        k = k_ref[at, :]
        to_probs = _product(up, v_ref[at, :], 1, 1) * _kept(key_ref, rate, first, j * BLOCK)
        to_scores = _probs_of(q, k, mask_ref[at], log) * (to_probs - inner[:, None])
        return total + _product(to_scores.astype(k.dtype), k, 1, 0)

    total = jax.lax.fori_loop(0, length // BLOCK, turn, jnp.zeros(q.shape, jnp.float32))
    out_ref[...] = (total * _scale(q)).astype(out_ref.dtype)


def _key_and_value_gradients(
    key_ref,
    q_ref,
    k_ref,
    v_ref,
    mask_ref,
    up_ref,
    log_ref,
    inner_ref,
    to_k_ref,
    to_v_ref,
    *,
    heads: int,
    length: int,
    rate: float,
):
    """A kernel: the gradients of a block of keys and of their values."""
    k, v, mask = k_ref[...], v_ref[...], mask_ref[...]
    first, block = _first_query(heads, length), pl.program_id(2)

    def turn(i, totals):
        to_k, to_v = totals
        at = pl.ds(i * BLOCK, BLOCK)
        q, up = q_ref[at, :], up_ref[at, :]
        kept = _kept(key_ref, rate, first + i * BLOCK, block * BLOCK)
        probs = _probs_of(q, k, mask, log_ref[at])
        to_v = to_v + _product((probs * kept).astype(up.dtype), up, 0, 0)
        to_scores = probs * (_product(up, v, 1, 1) * kept - inner_ref[at][:, None])
        return to_k + _product(to_scores.astype(q.dtype), q, 0, 0), to_v

    zeros = jnp.zeros(k.shape, jnp.float32)
    to_k, to_v = jax.lax.fori_loop(0, length // BLOCK, turn, (zeros, zeros))
    to_k_ref[...] = (to_k * _scale(k)).astype(to_k_ref.dtype)
    to_v_ref[...] = to_v.astype(to_v_ref.dtype)


attention.defvjp(_forward, _backward)
