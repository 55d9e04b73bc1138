"""Activation functions by the names that published configurations use.

"gelu" is the exact one, x * Phi(x) (Hugging Face's BERT); "gelu_new" and "gelu_tanh" are one and the same tanh
approximation, which google-research/bert and /albert compute and call "gelu" in their own files (model_config.py reads
those files as such).
"""

import functools

import keras

ACTIVATIONS = {
    "gelu": functools.partial(keras.ops.gelu, approximate=False),
    "gelu_new": functools.partial(keras.ops.gelu, approximate=True),
    "gelu_tanh": functools.partial(keras.ops.gelu, approximate=True),
    "relu": keras.ops.relu,
}
