"""Tiny encoders, models and batches for tests."""

import keras
import numpy as np
from keras import ops

from pretrain.encoders.albert import AlbertConfig
from pretrain.encoders.bert import BertConfig
from pretrain.encoders.model import weights_by_path
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ModelConfig
from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask

SMALL = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}


def bert(**options):
    return Choice("bert", BertConfig(**SMALL | options))


def albert(**options):
    return Choice("albert", AlbertConfig(**SMALL | {"embedding_size": 8} | options))


def task(encoder, **options) -> PretrainingTask:
    return PretrainingTask(PretrainingConfig(model=ModelConfig(encoder), **options))


def randomize(model, seed=0) -> dict[str, np.ndarray]:
    """Gives all weights, also biases and gammas, values far from their initial ones; returns them by path."""
    generator = np.random.default_rng(seed)
    values = {}
    for path, weight in weights_by_path(model).items():
        values[path] = generator.normal(1.0 if path.endswith("gamma") else 0.0, 0.3, weight.shape).astype(np.float32)
        weight.assign(values[path])
    return values


def to_numpy(variable) -> np.ndarray:
    """The values of a Keras variable; on JAX its own numpy() warns."""
    return np.asarray(ops.convert_to_tensor(variable))


def compiled(function):
    """On JAX one program, which takes a fraction of the time that compiling each operation for itself does."""
    if keras.backend.backend() != "jax":
        return function
    import jax

    return jax.jit(function)


def updating(optimizer, variables):
    """A function of gradients that updates the variables, on JAX as the engine there does it."""
    if keras.backend.backend() != "jax":
        return lambda gradients: optimizer.apply(gradients, variables)
    optimizer.build(variables)
    apply, owned = compiled(optimizer.stateless_apply), optimizer.variables

    def update(gradients):
        weights, state = apply([each.value for each in owned], gradients, [each.value for each in variables])
        for variable, value in zip([*variables, *owned], [*weights, *state], strict=True):
            variable.assign(value)

    return update


def batch(size=5, length=12, predictions=3, vocab_size=60, segments=2, seed=0) -> dict[str, np.ndarray]:
    """A pretraining batch with padding in its rows and in its predictions."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(length // 2, length + 1, size)
    lengths[0] = length
    mask = (np.arange(length) < lengths[:, None]).astype(np.int32)
    weights = (np.arange(predictions) < generator.integers(1, predictions + 1, size)[:, None]).astype(np.float32)
    return {
        "input_ids": generator.integers(0, vocab_size, (size, length)).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": generator.integers(0, segments, (size, length)).astype(np.int32) * mask,
        "masked_lm_positions": generator.integers(0, length // 2, (size, predictions)).astype(np.int32),
        "masked_lm_ids": generator.integers(0, vocab_size, (size, predictions)).astype(np.int32),
        "masked_lm_weights": weights,
        "next_sentence_labels": generator.integers(0, 2, (size, 1)).astype(np.int32),
    }
