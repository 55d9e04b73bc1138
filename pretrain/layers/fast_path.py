"""The fast path of a layer on GPUs: kernels between its matrix products, where an engine has switched them on.

    with fast_path(FastPath(prefix_masks=True)):
        outputs = model(inputs, training=True)

Outside such a scope, and for what the kernels do not cover, the functions here compute the same by plain operations.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from pretrain.layers.dropout import Dropout, next_key
from pretrain.layers.layer_norm import LayerNorm
from pretrain.layers.tensors import Tensor

_scope: contextvars.ContextVar["FastPath | None"] = contextvars.ContextVar("fast_path", default=None)


@dataclass(frozen=True)
class FastPath:
    """What the kernels may take for granted.

    Attributes:
      prefix_masks: whether in every example the real tokens come first, then padding.
      cudnn: whether cuDNN's attention can be used.
      interpret: whether the kernels run on the CPU, for tests.
    """

    prefix_masks: bool = False
    cudnn: bool = True
    interpret: bool = False


@contextlib.contextmanager
def fast_path(path: FastPath | None) -> Iterator[None]:
    """Everything inside takes the fast path; None: the plain one."""
    token = _scope.set(path)
    try:
        yield
    finally:
        _scope.reset(token)


def chosen() -> FastPath | None:
    """The path of the innermost scope; None: the plain one."""
    return _scope.get()


def dropout_key() -> Tensor:
    """The uint32 key (2,) of this dropout alone."""
    key, salt = next_key()
    return ops.cast(key, "uint32") + salt


def project(dense: keras.layers.Dense, x: Tensor) -> Tensor:
    """dense(x) for a dense layer without activation, (..., in) -> (..., out)."""
    path = chosen()
    if path is None:
        return dense(x)
    from pretrain.layers import kernels

    out = kernels.dense(_rows(x), _weight(dense.kernel, x), _float32(dense.bias), path.interpret)
    return ops.reshape(out, (*x.shape[:-1], out.shape[-1]))


def activate(dense: keras.layers.Dense, activation: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """activation(dense(x)), (..., in) -> (..., out)."""
    path = chosen()
    if path is not None:
        from pretrain.layers import kernels

        if activation in kernels.ACTIVATIONS:
            inner = ops.matmul(_rows(x), _weight(dense.kernel, x))
            out = kernels.bias_activation(inner, _float32(dense.bias), activation, path.interpret)
            return ops.reshape(out, (*x.shape[:-1], out.shape[-1]))
    return activation(dense(x))


def add_and_norm(
    norm: keras.layers.Layer, dropout: Dropout, dense: keras.layers.Dense, x: Tensor, inner: Tensor, training: bool
) -> Tensor:
    """norm(x + dropout(dense(inner))): (..., out) and (..., in) -> (..., out)."""
    path = chosen()
    if path is None or type(norm) is not LayerNorm:
        return norm(x + dropout(dense(inner), training=training))
    from pretrain.layers import kernels

    rate = dropout.rate if training else 0.0
    key = dropout_key() if rate else np.zeros(2, np.uint32)
    out = kernels.residual_norm(
        _rows(x),
        ops.matmul(_rows(inner), _weight(dense.kernel, inner)),
        *(_float32(weight) for weight in (dense.bias, norm.gamma, norm.beta)),
        key,
        rate,
        norm.epsilon,
        path.interpret,
    )
    return ops.reshape(out, x.shape)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask_adder: Tensor,
    sequence_ids: Tensor | None,
    dropout: Dropout,
    training: bool,
) -> Tensor | None:
    """Attention of each head by a kernel: (b, L, heads, width) three times -> the same; None where no kernel can do it.

    Args:
      mask_adder: float (b, 1, 1, L), added to the scores: 0 on tokens, far below 0 on padding; (b, 1, L, L) for packed rows.
      sequence_ids: int32 (b, L) of packed rows: tokens attend to those of the same number.
      dropout: the layer that drops probabilities.
      training: whether dropout applies.
    """
    path = chosen()
    if path is None:
        return None
    import jax
    import jax.numpy as jnp

    from pretrain.layers import attention_kernel

    rate = dropout.rate if training else 0.0
    length, width = query.shape[1], query.shape[3]
    own = not (length % attention_kernel.BLOCK or width & (width - 1) or not 16 <= width <= 128)
    if rate or not path.cudnn or (sequence_ids is not None and own):
        if not own:
            return None
        dropout_at = dropout_key() if rate else np.zeros(2, np.uint32)
        added = jnp.asarray(mask_adder, jnp.float32)[:, 0, 0]
        mask = added if sequence_ids is None else jnp.asarray(sequence_ids, jnp.int32)
        return attention_kernel.attention(query, key, value, mask, dropout_at, rate, path.interpret)
    if length % 8 or width % 8 or width > 128:
        return None
    real = mask_adder[:, 0] > -1.0
    if path.prefix_masks and sequence_ids is None:
        lengths = jnp.maximum(jnp.sum(real[:, 0], axis=-1, dtype=jnp.int32), 1)
        return jax.nn.dot_product_attention(query, key, value, key_value_seq_lengths=lengths, implementation="cudnn")
    mask = jnp.broadcast_to(real[:, None], (query.shape[0], 1, length, length))
    return jax.nn.dot_product_attention(query, key, value, mask=mask, implementation="cudnn")


def _rows(x: Tensor) -> Tensor:
    return ops.reshape(x, (-1, x.shape[-1]))


def _weight(weight: Tensor, like: Tensor) -> Tensor:
    return ops.cast(weight, like.dtype)


def _float32(weight: Tensor) -> Tensor:
    return ops.cast(weight, "float32")
