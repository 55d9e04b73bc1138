"""The stage `kernels` of gpu_train.py: values and gradients of the kernels against plain operations, at the sizes of models.

Prints the norm of the difference over that of the plain result (float32), and the values that are not numbers.
"""

import jax
import jax.numpy as jnp
import numpy as np

from pretrain.layers import activations, attention_kernel, kernels
from pretrain.layers.dropout import row_bits

DROPPED = 6554  # of 65536
KEY = np.array([3, 5], np.uint32)


def kept(rows: int, columns: int):
    bits = row_bits(jnp.arange(rows, dtype=jnp.uint32)[:, None], jnp.arange(columns, dtype=jnp.uint32), *KEY)
    return jnp.where(bits >= np.uint32(DROPPED << 16), np.float32(65536 / (65536 - DROPPED)), np.float32(0))


def plain_norm(x, h, bias, gamma, beta):
    total = x + (h + bias) * kept(*x.shape)
    centred = total - total.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * gamma + beta


def plain_attention(query, key, value, mask):
    scores = jnp.einsum("blhw,bmhw->bhlm", query, key) / query.shape[-1] ** 0.5 + mask[:, None, None]
    probs = jax.nn.softmax(scores)
    probs = probs * kept(probs.size // probs.shape[-1], probs.shape[-1]).reshape(probs.shape)
    return jnp.einsum("bhlm,bmhw->blhw", probs, value)


def cases(tokens: int, length: int, hidden: int, inner: int, width: int, interpret: bool):
    """(name, kernel, plain function, arguments); attention only where it has whole sequences of a length it takes."""
    draw = np.random.default_rng(0)

    def normal(*shape, dtype=jnp.bfloat16):
        return jnp.asarray(draw.standard_normal(shape, np.float32), dtype)

    def vector(size):
        return normal(size, dtype=jnp.float32)

    rate, key = DROPPED / 65536, jnp.asarray(KEY)
    norm = [normal(tokens, hidden), normal(tokens, hidden), *(vector(hidden) for _ in range(3))]
    yield "norm", lambda *a: kernels.residual_norm(*a, key, rate, 1e-12, interpret), plain_norm, norm
    for activation in (activations.gelu, activations.gelu_tanh):
        exact = activation is activations.gelu
        arguments = [normal(tokens, inner), vector(inner)]
        fused = lambda h, bias, activation=activation: kernels.bias_activation(h, bias, activation, interpret)  # noqa: E731
        plain = lambda h, bias, exact=exact: jax.nn.gelu(h + bias, approximate=not exact)  # noqa: E731
        yield "gelu" if exact else "gelu_tanh", fused, plain, arguments
    arguments = [normal(tokens, hidden), normal(hidden, hidden), vector(hidden)]
    yield "dense", lambda *a: kernels.dense(*a, interpret), lambda x, kernel, bias: x @ kernel + bias, arguments
    if tokens % length or length % attention_kernel.BLOCK:
        return
    examples, heads = tokens // length, hidden // width
    lengths = draw.integers(3, length + 1, examples)
    mask = jnp.where(np.arange(length) < lengths[:, None], 0.0, -10000.0).astype(jnp.float32)
    attention = [*(normal(examples, length, heads, width) for _ in range(3)), mask]
    yield "attention", lambda *a: attention_kernel.attention(*a, key, rate, interpret), plain_attention, attention


SIZES = {  # of a run -> (tokens, length, hidden, inner, width of a head): BERT-base first, then rows that no power of two divides
    "base": [(256 * 128, 128, 768, 3072, 64), (64 * 512, 512, 768, 3072, 64), (32767, 128, 768, 3072, 64)],
    "odd": [
        (4928, 64, 768, 3072, 64),
        (7 * 384, 384, 768, 3072, 64),
        (33, 128, 768, 3072, 64),
        (1, 128, 768, 3072, 64),
    ],
    "large": [(32 * 512, 512, 1024, 4096, 64), (64 * 128, 128, 2048, 8192, 128), (64 * 128, 128, 4096, 16384, 64)],
    "small": [(256 * 128, 128, 128, 512, 64), (8191, 128, 256, 1024, 64), (64 * 128, 128, 512, 2048, 64)],
}


def compare(tokens: int, length: int, hidden: int, inner: int, width: int, interpret: bool = False) -> bool:
    """Prints a line a kernel; returns whether all are equal within the rounding of bfloat16."""
    good = True
    for name, fused, plain, arguments in cases(tokens, length, hidden, inner, width, interpret):
        which = tuple(range(3 if name == "attention" else len(arguments)))
        weight = jnp.asarray(np.random.default_rng(1).standard_normal(arguments[0].shape, np.float32))

        def results(function, arguments, weight=weight, which=which):
            def loss(*arguments):
                out = function(*arguments).astype(jnp.float32)
                return jnp.sum(out * weight), out

            (_, out), gradients = jax.jit(jax.value_and_grad(loss, which, has_aux=True))(*arguments)
            return [out, *gradients]

        found = results(fused, arguments)
        expected = results(plain, [argument.astype(jnp.float32) for argument in arguments])
        apart = [
            float(jnp.linalg.norm(a.astype(jnp.float32) - b) / jnp.linalg.norm(b))
            for a, b in zip(found, expected, strict=True)
        ]
        bad = sum(int((~jnp.isfinite(a)).sum()) for a in found)
        good &= not bad and max(apart) < 1e-2
        print(
            f"  {tokens:>5} tokens, length {length}, {hidden:>4} {name:<10} {' '.join(f'{each:.1e}' for each in apart)}  not finite: {bad}",
            flush=True,
        )
    return good


def compare_all(names) -> bool:
    """compare at these SIZES."""
    return all([compare(*size) for name in names for size in SIZES[name]])
