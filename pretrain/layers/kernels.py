"""Kernels for GPUs (Pallas on Triton, JAX only): what is between the matrix products of a layer, in one pass over memory each.

    residual_norm(x, h, bias, gamma, beta, key)    layer_norm(x + dropout(h + bias))
    bias_activation(h, bias, activation)           activation(h + bias)
    dense(x, kernel, bias)                         x @ kernel + bias, whose bias gradient is one pass

Each equals its plain counterpart to the rounding of the inputs' precision: sums are float32, and results are rounded once. Biases'
gradients are sums over all rows: each program sums its own rows, and XLA adds the programs' sums.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from pretrain.layers import activations
from pretrain.layers.dropout import row_factors
from pretrain.layers.tensors import Tensor

# Measured on an H200.
_PROGRAMS = 2048  # of a kernel that sums rows: several for each multiprocessor of a large GPU
_COLUMNS = 512  # of the tile of an element-wise kernel


def _call(
    kernel: Callable,
    *,
    grid: tuple[int, ...],
    out: Any,
    interpret: bool,
    warps: int,
    in_specs: list | None = None,
    out_specs: Any = None,
    name: str,
) -> Callable:
    options = {} if in_specs is None else {"in_specs": in_specs, "out_specs": out_specs}
    return pl.pallas_call(
        kernel,
        grid=grid,
        out_shape=out,
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(num_warps=warps, num_stages=1),
        name=name,
        **options,
    )


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _common_power(size: int, limit: int) -> int:
    """The largest power of two that divides size and is not above limit."""
    return min(size & -size, 1 << (limit.bit_length() - 1))


def _warps(width: int) -> int:
    """Warps of a program that has a row of this width: a single one sums a row of BERT-base without shared memory."""
    return max(1, width // 1024)


def _shares(tiles: int, limit: int) -> tuple[int, int]:
    """(programs, turns of each): at most `limit` programs for all tiles; the last ones may have less to do, or nothing."""
    turns = pl.cdiv(tiles, limit)
    return pl.cdiv(tiles, turns), turns


# --------------------------------------------------------------------------------------- residual, dropout, layer norm


@functools.partial(jax.custom_vjp, nondiff_argnums=(6, 7, 8))
def residual_norm(
    x: Tensor,
    h: Tensor,
    bias: Tensor,
    gamma: Tensor,
    beta: Tensor,
    key: Tensor,
    rate: float,
    epsilon: float,
    interpret: bool = False,
) -> Tensor:
    """layer_norm(x + dropout(h + bias)), computed in float32.

    Args:
      x, h: inputs (n, size) of one dtype, which the result has too.
      bias, gamma, beta: weights, float32 (size,).
      key: key of the dropout, int32 or uint32 (2,) (pretrain.layers.dropout.row_factors).
      rate: share of h + bias that is dropped; with 0, `key` is not read.
      epsilon: number added to the variance.
      interpret: whether to run on the CPU, for tests.

    Returns (n, size).
    """
    return _norm_forward(x, h, bias, gamma, beta, key, rate, epsilon, interpret)[0]


def _norm_forward(x, h, bias, gamma, beta, key, rate, epsilon, interpret):
    n, size = x.shape
    width = _power_of_two(size)
    tile = pl.BlockSpec((1, width), lambda i: (i, 0))
    vector = pl.BlockSpec((width,), lambda i: (0,))

    def kernel(key_ref, x_ref, h_ref, bias_ref, gamma_ref, beta_ref, out_ref):
        inside = jnp.arange(width) < size
        row = inside[None]
        load = functools.partial(_load, mask=inside)
        s, _ = _pre_norm(_load(x_ref, row), _load(h_ref, row), load(bias_ref), key_ref, pl.program_id(0), rate)
        _, normed = _normed(s, row, size, epsilon)
        out = normed * load(gamma_ref) + load(beta_ref)
        triton.store(out_ref, out.astype(out_ref.dtype), mask=row)

    out = _call(
        kernel,
        grid=(n,),
        out=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec((2,), lambda i: (0,)), tile, tile, vector, vector, vector],
        out_specs=tile,
        interpret=interpret,
        warps=_warps(width),
        name="residual_norm",
    )(key, x, h, bias, gamma, beta)
    return out, (x, h, bias, gamma, key)


def _norm_backward(rate, epsilon, interpret, saved, upstream):
    x, h, bias, gamma, key = saved
    n, size = x.shape
    width = _power_of_two(size)
    programs, turns = _shares(n, _PROGRAMS)

    def kernel(key_ref, x_ref, h_ref, bias_ref, gamma_ref, up_ref, to_x_ref, to_h_ref, sums_ref):
        inside = jnp.arange(width) < size
        every = pl.ds(0, width)
        bias, gamma = _load(bias_ref.at[every], inside), _load(gamma_ref.at[every], inside)
        program = pl.program_id(0)

        def turn(i, sums):
            row = program * turns + i
            here = inside[None] & (row < n)
            at = (pl.ds(row, 1), every)
            s, kept = _pre_norm(_load(x_ref.at[at], here), _load(h_ref.at[at], here), bias, key_ref, row, rate)
            scale, normed = _normed(s, here, size, epsilon)
            up = _load(up_ref.at[at], here)
            scaled = up * gamma
            mean = jnp.sum(scaled, axis=1, keepdims=True) / size
            slope = jnp.sum(scaled * normed, axis=1, keepdims=True) / size
            to_x = jnp.where(here, scale * (scaled - mean - normed * slope), 0.0)
            to_h = to_x * kept
            triton.store(to_x_ref.at[at], to_x.astype(to_x_ref.dtype), mask=here)
            triton.store(to_h_ref.at[at], to_h.astype(to_h_ref.dtype), mask=here)
            return tuple(total + part for total, part in zip(sums, (to_h, up * normed, up), strict=True))

        zeros = jnp.zeros((1, width), jnp.float32)
        for i, total in enumerate(jax.lax.fori_loop(0, turns, turn, (zeros, zeros, zeros))):
            triton.store(sums_ref.at[pl.ds(program, 1), pl.ds(i, 1), every], total[None])

    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    sums = jax.ShapeDtypeStruct((programs, 3, width), jnp.float32)
    to_x, to_h, sums = _call(
        kernel,
        grid=(programs,),
        out=(like, like, sums),
        interpret=interpret,
        warps=_warps(width),
        name="residual_norm_backward",
    )(key, x, h, bias, gamma, upstream)
    to_bias, to_gamma, to_beta = jnp.sum(sums, axis=0)[:, :size]
    return to_x, to_h, to_bias, to_gamma, to_beta, np.zeros(key.shape, jax.dtypes.float0)


residual_norm.defvjp(_norm_forward, _norm_backward)


def _load(ref, mask):
    return triton.load(ref, mask=mask, other=0).astype(jnp.float32)


def _pre_norm(x, h, bias, key_ref, row, rate):
    """(x + dropout(h + bias), the factor of h + bias) of one row, (1, width)."""
    if not rate:
        return x + h + bias, 1.0
    kept = row_factors(row.astype(jnp.uint32), jnp.arange(x.shape[1], dtype=jnp.uint32)[None], key_ref, rate)
    return x + (h + bias) * kept, kept


def _normed(s, inside, size, epsilon):
    """(1 / standard deviation, (1, 1); the normalised row, (1, width), 0 outside of it)."""
    centred = jnp.where(inside, s - jnp.sum(jnp.where(inside, s, 0.0), axis=1, keepdims=True) / size, 0.0)
    scale = jax.lax.rsqrt(jnp.sum(centred * centred, axis=1, keepdims=True) / size + epsilon)
    return scale, centred * scale


# ---------------------------------------------------------------------------------------------------- bias, activation


def _gelu(x):
    """(value, slope) of the exact gelu. erf by Abramowitz and Stegun's formula 7.1.26, with an error of at most 1.5e-7."""
    size = jnp.abs(x) * np.float32(math.sqrt(0.5))
    t = 1.0 / (1.0 + 0.3275911 * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    bell = jnp.exp(-0.5 * x * x)
    tail = 0.5 * series * bell
    phi = jnp.where(x < 0, tail, 1.0 - tail)
    return x * phi, phi + x * bell * np.float32(1 / math.sqrt(2 * math.pi))


def _gelu_tanh(x):
    """(value, slope) of gelu's approximation by tanh, computed as tanh(y) = 2 * sigmoid(2 * y) - 1."""
    scale = np.float32(math.sqrt(2 / math.pi))
    square = x * x
    phi = 1.0 / (1.0 + jnp.exp(-2.0 * scale * x * (1.0 + 0.044715 * square)))
    return x * phi, phi + 2.0 * x * phi * (1.0 - phi) * scale * (1.0 + 3 * 0.044715 * square)


ACTIVATIONS: Mapping[Callable[[Tensor], Tensor], Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    activations.gelu: _gelu,
    activations.gelu_tanh: _gelu_tanh,
}


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def bias_activation(h: Tensor, bias: Tensor, activation: Callable[[Tensor], Tensor], interpret: bool = False) -> Tensor:
    """activation(h + bias): (n, size) and float32 (size,) -> (n, size) in the dtype of h. `activation` is a key of ACTIVATIONS."""
    return _activation_forward(h, bias, activation, interpret)[0]


def _columns_of(n: int, size: int) -> tuple[int, int, int, int]:
    """(rows of a tile, columns of a tile, programs along the rows, turns of each), for sums over rows."""
    columns = _common_power(size, _COLUMNS)
    rows = 2048 // columns
    return rows, columns, *_shares(pl.cdiv(n, rows), max(1, 2 * _PROGRAMS * columns // size))


def _tile_at(first, rows: int, n: int, first_column, columns: int):
    """(index of a tile (rows, columns), bool (rows, columns): which of its values are inside (n, size))."""
    inside = (first + jnp.arange(rows) < n)[:, None]
    return (pl.ds(first, rows), pl.ds(first_column, columns)), jnp.broadcast_to(inside, (rows, columns))


def _activation_forward(h, bias, activation, interpret):
    n, size = h.shape
    columns = _common_power(size, _COLUMNS)
    rows = _common_power(n, 8)
    tile = pl.BlockSpec((rows, columns), lambda i, j: (i, j))

    def kernel(h_ref, bias_ref, out_ref):
        x = h_ref[...].astype(jnp.float32) + bias_ref[...]
        out_ref[...] = ACTIVATIONS[activation](x)[0].astype(out_ref.dtype)

    out = _call(
        kernel,
        grid=(n // rows, size // columns),
        out=jax.ShapeDtypeStruct(h.shape, h.dtype),
        in_specs=[tile, pl.BlockSpec((columns,), lambda i, j: (j,))],
        out_specs=tile,
        interpret=interpret,
        warps=4,
        name="bias_activation",
    )(h, bias)
    return out, (h, bias)


def _activation_backward(activation, interpret, saved, upstream):
    h, bias = saved
    n, size = h.shape
    rows, columns, programs, turns = _columns_of(n, size)

    def kernel(h_ref, bias_ref, up_ref, to_h_ref, sums_ref):
        first_column, program = pl.program_id(1) * columns, pl.program_id(0)
        bias = bias_ref[pl.ds(first_column, columns)]

        def turn(i, total):
            at, inside = _tile_at((program * turns + i) * rows, rows, n, first_column, columns)
            slope = ACTIVATIONS[activation](_load(h_ref.at[at], inside) + bias)[1]
            to_h = _load(up_ref.at[at], inside) * slope
            triton.store(to_h_ref.at[at], to_h.astype(to_h_ref.dtype), mask=inside)
            return total + to_h

        total = jax.lax.fori_loop(0, turns, turn, jnp.zeros((rows, columns), jnp.float32))
        sums_ref[pl.ds(program, 1), pl.ds(first_column, columns)] = jnp.sum(total, axis=0)[None]

    to_h, sums = _call(
        kernel,
        grid=(programs, size // columns),
        out=(jax.ShapeDtypeStruct(h.shape, h.dtype), jax.ShapeDtypeStruct((programs, size), jnp.float32)),
        interpret=interpret,
        warps=4,
        name="bias_activation_backward",
    )(h, bias, upstream)
    return to_h, jnp.sum(sums, axis=0)


bias_activation.defvjp(_activation_forward, _activation_backward)


# ------------------------------------------------------------------------------------------------- dense with its bias


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def dense(x: Tensor, kernel: Tensor, bias: Tensor, interpret: bool = False) -> Tensor:
    """x (n, in) @ kernel (in, out) + bias float32 (out,) -> (n, out) in the dtype of x."""
    return _dense_forward(x, kernel, bias, interpret)[0]


def _dense_forward(x, kernel, bias, interpret):
    return jnp.matmul(x, kernel) + bias.astype(x.dtype), (x, kernel)


def _dense_backward(interpret, saved, upstream):
    x, kernel = saved
    return jnp.matmul(upstream, kernel.T), jnp.matmul(x.T, upstream), column_sums(upstream, interpret)


dense.defvjp(_dense_forward, _dense_backward)


def column_sums(values: Tensor, interpret: bool = False) -> Tensor:
    """The sums of values (n, size) over the rows: float32 (size,)."""
    n, size = values.shape
    rows, columns, programs, turns = _columns_of(n, size)

    def kernel(values_ref, sums_ref):
        first_column, program = pl.program_id(1) * columns, pl.program_id(0)

        def turn(i, total):
            at, inside = _tile_at((program * turns + i) * rows, rows, n, first_column, columns)
            return total + _load(values_ref.at[at], inside)

        total = jax.lax.fori_loop(0, turns, turn, jnp.zeros((rows, columns), jnp.float32))
        sums_ref[pl.ds(program, 1), pl.ds(first_column, columns)] = jnp.sum(total, axis=0)[None]

    sums = _call(
        kernel,
        grid=(programs, size // columns),
        out=jax.ShapeDtypeStruct((programs, size), jnp.float32),
        interpret=interpret,
        warps=4,
        name="column_sums",
    )(values)
    return jnp.sum(sums, axis=0)
