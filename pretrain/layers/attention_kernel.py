"""Attention with dropout in one kernel (Pallas on Triton, JAX only): scores and probabilities never reach memory.

FlashAttention (Dao et al., 2022, arXiv 2205.14135). Dropout is drawn inside, from the key and the place of a score, and again in
the backward pass.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from pretrain.layers.dropout import row_factors

# Measured on an H200 at lengths 128 and 512: blocks of 128, or more warps, are slower.
WARPS, STAGES = 4, 2
BLOCK = 64  # queries and keys that a program holds at a time; lengths are multiples of it


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def attention(query, key, value, mask_adder, dropout_key, rate: float, interpret: bool = False):
    """dropout(softmax(query key^T / sqrt(width) + mask_adder)) value, for each head.

    Args:
      query, key, value: (b, L, heads, width), L a multiple of BLOCK, width a power of two.
      mask_adder: float32 (b, L), added to the scores of a key.
      dropout_key: int32 or uint32 (2,), see pretrain.layers.dropout.row_factors.
      rate: share of the probabilities that is dropped.
      interpret: run on the CPU, for tests.

    Returns (b, L, heads, width).
    """
    return _forward(query, key, value, mask_adder, dropout_key, rate, interpret)[0]


def _specs(length, width):
    """(one block of an array (b, L, heads, width), all of it) for a grid (b, heads, blocks)."""
    block = pl.BlockSpec((None, BLOCK, None, width), lambda b, h, i: (b, i, h, 0))
    whole = pl.BlockSpec((None, length, None, width), lambda b, h, i: (b, 0, h, 0))
    return block, whole


def _rows(length):
    """(one block of an array (b, heads, L), all of it)."""
    block = pl.BlockSpec((None, None, BLOCK), lambda b, h, i: (b, h, i))
    whole = pl.BlockSpec((None, None, length), lambda b, h, i: (b, h, 0))
    return block, whole


_KEY = pl.BlockSpec((2,), lambda b, h, i: (0,))


def _product(a, b, axis_a: int, axis_b: int):
    """The product of two matrices, summed over these axes, in float32."""
    return jax.lax.dot_general(a, b, (((axis_a,), (axis_b,)), ((), ())), preferred_element_type=jnp.float32)


def _kept(key_ref, rate, first_query, first_key):
    """What the probabilities (BLOCK queries, BLOCK keys) are multiplied with; first_query counts over examples and heads."""
    index = jnp.arange(BLOCK, dtype=jnp.uint32)
    row = first_query.astype(jnp.uint32) + index
    column = first_key.astype(jnp.uint32) + index
    return row_factors(row[:, None], column[None], key_ref, rate)


def _first_query(heads, length):
    """Number of this program's first row in an array of scores (b, heads, L, L), before its block."""
    return (pl.program_id(0) * heads + pl.program_id(1)) * length


def _call(kernel, *, shape, in_specs, out_specs, out, interpret, name):
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
    scale = 1 / math.sqrt(width)

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
    mask = pl.BlockSpec((None, length), lambda b, h, i: (b, 0))
    out, logs = _call(
        kernel,
        shape=query.shape,
        in_specs=[_KEY, block, whole, whole, mask],
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
    scale = 1 / math.sqrt(width)
    # Sum over keys of probability x its gradient: the same as the product of output and upstream.
    inner = jnp.einsum("blhw,blhw->bhl", out, upstream, preferred_element_type=jnp.float32)

    def probs_of(q, k, mask, logs):
        return jnp.exp(_product(q, k, 1, 1) * scale + mask[None] - logs[:, None])

    def to_query(key_ref, q_ref, k_ref, v_ref, mask_ref, up_ref, log_ref, inner_ref, out_ref):
        q, up, log, inner = q_ref[...], up_ref[...], log_ref[...], inner_ref[...]
        first = _first_query(heads, length) + pl.program_id(2) * BLOCK

        def turn(j, total):
            at = pl.ds(j * BLOCK, BLOCK)
            k = k_ref[at, :]
            to_probs = _product(up, v_ref[at, :], 1, 1) * _kept(key_ref, rate, first, j * BLOCK)
            to_scores = probs_of(q, k, mask_ref[at], log) * (to_probs - inner[:, None])
            return total + _product(to_scores.astype(k.dtype), k, 1, 0)

        total = jax.lax.fori_loop(0, length // BLOCK, turn, jnp.zeros((BLOCK, width), jnp.float32))
        out_ref[...] = (total * scale).astype(out_ref.dtype)

    def to_key_and_value(key_ref, q_ref, k_ref, v_ref, mask_ref, up_ref, log_ref, inner_ref, to_k_ref, to_v_ref):
        k, v, mask = k_ref[...], v_ref[...], mask_ref[...]
        first, block = _first_query(heads, length), pl.program_id(2)

        def turn(i, totals):
            to_k, to_v = totals
            at = pl.ds(i * BLOCK, BLOCK)
            q, up = q_ref[at, :], up_ref[at, :]
            kept = _kept(key_ref, rate, first + i * BLOCK, block * BLOCK)
            probs = probs_of(q, k, mask, log_ref[at])
            to_v = to_v + _product((probs * kept).astype(up.dtype), up, 0, 0)
            to_scores = probs * (_product(up, v, 1, 1) * kept - inner_ref[at][:, None])
            return to_k + _product(to_scores.astype(q.dtype), q, 0, 0), to_v

        zeros = jnp.zeros((BLOCK, width), jnp.float32)
        to_k, to_v = jax.lax.fori_loop(0, length // BLOCK, turn, (zeros, zeros))
        to_k_ref[...] = (to_k * scale).astype(to_k_ref.dtype)
        to_v_ref[...] = to_v.astype(to_v_ref.dtype)

    block, whole = _specs(length, width)
    row, rows = _rows(length)
    like = jax.ShapeDtypeStruct(query.shape, query.dtype)
    arrays = (dropout_key, query, key, value, mask_adder, upstream, logs, inner)
    mask = pl.BlockSpec((None, length), lambda b, h, i: (b, 0))
    mask_block = pl.BlockSpec((None, BLOCK), lambda b, h, i: (b, i))
    call = functools.partial(_call, shape=query.shape, interpret=interpret)
    to_q = call(
        to_query,
        in_specs=[_KEY, block, whole, whole, mask, block, row, row],
        out_specs=block,
        out=like,
        name="attention_to_query",
    )(*arrays)
    to_k, to_v = call(
        to_key_and_value,
        in_specs=[_KEY, whole, block, block, mask_block, whole, rows, rows],
        out_specs=[block, block],
        out=[like, like],
        name="attention_to_key_and_value",
    )(*arrays)
    return to_q, to_k, to_v, jnp.zeros_like(mask_adder), np.zeros(dropout_key.shape, jax.dtypes.float0)


attention.defvjp(_forward, _backward)
