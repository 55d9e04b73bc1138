"""Activation functions by the names that published configurations use.

"gelu" is the exact one, x * Phi(x) (Hugging Face's BERT); "gelu_new" and "gelu_tanh" are one and the same tanh
approximation, which google-research/bert and /albert compute and call "gelu" in their own files (model_config.py reads
those files as such).
"""

import math

from keras import ops

from pretrain.layers.tensors import Tensor

_TANH_SCALE, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715

# Both have their derivatives written out: fewer passes over the largest arrays of a model than autodiff makes.


@ops.custom_gradient
def gelu(x: Tensor) -> Tensor:
    """x * Phi(x), Phi the normal distribution's (Hendrycks and Gimpel, 2016, arXiv 1606.08415)."""
    phi = 0.5 * ops.erf(x * math.sqrt(0.5)) + 0.5

    def gradient(upstream: Tensor) -> Tensor:
        return upstream * (phi + x * (ops.exp(-0.5 * ops.square(x)) * (1 / math.sqrt(2 * math.pi))))

    return x * phi, gradient


@ops.custom_gradient
def gelu_tanh(x: Tensor) -> Tensor:
    """The same paper's approximation of gelu by tanh."""
    square = ops.square(x)
    tanh = ops.tanh(x * (square * (_TANH_SCALE * _TANH_CUBE) + _TANH_SCALE))
    phi = 0.5 * tanh + 0.5

    def gradient(upstream: Tensor) -> Tensor:
        slope = square * (1.5 * _TANH_SCALE * _TANH_CUBE) + 0.5 * _TANH_SCALE
        return upstream * (phi + (x - x * ops.square(tanh)) * slope)

    return x * phi, gradient


ACTIVATIONS = {"gelu": gelu, "gelu_new": gelu_tanh, "gelu_tanh": gelu_tanh, "relu": ops.relu}
