"""Attention with dropout in one kernel (Pallas on Triton, JAX only): scores and probabilities never reach memory.

FlashAttention (Dao et al., 2022, arXiv 2205.14135). Dropout is drawn inside, from the key and the place of a score, and again in
the backward pass. In rows of several examples, blocks of queries and keys that have no example in common are not computed.
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
MASKED = -10000.0  # added to the scores of keys that a query does not attend to
BLOCK = 64  # queries and keys that a program holds at a time; lengths are multiples of it


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


def _spans(mask: Tensor) -> tuple[Tensor, ...]:
    """(first, stop) of the blocks with which each has an example in common, int32 (b, blocks); () where mask is of keys alone."""
    if not _is_packed(mask):
        return ()
    batch, length = mask.shape
    blocks = length // BLOCK
    same = mask[:, :, None] == mask[:, None, :]
    common = same.reshape(batch, blocks, BLOCK, blocks, BLOCK).any((2, 4))
    first, last = jnp.argmax(common, axis=2), jnp.argmax(common[:, :, ::-1], axis=2)
    return first.astype(jnp.int32), (blocks - last).astype(jnp.int32)


def _is_packed(mask: Any) -> bool:
    return jnp.issubdtype(mask.dtype, jnp.integer)


def _turns(spans: tuple, length: int) -> tuple[Any, Any]:
    """From which block to which this program's block is compared with."""
    if not spans:
        return 0, length // BLOCK
    block = pl.program_id(2)
    return spans[0][block], spans[1][block]


def _added(mask_ref: Any, first_query: Any, first_key: Any) -> Tensor:
    """What is added to the scores of a block of queries and one of keys: broadcasts to (BLOCK queries, BLOCK keys)."""
    keys = mask_ref[pl.ds(first_key, BLOCK)][None]
    if not _is_packed(mask_ref):
        return keys
    queries = mask_ref[pl.ds(first_query, BLOCK)][:, None]
    return jnp.where(queries == keys, jnp.float32(0), jnp.float32(MASKED))


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
    """All tokens of an array (b, L)."""
    return pl.BlockSpec((None, length), lambda b, h, i: (b, 0))


def _span_specs(spans: tuple) -> list[pl.BlockSpec]:
    """All of each array (b, blocks)."""
    return [_mask(each.shape[1]) for each in spans]


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


def _forward(query, key, value, mask, dropout_key, rate, interpret):
    _, length, heads, width = query.shape
    scale, spans = _scale(query), _spans(mask)

    def kernel(*refs):
        spans_, (key_ref, q_ref, k_ref, v_ref, mask_ref, out_ref, log_ref) = refs[: len(spans)], refs[len(spans) :]
        q = q_ref[...]
        block = pl.program_id(2)
        first = _first_query(heads, length) + block * BLOCK

        def turn(j, carry):
            out, best, total = carry
            at = pl.ds(j * BLOCK, BLOCK)
            scores = _product(q, k_ref[at, :], 1, 1) * scale + _added(mask_ref, block * BLOCK, j * BLOCK)
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
        out, best, total = jax.lax.fori_loop(*_turns(spans_, length), turn, start)
        out_ref[...] = (out / total[:, None]).astype(out_ref.dtype)
        log_ref[...] = best + jnp.log(total)

    block, whole = _specs(length, width)
    out, logs = _call(
        kernel,
        shape=query.shape,
        in_specs=[*_span_specs(spans), _KEY, block, whole, whole, _mask(length)],
        out_specs=[block, _rows(length)[0]],
        out=[
            jax.ShapeDtypeStruct(query.shape, query.dtype),
            jax.ShapeDtypeStruct((query.shape[0], heads, length), jnp.float32),
        ],
        interpret=interpret,
        name="attention",
    )(*spans, dropout_key, query, key, value, mask)
    return out, (query, key, value, mask, dropout_key, out, logs)


