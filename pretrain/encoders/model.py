"""An encoder with task heads, its weights by path, and how they start.

Paths are those of the native checkpoint format and of every converter, e.g. "encoder/layer_0/attention/query/kernel".
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import keras
import numpy as np

from nlpdata.errors import UsageError
from pretrain.layers.masked_lm_head import MaskedLMHead
from pretrain.registry import ENCODERS
from pretrain.settings.fields import Choice

_ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


class EncoderModel(keras.Model):
    """An encoder and heads that each turn its outputs into their own.

    Args:
      encoder: layer, dict of inputs -> dict of outputs (see BertEncoder).
      heads: name -> layer with call(encoded, inputs, training) -> dict of outputs. `encoded` holds the encoder's outputs
        and "word_embeddings" (V, E).

    call(inputs, training=False, heads=None, every_layer=False): inputs as the encoder's and what the heads read
    (masked_lm_positions); all heads, or those named. Returns the encoder's outputs and the heads'. UsageError where an input is
    missing, or longer than the encoder's positions.
    """

    def __init__(self, encoder: keras.layers.Layer, heads: dict[str, keras.layers.Layer] | None = None) -> None:
        super().__init__(name="model")
        self.encoder = encoder
        self.heads = dict(heads or {})

    def build(self, input_shape: Any = None) -> None:
        self.encoder.build()
        for head in self.heads.values():
            head.build()

    def __call__(
        self,
        inputs: Mapping[str, Any],
        training: bool = False,
        heads: Iterable[str] | None = None,
        every_layer: bool = False,
    ) -> dict[str, Any]:
        self._check(inputs)
        return super().__call__(inputs, training=training, heads=heads, every_layer=every_layer)

    def call(
        self,
        inputs: Mapping[str, Any],
        training: bool = False,
        heads: Iterable[str] | None = None,
        every_layer: bool = False,
    ) -> dict[str, Any]:
        more = {"every_layer": True} if every_layer else {}  # an encoder of a user's own may not know it
        outputs = self.encoder(inputs, training=training, **more)
        return outputs | self.apply_heads(outputs, inputs, self.heads if heads is None else heads, training)

    def apply_heads(
        self, outputs: Mapping[str, Any], inputs: Mapping[str, Any], heads: Iterable[str], training: bool = False
    ) -> dict[str, Any]:
        """What these heads make of the encoder's outputs and of the inputs that they read themselves."""
        encoded = {**outputs, "word_embeddings": self.encoder.embeddings.word_embeddings}
        judged: dict[str, Any] = {}
        for name in heads:
            judged |= self.heads[name](encoded, inputs, training=training)
        return judged

    def _check(self, inputs: Mapping[str, Any]) -> None:
        if "sequence_ids" in inputs and not getattr(self.encoder, "packs", False):
            raise UsageError(
                f"{type(self.encoder).__name__} does not read rows of several examples. Set pack_sequences to false in the "
                "data sections; group_by_length also saves padding."
            )
        missing = [name for name in _ENCODER_INPUTS if name not in inputs]
        if missing:
            raise UsageError(f"the model needs {', '.join(missing)}. Received: {', '.join(inputs)}")
        shapes = {name: tuple(inputs[name].shape) for name in _ENCODER_INPUTS}
        shape = shapes["input_ids"]
        if len(shape) != 2 or len(set(shapes.values())) > 1:
            raise UsageError(f"{', '.join(_ENCODER_INPUTS)} must all be (batch, length). Received: {shapes}")
        longest = self.encoder.max_position_embeddings
        if shape[1] is not None and shape[1] > longest:
            raise UsageError(
                f"sequences of {shape[1]} tokens, but the encoder has max_position_embeddings {longest}. Cut them to {longest} "
                "tokens, or use a model with more positions."
            )


def new_model(encoder: keras.layers.Layer, heads: dict[str, keras.layers.Layer], seed: int) -> EncoderModel:
    """A built model whose initial weights follow from the seed (see initialize_weights)."""
    model = EncoderModel(encoder, heads)
    model.build()
    initialize_weights(model, seed)
    return model


def build_encoder(choice: Choice) -> keras.layers.Layer:
    """The encoder of a configuration, e.g. of task.model.encoder."""
    return ENCODERS.get(choice.type)(**asdict(choice.options))


def masked_lm_head(encoder: keras.layers.Layer) -> MaskedLMHead:
    """The masked language model head that fits an encoder."""
    return MaskedLMHead(
        hidden_size=encoder.hidden_size,
        transform_size=encoder.masked_lm_size,
        embedding_size=encoder.embedding_size,
        vocab_size=encoder.vocab_size,
        hidden_act=encoder.hidden_act,
        layer_norm_eps=encoder.layer_norm_eps,
    )


def weights_by_path(model: keras.layers.Layer) -> dict[str, keras.Variable]:
    """The weights of a built model by path, without the model's own name. ValueError for one that is not built."""
    if not model.built:
        raise ValueError("the model is not built, it has no weights yet: call model.build()")
    skip = len(model.path) + 1
    return {weight.path[skip:]: weight for weight in model.weights}


def initialize_weights(model: EncoderModel, seed: int) -> None:
    """Kernels and embeddings from a normal distribution cut at two standard deviations, as in BERT; gamma 1; the rest 0.

    Drawn by numpy from (seed, path): a weight starts the same on every backend, whatever else the model has.
    """
    for path, weight in weights_by_path(model).items():
        role = path.rsplit("/", 1)[-1]
        if role == "gamma":
            weight.assign(np.ones(weight.shape, np.float32))
        elif len(weight.shape) == 1:
            weight.assign(np.zeros(weight.shape, np.float32))
        else:
            weight.assign(_truncated_normal(weight.shape, f"{seed}/{path}", model.encoder.initializer_range))


def _truncated_normal(shape: tuple[int, ...], key: str, deviation: float) -> np.ndarray:
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))
    values = generator.standard_normal(shape, np.float32)
    while (outside := np.abs(values) > 2).any():
        values[outside] = generator.standard_normal(int(outside.sum()), np.float32)
    return values * np.float32(deviation)
