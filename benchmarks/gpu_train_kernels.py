"""The stage `kernels` of gpu_train.py: values and gradients of the kernels against plain operations, at the sizes of models.

Prints the norm of the difference over that of the plain result (float32), and the values that are not numbers.
"""

import jax
import jax.numpy as jnp
import numpy as np

from pretrain.layers import activations, attention_kernel, kernels
from pretrain.layers.dropout import row_bits

DROPPED = 6554  # of 65536
RATE = DROPPED / 65536
KEY = np.array([3, 5], np.uint32)


def kept(key, rows: int, columns: int):
    bits = row_bits(jnp.arange(rows, dtype=jnp.uint32)[:, None], jnp.arange(columns, dtype=jnp.uint32), *key)
    return jnp.where(bits >= np.uint32(DROPPED << 16), np.float32(1 / (1 - RATE)), np.float32(0))


def plain_norm(key, x, h, bias, gamma, beta):
    total = x + (h + bias) * kept(key, *x.shape)
    centred = total - total.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * gamma + beta


def plain_attention(key, query, keys, value, mask):
    if jnp.issubdtype(mask.dtype, jnp.integer):
        added = jnp.where(mask[:, :, None] == mask[:, None, :], 0.0, -10000.0)[:, None]
    else:
        added = mask[:, None, None]
    scores = jnp.einsum("blhw,bmhw->bhlm", query, keys) / query.shape[-1] ** 0.5 + added
    probs = jax.nn.softmax(scores)
    probs = probs * kept(key, probs.size // probs.shape[-1], probs.shape[-1]).reshape(probs.shape)
    return jnp.einsum("bhlm,bmhw->blhw", probs, value)


def cases(tokens: int, length: int, hidden: int, inner: int, width: int, dtype, interpret: bool):
    """(name, kernel, plain function, arguments): functions of the dropout's key and the arguments.

    Attention comes only where there are whole sequences, of a length that it takes.
    """
    seeds = iter(range(100))

    def normal(*shape, dtype=dtype):
        return jax.random.normal(jax.random.key(next(seeds)), shape, dtype)

    def vector(size):
        return normal(size, dtype=jnp.float32)

    norm = [normal(tokens, hidden), normal(tokens, hidden), *(vector(hidden) for _ in range(3))]
    yield "norm", lambda key, *a: kernels.residual_norm(*a, key, RATE, 1e-12, interpret), plain_norm, norm
    for activation in (activations.gelu, activations.gelu_tanh):
        exact = activation is activations.gelu
        arguments = [normal(tokens, inner), vector(inner)]
        fused = lambda key, *a, activation=activation: kernels.bias_activation(*a, activation, interpret)  # noqa: E731
        plain = lambda key, h, bias, exact=exact: jax.nn.gelu(h + bias, approximate=not exact)  # noqa: E731
        yield "gelu" if exact else "gelu_tanh", fused, plain, arguments
    arguments = [normal(tokens, hidden), normal(hidden, hidden), vector(hidden)]
    yield "dense", lambda key, *a: kernels.dense(*a, interpret), lambda key, x, w, bias: x @ w + bias, arguments
    if tokens % length or length % attention_kernel.BLOCK:
        return
    examples, heads = tokens // length, hidden // width
    lengths = np.random.default_rng(0).integers(3, length + 1, examples)
    mask = jnp.where(np.arange(length) < lengths[:, None], 0.0, -10000.0).astype(jnp.float32)
    attention = [*(normal(examples, length, heads, width) for _ in range(3)), mask]
    yield "attention", lambda key, *a: attention_kernel.attention(*a, key, RATE, interpret), plain_attention, attention
    packed = [*attention[:3], sequence_ids(examples, length)]
    yield "packed", lambda key, *a: attention_kernel.attention(*a, key, RATE, interpret), plain_attention, packed


def sequence_ids(rows: int, length: int):
    """Rows of up to eight examples of random lengths, then padding: int32 (rows, length)."""
    ends = np.sort(np.random.default_rng(1).integers(1, length + 1, (rows, 8)), axis=1)
    place = np.arange(length)
    number = 1 + (place[:, None] >= ends[:, None]).sum(-1)
    return jnp.asarray(np.where(place < ends[:, -1:], number, 0), jnp.int32)


SIZES = {  # of a run -> (tokens, length, hidden, inner, width of a head): BERT-base first, then rows that no power of two divides
    "base": [(256 * 128, 128, 768, 3072, 64), (64 * 512, 512, 768, 3072, 64), (32767, 128, 768, 3072, 64)],
    "float16": [(256 * 128, 128, 768, 3072, 64, jnp.float16), (16 * 512, 512, 768, 3072, 64, jnp.float16)],
    "odd": [
        (4928, 64, 768, 3072, 64),
        (7 * 384, 384, 768, 3072, 64),
        (33, 128, 768, 3072, 64),
        (1, 128, 768, 3072, 64),
    ],
    "large": [(32 * 512, 512, 1024, 4096, 64), (64 * 128, 128, 2048, 8192, 128), (64 * 128, 128, 4096, 16384, 64)],
    "small": [(256 * 128, 128, 128, 512, 64), (8191, 128, 256, 1024, 64), (64 * 128, 128, 512, 2048, 64)],
}


def compare(
    tokens: int, length: int, hidden: int, inner: int, width: int, dtype=jnp.bfloat16, interpret: bool = False
) -> bool:
    """Prints a line a kernel; returns whether all are equal within the rounding of dtype."""
    good = True
    for name, fused, plain, arguments in cases(tokens, length, hidden, inner, width, dtype, interpret):
        which = tuple(range(3 if name in ("attention", "packed") else len(arguments)))
        weight = jax.random.normal(jax.random.key(1), arguments[0].shape)

        def results(function, arguments, weight=weight, which=which):
            def loss(arguments, key, weight):
                out = function(key, *arguments).astype(jnp.float32)
                return jnp.sum(out * weight), out

            # Everything is an argument: the compiler would compute with constants of this size.
            (_, out), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True, allow_int=True))(
                arguments, KEY, weight
            )
            return [out, *(gradients[i] for i in which)]

        found = results(fused, arguments)
        expected = results(plain, [_exact(argument) for argument in arguments])
        apart = [
            float(jnp.linalg.norm(a.astype(jnp.float32) - b) / jnp.linalg.norm(b))
            for a, b in zip(found, expected, strict=True)
        ]
        bad = sum(int((~jnp.isfinite(a)).sum()) for a in found)
        good &= not bad and max(apart) < 1.3 * float(jnp.finfo(dtype).eps)
        listed = " ".join(f"{each:.1e}" for each in apart)
        print(
            f"  {tokens:>5} tokens, length {length}, {hidden:>4} {jnp.dtype(dtype).name} {name:<10} {listed}  not finite: {bad}",
            flush=True,
        )
    return good


def _exact(argument):
    return argument.astype(jnp.float32) if jnp.issubdtype(argument.dtype, jnp.floating) else argument


def compare_all(names) -> bool:
    """compare at these SIZES."""
    return all([compare(*size) for name in names for size in SIZES[name]])