def _backward(rate, interpret, saved, upstream):
    query, key, value, mask, dropout_key, out, logs = saved
    _, length, heads, width = query.shape
    # Sum over keys of probability x its gradient: the same as the product of output and upstream.
    inner = jnp.einsum("blhw,blhw->bhl", out, upstream, preferred_element_type=jnp.float32)
    spans = _spans(mask)
    arrays = (*spans, dropout_key, query, key, value, mask, upstream, logs, inner)
    block, whole = _specs(length, width)
    row, rows = _rows(length)
    first = [*_span_specs(spans), _KEY]
    facts = {"spans": len(spans), "heads": heads, "length": length, "rate": rate}
    like = jax.ShapeDtypeStruct(query.shape, query.dtype)
    to_q = _call(
        functools.partial(_query_gradient, **facts),
        shape=query.shape,
        in_specs=[*first, block, whole, whole, _mask(length), block, row, row],
        out_specs=block,
        out=like,
        interpret=interpret,
        name="attention_to_query",
    )(*arrays)
    to_k, to_v = _call(
        functools.partial(_key_and_value_gradients, **facts),
        shape=query.shape,
        in_specs=[*first, whole, block, block, _mask(length), whole, rows, rows],
        out_specs=[block, block],
        out=[like, like],
        interpret=interpret,
        name="attention_to_key_and_value",
    )(*arrays)
    to_mask = np.zeros(mask.shape, jax.dtypes.float0) if spans else jnp.zeros_like(mask)
    return to_q, to_k, to_v, to_mask, np.zeros(dropout_key.shape, jax.dtypes.float0)


def _probs_of(q, k, added, logs):
    """The probabilities (queries, keys), from the logarithms of their sums, float32 (queries,)."""
    return jnp.exp(_product(q, k, 1, 1) * _scale(q) + added - logs[:, None])


def _query_gradient(*refs, spans: int, heads: int, length: int, rate: float):
    """A kernel: the gradient of a block of queries."""
    key_ref, q_ref, k_ref, v_ref, mask_ref, up_ref, log_ref, inner_ref, out_ref = refs[spans:]
    q, up, log, inner = q_ref[...], up_ref[...], log_ref[...], inner_ref[...]
    block = pl.program_id(2)
    first = _first_query(heads, length) + block * BLOCK

    def turn(j, total):
        at = pl.ds(j * BLOCK, BLOCK)
        k = k_ref[at, :]
        to_probs = _product(up, v_ref[at, :], 1, 1) * _kept(key_ref, rate, first, j * BLOCK)
        to_scores = _probs_of(q, k, _added(mask_ref, block * BLOCK, j * BLOCK), log) * (to_probs - inner[:, None])
        return total + _product(to_scores.astype(k.dtype), k, 1, 0)

    total = jax.lax.fori_loop(*_turns(refs[:spans], length), turn, jnp.zeros(q.shape, jnp.float32))
    out_ref[...] = (total * _scale(q)).astype(out_ref.dtype)


def _key_and_value_gradients(*refs, spans: int, heads: int, length: int, rate: float):
    """A kernel: the gradients of a block of keys and of their values."""
    key_ref, q_ref, k_ref, v_ref, mask_ref, up_ref, log_ref, inner_ref, to_k_ref, to_v_ref = refs[spans:]
    k, v = k_ref[...], v_ref[...]
    first, block = _first_query(heads, length), pl.program_id(2)

    def turn(i, totals):
        to_k, to_v = totals
        at = pl.ds(i * BLOCK, BLOCK)
        q, up = q_ref[at, :], up_ref[at, :]
        kept = _kept(key_ref, rate, first + i * BLOCK, block * BLOCK)
        probs = _probs_of(q, k, _added(mask_ref, i * BLOCK, block * BLOCK), log_ref[at])
        to_v = to_v + _product((probs * kept).astype(up.dtype), up, 0, 0)
        to_scores = probs * (_product(up, v, 1, 1) * kept - inner_ref[at][:, None])
        return to_k + _product(to_scores.astype(q.dtype), q, 0, 0), to_v

    zeros = jnp.zeros(k.shape, jnp.float32)
    to_k, to_v = jax.lax.fori_loop(*_turns(refs[:spans], length), turn, (zeros, zeros))
    to_k_ref[...] = (to_k * _scale(k)).astype(to_k_ref.dtype)
    to_v_ref[...] = to_v.astype(to_v_ref.dtype)


attention.defvjp(_forward, _backward)
