"""A model's outputs as numpy arrays, compiled by the backend."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from nlpdata.errors import DataError
from pretrain.encoders.model import EncoderModel
from pretrain.layers.tensors import Tensor

_Function = Callable[[Mapping[str, Any]], dict[str, Tensor]]


class Computation:
    """Computes some of a model's outputs: {"input_ids", ...} int32 (b, L) -> {name: float32 array (b, ...)}.

    What is compiled is kept: one graph for all shapes on TensorFlow, one for each shape on JAX, for later processes too.

    Args:
      model: a built model.
      heads: the heads to compute.
      outputs: the outputs to return.

    Raises DataError, when it is called, where outputs are not numbers.
    """

    def __init__(self, model: EncoderModel, heads: Sequence[str], outputs: Sequence[str]) -> None:
        self._model, self._heads, self._outputs = model, tuple(heads), tuple(outputs)
        self._compiled: dict[tuple[str, ...], _Function] = {}  # by the names of the inputs

    def __call__(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = tuple(batch)
        if names not in self._compiled:
            compile = {"tensorflow": _for_tensorflow, "jax": _for_jax}[keras.backend.backend()]
            self._compiled[names] = compile(self._model, self._function, names)
        outputs = self._compiled[names](batch)
        arrays = {name: np.asarray(keras.ops.convert_to_numpy(each), np.float32) for name, each in outputs.items()}
        if not all(np.isfinite(values).all() for values in arrays.values()):
            raise DataError(
                "the model's scores are not numbers (nan or inf): its weights are damaged, or training diverged."
            )
        return arrays

    def _function(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        outputs = self._model(batch, heads=self._heads)
        return {name: outputs[name] for name in self._outputs}


def logits_of(model: EncoderModel, head: str) -> Computation:
    """Computes what a head predicts with: {"logits" or "mlm_logits": array}, or the beam of a ConditionalSpanHead."""
    return Computation(model, [head], model.heads[head].predicts)


def _for_tensorflow(model: EncoderModel, function: _Function, names: Sequence[str]) -> _Function:
    import tensorflow as tf

    shapes = {name: tf.TensorSpec((None, None), tf.int32) for name in names}
    return tf.function(function, input_signature=[shapes], autograph=False)


def _for_jax(model: EncoderModel, function: _Function, names: Sequence[str]) -> _Function:
    import jax

    from pretrain.training.engines.jax_compilation import keep_compiled

    keep_compiled()

    def pure(weights: list, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        with keras.StatelessScope(state_mapping=list(zip(model.weights, weights, strict=True))):
            return function(batch)

    compiled = jax.jit(pure)
    return lambda batch: compiled([weight.value for weight in model.weights], dict(batch))
